//! Whether a letter can be replayed safely (E6), and by whom it is held if it cannot.
//!
//! The planner decides about a replay; here it is told beforehand what it will say, and why. That it may be sent does not
//! mean that it helps: a message that is itself wrong dies again until it is repaired.

use dlo_core::broker::Capabilities;
use dlo_core::id::LetterId;
use dlo_core::known::ReplayHelps;
use dlo_core::letter::{Letter, LetterDetail, Status, Step};
use dlo_core::query::{Compare, Matcher, Op, Query, Term};
use dlo_core::replay::parse_send_id;
use dlo_core::replay::planner::is_pointer;
use dlo_core::suspect::Suspicion;
use dlo_core::time::Timestamp;
use dlo_store::{Event, Page, StoreError, TimelineEntry};

use super::answers::symptom;
use super::mending::Mending;
use crate::api::letters::routed_to;
use crate::office::Office;
use crate::ui::held::Held;
use crate::ui::show::ago;
use crate::ui::{source, words};

/// What an answer about a replay is made of, beside the letter.
pub(super) struct Standing {
    /// `None`: its source has no queue to send to.
    target: Option<Target>,
    capabilities: Option<Capabilities>,
    /// Only a pointer to a record that is gone.
    pointer: bool,
    /// A new letter has its payload and its key.
    suspected_return: bool,
    /// The replay that last had it in hand.
    last_replay: Option<String>,
    /// The one that has it in hand now.
    held: Option<Held>,
    /// Who closed it, and why.
    closed: Option<String>,
    mending: Mending,
    helps: ReplayHelps,
    /// The newest letter of its key that failed later.
    newer: Option<(LetterId, Status, Timestamp)>,
}

/// What its source says of replays.
struct Target {
    limit: u32,
    approvals: u8,
    order: bool,
}

impl Standing {
    pub(super) async fn of(
        office: &Office,
        detail: &LetterDetail,
        timeline: &[TimelineEntry],
        mending: Mending,
    ) -> Result<Self, StoreError> {
        let letter = &detail.letter;
        let patterns = office.triage.known();
        let known = patterns.as_deref().and_then(|patterns| patterns.find(&symptom(letter)));
        let rules = office.config.replay.sources.get(&letter.source);
        let last_replay = timeline.iter().rev().find_map(|entry| parse_send_id(entry.reference.as_deref()?));
        Ok(Self {
            target: rules.map(|rules| Target {
                limit: rules.settings.limit,
                approvals: rules.approvals,
                order: rules.settings.order,
            }),
            capabilities: office.brokers.get(&letter.source).map(|facts| facts.capabilities.clone()),
            pointer: is_pointer(&detail.headers),
            suspected_return: detail.suspects.iter().any(|other| other.kind == Suspicion::Return),
            last_replay: last_replay.map(|(replay, _)| replay.to_string()),
            held: match letter.status {
                Status::Claimed | Status::Sent | Status::InDoubt => Held::of(office, letter.id).await?,
                _ => None,
            },
            closed: match letter.status {
                Status::Routed => routed_to(office, timeline)
                    .await?
                    .map(|queue| format!("it was routed to the queue {queue}")),
                status => closed(status, timeline),
            },
            mending,
            helps: known.map_or(ReplayHelps::Unknown, |known| known.replay_helps),
            newer: newer(office, letter).await?,
        })
    }

    fn approvals(&self) -> u8 {
        self.target.as_ref().map_or(0, |target| target.approvals)
    }
}

/// The latest failure of the same key after this one: sending the older may undo what the newer did.
async fn newer(
    office: &Office,
    letter: &Letter,
) -> Result<Option<(LetterId, Status, Timestamp)>, StoreError> {
    let Some(key) = letter.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()) else {
        return Ok(None);
    };
    let term = |matcher| Term { negated: false, matcher };
    let later = Compare { op: Op::Gt, value: letter.failed_at };
    let terms = vec![
        term(Matcher::Source(letter.source.clone())),
        term(Matcher::Key(key.to_string())),
        term(Matcher::Failed(later)),
    ];
    let found = office.shown().letters(&Query { terms }, &Page::first(1)).await?;
    Ok(found.letters.first().map(|newer| (newer.id, newer.status, newer.failed_at)))
}

/// Who closed a letter, and why: `asha: cut off at the producer`.
fn closed(status: Status, timeline: &[TimelineEntry]) -> Option<String> {
    let step = match status {
        Status::Discarded => Step::Discard,
        Status::Compensated => Step::Compensate,
        Status::Archived => Step::Archive,
        Status::Open
        | Status::Routed
        | Status::Claimed
        | Status::Sent
        | Status::InDoubt
        | Status::Recovered => return None,
    };
    let entry = timeline.iter().rev().find(|entry| entry.what == Event::Step(step))?;
    let said = [&entry.reason, &entry.reference].into_iter().flatten().cloned().collect::<Vec<_>>();
    if said.is_empty() {
        return Some(format!("by {}", entry.author));
    }
    Some(format!("{}: {}", entry.author, said.join(", ").trim_end_matches('.')))
}

/// What stands between a letter that may be sent and one that is better for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hope {
    AsItIs,
    Repaired,
    /// The message itself is wrong, and nobody has repaired it.
    AfterARepair,
    /// It was repaired, and what was sent died again.
    AfterAnother,
    Never,
}

impl Standing {
    fn hope(&self) -> Hope {
        match (self.mending.active, self.helps) {
            (Some(_), _) if self.mending.is_spent() => Hope::AfterAnother,
            (Some(_), _) => Hope::Repaired,
            (None, ReplayHelps::AfterARepair) => Hope::AfterARepair,
            (None, ReplayHelps::Never) => Hope::Never,
            (None, ReplayHelps::Unchanged | ReplayHelps::AfterAFix | ReplayHelps::Unknown) => Hope::AsItIs,
        }
    }

    /// Where the letter stands, as a clause; who has it or who closed it, where somebody did.
    pub(super) fn words(&self, status: Status) -> String {
        match (&self.held, &self.closed) {
            (Some(held), _) if status == Status::Claimed && held.stands_still => format!(
                "the replay that has it in hand is {}, and sends nothing until somebody resumes or cancels it",
                held.phrase
            ),
            (_, Some(closed)) => closed.clone(),
            (_, None) => words::status(status).to_string(),
        }
    }
}

pub(super) struct Replayable {
    pub(super) answer: &'static str,
    /// How it looks: `yes`, `no` or neither.
    pub(super) class: &'static str,
    pub(super) why: Vec<String>,
    /// What should be looked at first.
    pub(super) careful: Vec<String>,
    /// The newer letter of the same key.
    pub(super) newer: Option<String>,
    pub(super) replay: Option<String>,
    pub(super) held: Option<Held>,
    pub(super) afterwards: Vec<String>,
    pub(super) can_plan: bool,
    /// A repair is what helps, so that is the button.
    pub(super) repair_first: bool,
}

impl Replayable {
    pub(super) fn new(letter: &Letter, standing: Standing, now: Timestamp) -> Self {
        let refusals = refusals(letter, &standing);
        let can_plan = letter.status == Status::Open && refusals.is_empty();
        let hope = standing.hope();
        let (answer, class) = answer(letter.status, can_plan, hope, &standing);
        let why = match letter.status {
            Status::Open if can_plan => allowed(hope, standing.approvals()),
            Status::Open => refusals,
            status => vec![capital(&standing.words(status))],
        };
        Self {
            answer,
            class,
            why,
            careful: if can_plan { careful(letter, &standing, now) } else { Vec::new() },
            newer: standing.newer.filter(|_| can_plan).map(|(id, ..)| id.to_string()),
            afterwards: standing.capabilities.as_ref().map(source::afterwards).unwrap_or_default(),
            replay: standing.last_replay.filter(|_| standing.held.is_none()),
            held: standing.held,
            can_plan,
            repair_first: can_plan && matches!(hope, Hope::AfterARepair | Hope::AfterAnother),
        }
    }
}

fn answer(status: Status, can_plan: bool, hope: Hope, standing: &Standing) -> (&'static str, &'static str) {
    let still = standing.held.as_ref().is_some_and(|held| held.stands_still);
    match status {
        Status::Open if !can_plan => ("No", "no"),
        Status::Open => match hope {
            Hope::AfterARepair => ("After a repair", "no"),
            Hope::AfterAnother => ("After a fix, or another repair", "no"),
            Hope::Never => ("It can be sent, and it will not help", "no"),
            Hope::AsItIs | Hope::Repaired if standing.approvals() > 0 => ("Yes, with approval", "yes"),
            Hope::Repaired => ("Yes, repaired", "yes"),
            Hope::AsItIs => ("Yes", "yes"),
        },
        Status::Claimed if still => ("A replay holds it, and stands still", "no"),
        Status::Sent if standing.suspected_return => ("It was sent, and probably died again", "no"),
        Status::Sent if standing.held.is_none() => ("It was sent, and nothing came back since", ""),
        Status::Claimed | Status::Sent => ("A replay has it", ""),
        Status::InDoubt => ("Not before it is settled", "no"),
        Status::Recovered => ("It was replayed and handled", "yes"),
        Status::Routed => ("No, it was routed", "no"),
        Status::Discarded | Status::Compensated | Status::Archived => ("No, it is closed", "no"),
    }
}

fn allowed(hope: Hope, approvals: u8) -> Vec<String> {
    let first = match hope {
        Hope::AsItIs => "It is open, and its source has a queue to send it to.",
        Hope::Repaired => "It is open, and its repair is what is sent.",
        Hope::AfterARepair => "The message itself is wrong: sent as it is, it dies again. Repair it first.",
        Hope::AfterAnother => {
            "Its repair was sent, and died again. Mend the cause, repair it anew, or withdraw the repair."
        }
        Hope::Never => {
            "This kind of failure does not go away by sending again. Discard it, or compensate it."
        }
    };
    let mut all = vec![first.to_string()];
    match approvals {
        0 => {}
        1 => all.push("Its source is critical: somebody else must approve the plan.".to_string()),
        count => all.push(format!("Its source is critical: {count} others must approve the plan.")),
    }
    all
}

/// Why the planner would leave it out.
fn refusals(letter: &Letter, standing: &Standing) -> Vec<String> {
    let mut all = Vec::new();
    match &standing.target {
        None => all.push(format!(
            "The source {} has no queue to send to: its letters came over HTTP, or no broker is configured for it.",
            letter.source
        )),
        Some(target) if letter.replays >= target.limit => all.push(format!(
            "It was replayed {} times, as often as its source allows, and died each time. Discard it, compensate it, \
             or plan with a higher limit.",
            letter.replays
        )),
        Some(_) => {}
    }
    if standing.pointer {
        let gone = "It is only a pointer: the message itself is not here. The header `dlo-record` says why.";
        all.push(gone.to_string());
    }
    all
}

/// What does not forbid it, and should be known.
fn careful(letter: &Letter, standing: &Standing, now: Timestamp) -> Vec<String> {
    let mut all = Vec::new();
    match letter.replays {
        0 => {}
        1 => all.push("It was replayed once before, and died again.".to_string()),
        times => all.push(format!("It was replayed {times} times before, and died each time.")),
    }
    if letter.suspect.is_some_and(|first| first.kind == Suspicion::Duplicate) {
        all.push("A plan leaves it out unless you include suspected duplicates.".to_string());
    }
    if let Some((_, status, at)) = &standing.newer {
        let order = standing.target.as_ref().is_some_and(|target| target.order);
        let told = if order {
            "order matters for this source, so this one may be left out of a plan"
        } else {
            "sending the older one may undo what the newer did"
        };
        let status = words::phrase(status.as_str());
        all.push(format!("A newer letter of the same key failed {} and is {status}: {told}.", ago(*at, now)));
    }
    all
}

/// A sentence from a phrase.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

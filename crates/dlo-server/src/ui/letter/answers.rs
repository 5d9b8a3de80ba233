//! The three answers at the top of a letter (E6): what failed, who owns the fix, can it be replayed safely.
//!
//! The planner decides about a replay; here it is told beforehand what it will say, and why.

use dlo_core::broker::Capabilities;
use dlo_core::group::Group;
use dlo_core::id::LetterId;
use dlo_core::known::{Known, KnownPatterns, ReplayHelps, Symptom};
use dlo_core::letter::{Letter, LetterDetail, Status};
use dlo_core::query::{Compare, Matcher, Op, Query, Term};
use dlo_core::replay::parse_send_id;
use dlo_core::replay::planner::is_pointer;
use dlo_core::teams::Teams;
use dlo_core::time::Timestamp;
use dlo_store::{Page, StoreError, TimelineEntry};

use crate::office::Office;
use crate::ui::show::ago;
use crate::ui::{source, words};

pub(super) struct WhatFailed {
    pub(super) class: String,
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) reason_words: &'static str,
    pub(super) consumer: Option<String>,
    /// What this usually means, and what helps.
    pub(super) known: Option<Known>,
    pub(super) helps: &'static str,
}

impl WhatFailed {
    pub(super) fn new(letter: &Letter, patterns: Option<&KnownPatterns>) -> Self {
        let symptom = Symptom {
            queue: &letter.origin.queue,
            consumer: letter.consumer.as_deref(),
            event_type: letter.event_type.as_deref(),
            class: letter.error_class.as_deref(),
            message: &letter.error_message,
            code: letter.error_code.as_deref(),
            reason: Some(letter.reason),
        };
        let known = patterns.and_then(|patterns| patterns.find(&symptom));
        Self {
            helps: known.as_ref().map_or("", |known| helps(known.replay_helps)),
            known,
            class: letter.error_class.clone().unwrap_or_else(|| "No error class was named".to_string()),
            message: letter.error_message.clone(),
            reason: words::phrase(letter.reason.as_str()),
            reason_words: words::reason(letter.reason),
            consumer: letter.consumer.clone(),
        }
    }
}

/// Whether sending it again can help, where the pattern says so.
const fn helps(helps: ReplayHelps) -> &'static str {
    match helps {
        ReplayHelps::Unchanged => "Sending it again as it is helps, once what was down is up.",
        ReplayHelps::AfterAFix => "Sending it again helps after the consumer, or what it looks up, is fixed.",
        ReplayHelps::AfterARepair => "Sending it again helps only after the message itself is repaired.",
        ReplayHelps::Never => "Sending it again does not help.",
        ReplayHelps::Unknown => "",
    }
}

pub(super) struct Owner {
    pub(super) team: Option<String>,
    pub(super) contact: Option<String>,
    /// The person who has the group in hand.
    pub(super) assignee: Option<String>,
    /// What finds everything open of the same team.
    pub(super) q: String,
}

impl Owner {
    pub(super) fn new(letter: &Letter, group: &Group, teams: &Teams) -> Self {
        let contact = letter.owner.as_deref().and_then(|team| teams.get(team)?.contact.clone());
        let q = format!("{} {}", Matcher::Status(Status::Open), Matcher::Owner(letter.owner.clone()));
        Self { team: letter.owner.clone(), contact, assignee: group.assignee.clone(), q }
    }
}

/// What an answer about a replay is made of, beside the letter.
pub(super) struct Standing {
    /// `None`: its source has no queue to send to.
    target: Option<Target>,
    capabilities: Option<Capabilities>,
    /// Only a pointer to a record that is gone.
    pointer: bool,
    /// The replay that last had it in hand.
    last_replay: Option<String>,
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
    ) -> Result<Self, StoreError> {
        let letter = &detail.letter;
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
            last_replay: last_replay.map(|(replay, _)| replay.to_string()),
            newer: newer(office, letter).await?,
        })
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
    let found = office.store.letters(&Query { terms }, &Page::first(1)).await?;
    Ok(found.letters.first().map(|newer| (newer.id, newer.status, newer.failed_at)))
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
    pub(super) afterwards: Vec<String>,
    pub(super) can_plan: bool,
}

impl Replayable {
    pub(super) fn new(letter: &Letter, standing: &Standing, now: Timestamp) -> Self {
        let refusals = refusals(letter, standing);
        let approvals = standing.target.as_ref().map_or(0, |target| target.approvals);
        let (answer, class) = match (letter.status, refusals.is_empty(), approvals) {
            (Status::Open, true, 0) => ("Yes", "yes"),
            (Status::Open, true, _) => ("Yes, with approval", "yes"),
            (Status::Open, false, _) => ("No", "no"),
            (Status::Claimed | Status::Sent, ..) => ("A replay has it", ""),
            (Status::InDoubt, ..) => ("Not before it is settled", "no"),
            (Status::Recovered, ..) => ("It was, and it worked", "yes"),
            (Status::Discarded | Status::Compensated | Status::Archived, ..) => ("No, it is closed", "no"),
        };
        let can_plan = letter.status == Status::Open && refusals.is_empty();
        let why = match letter.status {
            Status::Open if can_plan => allowed(approvals),
            Status::Open => refusals,
            closed => vec![capital(words::status(closed))],
        };
        Self {
            answer,
            class,
            why,
            careful: if can_plan { careful(letter, standing, now) } else { Vec::new() },
            newer: standing.newer.filter(|_| can_plan).map(|(id, ..)| id.to_string()),
            replay: standing.last_replay.clone(),
            afterwards: standing.capabilities.as_ref().map(source::afterwards).unwrap_or_default(),
            can_plan,
        }
    }
}

fn allowed(approvals: u8) -> Vec<String> {
    let mut all = vec!["It is open, and its source has a queue to send it to.".to_string()];
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
        let gone = "It is only a pointer: the record itself was gone from the broker when it was captured.";
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

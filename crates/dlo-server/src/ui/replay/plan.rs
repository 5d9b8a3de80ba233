//! What was agreed to: how many of which kind, what is left out and why, what is doubtful, how it is sent, and the same as a
//! command.

use dlo_core::id::ReplayId;
use dlo_core::replay::{DoubtPolicy, Excluded, PlannedKind, Replay, Settings, Target, Via};
use dlo_core::time::Timestamp;

use super::command;
use crate::office::Office;
use crate::ui::show::When;
use crate::ui::{cli, source, words};

/// Members of the plan that are alike.
pub(super) struct KindLine {
    pub(super) source: String,
    pub(super) event_type: String,
    pub(super) class: String,
    pub(super) consumer: String,
    pub(super) owner: Option<String>,
    pub(super) count: String,
    pub(super) oldest: When,
    pub(super) newest: When,
}

/// Letters that match and are left out for one reason.
pub(super) struct LeftOut {
    pub(super) count: String,
    pub(super) why: &'static str,
    /// The replay that has them in hand.
    pub(super) held_by: Option<ReplayId>,
}

pub(super) struct Plan {
    pub(super) kinds: Vec<KindLine>,
    pub(super) excluded: Vec<LeftOut>,
    pub(super) doubts: Vec<String>,
    /// How letters would differ from what was produced.
    pub(super) differences: Vec<String>,
    pub(super) settings: Vec<(&'static str, String)>,
    /// What the broker can tell after a send.
    pub(super) afterwards: Vec<String>,
    pub(super) expires: Option<When>,
    pub(super) expires_in: String,
    pub(super) cli: Vec<String>,
}

impl Plan {
    pub(super) fn new(replay: &Replay, office: &Office, now: Timestamp) -> Self {
        let begun = replay.started_at.is_some() || replay.state.is_over();
        let facts = replay.source.as_ref().and_then(|source| office.brokers.get(source));
        let left = std::time::Duration::from_secs(replay.expires_at.since(now).as_secs());
        Self {
            kinds: replay.by_class.iter().map(|kind| KindLine::new(kind, now)).collect(),
            excluded: replay.excluded.iter().map(LeftOut::new).collect(),
            doubts: replay.doubts.clone(),
            differences: Vec::new(),
            settings: settings(&replay.settings),
            afterwards: facts.map(|facts| source::afterwards(&facts.capabilities)).unwrap_or_default(),
            expires: (!begun).then(|| When::new(replay.expires_at, now)),
            expires_in: dlo_core::units::HumanDuration(left).to_string(),
            cli: commands(replay, office),
        }
    }
}

impl LeftOut {
    fn new(one: &Excluded) -> Self {
        Self { count: words::number(one.count), why: words::exclusion(one.why), held_by: one.held_by }
    }
}

impl KindLine {
    fn new(kind: &PlannedKind, now: Timestamp) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            source: kind.source.clone(),
            event_type: text(&kind.event_type),
            class: text(&kind.error_class),
            consumer: text(&kind.consumer),
            owner: kind.owner.clone(),
            count: words::number(kind.count),
            oldest: When::new(kind.oldest, now),
            newest: When::new(kind.newest, now),
        }
    }
}

/// How it is sent, each setting with its meaning.
pub(crate) fn settings(settings: &Settings) -> Vec<(&'static str, String)> {
    let target = match &settings.target {
        Target::Original => "the queue they came from".to_string(),
        Target::Queue(name) => format!("the queue {name}"),
        Target::Route(name) => format!("the queue {name}, for good"),
        Target::FailedGroup => {
            "the queue they came from, for the consumer group that failed only".to_string()
        }
    };
    let canary = match settings.canary {
        0 => "none: everything is sent without waiting for a first outcome".to_string(),
        count => format!("{} first, then their outcome is waited for", words::letters(u64::from(count))),
    };
    let doubts = match settings.doubts {
        DoubtPolicy::Hold => "held for a person",
        DoubtPolicy::SendAgain => "sent again: the consumer copes with duplicates",
    };
    let order = if settings.order {
        "kept: a later letter of a key waits for the outcome of the one before"
    } else {
        "not kept between letters of one key"
    };
    let mut all = vec![
        ("Sent to", target),
        ("Rate", words::pace(settings.pace)),
        ("Canary", canary),
        ("Ramp", ramp(settings.ramp)),
        ("Window", format!("{} at least for an outcome", settings.window)),
        ("Order", order.to_string()),
        ("Doubts", doubts.to_string()),
        ("Limit", format!("a letter is replayed at most {} times", settings.limit)),
        ("Stops when", guards(settings)),
    ];
    if settings.via == Via::Exchange {
        all.push(("Way", "through the exchange to which they were sent first".to_string()));
    }
    let kept = [(settings.keep_cc, "CC"), (settings.keep_expiration, "expiration")];
    let kept: Vec<&str> = kept.iter().filter(|(keep, _)| *keep).map(|(_, name)| *name).collect();
    if !kept.is_empty() {
        all.push(("Kept", kept.join(" and ")));
    }
    if let Some(repair) = &settings.repair {
        all.push(("Repair", format!("each payload is changed by {}", repair.expression)));
    }
    all
}

fn ramp(steps: u32) -> String {
    match steps {
        0 | 1 => "none: the full rate at once after the canary".to_string(),
        steps => format!("{steps} steps of five seconds up to the rate"),
    }
}

fn guards(settings: &Settings) -> String {
    let guards = &settings.guards;
    let mut all = Vec::new();
    if let Some(within) = guards.recurrence {
        all.push(format!("a letter comes back with its class within {within}"));
    }
    if guards.refill {
        all.push("letters come back faster than they leave".to_string());
    }
    if let Some(share) = guards.failures {
        all.push(format!("more than {} % failed", share * 100.0));
    }
    if all.is_empty() { "never by itself: its guards are off".to_string() } else { all.join("; ") }
}

fn commands(replay: &Replay, office: &Office) -> Vec<String> {
    let id = replay.id.to_string();
    let source = replay.source.as_ref().and_then(|name| office.config.replay.sources.get(name));
    let usual = source.map(|source| source.settings.clone()).unwrap_or_default();
    let mut all: Vec<String> = command::plan(replay, &usual).into_iter().collect();
    all.push(cli::line(["dlo", "replay", "start", &id, "--yes", "--wait"]));
    all.push(cli::line(["dlo", "replay", "show", &id]));
    all
}

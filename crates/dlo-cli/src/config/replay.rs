//! `[replay]`, and `replay = { … }` of a source: what is allowed of replays, and how they run unless a plan says otherwise.

use std::time::Duration;

use dlo_core::UnknownCode;
use dlo_core::automation::{Action, AutomationRule, Schedule};
use dlo_core::origin::BrokerKind;
use dlo_core::reason::Reason;
use dlo_core::replay::{DoubtPolicy, Pace, Settings};
use dlo_core::units::HumanDuration;

use super::reader::Section;

/// How long a plan may wait for its start, at most.
const LONGEST: Duration = Duration::from_secs(90 * 86_400);
const DAY: Duration = Duration::from_secs(86_400);

/// `[replay]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Plans of more letters than this need one approval more.
    pub(crate) large: u64,
    pub(crate) expires: Duration,
}

impl Default for Replay {
    fn default() -> Self {
        let usual = dlo_server::ReplayRules::default();
        Self { large: usual.large.unwrap_or(u64::MAX), expires: usual.expires }
    }
}

pub(super) fn read(section: &Section<'_>) -> Replay {
    let usual = Replay::default();
    let large = section.number("large", 1..=i64::MAX).and_then(|n| u64::try_from(n).ok());
    let expires = section.duration("expires", Duration::from_secs(60)..=LONGEST);
    section.check();
    Replay { large: large.unwrap_or(usual.large), expires: expires.unwrap_or(usual.expires) }
}

/// How the letters of one source are replayed.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SourceReplay {
    pub(crate) approvals: u8,
    pub(crate) settings: Settings,
    /// A person decides about doubts, whatever a plan says.
    pub(crate) critical: bool,
}

/// `approvals` and `replay` of a source. A critical source needs one approval unless it says another number, and holds
/// what is in doubt for a person whatever else it says.
pub(super) fn of_source(section: &Section<'_>, critical: bool) -> SourceReplay {
    let approvals = section.number("approvals", 0..=5).and_then(|n| u8::try_from(n).ok());
    let given = section.section("replay");
    let settings: Settings = given.is_there().then(|| given.decode(&[])).flatten().unwrap_or_default();
    check(&given, &settings);
    if critical && settings.doubts == DoubtPolicy::SendAgain {
        given.problem("doubts", "cannot be \"send_again\" for a critical source: a person decides there");
    }
    if critical && approvals == Some(0) {
        section.problem("approvals", "cannot be 0 for a critical source; leave `critical` out instead");
    }
    SourceReplay { approvals: approvals.unwrap_or(u8::from(critical)), settings, critical }
}

/// Settings of `replay` that only RabbitMQ knows, on a source of another broker.
pub(super) fn refuse_for(section: &Section<'_>, kind: Option<BrokerKind>) {
    if kind == Some(BrokerKind::Rabbitmq) {
        return;
    }
    let given = section.section("replay");
    for key in ["via", "keep_cc", "keep_expiration"] {
        if given.keys().iter().any(|there| there == key) {
            let found = kind.map_or("none".to_owned(), |kind| kind.to_string());
            given.problem(key, format!("is for sources of a RabbitMQ broker; this one's broker is {found}"));
        }
    }
}

/// `discard_after`, `automatic` and `permanent` of a source: rules of automation under the source's name.
pub(super) fn automation(
    section: &Section<'_>,
    source: &str,
    critical: bool,
    limit: u32,
) -> Vec<AutomationRule> {
    let named = format!("source:{}", quoted(source));
    let rule = |what: &str, query: String, action| AutomationRule {
        name: format!("{source}: {what}"),
        query,
        action,
    };
    let mut rules = Vec::new();
    if let Some(age) = section.duration("discard_after", Duration::from_secs(3_600)..=3_650 * DAY) {
        let query = format!("{named} age:>{}", HumanDuration(age));
        rules.push(rule("discard_after", query, Action::Discard));
    }
    if let Some(queue) = section.name("permanent") {
        rules.push(rule("permanent", format!("{named} replays:>={limit}"), Action::Route(queue)));
    }
    let automatic = section.section("automatic");
    if automatic.is_there() {
        if critical {
            automatic
                .note(format!("`automatic` of the critical source \"{source}\": a person decides there"));
        }
        let reasons: Vec<Reason> = automatic
            .texts("reasons")
            .iter()
            .filter_map(|text| match text.parse() {
                Ok(reason) => Some(reason),
                Err(unknown) => {
                    automatic.problem("reasons", UnknownCode::to_string(&unknown));
                    None
                }
            })
            .collect();
        let schedule: Schedule = automatic.decode(&["reasons"]).unwrap_or_default();
        if reasons.is_empty() {
            automatic.note(format!("`automatic` of \"{source}\" needs `reasons`: which failures go away by themselves, such as [\"timeout\", \"circuit_open\"]"));
        }
        for reason in reasons {
            let query = format!("{named} reason:{reason}");
            let what = format!("automatic, {reason}");
            let one = rule(&what, query, Action::Replay(schedule.clone()));
            if let Err(bad) = one.check() {
                automatic.note(format!("`automatic` of \"{source}\": {}", bad.problem));
            }
            rules.push(one);
        }
    }
    rules
}

/// A name as the query language reads it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', ""))
}

fn check(section: &Section<'_>, settings: &Settings) {
    match settings.pace {
        Pace::Rate(rate) if !(rate > 0.0 && rate <= 1_000_000.0) => {
            let what = format!("expected more than 0 and at most 1000000 messages a second, found {rate}");
            section.problem("pace", what);
        }
        Pace::Share(share) if !(share > 0.0 && share <= 1.0) => {
            section.problem("pace", format!("expected a share of more than 0 and at most 1, found {share}"));
        }
        Pace::Rate(_) | Pace::Share(_) | Pace::Max => {}
    }
    if settings.limit == 0 {
        section.problem("limit", "expected at least 1: how often a letter may be replayed");
    }
    if settings.guards.failures.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        section.problem("guards", "expected `failures` to be a share of more than 0 and at most 1");
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use crate::features;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse("dlo.toml", text, &|_| None).map_err(|problems| problems.to_string())
    }

    #[test]
    fn how_letters_get_back_to_rabbitmq_is_read_and_refused_elsewhere() {
        let with = |kind: &str, replay: &str| {
            parse(&format!(
                "[brokers.shop]\nkind = \"{kind}\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nreplay = {{ {replay} }}"
            ))
        };
        let all = "via = \"exchange\", keep_cc = true, keep_expiration = true";
        if features::lacking("rabbitmq").is_none() {
            let settings = with("rabbitmq", all).unwrap().sources[0].replay.settings.clone();
            assert_eq!(settings.via, dlo_core::replay::Via::Exchange);
            assert!(settings.keep_cc && settings.keep_expiration);
            let wrong = with("rabbitmq", "via = \"topic\"").unwrap_err();
            assert!(wrong.contains("line 6") && wrong.contains("exchange"), "{wrong}");
        }
        for (setting, key) in [
            ("via = \"queue\"", "via"),
            ("keep_cc = true", "keep_cc"),
            ("keep_expiration = false", "keep_expiration"),
        ] {
            let wrong = with("memory", setting).unwrap_err();
            let expected = format!("line 6: `sources[1].replay.{key}` is for sources of a RabbitMQ broker");
            assert!(wrong.contains(&expected), "{wrong}");
        }
    }
}

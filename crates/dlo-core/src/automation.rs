//! Automation (F10, F13, F14): what is done with letters without a person, only where a rule says so.
//!
//! Rules stand in order. The first whose query finds an open letter decides; a letter that no rule finds waits for a
//! person. The query is that of the page and the CLI, so a rule is tried on history by asking the same question.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pattern::RuleError;
use crate::query::{Matcher, Query};
use crate::time::Timestamp;
use crate::units::HumanDuration;

/// `[[rules.automation]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutomationRule {
    /// What the audit log calls it.
    pub name: String,
    /// Which open letters are meant.
    pub query: String,
    pub action: Action,
}

/// What is done with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A person decides, whatever rules behind this one say.
    Hold,
    Discard,
    Archive,
    /// To another queue of its source's broker: a place for what can never succeed.
    Route(String),
    /// Sent again after a while, a few times.
    Replay(Schedule),
}

/// When a letter is sent again by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// After its failure; each further time `factor` as long, up to `cap`.
    pub after: HumanDuration,
    pub factor: f64,
    pub cap: HumanDuration,
    /// Times that a letter is sent again by itself.
    pub times: u32,
    /// An address that must answer with a success first.
    pub health: Option<String>,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            after: HumanDuration(Duration::from_secs(300)),
            factor: 2.0,
            cap: HumanDuration(Duration::from_secs(6 * 3_600)),
            times: 3,
            health: None,
        }
    }
}

impl Schedule {
    /// How long a letter waits that was replayed so often; `None`: it is not sent again by itself.
    pub fn wait(&self, replays: u32) -> Option<Duration> {
        if replays >= self.times {
            return None;
        }
        let grown = self.factor.powi(i32::try_from(replays).unwrap_or(i32::MAX));
        let wait = self.after.0.as_secs_f64() * grown;
        Some(Duration::try_from_secs_f64(wait).unwrap_or(self.cap.0).min(self.cap.0))
    }

    /// When a letter is due.
    pub fn due(&self, failed_at: Timestamp, replays: u32) -> Option<Timestamp> {
        self.wait(replays).map(|wait| failed_at.plus(wait))
    }
}

impl AutomationRule {
    /// Refuses what could not be meant: no query, a query that is not understood, one that names a status.
    pub fn check(&self) -> Result<(), RuleError> {
        let wrong =
            |field, problem: String| Err(RuleError::new(&format!("\"{}\"", self.name), field, problem));
        if self.name.trim().is_empty() {
            return wrong("name", "is empty; the audit log needs a name for who decided".to_string());
        }
        let query = match Query::parse(&self.query, Timestamp::from_micros(0)) {
            Ok(query) => query,
            Err(error) => return wrong("query", format!("is not understood: {error}")),
        };
        if query.terms.is_empty() {
            return wrong("query", "is empty, which means every letter; say which are meant".to_string());
        }
        if query.terms.iter().any(|term| matches!(term.matcher, Matcher::Status(_))) {
            return wrong("query", "names a status; rules look at open letters only".to_string());
        }
        if query.terms.iter().any(|term| matches!(term.matcher, Matcher::Expiring(_))) {
            return wrong("query", "asks what expires, which is what rules decide; name an age".to_string());
        }
        match &self.action {
            Action::Hold | Action::Discard | Action::Archive => Ok(()),
            Action::Route(queue) if queue.trim().is_empty() => {
                wrong("action", "routes to a queue without a name".to_string())
            }
            Action::Route(_) => Ok(()),
            Action::Replay(schedule) if schedule.times == 0 || schedule.factor < 1.0 => {
                wrong("action", "replays need `times` of at least 1 and a `factor` of at least 1".to_string())
            }
            Action::Replay(schedule)
                if schedule.health.as_ref().is_some_and(|url| !url.starts_with("http://")) =>
            {
                wrong("action", "asks for health at an address that does not begin with http://".to_string())
            }
            Action::Replay(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(query: &str, action: Action) -> AutomationRule {
        AutomationRule { name: "old".into(), query: query.into(), action }
    }

    #[test]
    fn delays_grow_to_their_cap_and_end() {
        let schedule =
            Schedule { cap: HumanDuration(Duration::from_secs(900)), times: 4, ..Schedule::default() };
        let waits: Vec<Option<u64>> = (0..5).map(|n| schedule.wait(n).map(|wait| wait.as_secs())).collect();
        assert_eq!(waits, [Some(300), Some(600), Some(900), Some(900), None]);
        assert_eq!(schedule.wait(u32::MAX), None);
        let due = schedule.due(Timestamp::from_millis(0), 1);
        assert_eq!(due, Some(Timestamp::from_millis(600_000)));
    }

    #[test]
    fn a_rule_that_could_mean_everything_or_nothing_is_refused() {
        assert_eq!(rule("source:telemetry age:>7d", Action::Discard).check(), Ok(()));
        for (query, what) in [
            ("", "empty"),
            ("stauts:open", "understood"),
            ("status:open source:a", "status"),
            ("is:expiring", "expires"),
        ] {
            let refused = rule(query, Action::Discard).check().unwrap_err();
            assert!(refused.field == "query" && refused.problem.contains(what), "{refused:?}");
        }
        let nameless = AutomationRule { name: " ".into(), ..rule("source:a", Action::Hold) };
        assert_eq!(nameless.check().unwrap_err().field, "name");
    }

    #[test]
    fn an_action_that_cannot_be_carried_out_is_refused() {
        let refused = |action| rule("source:a", action).check().map_err(|refusal| refusal.field);
        for fine in [Action::Hold, Action::Discard, Action::Archive, Action::Route("orders.failed".into())] {
            assert_eq!(refused(fine), Ok(()));
        }
        assert_eq!(refused(Action::Route(" ".into())), Err("action"));
        let replay = |times, factor, health: Option<&str>| {
            let health = health.map(str::to_owned);
            refused(Action::Replay(Schedule { times, factor, health, ..Schedule::default() }))
        };
        assert_eq!(replay(1, 1.0, None), Ok(()));
        assert_eq!(replay(3, 2.0, Some("http://tax/health")), Ok(()));
        assert_eq!(replay(0, 2.0, None), Err("action"));
        assert_eq!(replay(3, 0.9, None), Err("action"));
        assert_eq!(replay(3, 2.0, Some("https://tax/health")), Err("action"));
    }

    #[test]
    fn actions_are_written_as_words_or_with_their_settings() {
        let read = |text: &str| serde_json::from_str::<Action>(text).unwrap();
        assert_eq!(read("\"discard\""), Action::Discard);
        assert_eq!(read(r#"{"route":"orders.failed"}"#), Action::Route("orders.failed".into()));
        let Action::Replay(schedule) = read(r#"{"replay":{"after":"1m","times":2}}"#) else { panic!() };
        assert_eq!((schedule.times, schedule.after.0.as_secs(), schedule.factor), (2, 60, 2.0));
    }
}

//! What the rules do with letters, on an embedded store and a clock that is moved by hand.

use dlo_core::automation::Schedule;
use dlo_core::replay::ReplayState;
use dlo_core::time::Clock;
use dlo_core::units::HumanDuration;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, StoreLimits};
use dlo_testkit::clock::MovedClock;
use tempfile::TempDir;

use super::*;
use crate::admission_log::AdmissionLog;
use crate::admit::tests::{NOW, admitted};
use crate::config::{ReplayRules, ServerConfig, SourceReplay};
use crate::mask::Mask;

struct Desk {
    office: Arc<Office>,
    clock: Arc<MovedClock>,
    _data: TempDir,
}

impl Desk {
    /// An office with these rules. Letters of `orders` can be sent, with so many approvals.
    fn with(rules: &[(&str, Action)], approvals: u8) -> Self {
        let data = TempDir::new().unwrap();
        let store = SqliteStore::open(data.path(), StoreLimits::default()).unwrap();
        let rule = |(at, (query, action)): (usize, &(&str, Action))| AutomationRule {
            name: format!("rule {at}"),
            query: (*query).to_string(),
            action: action.clone(),
        };
        let source = SourceReplay { approvals, ..SourceReplay::default() };
        let config = ServerConfig {
            automation: rules.iter().enumerate().map(rule).collect(),
            replay: ReplayRules {
                sources: [("orders".to_string(), source)].into(),
                ..ReplayRules::default()
            },
            ..ServerConfig::default()
        };
        let clock = Arc::new(MovedClock::at(NOW));
        let clock_of_office: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let office = Office::new(config, store, clock_of_office, AdmissionLog::off(), Mask::default());
        Self { office: Arc::new(office), clock, _data: data }
    }

    async fn letters(&self, source: &str, count: usize) {
        let letters = vec![admitted(&format!(r#"{{"source":"{source}","payload":1}}"#)); count];
        let batch = Batch { letters: letters.into(), ..Batch::default() };
        self.office.store.insert(batch, self.office.now()).await.unwrap();
    }

    async fn count(&self, text: &str) -> u64 {
        let query = Query::parse(text, self.office.now()).unwrap();
        self.office.store.count(&query, 1_000_000).await.unwrap()
    }

    async fn replays(&self) -> Vec<ReplayState> {
        let page = self.office.store.replays(None, &Page::first(Page::MOST)).await.unwrap();
        page.replays.iter().map(|replay| replay.state).collect()
    }
}

fn after(minutes: u64, times: u32) -> Action {
    let after = HumanDuration(Duration::from_secs(minutes * 60));
    Action::Replay(Schedule { after, times, ..Schedule::default() })
}

#[tokio::test]
async fn a_letter_that_waits_for_an_earlier_rule_is_not_decided_by_a_later_one() {
    let rules = [("source:orders", after(5, 3)), ("source:orders", Action::Discard)];
    let desk = Desk::with(&rules, 0);
    desk.letters("orders", 3).await;
    look(&desk.office).await;
    assert_eq!(desk.count("status:open").await, 3, "they are not due yet");
    let critical = Desk::with(&rules, 1);
    critical.letters("orders", 3).await;
    critical.clock.advance(Duration::from_secs(301));
    look(&critical.office).await;
    look(&critical.office).await;
    assert_eq!(critical.replays().await, [ReplayState::AwaitingApproval]);
    assert_eq!(critical.count("status:open").await, 3, "they wait for an approval");
}

#[tokio::test]
async fn a_letter_whose_times_are_used_up_is_the_next_rules_business() {
    let desk = Desk::with(&[("source:orders", after(5, 1)), ("source:orders", Action::Discard)], 0);
    desk.letters("orders", 2).await;
    let open = Query::parse("status:open", NOW).unwrap();
    let found = desk.office.store.letters(&open, &Page::first(1)).await.unwrap().letters;
    let by = Deed { author: "ann".into(), reason: None, reference: None };
    for step in [Step::Claim, Step::Send, Step::SettleOpen] {
        desk.office.store.step(&[found[0].id], step, &by, NOW).await.unwrap();
    }
    look(&desk.office).await;
    assert_eq!((desk.count("status:open").await, desk.count("status:discarded").await), (1, 1));
}

#[tokio::test]
async fn letters_that_no_plan_takes_leave_no_plans_behind() {
    // Nobody knows where letters of `mail` go.
    let desk = Desk::with(&[("source:mail", after(5, 3))], 0);
    desk.letters("mail", 2).await;
    desk.clock.advance(Duration::from_secs(301));
    for _ in 0..3 {
        look(&desk.office).await;
    }
    assert_eq!(desk.replays().await, []);
}

#[tokio::test]
async fn letters_that_are_not_due_do_not_stand_before_one_that_is() {
    let desk = Desk::with(&[("source:orders", after(5, 3))], 0);
    desk.letters("orders", 1).await;
    desk.clock.advance(Duration::from_secs(301));
    let mut later = admitted(r#"{"source":"orders","payload":1}"#);
    later.failed_at = desk.office.now();
    let letters = vec![later; AT_ONCE + 1];
    let batch = Batch { letters: letters.into(), ..Batch::default() };
    desk.office.store.insert(batch, desk.office.now()).await.unwrap();
    look(&desk.office).await;
    let page = desk.office.store.replays(None, &Page::first(1)).await.unwrap();
    assert_eq!(page.replays.iter().map(|replay| replay.counts.total()).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn what_a_rule_will_discard_is_expiring_a_day_before_and_says_when() {
    let rules = [("source:orders", Action::Hold), ("age:>72h", Action::Discard)];
    let desk = Desk::with(&rules, 0);
    desk.letters("orders", 1).await;
    desk.letters("mail", 2).await;
    let expiring = async || {
        let query = desk.office.query("is:expiring").unwrap();
        let found = desk.office.store.letters(&query, &Page::first(10)).await.unwrap().letters;
        found.into_iter().map(|letter| letter.source).collect::<Vec<_>>()
    };
    assert_eq!(expiring().await, Vec::<String>::new());
    desk.clock.advance(Duration::from_secs(49 * 3_600));
    assert_eq!(expiring().await, ["mail", "mail"]);
    let leaves = async |text: &str| {
        let query = desk.office.query(text).unwrap();
        let found = desk.office.store.letters(&query, &Page::first(1)).await.unwrap().letters;
        leaving(&desk.office, &found[0]).await.unwrap()
    };
    let when = leaves("source:mail").await.unwrap();
    assert_eq!((when.rule.as_str(), when.at.since(desk.office.now()).as_secs() / 3_600), ("rule 1", 23));
    assert!(leaves("source:orders").await.is_none(), "a rule in front holds it");
    // It goes at the moment that was told, and not before.
    desk.clock.advance(when.at.since(desk.office.now()) - Duration::from_micros(1));
    look(&desk.office).await;
    assert_eq!(desk.count("status:open").await, 3);
    desk.clock.advance(Duration::from_micros(1));
    look(&desk.office).await;
    assert_eq!((desk.count("status:open").await, desk.count("status:discarded").await), (1, 2));
    assert_eq!(expiring().await, Vec::<String>::new());
}

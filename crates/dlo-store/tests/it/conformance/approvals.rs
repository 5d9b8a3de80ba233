//! Who may plan, and whose approval counts.

use std::collections::BTreeMap;

use dlo_core::replay::{DoubtPolicy, PlanRefusal, PlannerIdentity, Settings};
use dlo_store::replays::{PlanPolicy, SourcePolicy};
use dlo_store::{Event, Page, StoreError};

use super::Home;
use crate::letters::{NOW, at, deed, insert, letter};
use crate::replaying::{new_replay, of_query, orders, plan_orders};

pub(crate) async fn an_approval_counts_once_for_each_person_and_for_children(home: &dyn Home) {
    let store = home.open().await;
    let class = |n: i64, class: &'static str| letter(n, |l| l.error_class = Some(class.into()));
    insert(&store, vec![class(1, "A"), class(2, "B")]).await;
    let critical = SourcePolicy { approvals: 2, ..SourcePolicy::default() };
    let policy = PlanPolicy {
        sources: [("orders".to_string(), critical)].into(),
        planner: PlannerIdentity::Proven,
        ..PlanPolicy::default()
    };
    let parent = plan_orders(&store, policy).await;
    for author in ["ben", "ben", "eve"] {
        store.approve(parent.id, &deed(author), at(1)).await.unwrap();
    }
    let children = store.children(parent.id).await.unwrap();
    for replay in children.iter().chain([&store.replay(parent.id).await.unwrap()]) {
        let authors: Vec<_> = replay.approvals.iter().map(|approval| approval.author.as_str()).collect();
        assert_eq!((authors, replay.approvals_needed), (vec!["ben", "eve"], 2));
    }
    let log = store.audit(&Page::first(10)).await.unwrap().entries;
    assert_eq!(log.iter().filter(|entry| entry.what == Event::Approved).count(), 2);
}

pub(crate) async fn nothing_is_written_of_a_plan_that_is_refused(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let critical = SourcePolicy { critical: true, approvals: 1, ..SourcePolicy::default() };
    let sources: BTreeMap<_, _> = [("orders".to_string(), critical)].into();
    let unproven = PlanPolicy { sources: sources.clone(), ..PlanPolicy::default() };
    let send_again = Settings { doubts: DoubtPolicy::SendAgain, ..Settings::default() };
    let doubtful = PlanPolicy {
        sources,
        planner: PlannerIdentity::Proven,
        settings: [("orders".to_string(), send_again)].into(),
        ..PlanPolicy::default()
    };
    for (policy, why) in [
        (unproven, PlanRefusal::UnprovenPlanner),
        (doubtful, PlanRefusal::CriticalSource("orders".to_string())),
    ] {
        let refused = store.plan(new_replay(of_query(orders()), policy), NOW).await;
        assert!(matches!(&refused, Err(StoreError::PlanRefused(found)) if *found == why), "{refused:?}");
    }
    assert!(store.replays(None, &Page::first(10)).await.unwrap().replays.is_empty());
    let log = store.audit(&Page::first(10)).await.unwrap().entries;
    assert!(log.iter().all(|entry| !matches!(entry.what, Event::Replay(_))), "{log:?}");
}

//! Replays for tests: plans over the letters of `letters.rs`, and a run that holds its lease.

use std::time::Duration;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::NewLetter;
use dlo_core::query::{Matcher, Query};
use dlo_core::replay::{ItemState, Replay, ReplayState, Settings, send_id};
use dlo_core::time::Timestamp;
use dlo_store::replays::{
    Members, NewReplay, PlanPolicy, Run, SendEnd, SourcePolicy, ToSend, Turn, lease_name,
};
use dlo_store::{DynStore, Lease, Page};

use crate::letters::{NOW, at, batch, deed, insert, letter, query};

/// Order does not matter, nobody approves, and the traffic of the queue is told.
pub(crate) fn policy(sources: &[&str]) -> PlanPolicy {
    let source = SourcePolicy { counts_traffic: true, ..SourcePolicy::default() };
    let sources = sources.iter().map(|name| ((*name).to_string(), source)).collect();
    PlanPolicy { sources, ..PlanPolicy::default() }
}

pub(crate) fn ordered() -> PlanPolicy {
    let order = SourcePolicy { order: true, ..SourcePolicy::default() };
    PlanPolicy { sources: [("orders".to_string(), order)].into(), ..PlanPolicy::default() }
}

pub(crate) fn new_replay(members: Members, policy: PlanPolicy) -> NewReplay {
    NewReplay {
        id: ReplayId::new(NOW, rand::random()),
        members,
        settings: Settings::default(),
        cause: None,
        author: "ann".into(),
        reason: "the table was restored".into(),
        expires_at: at(3_600_000),
        policy,
    }
}

pub(crate) fn of_query(query: Query) -> Members {
    Members::Query { query, text: "source:orders".into() }
}

pub(crate) fn orders() -> Query {
    query([Matcher::Source("orders".into())])
}

/// A plan over all open letters of `orders`.
pub(crate) async fn plan_orders(store: &DynStore, policy: PlanPolicy) -> Replay {
    store.plan(new_replay(of_query(orders()), policy), NOW).await.expect("a plan")
}

pub(crate) async fn turn(store: &DynStore, id: ReplayId, to: ReplayState) -> Replay {
    let from = store.replay(id).await.unwrap().state;
    let turn = Turn { from, to, stop_reason: None, stop_letters: Vec::new() };
    store.turn(id, turn, &deed("ann"), NOW).await.expect("a turn")
}

/// A lease that outlives the test.
pub(crate) async fn lease(store: &DynStore, id: ReplayId, holder: &str) -> Lease {
    let ttl = Duration::from_secs(86_400);
    store.lease(&lease_name(id), holder, ttl, NOW).await.unwrap().expect("the lease")
}

/// `n` letters of one class in a replay that runs, with its lease.
pub(crate) async fn running(store: &DynStore, n: i64) -> (Replay, Lease, Vec<LetterId>) {
    let ids = insert(store, (0..n).map(|n| letter(n, |_| {})).collect()).await;
    let (replay, lease) = started(store, plan_orders(store, policy(&["orders"])).await).await;
    (replay, lease, ids)
}

pub(crate) async fn started(store: &DynStore, replay: Replay) -> (Replay, Lease) {
    let replay = turn(store, replay.id, ReplayState::Running).await;
    let lease = lease(store, replay.id, "one").await;
    (replay, lease)
}

/// Claims everything and intends up to `most`.
pub(crate) async fn intend(store: &DynStore, run: &Run<'_>, most: usize, now: Timestamp) -> Vec<ToSend> {
    store.claim(run, 1_000, now).await.expect("a claim");
    store.intend(run, most, now).await.expect("intents")
}

pub(crate) async fn record_sent(store: &DynStore, run: &Run<'_>, numbers: &[u64], now: Timestamp) {
    let end = |n: &u64| (*n, SendEnd::Sent { partition: Some(1), offset: Some(*n as i64 + 100) });
    store.record(run, numbers.iter().map(end).collect(), now).await.expect("a record");
}

pub(crate) async fn states(store: &DynStore, id: ReplayId) -> Vec<ItemState> {
    let page = store.items(id, None, &Page::first(500)).await.unwrap();
    page.items.iter().map(|item| item.state).collect()
}

/// The letter back from the send `number` of a replay, `n` milliseconds after [`NOW`].
pub(crate) fn back(n: i64, of: LetterId, replay: ReplayId, number: u64, class: &str) -> NewLetter {
    letter(n, |l| {
        l.replay_of = Some(of);
        l.replay_id = Some(send_id(replay, number));
        l.error_class = Some(class.into());
    })
}

pub(crate) async fn come_back(store: &DynStore, of: LetterId, replay: ReplayId, number: u64, now: Timestamp) {
    let n = now.as_millis() - NOW.as_millis() + 10_000 + number as i64;
    let letter = back(n, of, replay, number, "TaxRuleMissing");
    store.insert(batch(vec![letter]), now).await.expect("a death");
}

pub(crate) async fn conserved(store: &DynStore) {
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

//! Replay of letters selected by a filter: from asking for it to the first message that may be published.
//!
//! The filter is what an incident asks for: a cause, and a stretch of time that has equally many letters at every size.
//! Planned, started, claimed and intended as the office does it, in this process, since no broker is wanted; then given
//! back, so that the letters are as before.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_core::id::ReplayId;
use dlo_core::query::Query;
use dlo_core::replay::run::{BATCH, CLAIM};
use dlo_core::replay::{ReplayState, Settings};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Members, NewReplay, PlanPolicy, Run, SendEnd, SourcePolicy, Turn, lease_name};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Deed, Replays, Store, StoreLimits};

use crate::letters;

const ROUNDS: u64 = 15;
/// Letters that failed in the stretch of time; one of forty is of the cause.
const STRETCH: u64 = 8_000;
const NOW: Timestamp = Timestamp::from_millis(1_793_600_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

/// Milliseconds to the first message, of replays at different times.
pub(crate) fn first_messages(data: &Path, size: u64) -> Vec<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = SqliteStore::open(data, StoreLimits::default()).expect("open");
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            let first = letters::mix(round ^ size) % (size - STRETCH);
            times.push(first_message(&store, first, round ^ size).await);
        }
        store.close().await.expect("close");
        times
    })
}

async fn first_message(store: &SqliteStore, first: u64, seed: u64) -> f64 {
    let deed = Deed { author: "bench".into(), reason: None, reference: None };
    let new = new_replay(first, seed);
    let started = Instant::now();
    let plan = store.plan(new, NOW).await.expect("plan");
    store.turn(plan.id, turn(ReplayState::Planned, ReplayState::Running), &deed, NOW).await.expect("start");
    let lease = store.lease(&lease_name(plan.id), "bench", HOUR, NOW).await.expect("lease").expect("free");
    let run = Run { id: plan.id, lease: &lease };
    store.claim(&run, CLAIM as usize, NOW).await.expect("claim");
    let items = store.intend(&run, BATCH as usize, NOW).await.expect("intend");
    let spent = started.elapsed().as_secs_f64() * 1_000.0;
    assert!(!items.is_empty(), "a replay of letters {first} on has something to send");
    let unsent = items.iter().map(|item| (item.number, SendEnd::Unsent)).collect();
    store.record(&run, unsent, NOW).await.expect("record");
    while store.give_back(&run, CLAIM as usize, NOW).await.expect("give back") > 0 {}
    store.turn(plan.id, turn(ReplayState::Running, ReplayState::Cancelled), &deed, NOW).await.expect("end");
    store.release(&lease_name(plan.id), "bench").await.expect("release");
    spent
}

fn turn(from: ReplayState, to: ReplayState) -> Turn {
    Turn { from, to, stop_reason: None, stop_letters: Vec::new() }
}

fn new_replay(first: u64, seed: u64) -> NewReplay {
    let text = format!(
        "source:orders class:KeyError failed:>={} failed:<{}",
        letters::failed_at(first),
        letters::failed_at(first + STRETCH)
    );
    let mut random = [0; 10];
    random[..8].copy_from_slice(&letters::mix(seed).to_le_bytes());
    let sources = [("orders".to_string(), SourcePolicy::default())].into();
    NewReplay {
        id: ReplayId::new(NOW, random),
        members: Members::Query { query: Query::parse(&text, NOW).expect("a query"), text },
        settings: Settings::default(),
        cause: None,
        author: "bench".into(),
        reason: "measured".into(),
        expires_at: NOW.plus(HOUR),
        policy: PlanPolicy { sources, ..PlanPolicy::default() },
    }
}

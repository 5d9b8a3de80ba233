//! `plan`: a quarter of a million letters counted and frozen out of a million, and the record of sending them.
//!
//! Letters are captured all the while, to show how long a plan holds one up. The second figure is what the store can do at
//! full speed: claim, intend with the whole message, record, with an audit row for each; nothing is published.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::id::ReplayId;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::replay::{Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Members, NewReplay, PlanPolicy, Run, SendEnd, SourcePolicy, Turn, lease_name};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, Deed, Replays, Store, StoreLimits};

use crate::measure::{Median, per_second};
use crate::{letters, record, runtime, triage};

const NOW: Timestamp = Timestamp::from_millis(1_793_600_000_000);
/// Sends in flight between an intent and its record.
const AT_ONCE: usize = 1_000;

pub(crate) fn run(scratch: &Path, million: u64) {
    let data = scratch.join("office-plan");
    println!("plan: `source:orders` of {million} letters, embedded");
    triage::fill(&data, 0, million);
    runtime().block_on(async {
        let store = SqliteStore::open(&data, StoreLimits::default()).expect("open");
        let capturing = tokio::spawn(capture(store.clone(), million));
        let start = Instant::now();
        let plan = store.plan(new_replay(), NOW).await.expect("plan");
        let spent = start.elapsed();
        capturing.abort();
        let held_up = LONGEST.load(std::sync::atomic::Ordering::Relaxed);
        let (members, parts) = (plan.counts.total(), store.children(plan.id).await.expect("children"));
        println!("  {members} letters in {} parts; longest insert meanwhile {held_up} ms", parts.len());
        let scaled = spent.as_secs_f64() * 232_000.0 / members as f64;
        record::figure("plan.frozen", "s", Median::once(scaled));
        if let Some(part) = parts.into_iter().max_by_key(|part| part.counts.total()) {
            record(&store, part).await;
        }
        store.close().await.expect("close");
    });
    let _ = std::fs::remove_dir_all(&data);
}

/// Milliseconds of the longest insert.
static LONGEST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

async fn capture(store: Arc<SqliteStore>, from: u64) {
    for n in from.. {
        let batch = Batch { letters: vec![letters::letter(n)].into(), ..Batch::default() };
        let start = Instant::now();
        store.insert(batch, NOW).await.expect("insert");
        let spent = start.elapsed().as_millis() as u64;
        LONGEST.fetch_max(spent, std::sync::atomic::Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn new_replay() -> NewReplay {
    let matcher = Matcher::Source("orders".into());
    let query = Query { terms: vec![Term { negated: false, matcher }] };
    let sources = [("orders".to_string(), SourcePolicy::default())].into();
    NewReplay {
        id: ReplayId::new(NOW, [7; 10]),
        members: Members::Query { query, text: "source:orders".into() },
        settings: Settings::default(),
        cause: None,
        author: "bench".into(),
        reason: "measured".into(),
        expires_at: NOW.plus(Duration::from_secs(3_600)),
        policy: PlanPolicy { sources, ..PlanPolicy::default() },
    }
}

async fn record(store: &SqliteStore, part: Replay) {
    let deed = Deed { author: "bench".into(), reason: None, reference: None };
    let (from, to) = (ReplayState::Planned, ReplayState::Running);
    let turn = Turn { from, to, stop_reason: None, stop_letters: Vec::new() };
    store.turn(part.id, turn, &deed, NOW).await.expect("turn");
    let hour = Duration::from_secs(3_600);
    let lease = store.lease(&lease_name(part.id), "bench", hour, NOW).await.expect("lease").expect("free");
    let run = Run { id: part.id, lease: &lease };
    let start = Instant::now();
    while store.claim(&run, AT_ONCE * 2, NOW).await.expect("claim").left > 0 {}
    let claimed = start.elapsed();
    let (mut sent, mut ends) = (0, Vec::new());
    loop {
        // As a run has it: what comes next is read and intended while what was sent is recorded.
        let (items, recorded) = tokio::join!(store.intend(&run, AT_ONCE, NOW), store.record(&run, ends, NOW));
        recorded.expect("record");
        let items = items.expect("intend");
        if items.is_empty() {
            break;
        }
        sent += items.len() as u64;
        let end = SendEnd::Sent { partition: Some(0), offset: Some(1) };
        ends = items.iter().map(|item| (item.number, end.clone())).collect();
    }
    let spent = start.elapsed();
    println!(
        "  {sent} letters: claimed {:.0}/s, intended and recorded {:.0}/s",
        per_second(sent, claimed),
        per_second(sent, spent - claimed)
    );
    record::figure("plan.recorded", "/s", Median::once(per_second(sent, spent)));
}

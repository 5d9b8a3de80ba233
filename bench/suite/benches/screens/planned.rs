//! A replay to look at: the letters of one source and class, planned and frozen, not sent.

use std::path::Path;
use std::time::{Duration, SystemTime};

use dlo_core::id::ReplayId;
use dlo_core::query::Query;
use dlo_core::replay::Settings;
use dlo_core::time::Timestamp;
use dlo_store::replays::{Members, NewReplay, PlanPolicy, SourcePolicy};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Page, Replays, Store, StoreLimits};

const QUERY: &str = "source:orders class:KeyError type:shop.event-00";

/// Writes the plan, unless the store has one already.
pub(crate) async fn replay(store: &Path) {
    let store = SqliteStore::open(store, StoreLimits::default()).expect("open");
    let listed = store.replays(None, &Page::first(1)).await.expect("replays");
    if listed.replays.is_empty() {
        let since = SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
        let now = Timestamp::EPOCH.plus(since);
        let plan = store.plan(new_replay(now), now).await.expect("plan");
        println!("  planned a replay of {} letters", plan.counts.total());
    }
    store.close().await.expect("close");
}

fn new_replay(now: Timestamp) -> NewReplay {
    let sources = [("orders".to_string(), SourcePolicy::default())].into();
    NewReplay {
        id: ReplayId::new(now, [7; 10]),
        members: Members::Query { query: Query::parse(QUERY, now).expect("a query"), text: QUERY.into() },
        settings: Settings::default(),
        cause: None,
        author: "bench".into(),
        reason: "to look at it".into(),
        expires_at: now.plus(Duration::from_secs(24 * 3_600)),
        policy: PlanPolicy { sources, ..PlanPolicy::default() },
    }
}

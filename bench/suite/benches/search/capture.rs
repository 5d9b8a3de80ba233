//! Capture at full speed, with the index behind it and without; how far it lags; how many bytes it takes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_bench::measure::Median;
use dlo_bench::record;
use dlo_core::letter::NewLetter;
use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, Store, StoreLimits};

use crate::letters;

/// Letters of one insert, and inserts under way at the same time.
const BATCH: u64 = 2_000;
const UNDER_WAY: u64 = 3;

/// Fills a store and indexes it; what is there already stays.
pub(crate) async fn fill(directory: &Path, count: u64) {
    let started = Instant::now();
    let limits = StoreLimits { index_behind: false, ..StoreLimits::default() };
    let store = SqliteStore::open(directory, limits).expect("open");
    let captured = insert(&store, count, letters::letter).await;
    let indexing = Instant::now();
    store.index_payloads().await.expect("index");
    println!(
        "  filled {}: {count} letters in {:.0} s, indexed in {:.0} s, all in {:.0} s",
        directory.display(),
        captured.as_secs_f64(),
        indexing.elapsed().as_secs_f64(),
        started.elapsed().as_secs_f64()
    );
    store.close().await.expect("close");
}

/// Inserts as fast as the store takes it.
async fn insert(store: &Arc<SqliteStore>, count: u64, letter: fn(u64) -> NewLetter) -> Duration {
    let started = Instant::now();
    let share = count.div_ceil(UNDER_WAY);
    let tasks = (0..UNDER_WAY).map(|task| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let (mut next, end) = (task * share, ((task + 1) * share).min(count));
            while next < end {
                let until = (next + BATCH).min(end);
                let batch =
                    Batch { letters: Arc::new((next..until).map(letter).collect()), ..Batch::default() };
                store.insert(batch, Timestamp::from_millis(1_793_600_000_000)).await.expect("insert");
                next = until;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a sender");
    }
    started.elapsed()
}

/// Capture with and without the index behind it, interleaved.
pub(crate) async fn cost(scratch: &Path, count: u64) {
    println!("capture: {count} letters with the index behind it and without, in turn");
    let mut ratios = Vec::new();
    let mut lags = Vec::new();
    for round in 0..3 {
        let mut rates = [0.0; 2];
        for (rate, index_behind) in rates.iter_mut().zip([false, true]) {
            let data = scratch.join(format!("capture-{round}-{index_behind}"));
            let limits = StoreLimits { index_behind, ..StoreLimits::default() };
            let store = SqliteStore::open(&data, limits).expect("open");
            let watch = index_behind.then(|| tokio::spawn(watch(Arc::clone(&store))));
            *rate = count as f64 / insert(&store, count, letters::letter).await.as_secs_f64();
            if let Some(watch) = watch {
                watch.abort();
                let left = store.stats().await.expect("stats").unindexed;
                let caught_up = Instant::now();
                while store.stats().await.expect("stats").unindexed > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let lag = caught_up.elapsed().as_secs_f64();
                println!("  round {round}: {left} letters behind at the end, {lag:.2} s to catch up");
                lags.push(lag);
            }
            store.close().await.expect("close");
            let _ = std::fs::remove_dir_all(&data);
        }
        println!("  round {round}: {:.0}/s without, {:.0}/s with", rates[0], rates[1]);
        ratios.push(rates[1] / rates[0]);
    }
    record::figure("search.capture", "x", Median::of(ratios));
    record::figure("search.lag", "s", Median::of(lags));
}

/// Says how far the index is behind, once a second.
async fn watch(store: Arc<SqliteStore>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let stats = store.stats().await.expect("stats");
        println!("    {} letters, {} of them not indexed", stats.letters.total(), stats.unindexed);
    }
}

/// What error text alone takes: letters without payload and headers.
pub(crate) async fn size_of_error_text(scratch: &Path) {
    const COUNT: u64 = 50_000;
    let data = scratch.join("texts");
    let store = SqliteStore::open(&data, StoreLimits::default()).expect("open");
    insert(&store, COUNT, bare).await;
    // The index behind capture may have some of them in its hands.
    while store.index_payloads().await.expect("index") > 0 {}
    store.close().await.expect("close");
    let bytes = index_bytes(&data);
    record::figure("search.index", "B", Median::once(bytes / COUNT as f64));
    let _ = std::fs::remove_dir_all(&data);
}

fn bare(n: u64) -> NewLetter {
    let mut letter = letters::letter(n);
    letter.message.payload = Default::default();
    letter.message.headers = Default::default();
    letter
}

/// Bytes of the index of texts, with its keys.
pub(crate) fn index_bytes(data: &Path) -> f64 {
    let db = rusqlite::Connection::open(data.join("office.db")).expect("open");
    let sql =
        "SELECT (SELECT sum(length(data) + 8) FROM grams) + (SELECT sum(length(blocks) + 24) FROM segments)";
    db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("sizes") as f64
}

//! One hit: what a text costs that a single letter has, asked of a store that is there already.

use std::path::Path;
use std::time::Instant;

use dlo_bench::measure::percentile;
use dlo_core::query::Query;
use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Page, Store, StoreLimits};

use crate::letters;

/// Asks for single letters by their error text and their payload, `rounds` times each.
pub(crate) async fn ask(directory: &Path, count: u64, rounds: u64) {
    let limits = StoreLimits { index_behind: false, ..StoreLimits::default() };
    let store = SqliteStore::open(directory, limits).expect("open");
    let now = Timestamp::from_millis(1_793_600_000_000);
    let some = |n: u64| letters::mix(n ^ 0xabc) % count;
    let error = |n: u64| {
        let text = letters::message(some(n));
        let from = text.find("CUST-").unwrap_or(0);
        format!("\"{}\"", &text[from..text.find(" in worker").unwrap_or(text.len())])
    };
    let questions: [(&str, &dyn Fn(u64) -> String); 2] =
        [("error text", &error), ("payload", &|n| format!("ORD-{:010}", some(n)))];
    for (what, query) in questions {
        let mut times = Vec::new();
        for n in 0..rounds {
            let query = Query::parse(&query(n), now).expect("a query");
            let started = Instant::now();
            let page = store.letters(&query, &Page::first(50)).await.expect("letters");
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
            assert!(!page.letters.is_empty(), "{what} {n}");
        }
        println!(
            "  one hit, {what}: p50 {:.3} ms, p99 {:.3} ms",
            percentile(&mut times, 0.5),
            percentile(&mut times, 0.99)
        );
    }
    store.close().await.expect("close");
}

//! What screens ask of the store: lists, groups, numbers, the audit log. Each call by itself, its p99 against the bar.

use std::path::Path;
use std::time::Instant;

use dlo_bench::measure::percentile;
use dlo_bench::record::Parts;
use dlo_core::query::Named;
use dlo_core::query::Query;
use dlo_core::query::complete::OFFERED;
use dlo_core::time::Timestamp;
use dlo_store::replays::Replays;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{GroupFilter, Page, Store, StoreLimits};

use crate::letters;

const ASKED: u64 = 100;

/// The query of the nth time.
type Asked = Box<dyn Fn(u64) -> String>;

pub(crate) async fn run(data: &Path, count: u64) {
    println!("lists: {count} letters, each call {ASKED} times");
    let store = SqliteStore::open(data, StoreLimits::default()).expect("open");
    let now = Timestamp::from_millis(1_793_600_000_000);
    let some = move |n: u64| letters::mix(n ^ 0xabc) % count;
    let queries: [(&str, Asked); 8] = [
        ("letters, no filter", Box::new(|_| String::new())),
        ("letters by status", Box::new(|_| "status:open".into())),
        (
            "letters by source and class",
            Box::new(|n| format!("source:{} class:{}", letters::source(n), letters::class(n))),
        ),
        ("letters by type", Box::new(|n| format!("type:{}", letters::event_type(n)))),
        ("letters by owner, old", Box::new(|_| "owner:payments age:>12h".into())),
        ("letters by key", Box::new(move |n| format!("key:{}", letters::key(some(n))))),
        ("letters by a closed status", Box::new(|_| "status:discarded".into())),
        ("letters by reason and attempts", Box::new(|_| "reason:processing_error attempts:>=3".into())),
    ];
    let mut slow = Parts::new("lists.p99", "ms");
    for (what, query) in &queries {
        let mut times = Vec::new();
        for n in 0..ASKED {
            let query = Query::parse(&query(n), now).expect("a query");
            let started = Instant::now();
            store.letters(&query, &Page::first(50)).await.expect("letters");
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        note(&mut slow, what, &mut times);
    }
    for what in ["groups", "stats", "causes", "names", "audit", "replays"] {
        let mut times = Vec::new();
        for _ in 0..ASKED {
            let started = Instant::now();
            match what {
                "groups" => drop(store.groups(&GroupFilter::default(), &Page::first(50)).await.expect(what)),
                "stats" => drop(store.stats().await.expect(what)),
                "causes" => drop(store.causes(None).await.expect(what)),
                "names" => drop(store.names(&Named::ALL, "e", None, OFFERED).await.expect(what)),
                "audit" => drop(store.audit(&Page::first(50)).await.expect(what)),
                _ => drop(store.replays(None, &Page::first(50)).await.expect(what)),
            }
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        note(&mut slow, what, &mut times);
    }
    slow.worst();
    store.close().await.expect("close");
}

fn note(slow: &mut Parts<'_>, what: &str, times: &mut [f64]) {
    println!("  {what}: p50 {:.2} ms", percentile(times, 0.5));
    slow.part(&format!("{what}, p99"), percentile(times, 0.99));
}

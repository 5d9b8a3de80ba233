//! `triage`: the questions of an on-call engineer, asked over HTTP of an office with a million letters.
//!
//! Each question is asked with changing parameters; the figure is the p99 of the whole request. Counts are asked at two
//! sizes, to show that they do not grow with letters.

use std::path::Path;
use std::time::Instant;

use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, Store, StoreLimits};

use crate::measure::{Median, percentile};
use crate::office::Office;
use crate::record::{self, Parts};
use crate::{letters, runtime};

const ASKED: u64 = 200;

pub(crate) fn run(scratch: &Path, million: u64) {
    let data = scratch.join("office-triage");
    println!("triage: {million} letters, each question asked {ASKED} times over HTTP");
    fill(&data, 0, million / 100);
    let few = counts(&data);
    fill(&data, million / 100, million);
    let many = counts(&data);
    record::figure("triage.counts-growth", "x", Median::once(many / few));
    record::figure("triage.counts", "ms", Median::once(many));
    ask_all(&data, million);
    let _ = std::fs::remove_dir_all(&data);
}

pub(crate) fn fill(data: &Path, from: u64, to: u64) {
    runtime().block_on(async {
        let store = SqliteStore::open(data, StoreLimits::default()).expect("open");
        let mut next = from;
        while next < to {
            let end = (next + 2_000).min(to);
            let batch = Batch { letters: (next..end).map(letters::letter).collect(), ..Batch::default() };
            store.insert(batch, Timestamp::from_millis(1_793_600_000_000)).await.expect("insert");
            next = end;
        }
        store.index_payloads().await.expect("index");
        store.close().await.expect("close");
    });
}

fn counts(data: &Path) -> f64 {
    let office = Office::start(data);
    let mut times = ask(&office, &|_| "/api/v1/stats/causes".to_string());
    percentile(&mut times, 0.5)
}

/// Milliseconds, one for each time it was asked.
fn ask(office: &Office, path: &dyn Fn(u64) -> String) -> Vec<f64> {
    (0..ASKED)
        .map(|n| {
            let path = path(n);
            let start = Instant::now();
            let (status, body) = office.get(&path);
            let spent = start.elapsed();
            assert_eq!(status, 200, "{path}: {}", &body[..body.len().min(300)]);
            assert!(body.contains("\"id\":\"") || body.contains("\"open\":"), "{path} found nothing");
            spent.as_secs_f64() * 1_000.0
        })
        .collect()
}

/// One letter that is there, different each time.
fn some(n: u64, million: u64) -> u64 {
    letters::mix(n ^ 0xabc) % million
}

fn ask_all(data: &Path, million: u64) {
    let office = Office::start(data);
    let (_, page) = office.get("/api/v1/letters?limit=50");
    let ids = values(&page, "\"id\":\"");
    let groups = values(&office.get("/api/v1/groups?limit=50").1, "\"id\":\"");
    let list = |query: String| {
        format!("/api/v1/letters?limit=50&q={}", query.replace(' ', "%20").replace('"', "%22"))
    };
    type Path = Box<dyn Fn(u64) -> String>;
    let questions: Vec<(&str, Path)> = vec![
        ("newest 50 by status", Box::new(move |_| list("status:open".into()))),
        ("newest 50 by source", Box::new(move |n| list(format!("source:{}", letters::source(n))))),
        ("newest 50 by type", Box::new(move |n| list(format!("type:{}", letters::event_type(n))))),
        ("newest 50 by class", Box::new(move |n| list(format!("class:{}", letters::class(n))))),
        ("newest 50 by consumer", Box::new(move |n| list(format!("consumer:{}", letters::consumer(n))))),
        (
            "newest 50 by owner",
            Box::new(move |n| list(format!("owner:{}", letters::owner(letters::consumer(n))))),
        ),
        (
            "newest 50 by group",
            Box::new(move |n| list(format!("group:{}", groups[n as usize % groups.len()]))),
        ),
        ("newest 50 by key", Box::new(move |n| list(format!("key:{}", letters::key(some(n, million)))))),
        (
            "newest 50 by correlation id",
            Box::new(move |n| list(format!("correlation:{}", letters::correlation(some(n, million))))),
        ),
        (
            "newest 50 by status, source and class",
            Box::new(move |n| {
                list(format!("status:open source:{} class:{}", letters::source(n), letters::class(n)))
            }),
        ),
        (
            "newest 50 by type, consumer and owner",
            Box::new(move |n| {
                list(format!(
                    "type:{} consumer:{} owner:payments",
                    letters::event_type(n),
                    letters::consumer(n)
                ))
            }),
        ),
        ("counts by (type, class, status)", Box::new(|_| "/api/v1/stats/causes".into())),
        ("one letter by id", Box::new(move |n| format!("/api/v1/letters/{}", ids[n as usize % ids.len()]))),
        (
            "a rare word in error text",
            Box::new(move |n| list(format!("CUST-{}", letters::mix(some(n, million) ^ 0x35) % 500_000))),
        ),
        ("a common word in error text", Box::new(move |_| list("region".into()))),
        (
            "a field of the payload",
            Box::new(move |n| list(format!("payload.order_id:ORD-{:010}", some(n, million)))),
        ),
    ];
    let (mut middle, mut slow) = (Parts::new("triage.p50", "ms"), Parts::new("triage.p99", "ms"));
    for (what, path) in &questions {
        let mut times = ask(&office, path);
        if what.starts_with("newest 50") {
            middle.part(&format!("{what}, p50"), percentile(&mut times, 0.5));
        }
        slow.part(&format!("{what}, p99"), percentile(&mut times, 0.99));
    }
    middle.worst();
    slow.worst();
}

fn values(text: &str, mark: &str) -> Vec<String> {
    text.split(mark).skip(1).map(|rest| rest.chars().take_while(|c| *c != '"').collect()).collect()
}

//! `triage`: the questions of an on-call engineer, asked over HTTP of an office with a million letters.
//!
//! Each question is asked with changing parameters; the figure is the p99 of the whole request. Counts are asked at two
//! sizes, to show that they do not grow with letters. Then lists and counts are asked again while letters come at full
//! speed. How PostgreSQL does beside the store is told by the `search` bench, which has its table.

use std::path::Path;
use std::sync::Arc;

use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, Store, StoreLimits};

use crate::measure::{Median, percentile};
use crate::office::Office;
use crate::questions::{self, Kind, Question};
use crate::record::{self, Parts};
use crate::{capturing, letters, runtime};

const ASKED: u64 = 200;

pub(crate) fn run(scratch: &Path, rounds: u64, million: u64) {
    let data = scratch.join("office-triage");
    println!("triage: {million} letters, each question asked {ASKED} times over HTTP");
    fill(&data, 0, million / 100);
    let few = counts(&data);
    fill(&data, million / 100, million);
    let many = counts(&data);
    record::figure("triage.counts-growth", "x", Median::once(many / few));
    record::figure("triage.counts", "ms", Median::once(many));
    ask_all(&data, million);
    capturing::run(&data, rounds, million);
    let _ = std::fs::remove_dir_all(&data);
}

pub(crate) fn fill(data: &Path, from: u64, to: u64) {
    runtime().block_on(async {
        let store = SqliteStore::open(data, StoreLimits::default()).expect("open");
        let mut next = from;
        while next < to {
            let end = (next + 2_000).min(to);
            let batch =
                Batch { letters: Arc::new((next..end).map(letters::letter).collect()), ..Batch::default() };
            store.insert(batch, Timestamp::from_millis(1_793_600_000_000)).await.expect("insert");
            next = end;
        }
        store.index_payloads().await.expect("index");
        store.close().await.expect("close");
    });
}

fn counts(data: &Path) -> f64 {
    let office = Office::start(data);
    let mut times = ask(&office, &questions::counts());
    percentile(&mut times, 0.5)
}

/// Milliseconds, one for each time it was asked.
fn ask(office: &Office, question: &Question) -> Vec<f64> {
    (0..ASKED).map(|n| question.ask(office, n)).collect()
}

fn ask_all(data: &Path, million: u64) {
    let office = Office::start(data);
    let (mut middle, mut slow) = (Parts::new("triage.p50", "ms"), Parts::new("triage.p99", "ms"));
    for question in questions::all(&office, million) {
        let mut times = ask(&office, &question);
        if question.kind == Kind::List {
            middle.part(&format!("{}, p50", question.what), percentile(&mut times, 0.5));
        }
        slow.part(&format!("{}, p99", question.what), percentile(&mut times, 0.99));
    }
    middle.worst();
    slow.worst();
}

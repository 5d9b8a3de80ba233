//! `triage`: the questions of an on-call engineer, asked over HTTP of an office with a million letters.
//!
//! Each question is asked with changing parameters; the figure is the p99 of the whole request. Counts are asked at two
//! sizes, to show that they do not grow with letters. Then lists and counts are asked again while letters come at full
//! speed. How PostgreSQL does beside the store is told by the `search` bench, which has its table.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dlo_bench::against::Against;
use dlo_bench::runner::Round;
use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, Store, StoreLimits};

use crate::indexed::indexed;
use crate::ingest::at_rest;
use crate::measure::{Median, percentile};
use crate::office::Office;
use crate::questions::{self, Kind, Question};
use crate::record::{self, Parts};
use crate::sending::send;
use crate::usage::Usage;
use crate::{capturing, letters, runtime};

const ASKED: u64 = 200;

/// Letters in each store, and how often every question is asked in one run, when two builds are compared.
pub(crate) const COMPARED: u64 = 100_000;
const ASKED_COMPARED: u64 = 100;

/// Compares two builds of `dlo`. Each fills a store of its own once. A run starts an office on that store and asks all
/// questions by turns; the rate counts questions.
pub(crate) async fn compare(against: &Against, scratch: &Path, letters: u64) {
    let mut stores: HashMap<PathBuf, PathBuf> = HashMap::new();
    let once = async |program: &Path| {
        let number = stores.len();
        let data = stores.entry(program.to_owned()).or_insert_with(|| {
            let data = scratch.join(format!("office-{number}"));
            let office = Office::start_with(program, &data);
            send(&office, 0, letters);
            indexed(&office);
            at_rest(&office);
            data
        });
        let office = Office::start_with(program, data);
        let questions = questions::all(&office, letters);
        at_rest(&office);
        let (before, start) = (Usage::of(office.pid()), Instant::now());
        for n in 0..ASKED_COMPARED {
            for question in &questions {
                question.ask(&office, n);
            }
        }
        let (spent, took) = (start.elapsed(), Usage::of(office.pid()).since(before));
        let messages = ASKED_COMPARED * questions.len() as u64;
        Round { messages, spent, client: Some(took.cpu), server: None, peak_mb: Some(took.peak_mb) }
    };
    against.compare(&format!("triage of {letters} letters"), "question", once).await;
}

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

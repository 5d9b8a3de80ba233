//! `storm`: a million identical failures, and a million distinct error texts, on both stores, beside calm traffic.
//!
//! Every run is a process of its own, so that its peak memory is its own. Counts are checked after each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dlo_bench::against::Against;
use dlo_bench::usage::Meter;
use dlo_core::letter::NewLetter;
use dlo_core::time::Timestamp;
use dlo_store::postgres::PostgresStore;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, DynStore, StoreLimits};
use dlo_testkit::harness::postgres::Postgres;

use crate::measure::{peak_mb, per_second};
use crate::record::Parts;
use crate::{letters, runtime};

const KINDS: [&str; 3] = ["calm", "identical", "distinct"];

pub(crate) fn run(scratch: &Path, million: u64) {
    let runtime = runtime();
    let postgres = runtime.block_on(Postgres::shared());
    let (mut rates, mut peaks) = (Parts::new("storm.rate", "x"), Parts::new("storm.memory", "MB"));
    for engine in ["sqlite", "postgres"] {
        println!("storm: {million} letters a kind on {engine}");
        let mut calm = f64::NAN;
        for kind in KINDS {
            let database = (engine == "postgres").then(|| runtime.block_on(postgres.database()));
            let directory = scratch.join(format!("storm-{kind}")).display().to_string();
            let place = database.as_ref().map_or(directory.as_str(), |database| database.url.as_str());
            let (rate, peak) = child(engine, kind, place, million);
            println!("  {kind}: {rate:.0}/s, peak memory {peak:.0} MB");
            if kind == "calm" {
                calm = rate;
            } else {
                rates.part(&format!("{engine}, {kind}: rate to the calm rate"), rate / calm);
            }
            peaks.part(&format!("{engine}, {kind}: peak memory"), peak);
        }
    }
    rates.worst();
    peaks.worst();
}

/// Letters of a kind in one run when two builds are compared.
pub(crate) const COMPARED: u64 = 40_000;

/// Compares two builds of this program. A run inserts letters of every kind into SQLite, each kind in a process and a store of
/// its own. The rate is over all kinds; CPU is that of the whole processes.
pub(crate) async fn compare(against: &Against, scratch: &Path, letters: u64) {
    let once = async |program: &Path| {
        let (meter, mut spent) = (Meter::start(), 0.0);
        for kind in KINDS {
            let place = scratch.join(format!("storm-{kind}"));
            let (rate, _) = child_with(program, "sqlite", kind, &place.display().to_string(), letters);
            spent += letters as f64 / rate;
            let _ = std::fs::remove_dir_all(&place);
        }
        meter.round(letters * KINDS.len() as u64, Duration::from_secs_f64(spent))
    };
    against.compare(&format!("storm of {letters} letters of each kind"), "letter", once).await;
}

pub(crate) fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program")
}

/// Runs one storm in a process of its own; returns rate and peak memory.
fn child(engine: &str, kind: &str, place: &str, count: u64) -> (f64, f64) {
    child_with(&this_program(), engine, kind, place, count)
}

/// The same with another build of this program. Arguments and output must not change: older builds are called with them.
fn child_with(program: &Path, engine: &str, kind: &str, place: &str, count: u64) -> (f64, f64) {
    let output = Command::new(program)
        .args(["storm-one", engine, kind, place, &count.to_string()])
        .output()
        .expect("run one storm");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|number| number.parse::<f64>().ok());
    (numbers.next().unwrap_or(f64::NAN), numbers.next().unwrap_or(f64::NAN))
}

/// The child: fills one store with one kind, checks the counts, prints rate and memory.
pub(crate) fn one(engine: &str, kind: &str, place: &str, count: u64) {
    runtime().block_on(async {
        let limits = StoreLimits::default();
        let cap = limits.groups_per_source as u64;
        let store: DynStore = match engine {
            "sqlite" => SqliteStore::open(Path::new(place), limits).expect("open"),
            _ => PostgresStore::connect(place, limits).await.expect("connect"),
        };
        let rate = fill(&store, kind, count).await;
        let stats = store.stats().await.expect("stats");
        assert_eq!(stats.letters.total(), count, "nothing is lost");
        match kind {
            "identical" => assert_eq!(stats.groups, 1, "one cause, one group"),
            "distinct" => assert!(stats.groups <= cap + 1, "{} groups are past the cap", stats.groups),
            _ => {}
        }
        println!("{rate} {}", peak_mb(None));
        store.close().await.expect("close");
    });
}

async fn fill(store: &DynStore, kind: &str, count: u64) -> f64 {
    let start = Instant::now();
    let mut waiting = std::collections::VecDeque::new();
    for first in (0..count).step_by(1_000) {
        let letters: Vec<_> = (first..(first + 1_000).min(count)).map(|n| letter(kind, n)).collect();
        let (store, now) = (std::sync::Arc::clone(store), Timestamp::from_millis(1_793_600_000_000));
        waiting.push_back(tokio::spawn(async move {
            store.insert(Batch { letters: letters.into(), ..Batch::default() }, now).await.expect("insert")
        }));
        if waiting.len() >= 4
            && let Some(oldest) = waiting.pop_front()
        {
            oldest.await.expect("a batch");
        }
    }
    for rest in waiting {
        rest.await.expect("a batch");
    }
    per_second(count, start.elapsed())
}

fn letter(kind: &str, n: u64) -> NewLetter {
    match kind {
        "calm" => letters::storm(n, letters::message(n)),
        "identical" => letters::storm_of_one(n),
        _ => letters::storm(n, distinct(n)),
    }
}

/// A text that no template can make the same as another's: words, not numbers.
fn distinct(n: u64) -> String {
    let mut word = String::new();
    let mut rest = n;
    for _ in 0..6 {
        word.push((b'a' + (rest % 26) as u8) as char);
        rest /= 26;
    }
    format!("cannot find the {word} of the {word} in region north")
}

//! `screens`: every screen of the page on a large store: what the office needs for it, what it weighs, when it is seen.
//!
//! `screens [--letters N] [--rounds N] [--store DIRECTORY]`; with `--growth [--large-letters N] [--large-store DIRECTORY]`
//! the same on a second store of ten million letters, which takes its time. A store that is named is filled if it is not
//! there, and stays; without one it is made for this run. Not a test: a slow machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};

mod asked;
mod browser;
#[expect(dead_code, reason = "the benchmark of the store measures what it fills; here it is only filled")]
#[path = "../search/capture.rs"]
mod capture;
#[expect(dead_code, reason = "the same letters are sent over HTTP by other workloads")]
#[path = "../ground/letters.rs"]
mod letters;
mod measured;
#[expect(dead_code, reason = "other workloads send letters to it and look at its memory")]
#[path = "../ground/office.rs"]
mod office;
mod planned;

use asked::Screen;
use dlo_bench::measure::percentile;
use measured::Measured;
use office::Office;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name, default| value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let scratch = std::env::var_os("DLO_BENCH_DIR")
        .map_or_else(std::env::temp_dir, PathBuf::from)
        .join(format!("dlo-screens-{}", std::process::id()));
    let place = |name, below| value(name).map_or_else(|| scratch.join(below), PathBuf::from);
    let rounds = number("--rounds", 200);
    let small = measured_in(&place("--store", "office"), number("--letters", 1_000_000), rounds);
    measured::record(&small);
    if arguments.iter().any(|argument| argument == "--growth") {
        let store = place("--large-store", "office-large");
        let large = measured_in(&store, number("--large-letters", 10_000_000), rounds);
        measured::record_growth(&small, &large);
    }
    let _ = std::fs::remove_dir_all(&scratch);
}

/// Every screen on the store there, which is filled if it is not there.
fn measured_in(store: &Path, letters: u64, rounds: u64) -> Vec<Measured> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if !store.join("office.db").exists() {
        std::fs::create_dir_all(store).expect("a directory");
        runtime.block_on(capture::fill(store, letters));
    }
    runtime.block_on(planned::replay(store));
    measured::all(store, rounds)
}

impl Screen {
    /// Milliseconds from asking to the last byte of a page that shows what it must.
    fn time(&self, office: &Office, n: u64) -> f64 {
        let path = (self.path)(n);
        let started = std::time::Instant::now();
        let (status, body) = office.get(&path);
        let spent = started.elapsed().as_secs_f64() * 1_000.0;
        assert_eq!(status, 200, "{path}: {}", &body[..body.len().min(300)]);
        assert!(body.contains(self.shows), "{path} does not show `{}`", self.shows);
        spent
    }
}

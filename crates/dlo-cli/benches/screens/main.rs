//! `screens`: every screen of the page on a large store: what the office needs for it, what it weighs, when it is seen.
//!
//! `screens [--letters N] [--rounds N] [--store DIRECTORY]`. A store that is named is filled if it is not there, and
//! stays; without one it is made for this run. Not a test: a slow machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};

mod asked;
mod browser;
#[expect(dead_code, reason = "the benchmark of the store measures what it fills; here it is only filled")]
#[path = "../../../dlo-store/benches/search/capture.rs"]
mod capture;
#[expect(dead_code, reason = "the same letters are sent over HTTP by other workloads")]
#[path = "../ground/letters.rs"]
mod letters;
#[expect(dead_code, reason = "other workloads send letters to it and look at its memory")]
#[path = "../ground/office.rs"]
mod office;
mod planned;

use asked::Screen;
use dlo_testkit::bench::measure::percentile;
use dlo_testkit::bench::record::Parts;
use office::Office;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name, default| value(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (letters, rounds) = (number("--letters", 1_000_000), number("--rounds", 200));
    let scratch = std::env::var_os("DLO_BENCH_DIR")
        .map_or_else(std::env::temp_dir, PathBuf::from)
        .join(format!("dlo-screens-{}", std::process::id()));
    let store = value("--store").map_or_else(|| scratch.join("office"), PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if !store.join("office.db").exists() {
        std::fs::create_dir_all(&store).expect("a directory");
        runtime.block_on(capture::fill(&store, letters));
    }
    runtime.block_on(planned::replay(&store));
    run(&store, rounds);
    let _ = std::fs::remove_dir_all(&scratch);
}

fn run(store: &Path, rounds: u64) {
    let office = Office::start(store);
    let (letters, screens) = asked::screens(&office);
    println!("screens: {letters} letters, each screen asked {rounds} times over HTTP");
    let mut answered = Parts::new("screens.answered", "ms");
    for screen in &screens {
        let mut times: Vec<f64> = (0..rounds).map(|n| screen.time(&office, n)).collect();
        println!("  {}: p50 {:.2} ms", screen.what, percentile(&mut times, 0.5));
        answered.part(&format!("{}, p99", screen.what), percentile(&mut times, 0.99));
    }
    answered.worst();
    browser::look(&office, &screens);
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

//! `search`: texts, fields, lists and counts of many letters, beside PostgreSQL with a hand-made table, Tantivy and DuckDB;
//! and what our index costs.
//!
//! `search [--letters N] [--rounds N]` measures; `search fill <directory> [--letters N]` leaves a store there, for tests
//! that need a large one, and `search once <directory>` asks it for single letters. Every question is asked of both in turn, and both must find as many. Not a test: a slow machine
//! must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};

use tikv_jemallocator::Jemalloc;

mod beside;
mod capture;
mod columns;
#[path = "../capture/interpreter.rs"]
mod interpreter;
#[expect(dead_code, reason = "the same letters are sent over HTTP by other workloads")]
#[path = "../ground/letters.rs"]
mod letters;
mod lists;
mod once;
mod peer;
mod piped;
mod postgres_lists;
mod questions;
mod words;

/// As the office has it.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let flag = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let letters = flag("--letters", 1_000_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match &arguments[..] {
            [what, directory, ..] if what == "fill" => capture::fill(Path::new(directory), letters).await,
            [what, directory, ..] if what == "once" => {
                once::ask(Path::new(directory), letters, flag("--rounds", 200)).await;
            }
            _ => {
                let scratch = scratch();
                all(&scratch, letters, flag("--rounds", 40)).await;
                let _ = std::fs::remove_dir_all(&scratch);
            }
        }
    });
}

async fn all(scratch: &Path, letters: u64, rounds: u64) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("search: {letters} letters, load {}", load.split(' ').next().unwrap_or_default());
    capture::cost(scratch, letters.min(200_000)).await;
    capture::size_of_error_text(scratch).await;
    let data = scratch.join("office");
    capture::fill(&data, letters).await;
    lists::run(&data, letters).await;
    beside::run(scratch, &data, letters, rounds).await;
}

/// A directory for this run; `DLO_BENCH_DIR` chooses the disk.
fn scratch() -> PathBuf {
    let base = std::env::var_os("DLO_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = base.join(format!("dlo-search-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).expect("a directory");
    scratch
}

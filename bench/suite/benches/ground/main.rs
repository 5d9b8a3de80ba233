//! The benchmarks of the ground floor. `bench/run` builds and runs them; each prints its figures beside their bars.
//!
//! `ground ingest|triage|storm|plan|all [--letters N] [--rounds N]`. Not tests: a slow machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};

mod bare;
mod capturing;
mod indexed;
mod ingest;
mod letters;
mod office;
mod plan;
mod questions;
mod sending;
mod storm;
mod triage;

use dlo_bench::against::Against;
use dlo_bench::{dlo, measure, record, usage};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let flag = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let what = arguments.first().map_or("all", String::as_str);
    if what == "storm-one" {
        let [_, engine, kind, place, count] = &arguments[..] else { return };
        return storm::one(engine, kind, place, count.parse().unwrap_or(0));
    }
    let scratch = scratch();
    // `storm` runs this program again, the others start `dlo`.
    let ours = || if what == "storm" { storm::this_program() } else { dlo::program() };
    if let Some(against) = Against::read(&arguments, ours) {
        runtime().block_on(compare(what, &against, &scratch, flag));
        let _ = std::fs::remove_dir_all(&scratch);
        return against.end();
    }
    let (million, rounds) = (flag("--letters", 1_000_000), flag("--rounds", 5));
    match what {
        "ingest" => ingest::run(&scratch, rounds, million),
        "triage" => triage::run(&scratch, rounds, million),
        "storm" => storm::run(&scratch, million),
        "plan" => plan::run(&scratch, million),
        "all" => {
            ingest::run(&scratch, rounds, million);
            triage::run(&scratch, rounds, million);
            storm::run(&scratch, million);
            plan::run(&scratch, million);
        }
        other => {
            println!("unknown workload `{other}`, expected ingest, triage, storm, plan or all");
            std::process::exit(2)
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
}

/// Compares this tree with another commit. No peer takes part.
async fn compare(what: &str, against: &Against, scratch: &Path, flag: impl Fn(&str, u64) -> u64) {
    match what {
        "ingest" => ingest::compare(against, scratch, flag("--letters", ingest::COMPARED)).await,
        "triage" => triage::compare(against, scratch, flag("--letters", triage::COMPARED)).await,
        "storm" => storm::compare(against, scratch, flag("--letters", storm::COMPARED)).await,
        other => {
            println!("`{other}` is not compared with another commit; ingest, triage and storm are");
            std::process::exit(2)
        }
    }
}

/// A directory for this run; `DLO_BENCH_DIR` chooses the disk.
fn scratch() -> PathBuf {
    let base = std::env::var_os("DLO_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = base.join(format!("dlo-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).unwrap_or_else(|e| println!("cannot make {}: {e}", scratch.display()));
    scratch
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap_or_else(|e| {
        println!("no runtime: {e}");
        std::process::exit(1)
    })
}

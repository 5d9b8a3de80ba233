//! Replays measured (W4, W5): `redrive rabbitmq|redis|kafka|all [--letters N] [--rounds N]`, and
//! `redrive rate [KIND] [--seconds N]`.
//!
//! Full speed: letters that the office has in its store go back to their queue with confirms, a filter and an audit row
//! each, beside what people would use instead, which moves messages from queue to queue and records nothing. Runners take
//! turns, counts are checked in every run, and what is kept is the median of the paired ratios. Pace: how exactly a rate is
//! kept and how soon a pause or another rate is obeyed, seen from the queue. Not tests: a slow machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};

mod arrivals;
mod bento;
mod change;
mod done;
#[path = "../runtime/go.rs"]
mod go;
#[path = "../capture/interpreter.rs"]
mod interpreter;
mod kafka;
#[path = "../capture/message.rs"]
mod message;
mod office;
mod peer;
mod place;
mod rabbitmq;
mod rate;
mod redis;
mod shovel;
mod sleeper;

use dlo_bench::against::Against;
use dlo_bench::{dlo, record, runner, usage};

/// What the command line asks for.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    letters: u64,
    rounds: u64,
    seconds: u64,
    scratch: &'a Path,
    /// The `dlo` of another commit to compare with, instead of peers.
    against: Option<&'a Against>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let flag = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let word = |at: usize| arguments.get(at).map(String::as_str).filter(|word| !word.starts_with("--"));
    let scratch = scratch();
    let against = Against::read(&arguments, dlo::program);
    let asked = Asked {
        letters: flag("--letters", 50_000),
        rounds: flag("--rounds", 5),
        seconds: flag("--seconds", 30),
        scratch: &scratch,
        against: against.as_ref(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match word(0).unwrap_or("all") {
            "rabbitmq" => rabbitmq::run(asked).await,
            "redis" => redis::run(asked).await,
            "kafka" => kafka::run(asked).await,
            "rate" => rate::run(asked, word(1)).await,
            "all" => {
                rabbitmq::run(asked).await;
                redis::run(asked).await;
                kafka::run(asked).await;
            }
            other => {
                println!("unknown workload `{other}`, expected rabbitmq, redis, kafka, rate or all");
                std::process::exit(2)
            }
        }
    });
    let _ = std::fs::remove_dir_all(&scratch);
    against.iter().for_each(Against::end);
}

/// A directory for this run; `DLO_BENCH_DIR` chooses the disk.
fn scratch() -> PathBuf {
    let base = std::env::var_os("DLO_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = base.join(format!("dlo-redrive-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).expect("a directory for the run");
    scratch
}

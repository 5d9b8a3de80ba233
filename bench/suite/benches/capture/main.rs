//! Capture measured beside what people would use instead (W1 to W3): `capture KIND|all [--letters N] [--rounds N]`.
//!
//! Every round fills a dead-letter queue of a private, real server and drains it once by each runner, one after the
//! other, so that a slow minute of the machine meets all of them. Counts are checked in every run. What is kept is the
//! median of the paired ratios. Not tests: a slow machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};

mod bento;
mod connect;
#[path = "../runtime/go.rs"]
mod go;
mod interpreter;
mod kafka;
mod message;
mod nats;
mod office;
mod python;
mod rabbitmq;
mod redis;
mod sink;
mod sqs;
mod watched;

use dlo_bench::against::Against;
use dlo_bench::{dlo, runner, usage};

/// What the command line asks for.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    letters: u64,
    rounds: u64,
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
    let what = arguments.first().map_or("all", String::as_str);
    let scratch = scratch();
    let against = Against::read(&arguments, dlo::program);
    let asked = Asked {
        letters: flag("--letters", 100_000),
        rounds: flag("--rounds", 5),
        scratch: &scratch,
        against: against.as_ref(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match what {
            "rabbitmq" => rabbitmq::run(asked).await,
            "redis" => redis::run(asked).await,
            "nats" => nats::run(asked).await,
            "kafka" => kafka::run(asked).await,
            "sqs" => sqs::run(asked).await,
            "all" => {
                rabbitmq::run(asked).await;
                redis::run(asked).await;
                nats::run(asked).await;
                kafka::run(asked).await;
                sqs::run(asked).await;
            }
            other => {
                println!("unknown broker `{other}`, expected rabbitmq, redis, nats, kafka, sqs or all");
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
    let scratch = base.join(format!("dlo-capture-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).expect("a directory for the run");
    scratch
}

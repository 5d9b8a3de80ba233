//! The consumer runtime measured beside what people would use instead (W6 to W8), and by itself as poison grows (W11):
//! `runtime rabbitmq|redis|kafka|postgres|sidecar|poison|all [--messages N] [--rounds N] [--poison 0,1,10]`.
//!
//! Every round fills a queue of a private, real server and has it emptied once by each runner, one after the other, so
//! that a slow minute of the machine meets all of them. Each runner is a process of its own: its time, its processor and
//! its memory are its alone. Counts are checked in every run. What is kept is the median of the paired ratios. Not
//! tests: a slow machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

mod child;
mod go;
#[path = "../capture/interpreter.rs"]
mod interpreter;
mod java;
mod kafka;
mod kafka_bare;
mod node;
mod order;
mod ours;
mod peer;
mod poison;
mod postgres;
mod rabbitmq;
mod rabbitmq_bare;
mod redis;
mod redis_bare;
mod redis_taskiq;
mod settings;
mod sidecar;

use dlo_bench::against::Against;
use dlo_bench::{measure, record, runner, usage};

/// What the command line asks for.
#[derive(Debug)]
struct Asked<'a> {
    messages: u64,
    rounds: u64,
    /// Percent of the messages that fail each time they are tried.
    poison: Vec<u64>,
    /// This program of another commit to compare with, instead of peers. The first share of poison is taken.
    against: Option<&'a Against>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let flag = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let number = |name: &str| flag(name).and_then(|text| text.parse().ok());
    let percents = flag("--poison").unwrap_or("0,1,10").split(',');
    let what = arguments.first().map_or("all", String::as_str);
    let against = Against::read(&arguments, child::this_program);
    let asked = |messages| Asked {
        messages: number("--messages").unwrap_or(messages),
        rounds: number("--rounds").unwrap_or(5),
        poison: percents.clone().filter_map(|text| text.parse().ok()).collect(),
        against: against.as_ref(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match what {
            child::ROLE => child::act(&arguments[1..]).await,
            "rabbitmq" => rabbitmq::run(&asked(50_000)).await,
            "redis" => redis::run(&asked(100_000)).await,
            "kafka" => kafka::run(&asked(200_000)).await,
            "postgres" => postgres::run(&asked(20_000)).await,
            "sidecar" => sidecar::run(&asked(30_000)).await,
            "poison" => poison::run(&asked(30_000)).await,
            "all" => {
                rabbitmq::run(&asked(50_000)).await;
                redis::run(&asked(100_000)).await;
                kafka::run(&asked(200_000)).await;
                postgres::run(&asked(20_000)).await;
            }
            other => {
                println!(
                    "unknown workload `{other}`, expected rabbitmq, redis, kafka, postgres, sidecar, poison or all"
                );
                std::process::exit(2)
            }
        }
    });
    against.iter().for_each(Against::end);
}

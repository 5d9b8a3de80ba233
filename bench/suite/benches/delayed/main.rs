//! Delayed retries that are outstanding all at once: `delayed kafka|rabbitmq|redis|all [--messages N]`.
//!
//! Every message of a private, real server is put off by ten minutes through its adapter, with the story that a retry
//! carries. Printed: what that costs this process for each one that waits, beside its bar; and the rate of healthy
//! messages while they wait, beside the rate before. That all of them wait is counted at the broker. Not tests: a slow
//! machine must not fail a build.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

mod kafka;
mod rabbitmq;
mod redis;
mod waiting;

use dlo_bench::measure;
use dlo_bench::record::Parts;

/// What is taken at each broker; the worst counts.
struct Figures {
    /// Bytes of our memory for each message that waits.
    bytes: Parts<'static>,
    /// The rate of healthy messages beside them, to the rate before.
    healthy: Parts<'static>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let at = arguments.iter().position(|argument| argument == "--messages");
    let messages = at.and_then(|at| arguments.get(at + 1)).and_then(|text| text.parse().ok());
    let messages: u64 = messages.unwrap_or(1_000_000);
    let what = arguments.first().map_or("all", String::as_str);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (bytes, healthy) = (Parts::new("delayed.bytes", "B"), Parts::new("delayed.healthy", "x"));
        let mut figures = Figures { bytes, healthy };
        match what {
            "kafka" => kafka::run(messages, &mut figures).await,
            "rabbitmq" => rabbitmq::run(messages, &mut figures).await,
            "redis" => redis::run(messages, &mut figures).await,
            "all" => {
                kafka::run(messages, &mut figures).await;
                rabbitmq::run(messages, &mut figures).await;
                redis::run(messages, &mut figures).await;
            }
            other => {
                println!("unknown broker `{other}`, expected kafka, rabbitmq, redis or all");
                std::process::exit(2)
            }
        }
        figures.bytes.worst();
        figures.healthy.worst();
    });
}

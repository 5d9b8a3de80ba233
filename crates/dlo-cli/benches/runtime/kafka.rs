//! W6 on Kafka: beside the bare loop and Spring Kafka's record listener with its error handler and dead-letter
//! recoverer, which is what most services on Kafka run.
//!
//! A topic is filled once for each share of poison: a log is not emptied by reading it, so every runner of every round
//! reads the same records in a group of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::kafka::Kafka;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::child::{self, Done};
use crate::interpreter::{root, run as run_command};
use crate::runner::{self, Runner};
use crate::{Asked, order};

const PARTITIONS: u32 = 6;
/// Listeners of one Spring process.
const THREADS: &str = "2";
/// A topic with poison has this share of the messages.
const POISONED_SHARE: u64 = 10;
/// Its heap, bounded so that the comparison of memory does not measure what a default leaves unused.
const HEAP: &str = "-Xmx256m";

pub(crate) async fn run(asked: &Asked) {
    println!("W6 consuming from Kafka, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Kafka::in_earnest().await;
    let bootstrap = server.bootstrap.clone();
    let section = format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"");
    let bench = Bench { bootstrap, section, java: classes() };
    let mut without: Option<Runner> = None;
    for &percent in &asked.poison {
        let ours = bench.rounds(asked, percent).await;
        if let Some(without) = &without {
            println!("  at {percent} % to none: {:.2}", ours.rate() / without.rate());
        }
        if percent == 0 {
            without = Some(ours);
        }
    }
}

struct Bench {
    bootstrap: String,
    section: String,
    /// The class path of the Spring listener.
    java: String,
}

/// Compiles the listener against the jars that `crates/dlo-testkit/servers/kafka/install` brought.
fn classes() -> String {
    let jars = root().join("target/servers/kafka/lib/*").display().to_string();
    let to: PathBuf = root().join("target/bench-java");
    std::fs::create_dir_all(&to).expect("a directory");
    let source = root().join("bench/peers/java/SpringConsumer.java");
    run_command(Command::new("javac").args(["-cp", &jars, "-d"]).arg(&to).arg(source));
    format!("{}:{jars}", to.display())
}

impl Bench {
    async fn rounds(&self, asked: &Asked, percent: u64) -> Runner {
        // Fewer with poison: Spring seeks back for every try.
        let messages = if percent > 0 { asked.messages / POISONED_SHARE } else { asked.messages };
        println!(" {percent} % poison, {messages} messages");
        let topic = format!("orders-{percent}");
        let broker = order::broker(&self.section).await;
        for dead in [".dlq", ".dlt"] {
            let dead = format!("{topic}{dead}");
            let spec = TopologySpec { partitions: Some(PARTITIONS), ..TopologySpec::new(&topic, dead, 5) };
            broker.topology().apply(&spec).await.expect("make the topics");
        }
        order::fill(&broker, &topic, messages, percent).await;
        let mut ours = Runner::new("ours");
        let mut bare = Runner::new("bare loop");
        let mut spring = Runner::new("Spring Kafka");
        for round in 0..=asked.rounds {
            let group = |who: &str| format!("{who}-{percent}-{round}");
            let count = messages.to_string();
            let own = || child::run(&["ours", &self.section, &topic, &group("ours"), &count]);
            let own = self.check("ours", &topic, ".dlq", messages, percent, own);
            let least = || child::run(&["kafka", &self.bootstrap, &topic, &group("bare"), &count]);
            let least = self.check("the bare loop", &topic, ".dlq", messages, percent, least);
            let java = || self.spring(&topic, &group("spring"), &count);
            let java = self.check("Spring Kafka", &topic, ".dlt", messages, percent, java);
            // The first round warms everything up and does not count.
            if round > 0 {
                ours.did(&own);
                bare.did(&least);
                spring.did(&java);
            }
        }
        runner::show("W6", &format!("Kafka, {percent} % poison"), &[&ours, &bare, &spring]);
        if percent == 0 {
            ours.against(&bare, "runtime.kafka.bare");
            ours.against(&spring, "runtime.kafka.spring");
            ours.weighs_of(&spring, "runtime.kafka.spring-memory");
        } else {
            ours.beside(&bare);
            ours.beside(&spring);
        }
        ours
    }

    /// Runs one runner, and counts what it did and what stands in its dead-letter topic.
    fn check(
        &self,
        who: &str,
        topic: &str,
        dead: &str,
        messages: u64,
        percent: u64,
        run: impl FnOnce() -> Done,
    ) -> Done {
        let dead = format!("{topic}{dead}");
        let poison = order::poisoned(messages, percent);
        tokio::task::block_in_place(|| {
            let before = self.records(&dead);
            let done = run();
            done.check(who, messages, poison);
            assert_eq!(self.records(&dead) - before, poison, "{who} parked another number");
            done
        })
    }

    fn spring(&self, topic: &str, group: &str, count: &str) -> Done {
        let dead = format!("{topic}.dlt");
        let mut java = Command::new("java");
        java.args([
            HEAP,
            "-cp",
            &self.java,
            "SpringConsumer",
            &self.bootstrap,
            topic,
            &dead,
            group,
            count,
            THREADS,
        ]);
        child::read(&mut java)
    }

    /// Records in all partitions of a topic.
    fn records(&self, topic: &str) -> u64 {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &self.bootstrap).create().expect("a consumer");
        let ends = (0..PARTITIONS as i32).map(|partition| {
            let (low, high) =
                consumer.fetch_watermarks(topic, partition, Duration::from_secs(20)).expect("the ends");
            (high - low).unsigned_abs()
        });
        ends.sum()
    }
}

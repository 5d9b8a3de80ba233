//! W6 on Kafka: beside the bare loop, Spring Kafka's record listener with its error handler and dead-letter recoverer, which
//! is what most services on Kafka run, and Confluent's Parallel Consumer.
//!
//! A topic is filled once for each share of poison: a log is not emptied by reading it, so every runner of every round
//! reads the same records in a group of its own.

use std::path::Path;
use std::time::Duration;

use dlo_bench::against::Against;
use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::kafka::Kafka;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::child::{self, Done};
use crate::java::Java;
use crate::runner::{self, Round, Runner};
use crate::{Asked, order};

const PARTITIONS: u32 = 6;
/// A topic with poison has this share of the messages, and Spring's of it again: it seeks back and fetches anew for every try.
const POISONED_SHARE: u64 = 10;

pub(crate) async fn run(asked: &Asked<'_>) {
    println!("W6 consuming from Kafka, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Kafka::in_earnest().await;
    let bootstrap = server.bootstrap.clone();
    let section = format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"");
    let topics = Topics { bootstrap, section };
    if let Some(against) = asked.against {
        return topics.compare(asked, against).await;
    }
    let bench = Bench { topics, spring: Java::spring(), parallel: Java::parallel() };
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
    topics: Topics,
    spring: Java,
    /// Where its jars could be had.
    parallel: Option<Java>,
}

/// A topic that every runner reads.
struct Filled {
    topic: String,
    messages: u64,
    poison: u64,
}

impl Bench {
    async fn rounds(&self, asked: &Asked<'_>, percent: u64) -> Runner {
        let share = if percent > 0 { POISONED_SHARE } else { 1 };
        let messages = asked.messages / share;
        println!(" {percent} % poison, {messages} messages");
        let all = self.topics.filled(messages, percent).await;
        let few = if percent > 0 { Some(self.topics.filled(messages / share, percent).await) } else { None };
        let few = few.as_ref().unwrap_or(&all);
        let mut ours = Runner::new("ours");
        let mut bare = Runner::new("bare loop");
        let mut spring = Runner::new("Spring Kafka");
        let mut parallel = Runner::new("Parallel Consumer");
        for round in 0..=asked.rounds {
            let group = |who: &str| format!("{who}-{percent}-{round}");
            let count = messages.to_string();
            let own = self.topics.own(&child::this_program(), &all, &group("ours"));
            let bootstrap = &self.topics.bootstrap;
            let least = || child::run(&["kafka", bootstrap, &all.topic, &group("bare"), &count]);
            let least = self.topics.check("the bare loop", &all, ".dlq", least);
            let listener = self.java(&self.spring, "Spring Kafka", few, &group("spring"));
            let beside = self
                .parallel
                .as_ref()
                .map(|java| self.java(java, "the Parallel Consumer", &all, &group("parallel")));
            // The first round warms everything up and does not count.
            if round > 0 {
                ours.did(&own);
                bare.did(&least);
                spring.did(&listener);
                beside.iter().for_each(|done| parallel.did(done));
            }
        }
        self.show(percent, &ours, [&bare, &spring, &parallel]);
        ours
    }

    fn show(&self, percent: u64, ours: &Runner, [bare, spring, parallel]: [&Runner; 3]) {
        let contest = format!("Kafka, {percent} % poison");
        runner::show("W6", &contest, &[ours, bare, spring]);
        if percent == 0 {
            ours.against(bare, "runtime.kafka.bare");
            ours.against(spring, "runtime.kafka.spring");
            ours.weighs_of(spring, "runtime.kafka.spring-memory");
        } else {
            ours.beside(bare);
            match percent {
                10 => ours.against(spring, "runtime.kafka.spring-poison-10"),
                _ => ours.beside(spring),
            }
        }
        if self.parallel.is_some() {
            runner::show("W6", &contest, &[parallel]);
            match percent {
                0 => ours.against(parallel, "runtime.kafka.parallel"),
                _ => ours.beside(parallel),
            }
        }
    }

    fn java(&self, java: &Java, who: &str, from: &Filled, group: &str) -> Done {
        let (dead, count) = (format!("{}.dlt", from.topic), from.messages.to_string());
        let bootstrap = &self.topics.bootstrap;
        self.topics.check(who, from, ".dlt", || java.run(bootstrap, &from.topic, &dead, group, &count))
    }
}

/// A server, and topics on it that runners of this program read.
struct Topics {
    bootstrap: String,
    section: String,
}

impl Topics {
    /// Our runtime in this build and in that of another commit. Each run reads the same topic in a group of its own.
    async fn compare(&self, asked: &Asked<'_>, against: &Against) {
        let from = self.filled(asked.messages, asked.poison.first().copied().unwrap_or(0)).await;
        let mut run = 0;
        let once = async |program: &Path| {
            run += 1;
            Round::from(&self.own(program, &from, &format!("run-{run}")))
        };
        against.compare("consuming from Kafka", "message", once).await;
    }

    /// Runs our runtime in this build of the program.
    fn own(&self, program: &Path, from: &Filled, group: &str) -> Done {
        let count = from.messages.to_string();
        let words = ["ours", &self.section, &from.topic, group, &count];
        self.check("ours", from, ".dlq", || child::run_with(program, &words))
    }

    /// A topic with so many messages, and where those who read it park.
    async fn filled(&self, messages: u64, percent: u64) -> Filled {
        let topic = format!("orders-{percent}-{messages}");
        let broker = order::broker(&self.section).await;
        for dead in [".dlq", ".dlt"] {
            let dead = format!("{topic}{dead}");
            let spec = TopologySpec { partitions: Some(PARTITIONS), ..TopologySpec::new(&topic, dead, 5) };
            broker.topology().apply(&spec).await.expect("make the topics");
        }
        order::fill(&broker, &topic, messages, percent).await;
        Filled { topic, messages, poison: order::poisoned(messages, percent) }
    }

    /// Runs one runner, and counts what it did and what stands in its dead-letter topic.
    fn check(&self, who: &str, from: &Filled, dead: &str, run: impl FnOnce() -> Done) -> Done {
        let dead = format!("{}{dead}", from.topic);
        tokio::task::block_in_place(|| {
            let before = self.records(&dead);
            let done = run();
            done.check(who, from.messages, from.poison);
            assert_eq!(self.records(&dead) - before, from.poison, "{who} parked another number");
            done
        })
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

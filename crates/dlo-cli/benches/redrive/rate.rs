//! W5: how exactly a replay keeps its rate, and how soon a pause is obeyed, seen from the queue.
//!
//! A message counts from when the broker says that it took it, where brokers stamp (Kafka's append to the log, NATS, Redis, SQS):
//! a consumer takes what lies there in heaps, SQS up to ten at a time, and a heap is not the replay's doing. RabbitMQ does not
//! stamp, so there it counts when it arrives at a consumer. The mean is taken from the first to the last; the worst second is the
//! fullest of all that begin with a message; a pause is timed from the API's answer to the last message.

use std::time::{Duration, SystemTime};

use dlo_core::broker::{Destination, Outgoing, Settlement, Source};
use dlo_core::message::{Message, Payload};
use dlo_core::time::Timestamp;
use dlo_testkit::harness::kafka::Kafka;
use dlo_testkit::harness::nats::Nats;
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use dlo_testkit::harness::redis::Redis;
use dlo_testkit::harness::sqs::Sqs;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use tokio::sync::watch;

use crate::Asked;
use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::record::Parts;

const EVERYWHERE: [u64; 2] = [50, 500];
const FAST: [u64; 3] = [50, 500, 5_000];
/// How long is waited for stragglers after a pause.
const AFTER: Duration = Duration::from_secs(2);

pub(crate) async fn run(asked: Asked<'_>, only: Option<&str>) {
    println!("W5 the pace of a replay, {} s each", asked.seconds);
    let mut figures = Figures {
        mean: Parts::new("rate.mean", "%"),
        second: Parts::new("rate.second", "x"),
        stop: Parts::new("rate.stop", "ms"),
    };
    for kind in ["rabbitmq", "kafka", "redis", "nats", "sqs"] {
        if only.is_none_or(|only| only == kind) {
            let place = Place::new(section(kind).await).await;
            if kind == "kafka" {
                stamp_at_append(&Kafka::shared().await.bootstrap).await;
            }
            let rates: &[u64] = if matches!(kind, "redis" | "nats") { &FAST } else { &EVERYWHERE };
            for rate in rates {
                one(asked, kind, &place, *rate, &mut figures).await;
            }
        }
    }
    for parts in [figures.mean, figures.second, figures.stop] {
        parts.worst();
    }
}

/// What is taken at each rate of each broker; the worst counts.
struct Figures {
    /// Error of the mean, percent.
    mean: Parts<'static>,
    /// The fullest second, to what it may hold.
    second: Parts<'static>,
    /// The last arrival after a pause was answered, milliseconds.
    stop: Parts<'static>,
}

async fn section(kind: &str) -> String {
    match kind {
        "rabbitmq" => format!("kind = \"rabbitmq\"\nurl = \"{}\"", Rabbitmq::shared().await.url()),
        "kafka" => format!("kind = \"kafka\"\nbootstrap = \"{}\"", Kafka::shared().await.bootstrap),
        "redis" => format!("kind = \"redis\"\nurl = \"{}\"", Redis::shared().await.url),
        "nats" => format!("kind = \"nats\"\nservers = [\"{}\"]", Nats::shared().await),
        _ => format!(
            "kind = \"sqs\"\nregion = \"elasticmq\"\nendpoint = \"{}\"\naccess_key_id = \"x\"\nsecret_access_key = \"x\"",
            Sqs::elasticmq().await.endpoint
        ),
    }
}

/// Whose clock a message counts by.
#[derive(Debug, Clone, Copy)]
enum Stamp {
    Broker,
    Arrival,
}

impl Stamp {
    fn of(kind: &str) -> Self {
        if kind == "rabbitmq" { Self::Arrival } else { Self::Broker }
    }
}

/// Unless told, Kafka keeps the time that a producer gave, which says nothing of when the log had the message.
async fn stamp_at_append(bootstrap: &str) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", bootstrap).create().expect("a client");
    let topic =
        AlterConfig::new(ResourceSpecifier::Topic(QUEUE)).set("message.timestamp.type", "LogAppendTime");
    let altered = admin.alter_configs([&topic], &AdminOptions::new()).await.expect("the broker is up");
    for one in altered {
        one.expect("the topic takes the setting");
    }
}

async fn one(asked: Asked<'_>, kind: &str, place: &Place, rate: u64, figures: &mut Figures) {
    let office = Office::start(asked.scratch, &place.section, QUEUE, DEAD);
    // More than are sent, so that a pause has something to stop.
    let letters = rate * (asked.seconds + 10);
    let id = tokio::task::block_in_place(|| {
        office.fill(letters);
        office.plan(&format!("\"rate\":{rate}"), letters)
    });
    let mut source = place.broker.source(QUEUE, "bench").await.expect("join the queue");
    settle_in(place, &mut source).await;
    let (stop, stopped) = watch::channel(false);
    let arrivals = tokio::spawn(arrivals(source, Stamp::of(kind), stopped));
    let answered = tokio::task::block_in_place(|| {
        office.steer(&id, "start");
        std::thread::sleep(Duration::from_secs(asked.seconds));
        office.steer(&id, "pause");
        now()
    });
    tokio::time::sleep(AFTER).await;
    let _ = stop.send(true);
    let arrivals = arrivals.await.expect("the consumer");
    let sent = tokio::task::block_in_place(|| office.sent(&id));
    assert_eq!(arrivals.len() as u64, sent, "{kind} at {rate}/s: arrived, and recorded as sent");
    figures.judge(kind, rate, &arrivals, answered);
}

/// Takes one message first: a consumer that still looks for its place among others would take what gathered meanwhile as one
/// heap, and that is not the replay's doing.
async fn settle_in(place: &Place, source: &mut Box<dyn Source>) {
    let message = Message { payload: Payload::from("first"), ..Message::default() };
    let outgoing = Outgoing { to: Destination::queue(QUEUE), message, delay: None };
    for result in place.broker.publisher().publish(vec![outgoing]).await {
        result.expect("a message is confirmed");
    }
    let came = source.receive(1, Duration::from_secs(60)).await.expect("the broker is up");
    assert_eq!(came.len(), 1, "the first message did not come");
    let settled = came.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
    source.settler().settle(settled).await.expect("the broker is up");
}

/// By the clock of this machine, which is that of the broker as well.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    Timestamp::EPOCH.plus(since)
}

/// When each message came, until it is stopped, in order.
async fn arrivals(
    mut source: Box<dyn Source>,
    stamp: Stamp,
    stopped: watch::Receiver<bool>,
) -> Vec<Timestamp> {
    let settler = source.settler();
    let mut times = Vec::new();
    while !*stopped.borrow() {
        let deliveries = source.receive(1_000, Duration::from_millis(100)).await.expect("the broker is up");
        let now = now();
        times.extend(deliveries.iter().map(|delivery| match stamp {
            Stamp::Broker => delivery.published_at.expect("the broker stamps"),
            Stamp::Arrival => now,
        }));
        let settled: Vec<_> =
            deliveries.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
        if !settled.is_empty() {
            settler.settle(settled).await.expect("the broker is up");
        }
    }
    source.close().await.expect("leave the queue");
    // Partitions are read side by side.
    times.sort_unstable();
    times
}

impl Figures {
    fn judge(&mut self, kind: &str, rate: u64, arrivals: &[Timestamp], answered: Timestamp) {
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            println!("  {kind} at {rate}/s: nothing arrived");
            return;
        };
        let mean = (arrivals.len() - 1) as f64 / last.since(*first).as_secs_f64();
        let (fullest, from) = fullest_second(arrivals);
        let from = arrivals[from].since(*first).as_secs_f64();
        let most = most_in_a_second(rate);
        println!(
            "  {kind} at {rate}/s: {} arrived, mean {mean:.2}/s, fullest second {fullest} of {most} ({from:.1} s after the first)",
            arrivals.len()
        );
        let at = |what: &str| format!("{kind} at {rate}/s: {what}");
        self.mean.part(&at("error of the mean"), (mean / rate as f64 - 1.0).abs() * 100.0);
        self.second.part(&at("fullest second to what it may hold"), fullest as f64 / most as f64);
        let late = last.since(answered).as_secs_f64() * 1e3;
        self.stop.part(&at("last arrival after a pause was answered"), late);
    }
}

/// What any second may hold: two percent over the rate, in whole messages. Below fifty there are no two percent to see, and at
/// fifty they are one message: a second that begins with an arrival and ends just behind another has that one too many.
fn most_in_a_second(rate: u64) -> u64 {
    rate + (rate * 2 / 100).max(1)
}

/// The most arrivals in any second that begins with one, and with which one that is.
fn fullest_second(arrivals: &[Timestamp]) -> (u64, usize) {
    let within = |at: Timestamp| arrivals.partition_point(|other| *other < at.plus(Duration::from_secs(1)));
    let seconds = arrivals.iter().enumerate().map(|(index, at)| ((within(*at) - index) as u64, index));
    seconds.max_by_key(|(count, _)| *count).unwrap_or((0, 0))
}

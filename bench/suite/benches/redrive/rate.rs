//! W5: how exactly a replay keeps its rate, and how soon a pause or another rate is obeyed, seen from the queue.
//!
//! The mean is taken from the first to the last; the worst second is the fullest of all that begin with a message, and so is the
//! worst tenth of one; a pause is timed from the API's answer to the last message. `change` tells how another rate is timed,
//! and `sleeper` stands beside it.

use std::time::Duration;

use dlo_core::time::Timestamp;
use dlo_testkit::harness::kafka::Kafka;
use dlo_testkit::harness::nats::Nats;
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use dlo_testkit::harness::redis::Redis;
use dlo_testkit::harness::sqs::Sqs;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use crate::arrivals::{TOGETHER, Watch, beyond, error_of_mean, fullest, mean, most_in_a_second, now};
use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::record::Parts;
use crate::sleeper::Sleeper;
use crate::{Asked, change};

const EVERYWHERE: [u64; 2] = [50, 500];
const FAST: [u64; 3] = [50, 500, 5_000];
const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn run(asked: Asked<'_>, only: Option<&str>) {
    println!("W5 the pace of a replay, {} s each", asked.seconds);
    let mut figures = Figures {
        mean: Parts::new("rate.mean", "%"),
        second: Parts::new("rate.second", "x"),
        burst: Parts::new("rate.burst", "messages"),
        stop: Parts::new("rate.stop", "ms"),
        change: Parts::new("rate.change", "s"),
    };
    let mut sleeper = Sleeper::new();
    for kind in ["rabbitmq", "kafka", "redis", "nats", "sqs"] {
        if only.is_none_or(|only| only == kind) {
            let place = Place::new(section(kind).await).await;
            if kind == "kafka" {
                stamp_at_append(&Kafka::shared().await.bootstrap).await;
            }
            let rates: &[u64] = if matches!(kind, "redis" | "nats") { &FAST } else { &EVERYWHERE };
            for rate in rates {
                one(asked, kind, &place, *rate, &mut figures).await;
                if kind == "redis" {
                    sleeper.one(asked, &place, &Redis::shared().await.url, *rate).await;
                }
                change::one(asked, kind, &place, *rate, &mut figures.change).await;
            }
        }
    }
    let Figures { mean, second, burst, stop, change } = figures;
    for parts in [mean, second, burst, stop, change] {
        parts.worst();
    }
    sleeper.worst();
}

/// What is taken at each rate of each broker; the worst counts.
struct Figures {
    /// Error of the mean, percent.
    mean: Parts<'static>,
    /// The fullest second, to what it may hold.
    second: Parts<'static>,
    /// Messages of the fullest tenth of a second beyond a tenth of the rate.
    burst: Parts<'static>,
    /// The last arrival after a pause was answered, milliseconds.
    stop: Parts<'static>,
    /// From the asking for another rate until it is kept, seconds.
    change: Parts<'static>,
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
    let watch = Watch::begin(kind, place).await;
    let answered = tokio::task::block_in_place(|| {
        office.steer(&id, "start");
        std::thread::sleep(Duration::from_secs(asked.seconds));
        office.steer(&id, "pause");
        now()
    });
    let arrivals = watch.end().await;
    let sent = tokio::task::block_in_place(|| office.sent(&id));
    assert_eq!(arrivals.len() as u64, sent, "{kind} at {rate}/s: arrived, and recorded as sent");
    figures.judge(kind, rate, &arrivals, answered);
}

impl Figures {
    fn judge(&mut self, kind: &str, rate: u64, arrivals: &[Timestamp], answered: Timestamp) {
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            println!("  {kind} at {rate}/s: nothing arrived");
            return;
        };
        let mean = mean(arrivals);
        let (in_second, from) = fullest(arrivals, SECOND).unwrap_or((0, *first));
        let (in_tenth, _) = fullest(arrivals, TOGETHER).unwrap_or((0, *first));
        let most = most_in_a_second(rate);
        println!(
            "  {kind} at {rate}/s: {} arrived, mean {mean:.2}/s, fullest second {in_second} of {most} ({:.1} s after the first), fullest 100 ms {in_tenth} of {}",
            arrivals.len(),
            from.since(*first).as_secs_f64(),
            rate / 10,
        );
        let at = |what: &str| format!("{kind} at {rate}/s: {what}");
        self.mean.part(&at("error of the mean"), error_of_mean(arrivals, rate));
        self.second.part(&at("fullest second to what it may hold"), in_second as f64 / most as f64);
        self.burst.part(&at("fullest 100 ms beyond the rate"), beyond(arrivals, rate));
        let late = last.since(answered).as_secs_f64() * 1e3;
        self.stop.part(&at("last arrival after a pause was answered"), late);
    }
}

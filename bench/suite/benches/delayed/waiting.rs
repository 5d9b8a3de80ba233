//! The workload: healthy messages, then many that wait, then healthy ones again beside them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Delivery, Destination, Outgoing, Settled, Settlement, Source};
use dlo_core::message::{Headers, Message, Payload};

use crate::{Figures, measure};

pub(crate) const QUEUE: &str = "orders";
pub(crate) const GROUP: &str = "billing";
/// The longest delay that has a place of its own at Kafka and RabbitMQ: nothing comes back while we measure.
pub(crate) const DELAY: Duration = Duration::from_secs(600);
const HEALTHY: u64 = 10_000;
/// Messages of one publish, and of one settling.
const AT_ONCE: u64 = 1_000;
/// Put off before memory is looked at: connections, pools and buffers stand by then.
const WARM: u64 = 5_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// The broker that a `[brokers.x]` section describes.
pub(crate) async fn broker(section: &str) -> Arc<dyn Broker> {
    let config: dlo_brokers::BrokerConfig = toml::from_str(section).expect("settings of a broker");
    dlo_brokers::connect(&config, Arc::new(dlo_testkit::clock::TokioClock::new())).await.expect("a broker")
}

/// What the workload leaves behind: the consumer, while all of them wait.
pub(crate) struct Outstanding {
    pub(crate) count: u64,
    pub(crate) grown_by: f64,
    alone: f64,
    source: Box<dyn Source>,
}

/// Puts off `count` messages, all of which wait when this returns.
pub(crate) async fn put_off(broker: &Arc<dyn Broker>, count: u64) -> Outstanding {
    let mut source = broker.source(QUEUE, GROUP).await.expect("join");
    healthy(broker, &mut source).await;
    let alone = healthy(broker, &mut source).await;
    let warm = WARM.min(count / 2);
    postpone(broker, &mut source, warm).await;
    let before = resident();
    let began = Instant::now();
    postpone(broker, &mut source, count - warm).await;
    let rate = measure::per_second(count - warm, began.elapsed());
    println!("  published, received and put off: {rate:.0} a second");
    let grown_by = resident() - before;
    Outstanding { count, grown_by, alone, source }
}

impl Outstanding {
    /// Prints the figures. `counted`: how many wait by the broker's own count.
    pub(crate) async fn show(
        mut self,
        broker: &Arc<dyn Broker>,
        kind: &str,
        figures: &mut Figures,
        counted: u64,
    ) {
        assert_eq!(counted, self.count, "the broker counts {counted} that wait, {} were put off", self.count);
        let each = self.grown_by / self.count as f64;
        println!("  {counted} wait at the broker; this process grew by {:.1} MB", self.grown_by / 1e6);
        figures.bytes.part(&format!("{kind}: our memory for each that waits"), each);
        let beside = healthy(broker, &mut self.source).await;
        let alone = self.alone;
        println!("  healthy messages: {beside:.0} a second beside them, {alone:.0} before");
        figures.healthy.part(&format!("{kind}: healthy messages beside them, to before"), beside / alone);
        self.source.close().await.expect("leave");
    }
}

fn message(n: u64) -> Message {
    let mut body = format!(r#"{{"id":{n},"order":"ORD-{n:09}","note":""#);
    body.extend(std::iter::repeat_n('n', 1_022_usize.saturating_sub(body.len())));
    body.push_str("\"}");
    let key = Some(Payload::from(format!("C-{}", n % 9_973)));
    Message { key, payload: Payload::from(body), ..Message::default() }
}

async fn publish(broker: &Arc<dyn Broker>, numbers: std::ops::Range<u64>) {
    let to = |n| Outgoing { to: Destination::queue(QUEUE), message: message(n), delay: None };
    for result in broker.publisher().publish(numbers.map(to).collect()).await {
        result.expect("a message is confirmed");
    }
}

/// Publishes `count` messages in batches and answers each delivery by `answer`.
async fn pass(
    broker: &Arc<dyn Broker>,
    source: &mut Box<dyn Source>,
    count: u64,
    answer: impl Fn(Delivery) -> Settled,
) {
    let settler = source.settler();
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        if sent < count {
            let until = (sent + AT_ONCE).min(count);
            publish(broker, sent..until).await;
            sent = until;
        }
        while answered < sent {
            let came = source.receive(AT_ONCE as usize, PATIENCE).await.expect("the broker is up");
            assert!(!came.is_empty(), "{answered} of {sent} came, then nothing");
            answered += came.len() as u64;
            settler.settle(came.into_iter().map(&answer).collect()).await.expect("settle");
        }
    }
}

/// Healthy messages a second.
async fn healthy(broker: &Arc<dyn Broker>, source: &mut Box<dyn Source>) -> f64 {
    let began = Instant::now();
    pass(broker, source, HEALTHY, |delivery| delivery.settle(Settlement::Done)).await;
    measure::per_second(HEALTHY, began.elapsed())
}

async fn postpone(broker: &Arc<dyn Broker>, source: &mut Box<dyn Source>, count: u64) {
    pass(broker, source, count, |delivery| {
        let mut story = Headers::new();
        story.push_text("dlo-attempts", "1");
        story.push_text("dlo-history", r#"[{"attempt":1,"error":"TimeoutError: no answer"}]"#);
        delivery.split().2.again(DELAY, story)
    })
    .await;
}

/// Resident memory of this process in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: Option<f64> = line.split_whitespace().nth(1).and_then(|text| text.parse().ok());
    kilobytes.unwrap_or(f64::NAN) * 1_024.0
}

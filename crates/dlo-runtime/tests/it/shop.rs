//! What the tests share: a queue with its dead-letter queue, and a consumer that runs until a fact holds.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use dlo_brokers::memory::{MemoryBroker, MemoryConfig, QueueOptions};
use dlo_core::broker::{Broker, Destination, Inspect, Outgoing, Publisher, Settlement, Source};
use dlo_core::classify::Unknown;
use dlo_core::envelope::{Envelope, decode};
use dlo_core::failure::Failure;
use dlo_core::message::{Message, Payload};
use dlo_core::policy::{Backoff, RetryPolicy};
use dlo_core::verdict::VerdictKind;
use dlo_runtime::{Consumer, ConsumerBuilder, Controls, Event, Policy, Watch};
use dlo_testkit::clock::TokioClock;
use tokio_util::sync::CancellationToken;

pub(crate) struct Shop {
    pub(crate) broker: MemoryBroker,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) seen: Arc<Seen>,
}

/// A consumer that runs.
pub(crate) struct Begun {
    pub(crate) controls: Controls,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Result<(), dlo_core::broker::BrokerError>>,
}

impl Begun {
    pub(crate) async fn stop(self) {
        // Settlements of what was just counted are on their way.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}

/// Counts what the consumer tells of itself.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) handled: AtomicU32,
    pub(crate) retried: AtomicU32,
    pub(crate) parked: AtomicU32,
    pub(crate) handed_back: AtomicU32,
    pub(crate) story: Mutex<Vec<String>>,
}

impl Watch for Seen {
    fn saw(&self, event: &Event<'_>) {
        let note = |text: String| self.story.lock().unwrap().push(text);
        match event {
            Event::Handled { .. } => drop(self.handled.fetch_add(1, Ordering::SeqCst)),
            Event::Retried { .. } => drop(self.retried.fetch_add(1, Ordering::SeqCst)),
            Event::DeadLettered(_) => drop(self.parked.fetch_add(1, Ordering::SeqCst)),
            Event::Paused { dependency, .. } => note(format!("paused {dependency}")),
            Event::Resumed { dependency } => note(format!("resumed {dependency}")),
            Event::NotWritten { queue, .. } => note(format!("not written {queue}")),
            Event::Braked { .. } => note("braked".to_owned()),
            Event::Released { .. } => note("released".to_owned()),
            Event::MassDeath { .. } => note("mass death".to_owned()),
            Event::HandlerAway { .. } => note("handler away".to_owned()),
            Event::HandlerBack => note("handler back".to_owned()),
            Event::HandlerLost { .. } => note("handler lost".to_owned()),
            Event::Spooled { .. } => note("spooled".to_owned()),
            Event::SpoolEmpty => note("spool empty".to_owned()),
            Event::Skipped { .. } => note("skipped".to_owned()),
            Event::Drained { handed_back } => self.handed_back.store(*handed_back as u32, Ordering::SeqCst),
            _ => {}
        }
    }
}

impl Seen {
    pub(crate) fn handled(&self) -> u32 {
        self.handled.load(Ordering::SeqCst)
    }

    pub(crate) fn parked(&self) -> u32 {
        self.parked.load(Ordering::SeqCst)
    }

    pub(crate) fn story(&self) -> Vec<String> {
        self.story.lock().unwrap().clone()
    }
}

impl Shop {
    pub(crate) fn open() -> Self {
        keep_log();
        let clock = Arc::new(TokioClock::new());
        let broker = MemoryBroker::new(MemoryConfig::default(), clock.clone());
        broker.declare("orders", QueueOptions::default());
        broker.declare("orders.dlq", QueueOptions::default());
        Self { broker, clock, seen: Arc::default() }
    }

    pub(crate) async fn orders(&self, bodies: impl IntoIterator<Item = &str>) {
        let outgoing = bodies.into_iter().map(|body| out(order(body))).collect();
        assert!(self.broker.publish(outgoing).await.iter().all(Result::is_ok));
    }

    pub(crate) fn source(&self) -> Box<dyn Source> {
        Box::new(self.broker.join("orders", "pricing").unwrap())
    }

    /// A consumer of `orders` with the policy of [`calm`].
    pub(crate) fn consumer(&self) -> ConsumerBuilder {
        self.consumer_of(self.source())
    }

    pub(crate) fn consumer_of(&self, source: Box<dyn Source>) -> ConsumerBuilder {
        Consumer::builder(source, Broker::publisher(&self.broker))
            .group("pricing")
            .stateless()
            .policy(calm())
            .clock(self.clock.clone())
            .seed(7)
            .watch(self.seen.clone())
    }

    /// Runs the consumer until `fact` holds, then shuts it down.
    pub(crate) async fn run_until(&self, consumer: ConsumerBuilder, fact: impl Fn(&Seen) -> bool) {
        let stop = CancellationToken::new();
        let running = tokio::spawn(consumer.build().unwrap().run(stop.clone().cancelled_owned()));
        wait_for(|| fact(&self.seen)).await;
        // Settlements of what was just counted are on their way.
        tokio::time::sleep(Duration::from_millis(1)).await;
        stop.cancel();
        running.await.unwrap().unwrap();
    }

    /// Starts the consumer, for a test that looks at it while it runs.
    pub(crate) fn consumer_begun(&self, consumer: ConsumerBuilder) -> Begun {
        let stop = CancellationToken::new();
        let consumer = consumer.build().unwrap();
        let controls = consumer.controls();
        let running = tokio::spawn(consumer.run(stop.clone().cancelled_owned()));
        Begun { stop, running, controls }
    }

    /// Takes every letter out of the dead-letter queue.
    pub(crate) async fn letters(&self) -> Vec<Message> {
        let mut dead = self.broker.join("orders.dlq", "office").unwrap();
        let came = dead.receive(1_000, Duration::ZERO).await.unwrap();
        let letters = came.iter().map(|delivery| delivery.message.clone()).collect();
        let settled = came.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
        dead.settler().settle(settled).await.unwrap();
        letters
    }

    /// Messages of `orders` that pricing has not settled.
    pub(crate) async fn unsettled(&self) -> u64 {
        let state = self.broker.inspect("orders", Some("pricing")).await.unwrap();
        state.depth.unwrap() + state.in_flight.unwrap()
    }
}

/// Waits for a fact, up to ten minutes of paused time.
pub(crate) async fn wait_for(fact: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if fact() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within ten minutes");
}

/// Five attempts, one second apart, one of the retries in place.
pub(crate) fn calm() -> Policy {
    let retry = RetryPolicy {
        backoff: Backoff::Fixed,
        base: Duration::from_secs(1),
        quick: 1,
        ..RetryPolicy::default()
    };
    Policy { retry, unknown: Unknown::DeadLetter, ..Policy::default() }
}

pub(crate) fn order(body: &str) -> Message {
    let mut message = Message {
        key: Some(Payload::from("C-441")),
        payload: Payload::from(body.to_owned()),
        ..Message::default()
    };
    message.headers.push_text("event-type", "order.placed");
    message
}

pub(crate) fn out(message: Message) -> Outgoing {
    Outgoing { to: Destination::queue("orders"), message, delay: None }
}

pub(crate) fn body(message: &Message) -> String {
    String::from_utf8_lossy(&message.payload.0).into_owned()
}

pub(crate) fn story(letter: &Message) -> Envelope {
    decode(&letter.headers).unwrap()
}

pub(crate) fn transient() -> Failure {
    Failure { says: Some(VerdictKind::Retry), ..Failure::new("BusyError", "busy") }
}

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One subscriber for the whole binary, kept from the first test on: one per test would race with callsites that other
/// tests have met without any. Each test has a thread of its own, and so a log of its own.
fn keep_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt().json().with_writer(|| ThreadLog).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// What was logged by this test.
pub(crate) fn logged() -> String {
    LOG.with_borrow(|log| String::from_utf8(log.clone()).unwrap())
}

struct ThreadLog;

impl std::io::Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

//! A dead-letter queue that can be made weaker or broken, an office that can be killed, and what became of the letters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::memory::{MemoryBroker, MemoryConfig};
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, Delivery, Destination, Inspect, OFFICE, Outgoing, Position, Publisher,
    Reader, Seen, Settled, Settler, Source, Topology,
};
use dlo_core::envelope::{Envelope, OriginHeaders, encode};
use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_server::{CaptureSpec, ServerConfig};
use dlo_store::StoreLimits;
use dlo_testkit::faults::{FaultySettler, Script};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::office::{Office, clock};

pub(super) const DLQ: &str = "orders.dlq";

/// The memory broker, as a broker that can do less and fails when told.
#[derive(Debug, Clone)]
pub(super) struct Weak(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: MemoryBroker,
    capabilities: Capabilities,
    /// Messages come without a place of their own, as those of this kind.
    bare: Option<BrokerKind>,
    away: AtomicBool,
    /// Settlements are never answered: whoever waits for one hangs.
    deaf: AtomicBool,
    settling: Script,
    /// Partitions that are told.
    told: AtomicI32,
    records: BTreeMap<String, Message>,
}

pub(super) struct Weakness {
    pub(super) capabilities: fn(&mut Capabilities),
    pub(super) bare: Option<BrokerKind>,
    pub(super) settling: Script,
    pub(super) records: BTreeMap<String, Message>,
}

impl Default for Weakness {
    fn default() -> Self {
        Self { capabilities: |_| {}, bare: None, settling: Script::default(), records: BTreeMap::new() }
    }
}

impl Weak {
    pub(super) fn new(weakness: Weakness) -> Self {
        let memory = MemoryBroker::new(MemoryConfig::default(), clock());
        memory.declare(DLQ, memory.defaults());
        let mut capabilities = Broker::capabilities(&memory).clone();
        (weakness.capabilities)(&mut capabilities);
        Self(Arc::new(Inner {
            memory,
            capabilities,
            bare: weakness.bare,
            away: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            settling: weakness.settling,
            told: AtomicI32::new(i32::MAX),
            records: weakness.records,
        }))
    }

    /// A log: nothing is removed by reading it.
    pub(super) fn log() -> Self {
        Self::new(Weakness { capabilities: |able| able.drain_removes = false, ..Weakness::default() })
    }

    /// A queue whose messages have no coordinates.
    pub(super) fn bare(settling: Script) -> Self {
        Self::new(Weakness { bare: Some(BrokerKind::Rabbitmq), settling, ..Weakness::default() })
    }

    pub(super) fn memory(&self) -> &MemoryBroker {
        &self.0.memory
    }

    pub(super) fn set_away(&self, away: bool) {
        self.0.away.store(away, Ordering::SeqCst);
    }

    pub(super) fn set_deaf(&self, deaf: bool) {
        self.0.deaf.store(deaf, Ordering::SeqCst);
    }

    pub(super) fn tell_partitions(&self, count: i32) {
        self.0.told.store(count, Ordering::SeqCst);
    }

    pub(super) fn spec(&self) -> CaptureSpec {
        CaptureSpec::new("orders", Arc::new(self.clone()), "orders", DLQ)
    }

    pub(super) async fn publish(&self, messages: impl IntoIterator<Item = Message>) {
        let outgoing = messages
            .into_iter()
            .map(|message| Outgoing { to: Destination::queue(DLQ), message, delay: None })
            .collect();
        for confirmed in self.0.memory.publisher().publish(outgoing).await {
            confirmed.unwrap();
        }
    }

    /// Waits until nothing is left in the queue for the office.
    pub(super) async fn until_empty(&self) {
        let mut state = Default::default();
        for _ in 0..600 {
            state = self.0.memory.inspector().inspect(DLQ, Some(OFFICE)).await.unwrap();
            if (state.depth, state.in_flight) == (Some(0), Some(0)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the queue was not emptied: {state:?}");
    }

    fn here(&self) -> Result<(), BrokerError> {
        match self.0.away.load(Ordering::SeqCst) {
            true => Err(BrokerError::Unavailable("restarting".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Broker for Weak {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }
    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        self.here()?;
        self.0.memory.ping().await
    }
    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError> {
        self.here()?;
        let inner = self.0.memory.source(queue, group).await?;
        Ok(Box::new(WeakSource { inner, broker: self.clone() }))
    }
    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        self.here()?;
        let told = self.0.told.load(Ordering::SeqCst);
        Ok(self.0.memory.partitions(queue).await?.into_iter().filter(|at| *at < told).collect())
    }
    async fn reader(
        &self,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        self.here()?;
        self.0.memory.reader(queue, partition, from).await
    }
    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        self.here()?;
        let name = format!("{}/{}", origin.queue, origin.offset.unwrap_or(-1));
        let seen =
            |message: &Message| Seen { message: message.clone(), origin: origin.clone(), published_at: None };
        Ok(self.0.records.get(&name).map(seen))
    }
    fn publisher(&self) -> Arc<dyn Publisher> {
        self.0.memory.publisher()
    }
    fn inspector(&self) -> Arc<dyn Inspect> {
        self.0.memory.inspector()
    }
    fn topology(&self) -> Arc<dyn Topology> {
        self.0.memory.topology()
    }
}

#[derive(Debug)]
struct WeakSource {
    inner: Box<dyn Source>,
    broker: Weak,
}

#[async_trait]
impl Source for WeakSource {
    fn capabilities(&self) -> &Capabilities {
        self.broker.capabilities()
    }
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        self.broker.here()?;
        let mut deliveries = self.inner.receive(max, wait).await?;
        if let Some(kind) = self.broker.0.bare {
            for delivery in &mut deliveries {
                delivery.origin = Origin::queue(kind, DLQ);
                delivery.delivery_count = None;
            }
        }
        Ok(deliveries)
    }
    fn settler(&self) -> Arc<dyn Settler> {
        let script = self.broker.0.settling.clone();
        Arc::new(WeakSettler(FaultySettler::new(self.inner.settler(), script), self.broker.clone()))
    }
    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}

#[derive(Debug)]
struct WeakSettler(FaultySettler, Weak);

#[async_trait]
impl Settler for WeakSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        if self.1.0.deaf.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.0.settle(settled).await
    }
}

/// A dead letter as the runtime parks it.
pub(super) fn parked(offset: i64) -> Message {
    let mut message = Message { payload: Payload::from(format!("{{\"n\":{offset}}}")), ..Message::default() };
    message.key = Some(Payload::from(format!("C-{offset}")));
    message.headers.push_text("event-type", "order.placed");
    let origin = Origin::log(BrokerKind::Memory, "orders", 3, offset);
    let envelope = Envelope {
        reason: Some(Reason::MaxRetriesExceeded),
        error_class: Some("KeyError".into()),
        error_message: Some(format!("pin {offset} not in tax table")),
        attempts: Some(5),
        origin: OriginHeaders::new(&origin, None),
        consumer_group: Some("pricing".into()),
        ..Envelope::default()
    };
    encode(&message, &envelope, 1_000_000).unwrap()
}

/// A message that nobody wrote anything on.
pub(super) fn plain(n: i64) -> Message {
    Message {
        payload: Payload::from(format!("{{\"n\":{n}}}")),
        key: Some(Payload::from(format!("K-{n}"))),
        ..Message::default()
    }
}

pub(super) async fn office(spec: CaptureSpec) -> Office {
    Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.capture(spec)).await
}

/// An office on a runtime of its own: when it is killed, nothing of it runs on.
pub(super) struct Mortal {
    pub(super) office: Office,
    runtime: Runtime,
}

impl Mortal {
    pub(super) async fn start(data: TempDir, spec: CaptureSpec) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let starting = Office::start_in(data, ServerConfig::default(), StoreLimits::default(), |server| {
            server.capture(spec)
        });
        let office = runtime.spawn(starting).await.unwrap();
        Self { office, runtime }
    }

    /// Kills it; what it had stored is left.
    pub(super) async fn kill(self) -> TempDir {
        let Office { data, running, .. } = self.office;
        let runtime = self.runtime;
        let ending = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(20)));
        ending.await.unwrap();
        drop(running);
        data
    }
}

/// Asks until the answer is as expected; a test that fails here says what was last seen.
pub(super) async fn until(office: &Office, path: &str, what: &str, expected: impl Into<Value>) {
    let (expected, mut seen) = (expected.into(), Value::Null);
    for _ in 0..600 {
        seen = office.get(path).await.json();
        if seen.pointer(what) == Some(&expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} never became {expected}: {seen:#}");
}

/// Waits for so many letters, and a moment longer for one too many.
pub(super) async fn until_letters(office: &Office, count: u64) {
    until(office, "/api/v1/stats", "/letters/total", count).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    until(office, "/api/v1/stats", "/letters/total", count).await;
    let verified = office.send("POST", "/api/v1/audit/verify", &[], b"").await.json();
    assert_eq!(verified["problems"], Value::Array(Vec::new()), "conservation");
}

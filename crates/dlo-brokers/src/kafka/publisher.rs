//! Sending: idempotent, confirmed by all in-sync copies, a whole batch under way at once.
//!
//! Nothing is created by sending. A message that nobody confirms is given up after `publish_timeout`, so that a call
//! always ends; its fate is unknown then, and said to be. Keys find their partition as Java's clients find it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer};
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::Notify;

use super::connection::{Cluster, Ears};
use super::record;

pub(super) type Outcome = Result<Confirmed, PublishError>;

/// Bytes that wait for a confirmation at most; more are sent as room is made.
const WAITING_KBYTES: &str = "32768";
const NO_ROOM_PAUSE: Duration = Duration::from_millis(2);
/// What a record costs beside what we count: lengths, offsets, the frame of its batch.
const OVERHEAD: usize = 4_096;
/// A topic that was found is taken to be there for so long: Kafka itself says so when it is not.
const KNOWN: Duration = Duration::from_secs(60);

/// One call of `publish`: where its outcomes gather.
#[derive(Debug)]
pub(super) struct Batch {
    outcomes: Mutex<(Vec<Option<Outcome>>, usize)>,
    complete: Notify,
}

impl Batch {
    pub(super) fn new(count: usize) -> Self {
        let outcomes = Mutex::new(((0..count).map(|_| None).collect(), count));
        Self { outcomes, complete: Notify::new() }
    }

    fn set(&self, at: usize, outcome: Outcome) {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if outcomes.0[at].replace(outcome).is_none() {
            outcomes.1 -= 1;
        }
        if outcomes.1 == 0 {
            self.complete.notify_one();
        }
    }

    pub(super) async fn outcomes(&self) -> Vec<Outcome> {
        loop {
            let complete = self.complete.notified();
            {
                let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                if outcomes.1 == 0 {
                    let lost = || Err(PublishError::Unconfirmed("no answer was kept".to_owned()));
                    return outcomes.0.drain(..).map(|outcome| outcome.unwrap_or_else(lost)).collect();
                }
            }
            complete.await;
        }
    }
}

/// A message on its way out, and its ticket if it is a retry that waits.
pub(super) struct Parcel {
    pub(super) outgoing: Outgoing,
    pub(super) ticket: Option<Vec<u8>>,
}

/// The place of one message in its call.
pub(super) struct Ticket {
    batch: Arc<Batch>,
    at: usize,
    size: usize,
    limit: usize,
}

/// The ears of a producer: it hears of confirmations too.
#[derive(Default)]
pub(super) struct ProducerEars(pub(super) Ears);

impl ClientContext for ProducerEars {
    fn log(&self, level: RDKafkaLogLevel, topic: &str, line: &str) {
        self.0.log(level, topic, line);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext<NoCustomPartitioner> for ProducerEars {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let outcome = match result {
            Ok(record) => {
                Ok(Confirmed { partition: Some(record.partition()), offset: Some(record.offset()) })
            }
            Err((error, record)) => Err(failure(error, record.topic(), ticket.size, ticket.limit)),
        };
        ticket.batch.set(ticket.at, outcome);
    }
}

fn failure(error: &KafkaError, topic: &str, size: usize, limit: usize) -> PublishError {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) => PublishError::TooLarge { size, limit },
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => PublishError::Refused(missing(topic)),
        Some(Code::UnknownPartition) => {
            PublishError::Refused(format!("the topic `{topic}` has no such partition"))
        }
        Some(Code::TopicAuthorizationFailed) => {
            PublishError::Refused(format!("no right to write to the topic `{topic}`"))
        }
        Some(Code::InvalidTopic | Code::InvalidRecord) => {
            PublishError::Refused(format!("`{topic}`: {error}"))
        }
        _ => PublishError::Unconfirmed(error.to_string()),
    }
}

fn missing(topic: &str) -> String {
    format!("there is no topic `{topic}`: create it (`dlo topology apply`), then send again")
}

pub(super) type Sender = ThreadedProducer<ProducerEars>;

/// The sending end of a cluster.
pub(super) struct KafkaPublisher {
    pub(super) cluster: Arc<Cluster>,
    capabilities: Capabilities,
    sender: Mutex<Option<Arc<Sender>>>,
    known: Mutex<HashMap<String, Instant>>,
}

impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl KafkaPublisher {
    pub(super) fn new(cluster: Arc<Cluster>, capabilities: Capabilities) -> Self {
        Self { cluster, capabilities, sender: Mutex::default(), known: Mutex::default() }
    }

    /// The producer; another one if the last cannot go on.
    fn sender(&self) -> Result<Arc<Sender>, String> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender
            && sender.client().fatal_error().is_none()
        {
            return Ok(Arc::clone(sender));
        }
        let made = Sender::from_config_and_context(&self.settings(), ProducerEars::default());
        let made = Arc::new(made.map_err(|error| error.to_string())?);
        *sender = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The settings of whoever sends.
    pub(super) fn settings(&self) -> ClientConfig {
        let config = &self.cluster.config;
        let mut settings = self.cluster.settings();
        settings
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("allow.auto.create.topics", "false")
            .set("topic.metadata.propagation.max.ms", "1000")
            .set("partitioner", "murmur2_random")
            .set(
                "message.timeout.ms",
                config.publish_timeout.0.as_millis().clamp(100, 86_400_000).to_string(),
            )
            .set("message.max.bytes", (config.max_message() + OVERHEAD).to_string())
            .set("queue.buffering.max.kbytes", WAITING_KBYTES);
        if settings.get("linger.ms").is_none() {
            settings.set("linger.ms", "1");
        }
        settings
    }

    /// Which of these topics are not there. What cannot be found out is left to the sending.
    pub(super) async fn absent(&self, parcels: &[Parcel]) -> Vec<String> {
        let mut asked: Vec<String> = Vec::new();
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = |queue: &String| known.get(queue).is_some_and(|at| at.elapsed() < KNOWN);
            for queue in parcels.iter().map(|parcel| &parcel.outgoing.to.queue) {
                if !fresh(queue) && !asked.contains(queue) {
                    asked.push(queue.clone());
                }
            }
        }
        let mut absent = Vec::new();
        for queue in asked {
            let topic = queue.clone();
            match self.cluster.ask(move |cluster, _| cluster.describe(&topic)).await {
                Ok(_) => {
                    let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.retain(|_, at| at.elapsed() < KNOWN);
                    known.insert(queue, Instant::now());
                }
                Err(BrokerError::Missing(_)) => absent.push(queue),
                Err(_) => {}
            }
        }
        absent
    }

    pub(super) fn refusal(&self, outgoing: &Outgoing, absent: &[String]) -> Option<PublishError> {
        if outgoing.delay.is_some() {
            return Some(PublishError::Refused("Kafka cannot put off a publish".to_owned()));
        }
        if absent.contains(&outgoing.to.queue) {
            return Some(PublishError::Refused(missing(&outgoing.to.queue)));
        }
        let (size, limit) = (record::size(&outgoing.message), self.capabilities.max_message);
        (size > limit).then_some(PublishError::TooLarge { size, limit })
    }

    /// Hands one message to a producer; its outcome comes to `batch`.
    pub(super) async fn send(&self, sender: &Sender, parcel: &Parcel, batch: &Arc<Batch>, at: usize) {
        let outgoing = &parcel.outgoing;
        let headers = match record::wire_headers(&outgoing.message.headers, parcel.ticket.as_deref()) {
            Ok(headers) => headers,
            Err(why) => return batch.set(at, Err(PublishError::Refused(why))),
        };
        let (size, limit) = (record::size(&outgoing.message), self.capabilities.max_message);
        let ticket = Box::new(Ticket { batch: Arc::clone(batch), at, size, limit });
        let mut record: BaseRecord<'_, [u8], [u8], Box<Ticket>> =
            BaseRecord::with_opaque_to(&outgoing.to.queue, ticket);
        record.partition = outgoing.to.partition;
        record.key = outgoing.message.key.as_ref().map(|key| &*key.0);
        record.payload = record::wire_value(&outgoing.message);
        record.headers = headers;
        let deadline = Instant::now() + self.cluster.config.publish_timeout.0;
        loop {
            match sender.send(record) {
                Ok(()) => return,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < deadline =>
                {
                    record = back;
                    tokio::time::sleep(NO_ROOM_PAUSE).await;
                }
                Err((error, _)) => {
                    return batch.set(at, Err(failure(&error, &outgoing.to.queue, size, limit)));
                }
            }
        }
    }
}

impl KafkaPublisher {
    /// Sends all and returns one outcome each, in the order given.
    pub(super) async fn send_all(&self, parcels: Vec<Parcel>) -> Vec<Outcome> {
        if parcels.is_empty() {
            return Vec::new();
        }
        let absent = self.absent(&parcels).await;
        let batch = Arc::new(Batch::new(parcels.len()));
        match self.sender() {
            Ok(sender) => {
                for (at, parcel) in parcels.iter().enumerate() {
                    match self.refusal(&parcel.outgoing, &absent) {
                        Some(refusal) => batch.set(at, Err(refusal)),
                        None => self.send(&sender, parcel, &batch, at).await,
                    }
                }
            }
            Err(why) => {
                for at in 0..parcels.len() {
                    batch.set(at, Err(PublishError::Refused(why.clone())));
                }
            }
        }
        batch.outcomes().await
    }
}

#[async_trait]
impl Publisher for KafkaPublisher {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Outcome> {
        self.send_all(messages.into_iter().map(|outgoing| Parcel { outgoing, ticket: None }).collect()).await
    }
}

//! Clients of one cluster: how they are made, what their errors mean, and the one that only looks.
//!
//! librdkafka connects when it must and again when it lost a connection; nothing here waits for a server to be made.
//! Its log lines become ours, and the last complaint is kept: it is often the only place where a reason stands.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use dlo_core::broker::BrokerError;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaErrorCode;

use super::KafkaConfig;
use super::native::{self, TopicDescription};

/// A question to the cluster is given up after this.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The reason of a failure may come a moment later than the failure.
const REASON: Duration = Duration::from_millis(100);

/// A complaint is not kept longer than this many characters.
const COMPLAINT: usize = 400;

const CREDENTIALS: &str = "the cluster does not accept these credentials";

/// What librdkafka said last, beside its errors.
#[derive(Debug, Clone, Default)]
pub(super) struct Complaints(Arc<Mutex<Option<String>>>);

impl Complaints {
    fn note(&self, text: &str) {
        let text = text.chars().take(COMPLAINT).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// `words`, and the last complaint where there is one.
    fn explain(&self, words: &str) -> String {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(complaint) => format!("{words} ({complaint})"),
            None => words.to_owned(),
        }
    }

    /// What must be mended here before the cluster lets us in, if that is what it complains of.
    fn closed_door(&self) -> Option<&'static str> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_deref().and_then(closed_door)
    }
}

/// librdkafka has one code for every lost connection: whether trying again can help stands in its words alone.
fn closed_door(complaint: &str) -> Option<&'static str> {
    let says = |words: &str| complaint.contains(words);
    if says("certificate could not be verified") || says("certificate verify failed") {
        Some("the certificate of the cluster is not trusted: name its authority in `tls.ca`")
    } else if says("alert") && says("certificate") || says("client SSL authentication") {
        Some("the cluster does not accept the certificate of this client: set `tls.cert` and `tls.key`")
    } else if says("uthentication") {
        Some(CREDENTIALS)
    } else {
        None
    }
}

/// The ears of a client.
#[derive(Debug, Clone, Default)]
pub(super) struct Ears {
    pub(super) complaints: Complaints,
}

impl ClientContext for Ears {
    fn log(&self, level: RDKafkaLogLevel, topic: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error => {
                self.complaints.note(line);
                tracing::debug!(target: "kafka", topic, "{line}");
            }
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => {
                tracing::debug!(target: "kafka", topic, "{line}");
            }
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => {
                tracing::trace!(target: "kafka", topic, "{line}");
            }
        }
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        // That all brokers are down is no reason; what went before it may be.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            self.complaints.note(reason);
        }
        tracing::debug!(target: "kafka", %error, "{reason}");
    }
}

impl ConsumerContext for Ears {}

/// What an error of librdkafka means to the caller. `queue` is what it was about.
pub(super) fn broker_error(error: &KafkaError, queue: &str, complaints: &Complaints) -> BrokerError {
    use KafkaError::{AdminOp, ClientConfig, ClientCreation, Nul};
    match error {
        ClientConfig(..) | ClientCreation(_) | Nul(_) => BrokerError::Refused(error.to_string()),
        AdminOp(code) => by_code(*code, queue, complaints),
        other => match other.rdkafka_error_code() {
            Some(code) => by_code(code, queue, complaints),
            None => BrokerError::Unavailable(complaints.explain(&error.to_string())),
        },
    }
}

pub(super) fn by_code(code: RDKafkaErrorCode, queue: &str, complaints: &Complaints) -> BrokerError {
    use RDKafkaErrorCode as Code;
    match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            BrokerError::Missing(queue.to_owned())
        }
        Code::TopicAuthorizationFailed => {
            BrokerError::Refused(format!("no right on the topic `{queue}`: give this user an ACL for it"))
        }
        Code::GroupAuthorizationFailed => BrokerError::Refused(format!(
            "no right on the consumer group that reads `{queue}`: give this user an ACL (Read, Group)"
        )),
        Code::TransactionalIdAuthorizationFailed => BrokerError::Refused(
            "no right on the transactional ids `dlo-replay-*`: give this user an ACL (Write, TransactionalId)".to_owned(),
        ),
        Code::UnsupportedFeature | Code::UnsupportedVersion => {
            BrokerError::Refused(format!("the cluster is too old for this: {code}"))
        }
        Code::ClusterAuthorizationFailed => {
            BrokerError::Refused("no right on the cluster: give this user an ACL for it".to_owned())
        }
        Code::Authentication | Code::SaslAuthenticationFailed => {
            BrokerError::Refused(complaints.explain(CREDENTIALS))
        }
        Code::InvalidTopic => BrokerError::Refused(format!("`{queue}` is no name for a topic")),
        Code::PolicyViolation => {
            BrokerError::Refused(format!("a policy of the cluster forbids it for `{queue}`"))
        }
        other => match complaints.closed_door() {
            Some(why) => BrokerError::Refused(complaints.explain(why)),
            None => BrokerError::Unavailable(complaints.explain(&other.to_string())),
        },
    }
}

/// Lets the client say what it has to say: nobody else polls the one that only looks.
fn hear(lookout: &BaseConsumer<Ears>, patience: Duration) {
    let mut patience = patience;
    while lookout.poll(patience).is_some() {
        patience = Duration::ZERO;
    }
}

/// One cluster, and the client by which it is looked at.
pub(super) struct Cluster {
    pub(super) config: KafkaConfig,
    client: ClientConfig,
    lookout: OnceLock<BaseConsumer<Ears>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Cluster {
    pub(super) fn new(config: KafkaConfig) -> Result<Self, BrokerError> {
        let client = config.client()?;
        Ok(Self { config, client, lookout: OnceLock::new() })
    }

    /// The settings that every client starts from.
    pub(super) fn settings(&self) -> ClientConfig {
        self.client.clone()
    }

    /// The settings of whoever reads: nothing is committed, created or skipped behind our back.
    pub(super) fn reading(&self, group: &str) -> ClientConfig {
        let mut settings = self.settings();
        settings
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed")
            .set("allow.auto.create.topics", "false")
            .set("queued.max.messages.kbytes", (self.config.half_buffer() / 1024).max(1).to_string())
            .set("queued.min.messages", self.config.prefetch.clamp(1, 10_000_000).to_string())
            .set("fetch.message.max.bytes", "1048576")
            .set("fetch.max.bytes", self.config.half_buffer().max(1_048_576).to_string())
            .set("fetch.error.backoff.ms", "100")
            .set("fetch.queue.backoff.ms", "20")
            .set("fetch.wait.max.ms", "250");
        settings
    }

    /// A client of its own, for what cannot be asked through the shared one.
    pub(super) fn client<T>(&self, settings: &ClientConfig, ears: Ears) -> Result<T, BrokerError>
    where
        T: FromClientConfigAndContext<Ears>,
    {
        T::from_config_and_context(settings, ears).map_err(|error| BrokerError::Refused(error.to_string()))
    }

    fn lookout(&self) -> Result<&BaseConsumer<Ears>, BrokerError> {
        if let Some(lookout) = self.lookout.get() {
            return Ok(lookout);
        }
        let mut settings = self.settings();
        settings.set("allow.auto.create.topics", "false").set("isolation.level", "read_committed");
        let made = self.client(&settings, Ears::default())?;
        Ok(self.lookout.get_or_init(|| made))
    }

    /// Runs `question` on a thread that may block.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Arc<Cluster>, &BaseConsumer<Ears>) -> Result<T, BrokerError> + Send + 'static,
    ) -> Result<T, BrokerError> {
        let cluster = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let lookout = cluster.lookout()?;
            hear(lookout, Duration::ZERO);
            question(&cluster, lookout)
        });
        asked.await.unwrap_or_else(|_| Err(BrokerError::Closed))
    }

    /// The topic as the cluster describes it. Blocks.
    pub(super) fn describe(&self, topic: &str) -> Result<TopicDescription, BrokerError> {
        let lookout = self.lookout()?;
        native::describe_topic(lookout.client(), topic, PATIENCE).map_err(|code| {
            hear(lookout, REASON);
            by_code(code, topic, &lookout.context().complaints)
        })
    }

    /// What an error of the shared client means.
    pub(super) fn explain(&self, error: &KafkaError, queue: &str) -> BrokerError {
        match self.lookout.get() {
            Some(lookout) => {
                hear(lookout, REASON);
                broker_error(error, queue, &lookout.context().complaints)
            }
            None => broker_error(error, queue, &Complaints::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trying_again_cannot_mend_is_told_from_what_it_can() {
        let by_words = |words: &str| {
            let complaints = Complaints::default();
            complaints.note(words);
            by_code(RDKafkaErrorCode::BrokerTransportFailure, "q", &complaints)
        };
        for (words, advice) in [
            (
                "SSL handshake failed: certificate verify failed: broker certificate could not be verified",
                "`tls.ca`",
            ),
            ("SSL routines::tlsv13 alert certificate required: SSL alert number 116", "`tls.cert`"),
            ("SSL routines::ssl/tls alert bad certificate: SSL alert number 42", "`tls.cert`"),
            ("SASL authentication error: Authentication failed", "credentials"),
        ] {
            let told = by_words(words);
            assert!(matches!(&told, BrokerError::Refused(why) if why.contains(advice)), "{told:?}");
        }
        let told = by_words("Connect to ipv4#127.0.0.1:9092 failed: Connection refused");
        assert!(matches!(told, BrokerError::Unavailable(_)), "{told:?}");
    }
}

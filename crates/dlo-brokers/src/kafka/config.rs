//! What `[brokers.<name>]` may say of Kafka, and what librdkafka is told.
//!
//! Every setting has a default but `bootstrap`. What is not named here goes to librdkafka through `properties`, except
//! for what the adapter's promises rest on: those are refused by name.

use std::collections::BTreeMap;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::units::{ByteSize, HumanDuration};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// The settings of one Kafka cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// `"host:9092,other:9092"`, or a list of such.
    pub bootstrap: Bootstrap,
    /// How this client calls itself in the cluster's logs, metrics and quotas.
    #[serde(default = "client_id")]
    pub client_id: String,
    /// `tls = {}` for the system's authorities.
    pub tls: Option<TlsConfig>,
    pub sasl: Option<SaslConfig>,
    /// The largest message with key and headers that is sent. Topics must take it (`max.message.bytes`).
    #[serde(default = "max_message")]
    pub max_message: ByteSize,
    /// What one source or reader may hold that nobody has asked for yet: messages, and bytes.
    #[serde(default = "prefetch")]
    pub prefetch: u32,
    #[serde(default = "buffer")]
    pub buffer: ByteSize,
    /// Messages of one source that are delivered and not settled. At this many it delivers no more.
    #[serde(default = "in_flight")]
    pub in_flight: u32,
    /// After this a message that the cluster did not confirm is given up.
    #[serde(default = "publish_timeout")]
    pub publish_timeout: HumanDuration,
    /// How long a member that must give up a partition may finish what it has of it in hand.
    #[serde(default = "handover")]
    pub handover: HumanDuration,
    /// More of librdkafka's own settings, by their names there.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Bootstrap {
    One(String),
    Many(Vec<String>),
}

/// `sasl = { mechanism = "SCRAM-SHA-512", username = "dlo", password = "…" }`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaslConfig {
    pub mechanism: SaslMechanism,
    pub username: String,
    pub password: Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

impl SaslMechanism {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

fn client_id() -> String {
    "dlo".to_owned()
}

/// Below Kafka's own default of 1 MiB for a whole batch, as other clients have it.
const fn max_message() -> ByteSize {
    ByteSize(1_000_000)
}

const fn prefetch() -> u32 {
    10_000
}

const fn buffer() -> ByteSize {
    ByteSize(16 * 1024 * 1024)
}

const fn in_flight() -> u32 {
    50_000
}

const fn publish_timeout() -> HumanDuration {
    HumanDuration(Duration::from_secs(30))
}

const fn handover() -> HumanDuration {
    HumanDuration(Duration::from_secs(30))
}

/// What the promises of this adapter rest on, or what has a setting of its own.
const OURS: [&str; 35] = [
    "acks",
    "allow.auto.create.topics",
    "auto.offset.reset",
    "bootstrap.servers",
    "client.id",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "fetch.message.max.bytes",
    "group.id",
    "group.protocol",
    "isolation.level",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "partitioner",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "request.required.acks",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "transaction.timeout.ms",
    "transactional.id",
];

impl KafkaConfig {
    /// The settings that a bootstrap address alone makes: everything else as it is by default.
    pub fn at(bootstrap: impl Into<String>) -> Self {
        Self {
            bootstrap: Bootstrap::One(bootstrap.into()),
            client_id: client_id(),
            tls: None,
            sasl: None,
            max_message: max_message(),
            prefetch: prefetch(),
            buffer: buffer(),
            in_flight: in_flight(),
            publish_timeout: publish_timeout(),
            handover: handover(),
            properties: BTreeMap::new(),
        }
    }

    pub(super) fn max_message(&self) -> usize {
        usize::try_from(self.max_message.0).unwrap_or(usize::MAX)
    }

    /// Bytes of a source's or reader's buffer: half is kept here, the other half by librdkafka.
    pub(super) fn half_buffer(&self) -> usize {
        usize::try_from(self.buffer.0 / 2).unwrap_or(usize::MAX)
    }

    /// What every client of this cluster shares. Refuses what cannot work, without reaching for a server.
    pub(super) fn client(&self) -> Result<ClientConfig, BrokerError> {
        let mut client = ClientConfig::new();
        client.set_log_level(RDKafkaLogLevel::Info);
        for (name, value) in &self.properties {
            if OURS.contains(&name.as_str()) {
                let why = format!(
                    "`properties.{name}`: the adapter sets it itself; see the settings of the Kafka broker"
                );
                return Err(BrokerError::Refused(why));
            }
            client.set(name, value);
        }
        let servers = match &self.bootstrap {
            Bootstrap::One(servers) => servers.clone(),
            Bootstrap::Many(servers) => servers.join(","),
        };
        if servers.split(',').all(|server| server.trim().is_empty()) {
            let why = "`bootstrap`: expected at least one `host:port` of the cluster".to_owned();
            return Err(BrokerError::Refused(why));
        }
        client.set("bootstrap.servers", servers).set("client.id", &self.client_id);
        // Fast enough to notice a cluster that came back, slow enough not to hammer it.
        client.set("reconnect.backoff.ms", "50").set("reconnect.backoff.max.ms", "2000");
        self.secure(&mut client)?;
        client
            .create_native_config()
            .map_err(|cause| BrokerError::Refused(format!("the settings of the Kafka broker: {cause}")))?;
        Ok(client)
    }

    fn secure(&self, client: &mut ClientConfig) -> Result<(), BrokerError> {
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        client.set("security.protocol", protocol);
        if let Some(sasl) = &self.sasl {
            client
                .set("sasl.mechanism", sasl.mechanism.as_str())
                .set("sasl.username", &sasl.username)
                .set("sasl.password", sasl.password.reveal());
        }
        let Some(tls) = &self.tls else { return Ok(()) };
        // Reads every file once, so that one that is missing is named now and not when the first message comes.
        tls.client()?;
        // Where the system keeps its authorities: the OpenSSL that is built in would look in a place of its own.
        client.set("ssl.ca.location", "probe");
        let files = [
            ("ssl.ca.location", &tls.ca),
            ("ssl.certificate.location", &tls.cert),
            ("ssl.key.location", &tls.key),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                client.set(name, file.to_string_lossy());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> KafkaConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_bootstrap_address_is_a_whole_configuration_and_may_be_a_list() {
        assert_eq!(read("bootstrap = \"a:9092\""), KafkaConfig::at("a:9092"));
        let list = read("bootstrap = [\"a:9092\", \"b:9092\"]").client().unwrap();
        assert_eq!(list.get("bootstrap.servers"), Some("a:9092,b:9092"));
    }

    #[test]
    fn no_address_is_refused() {
        let refusal = read("bootstrap = []").client().unwrap_err().to_string();
        assert!(refusal.contains("bootstrap"), "{refusal}");
    }

    #[test]
    fn what_the_promises_rest_on_cannot_be_overridden() {
        for name in OURS {
            let config = KafkaConfig {
                properties: BTreeMap::from([(name.to_owned(), "1".to_owned())]),
                ..KafkaConfig::at("a:9092")
            };
            let refusal = config.client().unwrap_err().to_string();
            assert!(refusal.contains(name), "{refusal}");
        }
    }

    #[test]
    fn a_property_that_librdkafka_does_not_know_is_refused_by_name() {
        let config = read("bootstrap = \"a:9092\"\n[properties]\n\"fetch.wait.max.mss\" = \"5\"");
        assert!(config.client().unwrap_err().to_string().contains("fetch.wait.max.mss"));
        let config = read("bootstrap = \"a:9092\"\n[properties]\n\"fetch.wait.max.ms\" = \"5\"");
        assert_eq!(config.client().unwrap().get("fetch.wait.max.ms"), Some("5"));
    }

    #[test]
    fn tls_and_sasl_make_the_protocol_and_no_password_is_shown() {
        let config = read(
            "bootstrap = \"a:9092\"\ntls = {}\nsasl = { mechanism = \"SCRAM-SHA-512\", username = \"u\", password = \"hunter2\" }",
        );
        let client = config.client().unwrap();
        assert_eq!(client.get("security.protocol"), Some("sasl_ssl"));
        assert_eq!(client.get("ssl.ca.location"), Some("probe"), "the system's authorities");
        assert_eq!(client.get("sasl.mechanism"), Some("SCRAM-SHA-512"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_of_tls_that_is_not_there_is_named() {
        let config = read("bootstrap = \"a:9092\"\ntls = { ca = \"no-such-ca.pem\" }");
        assert!(config.client().unwrap_err().to_string().contains("no-such-ca.pem"));
    }
}

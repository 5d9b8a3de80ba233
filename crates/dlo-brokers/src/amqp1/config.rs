//! What `[brokers.<name>]` may say of AMQP 1.0, and which settings cannot work.

use dlo_core::broker::BrokerError;
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// How an AMQP 1.0 broker is reached.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amqp1Config {
    /// `amqp://host:5672` or `amqps://host:5671`.
    pub url: String,
    #[serde(default)]
    pub username: Option<String>,
    #[serde(default)]
    pub password: Option<Secret>,
    /// How we say who we are. Unset: `plain` with a user name, `anonymous` without.
    #[serde(default)]
    pub sasl: Option<Sasl>,
    #[serde(default)]
    pub tls: TlsConfig,
    /// Whose extensions may be used.
    #[serde(default)]
    pub flavour: Flavour,
    /// How many messages of one source may be in hand or on the way, unsettled.
    #[serde(default = "default_prefetch")]
    pub prefetch: u32,
    /// Bytes of a whole message. Unset: 8 MiB, and 256 KiB at Service Bus, whose standard tier takes no more.
    #[serde(default)]
    pub max_message: Option<usize>,
}

/// SASL mechanisms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sasl {
    Anonymous,
    Plain,
    #[serde(rename = "scram-sha-1")]
    ScramSha1,
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

/// AMQP 1.0 says nothing of delays, counts, dead letters and administration: there the brokers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// Nothing beyond the standard.
    #[default]
    Generic,
    /// ActiveMQ Artemis: delays, depth and topology by its management address.
    Artemis,
    /// ActiveMQ Classic: delays.
    Activemq,
    /// Azure Service Bus: delays, sequence numbers, dead-letter sub-queues.
    ServiceBus,
}

const LONGEST_PREFETCH: u32 = 10_000;

const fn default_prefetch() -> u32 {
    500
}

impl Amqp1Config {
    /// A broker at `url`, everything else by default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            username: None,
            password: None,
            sasl: None,
            tls: TlsConfig::default(),
            flavour: Flavour::default(),
            prefetch: default_prefetch(),
            max_message: None,
        }
    }

    pub(super) fn max_message(&self) -> usize {
        let by_flavour = match self.flavour {
            Flavour::ServiceBus => 256 * 1024,
            Flavour::Generic | Flavour::Artemis | Flavour::Activemq => 8 * 1024 * 1024,
        };
        self.max_message.unwrap_or(by_flavour)
    }

    pub(super) fn mechanism(&self) -> Sasl {
        match (self.sasl, &self.username) {
            (Some(told), _) => told,
            (None, Some(_)) => Sasl::Plain,
            (None, None) => Sasl::Anonymous,
        }
    }

    /// Refuses what can never work, naming the setting.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let refused = |why: &str| Err(BrokerError::Refused(why.to_owned()));
        if self.prefetch == 0 || self.prefetch > LONGEST_PREFETCH {
            return Err(BrokerError::Refused(format!("`prefetch` must be 1 to {LONGEST_PREFETCH}")));
        }
        if self.max_message() < 1024 {
            return refused("`max_message` must be at least 1024 bytes");
        }
        match self.mechanism() {
            Sasl::Anonymous => Ok(()),
            Sasl::Plain | Sasl::ScramSha1 | Sasl::ScramSha256 | Sasl::ScramSha512 => {
                match (&self.username, &self.password) {
                    (Some(_), Some(_)) => Ok(()),
                    (Some(_), None) => refused("`username` needs its `password`"),
                    (None, _) => refused("this `sasl` mechanism needs `username` and `password`"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Amqp1Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_url_alone_is_an_anonymous_generic_broker() {
        let config = read("url = \"amqp://localhost\"");
        assert_eq!(config, Amqp1Config::new("amqp://localhost"));
        assert_eq!((config.mechanism(), config.flavour), (Sasl::Anonymous, Flavour::Generic));
        config.check().unwrap();
    }

    #[test]
    fn a_user_name_without_its_password_is_refused() {
        let config = read("url = \"amqp://localhost\"\nusername = \"office\"");
        assert!(config.check().unwrap_err().to_string().contains("password"));
    }

    #[test]
    fn flavours_and_mechanisms_have_the_names_of_the_manual() {
        let config = read(
            "url = \"amqps://x.servicebus.windows.net\"\nflavour = \"servicebus\"\nsasl = \"scram-sha-256\"",
        );
        assert_eq!((config.flavour, config.sasl), (Flavour::ServiceBus, Some(Sasl::ScramSha256)));
        assert_eq!(config.max_message(), 256 * 1024);
    }
}

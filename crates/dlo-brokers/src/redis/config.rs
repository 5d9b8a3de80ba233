//! What `[brokers.<name>]` may say of Redis Streams (`kind = "redis"`), for Redis and Valkey alike.

use std::num::NonZeroU32;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::limits;
use dlo_core::units::{ByteSize, HumanDuration};
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// Room for the largest letter with the largest headers and the story of its death.
const MAX_MESSAGE: usize = limits::PAYLOAD + 2 * limits::HEADERS_SIZE;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://user:password@host:port/db`, `rediss://` for TLS, `redis+unix:///path` for a socket. A secret, as it may
    /// hold a password.
    pub url: Secret,
    /// The ACL user and its password, instead of those in the URL.
    pub user: Option<String>,
    pub password: Option<Secret>,
    /// For `rediss://`: authorities and a client certificate.
    pub tls: TlsConfig,
    /// After which time what a consumer holds and does not renew is taken over by another of its group. Sources of
    /// ours renew what they hold; consumers of others do not.
    pub claim_after: HumanDuration,
    /// Entries of one read at most, whatever the caller asks for; as many again may be read ahead.
    pub prefetch: NonZeroU32,
    /// The field that holds the payload. Unset: the first that is there of `payload`, `data`, `body`, `message`, `value`.
    pub payload_field: Option<String>,
    /// The stream of dead letters of a stream: `{stream}` stands for its name.
    pub dead_letters: String,
    /// Deliveries after which a pending entry is moved to the stream of dead letters instead of being delivered again.
    /// Unset: never. It acts only where that stream exists.
    pub max_deliveries: Option<NonZeroU32>,
    /// Groups of consumers that are not ours: while their stream of dead letters is drained, what they leave pending
    /// beyond `max_deliveries` is moved there.
    pub sweep: Vec<Sweep>,
    /// Bytes of a whole message, headers included. Redis itself takes 512 MB a field.
    pub max_message: ByteSize,
}

/// One group whose pending entries are swept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub stream: String,
    pub group: String,
}

const THOUSAND: NonZeroU32 = match NonZeroU32::new(1_000) {
    Some(entries) => entries,
    None => NonZeroU32::MIN,
};

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: Secret::new("redis://127.0.0.1:6379"),
            user: None,
            password: None,
            tls: TlsConfig::default(),
            claim_after: HumanDuration(Duration::from_secs(60)),
            prefetch: THOUSAND,
            payload_field: None,
            dead_letters: "{stream}:dlq".to_owned(),
            max_deliveries: None,
            sweep: Vec::new(),
            max_message: ByteSize(MAX_MESSAGE as u64),
        }
    }
}

impl RedisConfig {
    /// The name of a stream's dead letters.
    pub(super) fn dead_letters_of(&self, stream: &str) -> String {
        self.dead_letters.replace("{stream}", stream)
    }

    /// Refuses what cannot work, with directions.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let refused = |why: &str| Err(BrokerError::Refused(why.to_owned()));
        if !self.dead_letters.contains("{stream}") || self.dead_letters == "{stream}" {
            return refused("`dead_letters`: expected a name with `{stream}` in it, as `{stream}:dlq`");
        }
        if !self.sweep.is_empty() && self.max_deliveries.is_none() {
            return refused("`sweep` needs `max_deliveries`: how often an entry may be delivered");
        }
        if self.payload_field.as_deref().is_some_and(|field| field.is_empty() || field.contains(':')) {
            return refused("`payload_field`: expected the name of a field, without a colon");
        }
        if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&self.claim_after.0) {
            return refused("`claim_after`: expected 100ms to 1d");
        }
        if !(1_024..=512 * 1024 * 1024).contains(&self.max_message.0) {
            return refused("`max_message`: expected 1KiB to 512MiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RedisConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_defaults_are_a_whole_configuration() {
        assert_eq!(read(""), RedisConfig::default());
        RedisConfig::default().check().unwrap();
        assert_eq!(RedisConfig::default().dead_letters_of("orders"), "orders:dlq");
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_name_of_the_setting() {
        for (text, setting) in [
            ("dead_letters = 'dead'", "dead_letters"),
            ("dead_letters = '{stream}'", "dead_letters"),
            ("sweep = [{ stream = 'orders', group = 'g' }]", "max_deliveries"),
            ("payload_field = 'redis:id'", "payload_field"),
            ("max_message = '1b'", "max_message"),
            ("claim_after = '1ms'", "claim_after"),
        ] {
            let refusal = read(text).check().unwrap_err().to_string();
            assert!(refusal.contains(setting), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_password_in_the_url_is_not_shown() {
        let config = read("url = 'redis://office:hunter2@localhost'");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}

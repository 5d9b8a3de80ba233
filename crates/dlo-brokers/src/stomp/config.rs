//! What `[brokers.<name>]` may say of STOMP, and which settings cannot work.

use dlo_core::broker::BrokerError;
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// How an ActiveMQ Classic broker is reached over STOMP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StompConfig {
    /// `stomp://host:61613` or `stomp+ssl://host:61614`.
    pub url: String,
    #[serde(default)]
    pub username: Option<String>,
    #[serde(default)]
    pub password: Option<Secret>,
    #[serde(default)]
    pub tls: TlsConfig,
    /// How many messages of one source may be in hand or on the way, unsettled.
    #[serde(default = "default_prefetch")]
    pub prefetch: u32,
    /// The broker runs with `schedulerSupport="true"`: it can hold messages back. Without it a delay would be ignored.
    #[serde(default)]
    pub scheduler: bool,
    /// The broker runs the `statisticsBrokerPlugin`: queues can be looked at, and a missing one is told from an empty one.
    #[serde(default)]
    pub statistics: bool,
    /// Bytes of a whole message.
    #[serde(default = "default_max_message")]
    pub max_message: usize,
    /// The server is asked to speak at least so often; three times as long a silence means that it is gone. 0: never asked.
    #[serde(default = "default_heart_beat")]
    pub heart_beat_ms: u32,
}

const LONGEST_PREFETCH: u32 = 10_000;

const fn default_prefetch() -> u32 {
    500
}

const fn default_max_message() -> usize {
    8 * 1024 * 1024
}

const fn default_heart_beat() -> u32 {
    30_000
}

impl StompConfig {
    /// A broker at `url`, everything else by default.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            username: None,
            password: None,
            tls: TlsConfig::default(),
            prefetch: default_prefetch(),
            scheduler: false,
            statistics: false,
            max_message: default_max_message(),
            heart_beat_ms: default_heart_beat(),
        }
    }

    /// Refuses what can never work, naming the setting.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let refused = |why: String| Err(BrokerError::Refused(why));
        if self.prefetch == 0 || self.prefetch > LONGEST_PREFETCH {
            return refused(format!("`prefetch` must be 1 to {LONGEST_PREFETCH}"));
        }
        if self.max_message < 1024 {
            return refused("`max_message` must be at least 1024 bytes".to_owned());
        }
        match (&self.username, &self.password) {
            (Some(_), None) => refused("`username` needs its `password`".to_owned()),
            (None, Some(_)) => refused("`password` needs its `username`".to_owned()),
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_alone_is_a_whole_broker_that_promises_no_extensions() {
        let config: StompConfig = toml::from_str("url = \"stomp://localhost\"").unwrap();
        assert_eq!(config, StompConfig::new("stomp://localhost"));
        assert!(!config.scheduler && !config.statistics);
        config.check().unwrap();
    }

    #[test]
    fn a_user_name_without_its_password_is_refused() {
        let config = StompConfig { username: Some("office".to_owned()), ..StompConfig::new("stomp://x") };
        assert!(config.check().unwrap_err().to_string().contains("password"));
    }
}

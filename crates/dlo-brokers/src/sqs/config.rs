//! What `[brokers.<name>]` may say of Amazon SQS, and which of it cannot work.

use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::units::{ByteSize, HumanDuration};
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// Messages of one batch call: the service takes no more.
pub(super) const BATCH: usize = 10;
/// The longest time a message may be hidden, and so the longest delay of a redelivery.
pub(super) const LONGEST_VISIBILITY: Duration = Duration::from_secs(12 * 60 * 60);
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const MOST_PARALLEL: usize = 64;
const LARGEST_MESSAGE: u64 = 1024 * 1024;
const SMALLEST_LIMIT: u64 = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqsConfig {
    /// Unset: as the environment, the profile or the machine says.
    pub region: Option<String>,
    /// Where the service is, if not at the region's public address: a VPC endpoint, or a server for tests.
    pub endpoint: Option<String>,
    /// A pair of keys. Unset: the default chain (environment, profile, web identity, container, instance).
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret>,
    pub session_token: Option<Secret>,
    /// The profile of the shared AWS files.
    pub profile: Option<String>,
    /// Only `ca`: the service knows its clients by their signatures.
    pub tls: TlsConfig,
    /// How long what was received stays hidden from others. Must be longer than the longest handling.
    pub visibility: HumanDuration,
    /// How long a request waits at the server for a message; closing a source may take as long.
    pub wait: HumanDuration,
    /// Requests in flight at once, for each source, settlement and publish.
    pub parallel: usize,
    /// The largest message, attributes included, and the largest batch.
    pub max_message: ByteSize,
}

impl Default for SqsConfig {
    fn default() -> Self {
        Self {
            region: None,
            endpoint: None,
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            profile: None,
            tls: TlsConfig::default(),
            visibility: HumanDuration(Duration::from_secs(60)),
            wait: HumanDuration(Duration::from_secs(5)),
            parallel: 8,
            max_message: ByteSize(256 * 1024),
        }
    }
}

impl SqsConfig {
    /// Refuses what cannot work, by name and with what is expected.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let refuse = |what: String| Err(BrokerError::Refused(what));
        if self.access_key_id.is_some() != self.secret_access_key.is_some() {
            return refuse(
                "`access_key_id` and `secret_access_key` belong together: set both, or none".into(),
            );
        }
        if self.session_token.is_some() && self.access_key_id.is_none() {
            return refuse("`session_token` needs its `access_key_id` and `secret_access_key`".into());
        }
        if self.tls.cert.is_some() || self.tls.key.is_some() {
            return refuse("`tls.cert`: SQS knows its clients by keys or roles, not by certificates".into());
        }
        if let Some(endpoint) = &self.endpoint
            && !(endpoint.starts_with("http://") || endpoint.starts_with("https://"))
        {
            return refuse(format!("`endpoint`: expected a URL such as https://…, found `{endpoint}`"));
        }
        let visibility = self.visibility.0;
        if visibility < Duration::from_secs(1) || visibility > LONGEST_VISIBILITY {
            return refuse(format!("`visibility`: expected 1s to 12h, found {}", self.visibility));
        }
        if self.wait.0 < Duration::from_secs(1) || self.wait.0 > LONGEST_WAIT {
            return refuse(format!("`wait`: expected 1s to 20s, found {}", self.wait));
        }
        if !(1..=MOST_PARALLEL).contains(&self.parallel) {
            return refuse(format!("`parallel`: expected 1 to {MOST_PARALLEL}, found {}", self.parallel));
        }
        if !(SMALLEST_LIMIT..=LARGEST_MESSAGE).contains(&self.max_message.0) {
            return refuse(format!("`max_message`: expected 1KiB to 1MiB, found {}", self.max_message));
        }
        Ok(())
    }

    pub(super) fn max_message(&self) -> usize {
        usize::try_from(self.max_message.0).unwrap_or(usize::MAX)
    }
}

/// Whole seconds, rounded up: the service counts no finer, and nothing may come before its time.
pub(super) fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let config: SqsConfig = toml::from_str(text).unwrap();
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        SqsConfig::default().check().unwrap();
        for (text, named) in [
            ("access_key_id = \"AKIA\"", "secret_access_key"),
            ("session_token = \"t\"", "access_key_id"),
            ("endpoint = \"localhost:9324\"", "endpoint"),
            ("visibility = \"13h\"", "visibility"),
            ("wait = \"1m\"", "wait"),
            ("parallel = 0", "parallel"),
            ("max_message = \"2MiB\"", "max_message"),
            ("tls = { cert = \"c.pem\" }", "tls.cert"),
        ] {
            let said = refusal(text);
            assert!(said.contains(named), "{text}: {said}");
        }
    }

    #[test]
    fn a_secret_does_not_show_in_the_settings() {
        let config: SqsConfig =
            toml::from_str("access_key_id = \"AKIA\"\nsecret_access_key = \"hunter2\"").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn seconds_are_rounded_up() {
        let read = |millis| seconds(Duration::from_millis(millis));
        assert_eq!([read(0), read(1), read(1_000), read(1_001)], [0, 1, 1, 2]);
    }
}

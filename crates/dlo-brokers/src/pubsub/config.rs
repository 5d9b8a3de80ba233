//! What `[brokers.<name>]` may say of Google Pub/Sub, and which of it cannot work.

use std::path::PathBuf;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::units::{ByteSize, HumanDuration};
use serde::Deserialize;

use crate::tls::TlsConfig;

/// Messages, or ids, of one request: the service takes no more.
pub(super) const BATCH: usize = 1_000;
/// The longest deadline of an acknowledgement, and so the longest delay of a redelivery.
pub(super) const LONGEST_DEADLINE: Duration = Duration::from_secs(600);
const SHORTEST_DEADLINE: Duration = Duration::from_secs(10);
const MOST_PARALLEL: usize = 64;
const LARGEST_MESSAGE: u64 = 10_000_000;
const SMALLEST_LIMIT: u64 = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PubsubConfig {
    /// The project whose topics and subscriptions are meant.
    pub project: String,
    /// Where the service is, if not at its public address. `http://…` is an emulator: nobody signs in there. Unset:
    /// `PUBSUB_EMULATOR_HOST` of the environment, else the public address.
    pub endpoint: Option<String>,
    /// A file of credentials (a key of a service account, or what `gcloud` wrote). Unset: the default chain.
    pub credentials: Option<PathBuf>,
    /// Only `ca`: the service knows its clients by their tokens.
    pub tls: TlsConfig,
    /// The lease of subscriptions that are created here. Must be longer than the longest handling.
    pub ack_deadline: HumanDuration,
    /// The longest pause between two polls of a subscription that is empty.
    pub poll: HumanDuration,
    /// Requests in flight at once, for each source, settlement and publish.
    pub parallel: usize,
    /// The largest message, attributes included.
    pub max_message: ByteSize,
}

impl Default for PubsubConfig {
    fn default() -> Self {
        Self {
            project: String::new(),
            endpoint: None,
            credentials: None,
            tls: TlsConfig::default(),
            ack_deadline: HumanDuration(Duration::from_secs(60)),
            poll: HumanDuration(Duration::from_millis(250)),
            parallel: 8,
            max_message: ByteSize(LARGEST_MESSAGE),
        }
    }
}

impl PubsubConfig {
    /// Refuses what cannot work, by name and with what is expected.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let refuse = |what: String| Err(BrokerError::Refused(what));
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte);
        if self.project.is_empty() || !self.project.bytes().all(legal) {
            let found = &self.project;
            return refuse(format!("`project`: expected the id of a Google Cloud project, found `{found}`"));
        }
        if self.tls.cert.is_some() || self.tls.key.is_some() {
            return refuse("`tls.cert`: Pub/Sub knows its clients by tokens, not by certificates".into());
        }
        if let Some(endpoint) = &self.endpoint
            && !(endpoint.starts_with("http://") || endpoint.starts_with("https://"))
        {
            return refuse(format!("`endpoint`: expected a URL such as https://…, found `{endpoint}`"));
        }
        if !(SHORTEST_DEADLINE..=LONGEST_DEADLINE).contains(&self.ack_deadline.0) {
            return refuse(format!("`ack_deadline`: expected 10s to 10m, found {}", self.ack_deadline));
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&self.poll.0) {
            return refuse(format!("`poll`: expected 10ms to 1m, found {}", self.poll));
        }
        if !(1..=MOST_PARALLEL).contains(&self.parallel) {
            return refuse(format!("`parallel`: expected 1 to {MOST_PARALLEL}, found {}", self.parallel));
        }
        if !(SMALLEST_LIMIT..=LARGEST_MESSAGE).contains(&self.max_message.0) {
            return refuse(format!("`max_message`: expected 1KiB to 10mb, found {}", self.max_message));
        }
        Ok(())
    }

    pub(super) fn max_message(&self) -> usize {
        usize::try_from(self.max_message.0).unwrap_or(usize::MAX)
    }
}

/// Whole seconds, rounded up: the service counts no finer, and nothing may come before its time.
pub(super) fn seconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        PubsubConfig { project: "acme-prod".to_owned(), ..PubsubConfig::default() }.check().unwrap();
        for (text, named) in [
            ("", "project"),
            ("project = \"a/b\"", "project"),
            ("project = \"p\"\nendpoint = \"localhost:8085\"", "endpoint"),
            ("project = \"p\"\nack_deadline = \"5s\"", "ack_deadline"),
            ("project = \"p\"\nack_deadline = \"11m\"", "ack_deadline"),
            ("project = \"p\"\npoll = \"1ms\"", "poll"),
            ("project = \"p\"\nparallel = 0", "parallel"),
            ("project = \"p\"\nmax_message = \"11mb\"", "max_message"),
            ("project = \"p\"\ntls = { cert = \"c.pem\" }", "tls.cert"),
        ] {
            let config: PubsubConfig = toml::from_str(text).unwrap();
            let said = config.check().unwrap_err().to_string();
            assert!(said.contains(named), "{text}: {said}");
        }
    }
}

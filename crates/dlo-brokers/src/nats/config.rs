//! What `[brokers.<name>]` may say of NATS JetStream.
//!
//! One way to say who we are, or none: a user with its password, a token, an NKey seed, or a credentials file. What
//! cannot work is refused here, before any server is reached for.

use std::path::PathBuf;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::units::{ByteSize, HumanDuration};
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// What an encoded header may add to a message: the room between what is declared and what the server takes.
const ENCODING_ROOM: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatsConfig {
    /// Any of a cluster; the client learns the others. `tls://` asks for TLS.
    pub servers: Vec<String>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub token: Option<Secret>,
    /// The seed of an NKey (`SU…`), or the file that holds it.
    pub nkey: Option<Secret>,
    pub nkey_file: Option<PathBuf>,
    /// A credentials file (`.creds`): a JWT and its seed.
    pub credentials: Option<PathBuf>,
    pub tls: Option<TlsConfig>,
    /// The JetStream domain, where the account's streams live in another one than the server we talk to.
    pub domain: Option<String>,
    /// What reply subjects begin with, where the user may not subscribe to `_INBOX.>`.
    pub inbox_prefix: Option<String>,
    /// How long a delivery may stay unsettled before the server delivers it again.
    pub ack_wait: HumanDuration,
    /// Messages of one group that may be unsettled at once, those that wait for a delayed redelivery included.
    pub max_ack_pending: u32,
    /// Messages that one source may have on the way or in its buffer. It never asks for more than twice what its
    /// caller takes at a time.
    pub prefetch: u32,
    /// The server's `max_payload`: bytes of a whole message, headers included.
    pub max_payload: ByteSize,
}

impl Default for NatsConfig {
    fn default() -> Self {
        Self {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            user: None,
            password: None,
            token: None,
            nkey: None,
            nkey_file: None,
            credentials: None,
            tls: None,
            domain: None,
            inbox_prefix: None,
            ack_wait: HumanDuration(Duration::from_secs(60)),
            max_ack_pending: 10_000,
            prefetch: 4_096,
            max_payload: ByteSize(1024 * 1024),
        }
    }
}

/// Who we are, as the settings say.
#[derive(Debug, Clone)]
pub(super) enum Identity {
    Nobody,
    User { user: String, password: Secret },
    Token(Secret),
    Nkey(Secret),
    Credentials(Secret),
}

impl NatsConfig {
    /// Bytes of a message that are sure to fit, whatever its headers hold.
    pub(super) fn max_message(&self) -> usize {
        usize::try_from(self.max_payload.0).unwrap_or(usize::MAX) - ENCODING_ROOM
    }

    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let wrong = |setting: &str, expected: &str| {
            Err(BrokerError::Refused(format!("`{setting}` of a nats broker: expected {expected}")))
        };
        if self.servers.is_empty() {
            return wrong("servers", "at least one URL such as `nats://127.0.0.1:4222`");
        }
        if !(1..=65_536).contains(&self.prefetch) {
            return wrong("prefetch", "1 to 65536");
        }
        if !(1..=1_000_000).contains(&self.max_ack_pending) {
            return wrong("max_ack_pending", "1 to 1000000");
        }
        if self.ack_wait.0 < Duration::from_secs(1) {
            return wrong("ack_wait", "at least 1s");
        }
        if self.max_payload.0 < 2 * ENCODING_ROOM as u64 {
            return wrong("max_payload", "at least 32KiB");
        }
        if self
            .domain
            .as_deref()
            .is_some_and(|domain| domain.is_empty() || domain.contains(['.', ' ', '*', '>']))
        {
            return wrong("domain", "a name without dots, spaces and wildcards");
        }
        Ok(())
    }

    /// The one way to say who we are. Files are read here, so that a missing one is refused by name.
    pub(super) fn identity(&self) -> Result<Identity, BrokerError> {
        let given = [
            self.user.is_some() || self.password.is_some(),
            self.token.is_some(),
            self.nkey.is_some(),
            self.nkey_file.is_some(),
            self.credentials.is_some(),
        ];
        if given.iter().filter(|given| **given).count() > 1 {
            return Err(BrokerError::Refused(
                "a nats broker takes one of `user` with `password`, `token`, `nkey`, `nkey_file` and `credentials`"
                    .to_owned(),
            ));
        }
        let read = |setting: &str, file: &PathBuf| match std::fs::read_to_string(file) {
            Ok(text) => Ok(Secret::new(text.trim())),
            Err(cause) => Err(BrokerError::Refused(format!("`{setting}`: {}: {cause}", file.display()))),
        };
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                return Ok(Identity::User { user: user.clone(), password: password.clone() });
            }
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => {
                return Err(BrokerError::Refused("`user` and `password` go together".to_owned()));
            }
        }
        if let Some(token) = &self.token {
            return Ok(Identity::Token(token.clone()));
        }
        if let Some(seed) = &self.nkey {
            return Ok(Identity::Nkey(seed.clone()));
        }
        if let Some(file) = &self.nkey_file {
            return Ok(Identity::Nkey(read("nkey_file", file)?));
        }
        match &self.credentials {
            Some(file) => Ok(Identity::Credentials(read("credentials", file)?)),
            None => Ok(Identity::Nobody),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let config: NatsConfig = toml::from_str(text).unwrap();
        config.check().and_then(|()| config.identity().map(|_| ())).unwrap_err().to_string()
    }

    #[test]
    fn the_kind_alone_is_a_server_on_this_machine() {
        let config: NatsConfig = toml::from_str("").unwrap();
        assert!(config.check().is_ok() && matches!(config.identity(), Ok(Identity::Nobody)));
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (text, named) in [
            ("servers = []", "servers"),
            ("prefetch = 0", "prefetch"),
            ("ack_wait = \"10ms\"", "ack_wait"),
            ("domain = \"a.b\"", "domain"),
            ("user = \"me\"", "password"),
            ("token = \"t\"\nnkey = \"s\"", "nkey_file"),
            ("credentials = \"no-such.creds\"", "no-such.creds"),
        ] {
            assert!(refusal(text).contains(named), "{}", refusal(text));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let config: NatsConfig = toml::from_str("user = \"me\"\npassword = \"hunter2\"").unwrap();
        assert!(!format!("{config:?} {:?}", config.identity()).contains("hunter2"));
    }
}

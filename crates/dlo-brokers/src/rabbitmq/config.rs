//! What `[brokers.<name>]` may say of RabbitMQ, and the one address that it amounts to.
//!
//! Either `url`, as every AMQP client takes it, or its parts. Both are read into lapin's own address here, so that
//! nothing below this file parses settings. Passwords are never shown: not in `Debug`, not in a refusal.

use std::num::NonZeroU16;
use std::sync::Arc;

use dlo_core::broker::BrokerError;
use dlo_core::limits;
use lapin::uri::{AMQPAuthority, AMQPScheme, AMQPUri, AMQPUserInfo};
use rustls::ClientConfig;
use serde::Deserialize;
use url::Url;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// Deliveries that one consumer holds unsettled at most: enough to keep the wire busy while a batch is stored.
const PREFETCH: NonZeroU16 = match NonZeroU16::new(2_000) {
    Some(prefetch) => prefetch,
    None => NonZeroU16::MIN,
};
/// Room for the largest letter with its headers; far below the server's own limit (128 MiB by default).
const MAX_MESSAGE: usize = limits::PAYLOAD + 2 * limits::HEADERS_SIZE;
/// The largest message that any supported server takes.
const SERVER_MAX_MESSAGE: usize = 512 * 1024 * 1024;
/// Seconds between heartbeats: a peer that vanished is noticed in about twice that.
const HEARTBEAT: u16 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RabbitmqConfig {
    /// `amqp://user:password@host:port/vhost`, or `amqps://`. Takes the place of the five settings below.
    pub url: Option<Secret>,
    pub host: Option<String>,
    pub port: Option<u16>,
    /// `/` unless set.
    pub vhost: Option<String>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// Set, even if empty: TLS with the system's authorities and what it names.
    pub tls: Option<TlsConfig>,
    /// The management plugin's URL (`http://user:password@host:15672`). Without user, that of the connection. Only with
    /// it can policies, the age of the oldest message and what others hold be seen.
    pub management: Option<Secret>,
    /// Deliveries that one consumer holds unsettled at most.
    pub prefetch: NonZeroU16,
    /// Bytes of the largest message that is sent. Not above the server's `max_message_size`.
    pub max_message: usize,
    /// What the queues are: quorum queues count deliveries, classic ones do not.
    pub queue_type: QueueType,
}

impl Default for RabbitmqConfig {
    fn default() -> Self {
        Self {
            url: None,
            host: None,
            port: None,
            vhost: None,
            username: None,
            password: None,
            tls: None,
            management: None,
            prefetch: PREFETCH,
            max_message: MAX_MESSAGE,
            queue_type: QueueType::Quorum,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueType {
    Quorum,
    Classic,
}

/// Where the server is and how it is spoken to. No `Debug`: lapin's address shows its password.
pub(super) struct Address {
    pub(super) uri: AMQPUri,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Address {
    /// The server in words, without user or password.
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.uri.authority.host, self.uri.authority.port)
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({}, vhost {})", self.shown(), self.uri.vhost)
    }
}

impl RabbitmqConfig {
    /// The address, or what is wrong with the settings.
    pub(super) fn address(&self) -> Result<Address, BrokerError> {
        if self.max_message == 0 || self.max_message > SERVER_MAX_MESSAGE {
            return Err(refused(format!(
                "`max_message`: expected 1 to {SERVER_MAX_MESSAGE} bytes, found {}",
                self.max_message
            )));
        }
        let mut uri = match &self.url {
            Some(url) => self.read_url(url)?,
            None => self.read_parts(),
        };
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        // The port of TLS is another one; who names TLS without a port means that.
        let tls = match (&uri.scheme, &self.tls) {
            (AMQPScheme::AMQP, None) => None,
            (AMQPScheme::AMQPS, None) => Some(TlsConfig::default().client()?),
            (AMQPScheme::AMQP | AMQPScheme::AMQPS, Some(tls)) => Some(tls.client()?),
        };
        // TLS is laid over the connection by us; for lapin every wire is a plain one.
        uri.scheme = AMQPScheme::AMQP;
        Ok(Address { uri, tls })
    }

    fn read_url(&self, url: &Secret) -> Result<AMQPUri, BrokerError> {
        let parts = [
            ("host", self.host.is_some()),
            ("port", self.port.is_some()),
            ("vhost", self.vhost.is_some()),
            ("username", self.username.is_some()),
            ("password", self.password.is_some()),
        ];
        if let Some((name, _)) = parts.iter().find(|(_, set)| *set) {
            return Err(refused(format!(
                "`url` and `{name}` are both set: put it into the url, or leave the url out"
            )));
        }
        // The refusals of the parsers repeat the text, password included; ours do not.
        let directions = || {
            refused(
                "`url`: expected amqp://user:password@host:port/vhost (or amqps://), percent-encoded".into(),
            )
        };
        let parsed = Url::parse(url.reveal()).map_err(|_| directions())?;
        let mut uri: AMQPUri = url.reveal().parse().map_err(|_| directions())?;
        // lapin takes an IPv6 host for none.
        if let Some(host) = parsed.host_str() {
            uri.authority.host = host.trim_matches(['[', ']']).to_owned();
        }
        Ok(uri)
    }

    fn read_parts(&self) -> AMQPUri {
        let scheme = if self.tls.is_some() { AMQPScheme::AMQPS } else { AMQPScheme::AMQP };
        let default = AMQPUserInfo::default();
        AMQPUri {
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: self.username.clone().unwrap_or(default.username),
                    password: self
                        .password
                        .as_ref()
                        .map_or(default.password, |secret| secret.reveal().to_owned()),
                },
                host: self.host.clone().unwrap_or_else(|| "localhost".to_owned()),
                port: self.port.unwrap_or_else(|| scheme.default_port()),
            },
            vhost: self.vhost.clone().unwrap_or_else(|| "/".to_owned()),
            scheme,
            ..AMQPUri::default()
        }
    }
}

fn refused(why: String) -> BrokerError {
    BrokerError::Refused(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RabbitmqConfig {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn parts_and_url_are_the_same_address() {
        let url = read("url = \"amqp://me:p%40ss@mq.example:5673/orders\"").address().unwrap();
        let parts = read(
            "host = \"mq.example\"\nport = 5673\nvhost = \"orders\"\nusername = \"me\"\npassword = \"p@ss\"",
        );
        assert_eq!(url.uri, parts.address().unwrap().uri);
    }

    #[test]
    fn no_setting_at_all_is_the_server_on_this_machine() {
        let address = RabbitmqConfig::default().address().unwrap();
        assert_eq!((address.shown().as_str(), address.uri.vhost.as_str()), ("localhost:5672", "/"));
    }

    #[test]
    fn tls_moves_to_its_own_port_and_an_ipv6_host_stays() {
        assert_eq!(read("host = \"mq\"\ntls = {}").address().unwrap().shown(), "mq:5671");
        let address = read("url = \"amqp://[::1]:5672/%2f\"").address().unwrap();
        assert_eq!(address.uri.authority.host, "::1");
    }

    #[test]
    fn nothing_shows_the_password() {
        let config = read("url = \"amqp://me:hunter2@mq/%2f\"\nmanagement = \"http://me:hunter2@mq:15672\"");
        let shown = format!("{config:?} {:?}", config.address().unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        let refusal = read("url = \"http://me:hunter2@mq/\"").address().unwrap_err().to_string();
        assert!(refusal.contains("amqp://") && !refusal.contains("hunter2"), "{refusal}");
    }

    #[test]
    fn a_url_beside_its_parts_is_refused_by_name() {
        let refusal = read("url = \"amqp://mq\"\nvhost = \"orders\"").address().unwrap_err().to_string();
        assert!(refusal.contains("`vhost`"), "{refusal}");
    }
}

//! The way to the server: one TCP or TLS stream, SASL, one connection and one session on it.
//!
//! Every source, the publisher and the management client have a connection each: one that breaks takes only its own
//! with it. TLS is ours, on the stream below the AMQP client.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::sasl_profile::{SaslProfile, SaslScramSha1, SaslScramSha256, SaslScramSha512};
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::{Connection, Session};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use super::config::{Amqp1Config, Sasl};
use super::errors;

/// Reaching the server and being let in takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A server that says nothing for so long is gone.
const IDLE_MILLIS: u32 = 30_000;

/// Knows how to reach one server.
pub(super) struct Connector {
    pub(super) config: Amqp1Config,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connector({}:{})", self.host, self.port)
    }
}

/// An open connection with its session. Dropping it closes both.
#[derive(Debug)]
pub(super) struct Line {
    // Before the connection: ended first.
    pub(super) session: SessionHandle<()>,
    pub(super) connection: ConnectionHandle<()>,
}

impl Line {
    pub(super) fn is_up(&self) -> bool {
        !self.connection.is_closed() && !self.session.is_ended()
    }

    /// Says goodbye, and does not wait long for the answer.
    pub(super) async fn close(mut self) {
        let _ = tokio::time::timeout(PATIENCE, self.session.end()).await;
        let _ = tokio::time::timeout(PATIENCE, self.connection.close()).await;
    }
}

impl Connector {
    pub(super) fn new(config: &Amqp1Config) -> Result<Self, BrokerError> {
        config.check()?;
        let refused = |why: &str| BrokerError::Refused(format!("`url`: {why}"));
        let url = Url::parse(&config.url).map_err(|cause| refused(&cause.to_string()))?;
        let (secure, port) = match url.scheme() {
            "amqp" => (false, 5672),
            "amqps" => (true, 5671),
            _ => return Err(refused("expected amqp://host:port or amqps://host:port")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("put the user into `username` and `password`, not into the URL"));
        }
        let host = url.host_str().ok_or_else(|| refused("the host is missing"))?.to_owned();
        let tls = match secure {
            true => {
                let name = ServerName::try_from(host.clone()).map_err(|cause| refused(&cause.to_string()))?;
                Some((TlsConnector::from(config.tls.client()?), name))
            }
            false => None,
        };
        Ok(Self { config: config.clone(), host, port: url.port().unwrap_or(port), tls })
    }

    /// Opens a connection and a session, or says why not within ten seconds.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Line, BrokerError> {
        match tokio::time::timeout(PATIENCE, self.open_patiently()).await {
            Ok(opened) => opened,
            Err(_) => Err(self.unavailable(&format!("no answer within {PATIENCE:?}"))),
        }
    }

    async fn open_patiently(&self) -> Result<Line, BrokerError> {
        let stream = TcpStream::connect((&*self.host, self.port))
            .await
            .map_err(|cause| self.unavailable(&cause.to_string()))?;
        let _ = stream.set_nodelay(true);
        let builder = Connection::builder()
            .container_id(format!("dlo-{:016x}", rand::random::<u64>()))
            .hostname(&*self.host)
            // The stream below is already as secure as it gets: `amqps` would begin TLS again.
            .scheme("amqp")
            .idle_time_out(IDLE_MILLIS)
            .sasl_profile(self.profile());
        let opened = match &self.tls {
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                builder.open_with_stream(stream.map_err(|cause| self.no_tls(&cause))?).await
            }
            None => builder.open_with_stream(stream).await,
        };
        let mut connection = opened.map_err(|cause| errors::opening(cause, &self.to_string()))?;
        let session = Session::begin(&mut connection)
            .await
            .map_err(|cause| self.unavailable(&format!("no session: {cause}")))?;
        Ok(Line { session, connection })
    }

    fn profile(&self) -> SaslProfile {
        let config = &self.config;
        let username = config.username.clone().unwrap_or_default();
        let password = config.password.as_ref().map(|secret| secret.reveal().to_owned()).unwrap_or_default();
        match config.mechanism() {
            Sasl::Anonymous => SaslProfile::Anonymous,
            Sasl::Plain => SaslProfile::Plain { username, password },
            Sasl::ScramSha1 => SaslScramSha1::new(username, password).into(),
            Sasl::ScramSha256 => SaslScramSha256::new(username, password).into(),
            Sasl::ScramSha512 => SaslScramSha512::new(username, password).into(),
        }
    }

    pub(super) fn unavailable(&self, why: &str) -> BrokerError {
        BrokerError::Unavailable(format!("{self}: {why}"))
    }

    /// A certificate that does not fit is nothing that waiting would mend.
    fn no_tls(&self, cause: &std::io::Error) -> BrokerError {
        match cause.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
            true => {
                BrokerError::Refused(format!("{self}: TLS: {cause}; see `tls.ca`, `tls.cert` and `tls.key`"))
            }
            false => self.unavailable(&format!("TLS: {cause}")),
        }
    }
}

impl std::fmt::Display for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

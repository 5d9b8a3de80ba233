//! Connections to one server, opened when they are first needed and again when they broke, and what errors mean.
//!
//! Consuming and publishing have a connection each: a server that is short of memory stops reading from
//! publishers, and acknowledgements must not wait behind that. Many channels share a connection. An attempt to
//! connect, and every single question, is bounded in time.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::tcp::{AMQPUriTcpExt, RustlsConnector};
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind};
use tokio::sync::Mutex;

use super::config::Address;

/// The longest that opening a connection may take, name lookup and TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest that a server may take to answer one question.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// One connection, or the way to have one.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    /// As the server's own tools show it.
    name: &'static str,
    open: Mutex<Option<Connection>>,
}

impl Link {
    pub(super) fn new(address: Arc<Address>, name: &'static str) -> Self {
        Self { address, name, open: Mutex::new(None) }
    }

    /// A fresh channel; connects first where there is no connection, once.
    pub(super) async fn channel(&self) -> Result<Channel, BrokerError> {
        let mut open = self.open.lock().await;
        if let Some(connection) = open.as_ref().filter(|connection| connection.status().connected())
            && let Ok(channel) = answered(connection.create_channel()).await
        {
            return Ok(channel);
        }
        *open = None;
        let connection = self.connect().await?;
        let channel = answered(connection.create_channel()).await?;
        *open = Some(connection);
        Ok(channel)
    }

    /// The server was silent on this connection: who comes next opens another. What may explain it, in words.
    pub(super) async fn distrust(&self) -> &'static str {
        let silent = self.open.lock().await.take();
        match silent.is_some_and(|connection| connection.status().blocked()) {
            true => ": the server holds publishers up, it is short of memory or disk",
            false => "",
        }
    }

    async fn connect(&self) -> Result<Connection, BrokerError> {
        let properties = ConnectionProperties::default().with_connection_name(self.name.into());
        let runtime = lapin::runtime::default_runtime().map_err(|error| failure(&error))?;
        let tls = self.address.tls.clone();
        let connecting = Connection::connector(
            self.address.uri.clone(),
            runtime,
            async move |uri, runtime| {
                let wire = AMQPUriTcpExt::connect_async(&uri, &runtime).await?;
                match &tls {
                    None => Ok(wire),
                    Some(tls) => {
                        let connector = RustlsConnector::from(Arc::clone(tls));
                        Ok(wire.into_rustls(&connector, &uri.authority.host).await?)
                    }
                }
            },
            properties,
        );
        match tokio::time::timeout(CONNECT, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.at(failure(&error))),
            Err(_) => Err(self.at(BrokerError::Unavailable(format!("no connection within {CONNECT:?}")))),
        }
    }

    /// The same error, with the server it is about.
    fn at(&self, error: BrokerError) -> BrokerError {
        let server = self.address.shown();
        match error {
            BrokerError::Unavailable(why) => BrokerError::Unavailable(format!("{server}: {why}")),
            BrokerError::Refused(why) => BrokerError::Refused(format!("{server}: {why}")),
            other => other,
        }
    }
}

/// Waits for an answer of the server, not for ever.
pub(super) async fn answered<T>(
    question: impl Future<Output = Result<T, lapin::Error>>,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(ANSWER, question).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => Err(BrokerError::Unavailable(format!("no answer within {ANSWER:?}"))),
    }
}

/// What there is to do about an error: wait, create the queue, or change the settings.
pub(super) fn failure(error: &lapin::Error) -> BrokerError {
    match error.kind() {
        ErrorKind::ProtocolError(told) => told_by_the_server(told),
        ErrorKind::InvalidProtocolVersion(_) | ErrorKind::AuthProviderError(_) => {
            BrokerError::Refused(error.to_string())
        }
        ErrorKind::IOError(cause) if is_about_certificates(cause) => BrokerError::Refused(format!(
            "TLS: {cause}; name the server's authority in `tls.ca`, and the server as its certificate does"
        )),
        _ => BrokerError::Unavailable(error.to_string()),
    }
}

fn told_by_the_server(error: &AMQPError) -> BrokerError {
    let text = error.get_message().to_string();
    match error.kind() {
        AMQPErrorKind::Soft(soft) => match soft {
            AMQPSoftError::NOTFOUND => match missing_queue(&text) {
                Some(queue) => BrokerError::Missing(queue),
                // A queue whose node is away, or one that is just being recovered.
                None => BrokerError::Unavailable(text),
            },
            AMQPSoftError::ACCESSREFUSED => BrokerError::Refused(format!(
                "{text}; check user, password and permissions of the virtual host"
            )),
            AMQPSoftError::CONTENTTOOLARGE
            | AMQPSoftError::NOROUTE
            | AMQPSoftError::NOCONSUMERS
            | AMQPSoftError::RESOURCELOCKED
            | AMQPSoftError::PRECONDITIONFAILED => BrokerError::Refused(text),
        },
        AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
            BrokerError::Refused(format!("{text}; check the virtual host and who may use it"))
        }
        AMQPErrorKind::Hard(_) => BrokerError::Unavailable(text),
    }
}

/// The name in `NOT_FOUND - no queue 'orders' in vhost '/'`.
fn missing_queue(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("no queue '")?;
    rest.split_once("' in vhost").map(|(name, _)| name.to_owned())
}

fn is_about_certificates(cause: &std::io::Error) -> bool {
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.is_some_and(|tls| {
        matches!(
            tls,
            rustls::Error::InvalidCertificate(_)
                | rustls::Error::AlertReceived(_)
                | rustls::Error::NoCertificatesPresented
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: u16, text: &str) -> BrokerError {
        told_by_the_server(&AMQPError::from_id(id, text.into()).unwrap())
    }

    #[test]
    fn what_the_server_says_becomes_what_there_is_to_do() {
        let missing = told(404, "NOT_FOUND - no queue 'a b' in vhost '/'");
        assert!(matches!(missing, BrokerError::Missing(name) if name == "a b"));
        let away = told(
            404,
            "NOT_FOUND - home node 'n@h' of durable queue 'q' in vhost '/' is down or inaccessible",
        );
        assert!(away.is_transient(), "{away}");
        assert!(matches!(told(403, "ACCESS_REFUSED - Login was refused"), BrokerError::Refused(_)));
        assert!(matches!(told(530, "NOT_ALLOWED - vhost x not found"), BrokerError::Refused(_)));
        assert!(told(320, "CONNECTION_FORCED - broker forced connection closure").is_transient());
    }
}

//! One connection for everything, opened when it is first needed.
//!
//! The client reconnects by itself, with growing pauses, and takes its subscriptions along. While it is away callers
//! wait here, as long as they were told, and then hear [`BrokerError::Unavailable`]. A client that ended for good is
//! replaced by a new one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use dlo_core::broker::BrokerError;
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::time::Instant;

use super::config::{Identity, NatsConfig};
use crate::backoff::Backoff;

/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(5);
/// A server that answers no ping for two of these is gone.
const PING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) config: NatsConfig,
    identity: Identity,
    tls: Arc<ClientConfig>,
    client: tokio::sync::Mutex<Option<Client>>,
    /// Counts what happens to the connection, so that whoever waits looks again.
    events: watch::Sender<u64>,
    /// The last thing the server complained of: a missing right shows nowhere else.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Connection {
    pub(super) fn new(config: NatsConfig) -> Result<Self, BrokerError> {
        config.check()?;
        let identity = config.identity()?;
        let tls = config.tls.clone().unwrap_or_default().client()?;
        let connection = Self {
            config,
            identity,
            tls,
            client: tokio::sync::Mutex::default(),
            events: watch::Sender::new(0),
            complaint: Arc::default(),
        };
        connection.options()?;
        Ok(connection)
    }

    fn options(&self) -> Result<ConnectOptions, BrokerError> {
        let (events, complaint) = (self.events.clone(), Arc::clone(&self.complaint));
        let mut options = ConnectOptions::new()
            .name("dead letter office")
            .connection_timeout(CONNECT)
            .ping_interval(PING)
            .request_timeout(None)
            .max_reconnects(None)
            // Whatever is asked for at once fits: nothing is dropped on our side.
            .subscription_capacity(self.config.prefetch as usize * 2 + super::volley::ROUND)
            .tls_client_config(ClientConfig::clone(&self.tls))
            .reconnect_delay_callback(|attempts| {
                let mut backoff = Backoff::default();
                (0..attempts.min(10)).map(|_| backoff.next()).last().unwrap_or_default()
            })
            .event_callback(move |event| {
                note(&event, &complaint);
                events.send_modify(|count| *count = count.wrapping_add(1));
                std::future::ready(())
            });
        if self.config.tls.is_some() {
            options = options.require_tls(true);
        }
        if let Some(prefix) = &self.config.inbox_prefix {
            options = options.custom_inbox_prefix(prefix);
        }
        match &self.identity {
            Identity::Nobody => Ok(options),
            Identity::User { user, password } => {
                Ok(options.user_and_password(user.clone(), password.reveal().to_owned()))
            }
            Identity::Token(token) => Ok(options.token(token.reveal().to_owned())),
            Identity::Nkey(seed) => Ok(options.nkey(seed.reveal().to_owned())),
            // The client looks for whole lines, and the last one may have lost its end on the way.
            Identity::Credentials(text) => {
                options.credentials(&format!("{}\n", text.reveal())).map_err(|cause| {
                    BrokerError::Refused(format!("`credentials` holds no JWT with its seed: {cause}"))
                })
            }
        }
    }

    /// A client that is connected, within `wait`.
    pub(super) async fn client(&self, wait: Duration) -> Result<Client, BrokerError> {
        let deadline = Instant::now() + wait;
        let mut backoff = Backoff::default();
        loop {
            let mut events = self.events.subscribe();
            let failure = match self.current().await {
                Ok(client) if client.connection_state() == State::Connected => return Ok(client),
                Ok(_) => self.away("reconnecting"),
                Err(refused @ BrokerError::Refused(_)) => return Err(refused),
                Err(other) => other,
            };
            let now = Instant::now();
            if now >= deadline {
                return Err(failure);
            }
            let pause = (now + backoff.next()).min(deadline);
            let _ = tokio::time::timeout_at(pause, events.changed()).await;
        }
    }

    async fn current(&self) -> Result<Client, BrokerError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = &*slot {
            return Ok(client.clone());
        }
        let attempt = self.options()?.connect(self.config.servers.as_slice());
        let client = match tokio::time::timeout(CONNECT, attempt).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(self.refusal(&error)),
            Err(_) => return Err(self.away("no answer")),
        };
        *slot = Some(client.clone());
        Ok(client)
    }

    /// Gives up a client whose task has ended, so that the next caller opens another.
    pub(super) async fn forget(&self) {
        self.client.lock().await.take();
    }

    fn refusal(&self, error: &async_nats::ConnectError) -> BrokerError {
        match error.kind() {
            ConnectErrorKind::ServerParse => BrokerError::Refused(format!(
                "`servers`: expected URLs such as `nats://127.0.0.1:4222`, found {:?}: {error}",
                self.config.servers
            )),
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                BrokerError::Refused(format!(
                    "the server does not let us in: {error}; see `user`, `password`, `token`, `nkey` and \
                     `credentials` of this broker"
                ))
            }
            ConnectErrorKind::Dns
            | ConnectErrorKind::TimedOut
            | ConnectErrorKind::Tls
            | ConnectErrorKind::Io
            | ConnectErrorKind::MaxReconnects => self.away(&chain(error)),
        }
    }

    /// Out of reach, with the last thing the server complained of.
    pub(super) fn away(&self, why: &str) -> BrokerError {
        let servers =
            self.config.servers.iter().map(|server| without_userinfo(server)).collect::<Vec<_>>().join(", ");
        let complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        BrokerError::Unavailable(match &*complaint {
            Some(complaint) => format!("NATS at {servers}: {why}; the server last said: {complaint}"),
            None => format!("NATS at {servers}: {why}"),
        })
    }
}

fn note(event: &Event, complaint: &Mutex<Option<String>>) {
    let said = match event {
        Event::ServerError(error) => Some(error.to_string()),
        Event::Connected => None,
        Event::SlowConsumer(_)
        | Event::ClientError(_)
        | Event::Disconnected
        | Event::LameDuckMode
        | Event::Draining
        | Event::Closed => return,
    };
    *complaint.lock().unwrap_or_else(PoisonError::into_inner) = said;
}

/// A URL without what stands before its `@`: it may hold a password.
fn without_userinfo(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, host)| host)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        assert_eq!(without_userinfo("nats://me:hunter2@host:4222"), "host:4222");
        assert_eq!(without_userinfo("nats://host:4222"), "nats://host:4222");
    }
}

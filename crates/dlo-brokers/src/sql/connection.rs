//! Reaching the database: the URL, TLS, and a limit to every wait for an answer.
//!
//! Certificates are verified whenever TLS is used. What stays on this machine goes without, unless `tls` is set.

use std::time::Duration;

use dlo_core::broker::BrokerError;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::SqlConfig;
use super::errors::told;
use crate::tls::TlsConfig;

/// How long the server may think about one statement.
const ANSWER: Duration = Duration::from_secs(30);
const CONNECTING: Duration = Duration::from_secs(10);

pub(super) struct Connector {
    config: Config,
    /// `None`: no TLS.
    tls: Option<MakeRustlsConnect>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connector({})", self.config.get_dbname().unwrap_or_default())
    }
}

impl Connector {
    pub(super) fn new(settings: &SqlConfig) -> Result<Self, BrokerError> {
        let mut config: Config = settings.url.reveal().parse().map_err(|_| {
            BrokerError::Refused(
                "`url` is no PostgreSQL URL; expected postgres://user:password@host:5432/name, with \
                 ?sslmode=disable, prefer or require"
                    .to_owned(),
            )
        })?;
        if config.get_application_name().is_none() {
            config.application_name("dlo");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECTING);
        }
        if config.get_ssl_mode() == SslMode::Prefer {
            if settings.tls != TlsConfig::default() {
                config.ssl_mode(SslMode::Require);
            } else if is_local(&config) {
                config.ssl_mode(SslMode::Disable);
            }
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new((*settings.tls.client()?).clone())),
        };
        Ok(Self { config, tls })
    }

    /// A connection of its own, ended when the client is dropped: an open transaction is rolled back with it.
    pub(super) async fn open(&self) -> Result<Client, BrokerError> {
        let reach = async {
            match &self.tls {
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
            }
        };
        answer(reach, "connecting").await
    }

    /// The user as whom we come, for commands that grant rights.
    pub(super) fn user(&self) -> &str {
        self.config.get_user().unwrap_or("the user")
    }
}

/// Waits for an answer, but not for ever.
pub(super) async fn answer<T>(
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    what: &str,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(told(&error, what)),
        Err(_) => Err(BrokerError::Unavailable(format!("{what}: no answer in {} s", ANSWER.as_secs()))),
    }
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        Host::Unix(_) => true,
    })
}

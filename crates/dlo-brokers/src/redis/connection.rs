//! How the server is reached: address, TLS, credentials; and what its errors mean.
//!
//! A [`Door`] opens connections. A [`Link`] keeps one open: it is opened when first needed and again after it broke.
//! Blocking reads have a link of their own, everything else shares one, as commands of many tasks are pipelined on it.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, Value,
};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::config::RedisConfig;

/// How long connecting may take, with everything that belongs to it.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one answer may take. Blocking reads are cut into slices far below it.
const ANSWER: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Door {
    address: ConnectionAddr,
    login: RedisConnectionInfo,
    tls: Option<Arc<ClientConfig>>,
}

impl Door {
    /// Reads the settings. Reaches for no server.
    pub(super) fn new(config: &RedisConfig) -> Result<Self, BrokerError> {
        // The cause is not shown: it could repeat the URL, and the URL may hold a password.
        let info = config.url.reveal().into_connection_info().map_err(|_| {
            BrokerError::Refused(
                "`url`: expected redis://[user:password@]host[:port][/db], rediss:// for TLS, or redis+unix:///path"
                    .to_owned(),
            )
        })?;
        let mut login = info.redis_settings().clone();
        if let Some(user) = &config.user {
            login = login.set_username(user);
        }
        if let Some(password) = &config.password {
            login = login.set_password(password.reveal());
        }
        let address = info.addr().clone();
        let tls = match &address {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(BrokerError::Refused(
                    "`url`: `#insecure` is not supported; name the server's authority in `tls.ca`".to_owned(),
                ));
            }
            ConnectionAddr::TcpTls { .. } => Some(config.tls.client()?),
            _ if config.tls != crate::tls::TlsConfig::default() => {
                return Err(BrokerError::Refused("`tls` is set: `url` must begin with rediss://".to_owned()));
            }
            _ => None,
        };
        Ok(Self { address, login, tls })
    }

    async fn open(&self) -> Result<Wire, BrokerError> {
        match tokio::time::timeout(CONNECT, self.connect()).await {
            Ok(opened) => opened,
            Err(_) => {
                Err(BrokerError::Unavailable(format!("{} did not answer in {CONNECT:?}", self.address)))
            }
        }
    }

    async fn connect(&self) -> Result<Wire, BrokerError> {
        match (&self.address, &self.tls) {
            (ConnectionAddr::TcpTls { host, port, .. }, Some(tls)) => {
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| BrokerError::Refused(format!("`url`: {host} is no name for TLS")))?;
                let stream = self.tcp(host, *port).await?;
                let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                self.greet(stream.map_err(|cause| self.away(&cause))?).await
            }
            (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }, _) => {
                self.greet(self.tcp(host, *port).await?).await
            }
            (ConnectionAddr::Unix(path), _) => {
                self.greet(UnixStream::connect(path).await.map_err(|cause| self.away(&cause))?).await
            }
            (other, _) => {
                Err(BrokerError::Refused(format!("`url`: {other} is no address that is supported")))
            }
        }
    }

    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, BrokerError> {
        let stream = TcpStream::connect((host, port)).await.map_err(|cause| self.away(&cause))?;
        stream.set_nodelay(true).map_err(|cause| self.away(&cause))?;
        Ok(stream)
    }

    /// Authenticates and chooses the database.
    async fn greet(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Wire, BrokerError> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER));
        let opened = MultiplexedConnection::new_with_config(&self.login, stream, config).await;
        let (connection, driver) = opened.map_err(|error| trouble(&error))?;
        Ok(Wire { connection, _driver: Arc::new(AbortOnDropHandle::new(tokio::spawn(driver))) })
    }

    fn away(&self, cause: &dyn std::fmt::Display) -> BrokerError {
        BrokerError::Unavailable(format!("{}: {cause}", self.address))
    }
}

/// An open connection. Its driver ends with the last clone.
#[derive(Clone)]
struct Wire {
    connection: MultiplexedConnection,
    _driver: Arc<AbortOnDropHandle<()>>,
}

/// One connection that is opened again when it broke.
pub(super) struct Link {
    door: Arc<Door>,
    open: Mutex<(u64, Option<Wire>)>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("address", &self.door.address).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(door: Arc<Door>) -> Self {
        Self { door, open: Mutex::default() }
    }

    /// Another link through the same door.
    pub(super) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.door))
    }

    /// Opens the connection if it is not, and says how many were opened before and with it.
    pub(super) async fn opened(&self) -> Result<u64, BrokerError> {
        self.wire().await.map(|(number, _)| number)
    }

    async fn wire(&self) -> Result<(u64, Wire), BrokerError> {
        let mut open = self.open.lock().await;
        if let Some(wire) = &open.1 {
            return Ok((open.0, wire.clone()));
        }
        let wire = self.door.open().await?;
        *open = (open.0 + 1, Some(wire.clone()));
        Ok((open.0, wire))
    }

    /// Forgets the connection with that number; the next command opens another.
    async fn forget(&self, number: u64) {
        let mut open = self.open.lock().await;
        if open.0 == number {
            open.1 = None;
        }
    }

    /// Sends one command.
    pub(super) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failure> {
        let (number, mut wire) = self.wire().await.map_err(Failure::Broker)?;
        match command.query_async(&mut wire.connection).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(number, error).await),
        }
    }

    /// Sends commands in one round trip. Their answers may be errors, each its own.
    pub(super) async fn pipeline(&self, pipeline: &mut Pipeline) -> Result<Vec<Value>, BrokerError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        pipeline.ignore_errors();
        let (number, mut wire) = self.wire().await?;
        match pipeline.query_async(&mut wire.connection).await {
            Ok(answers) => Ok(answers),
            Err(error) => Err(self.failed(number, error).await.into()),
        }
    }

    async fn failed(&self, number: u64, error: RedisError) -> Failure {
        // What the server answered says nothing against the connection; whatever else happened does.
        if error.code().is_none() {
            self.forget(number).await;
        }
        Failure::Server(error)
    }
}

/// Why a command failed: the code of a server's answer is worth a look before it becomes a [`BrokerError`].
#[derive(Debug)]
pub(super) enum Failure {
    Broker(BrokerError),
    Server(RedisError),
}

impl Failure {
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Broker(_) => None,
            Self::Server(error) => error.code(),
        }
    }
}

impl From<Failure> for BrokerError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Broker(error) => error,
            Failure::Server(error) => trouble(&error),
        }
    }
}

/// What an error means to the caller.
pub(super) fn trouble(error: &RedisError) -> BrokerError {
    match error.code() {
        Some(code) => answered(code, error.detail()),
        None => match error.kind() {
            ErrorKind::AuthenticationFailed => BrokerError::Refused(
                "user or password is wrong: see `user`, `password` or those in `url`".to_owned(),
            ),
            ErrorKind::InvalidClientConfig => BrokerError::Refused(error.to_string()),
            _ => BrokerError::Unavailable(error.to_string()),
        },
    }
}

/// What an error that the server answered means to the caller.
pub(super) fn answered(code: &str, detail: Option<&str>) -> BrokerError {
    // Some answers repeat the arguments of the command, and these may be of a payload.
    let detail = detail.unwrap_or_default();
    let text = detail.split("with args").next().unwrap_or_default().trim_end_matches([',', ' ']);
    match code {
        "NOAUTH" | "WRONGPASS" => {
            BrokerError::Refused(format!("{code} {text}: see `user`, `password` or those in `url`"))
        }
        "NOPERM" => BrokerError::Refused(format!(
            "NOPERM {text}: grant it with ACL SETUSER; the rights needed stand in docs/reference/brokers/redis.md"
        )),
        "WRONGTYPE" => BrokerError::Refused(format!("WRONGTYPE {text}: the key is not a stream")),
        "MOVED" | "ASK" | "CROSSSLOT" => BrokerError::Refused(format!(
            "{code}: this is a node of a Redis Cluster, which is not supported; name a server that is not in cluster mode"
        )),
        "OOM" | "LOADING" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY"
        | "NOREPLICAS" | "MISCONF" | "UNBLOCKED" => BrokerError::Unavailable(format!("{code} {text}")),
        _ => BrokerError::Refused(format!("{code} {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use crate::tls::TlsConfig;

    fn refusal(url: &str, tls: TlsConfig) -> String {
        let config = RedisConfig { url: Secret::new(url), tls, ..RedisConfig::default() };
        Door::new(&config).unwrap_err().to_string()
    }

    #[test]
    fn a_url_that_cannot_work_is_refused_without_showing_it() {
        let refusal = refusal("http://me:hunter2@host", TlsConfig::default());
        assert!(refusal.contains("`url`") && !refusal.contains("hunter2"), "{refusal}");
    }

    #[test]
    fn tls_without_a_tls_url_and_tls_without_a_check_are_refused() {
        let tls = TlsConfig { ca: Some("ca.pem".into()), ..TlsConfig::default() };
        assert!(refusal("redis://host", tls).contains("rediss://"));
        assert!(refusal("rediss://host/#insecure", TlsConfig::default()).contains("tls.ca"));
    }

    #[test]
    fn an_answer_that_repeats_arguments_does_not_show_them() {
        let shown = answered("ERR", Some("unknown command 'XADD', with args beginning with: 's3cret'"));
        assert_eq!(shown.to_string(), "the broker refused: ERR unknown command 'XADD'");
    }

    #[test]
    fn what_passes_is_transient_and_what_stays_is_not() {
        assert!(answered("OOM", None).is_transient() && answered("LOADING", None).is_transient());
        assert!(!answered("NOPERM", None).is_transient() && !answered("WRONGTYPE", None).is_transient());
    }
}

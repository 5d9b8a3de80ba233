//! One STOMP connection: the greeting, a task that writes, a task that reads and sorts what comes.
//!
//! Frames of one connection are handled in their order, so the receipt of the last one confirms all before it. A broken
//! connection fails everybody who waits for a receipt, and ends the stream of messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use dlo_core::broker::BrokerError;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::config::StompConfig;
use super::frame::{Frame, parse};

/// Reaching the server and being let in, and any single receipt, takes no longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Pieces that may wait to be written.
const OUTGOING: usize = 64;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Knows how to reach one server.
pub(super) struct Connector {
    pub(super) config: StompConfig,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connector({self})")
    }
}

impl std::fmt::Display for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What a frame that asked for a receipt came to.
pub(super) type Receipt = Result<(), Failure>;

/// Why there is no receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The broker answered with an error.
    Refused(String),
    /// The connection ended first.
    Lost(String),
}

#[derive(Debug, Default)]
struct Waiting {
    receipts: HashMap<String, oneshot::Sender<Receipt>>,
    lost: Option<String>,
}

/// An open connection. Dropping it closes the stream.
#[derive(Debug)]
pub(super) struct Line {
    out: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    /// What the server calls itself.
    pub(super) server: Option<String>,
    _writer: AbortOnDropHandle<()>,
    _reader: AbortOnDropHandle<()>,
}

impl Connector {
    pub(super) fn new(config: &StompConfig) -> Result<Self, BrokerError> {
        config.check()?;
        let refused = |why: &str| BrokerError::Refused(format!("`url`: {why}"));
        let url = Url::parse(&config.url).map_err(|cause| refused(&cause.to_string()))?;
        let (secure, port) = match url.scheme() {
            "stomp" | "tcp" => (false, 61613),
            "stomp+ssl" | "ssl" => (true, 61614),
            _ => return Err(refused("expected stomp://host:port or stomp+ssl://host:port")),
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

    /// Connects and is let in, or says why not within ten seconds. Messages go to `messages`.
    pub(super) async fn open(&self, messages: mpsc::UnboundedSender<Frame>) -> Result<Line, BrokerError> {
        match tokio::time::timeout(PATIENCE, self.greet()).await {
            Ok(Ok(greeted)) => Ok(self.line(greeted, messages)),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(self.unavailable(&format!("no answer within {PATIENCE:?}"))),
        }
    }

    async fn greet(&self) -> Result<Greeted, BrokerError> {
        let lost = |cause: std::io::Error| self.unavailable(&cause.to_string());
        let stream = TcpStream::connect((&*self.host, self.port)).await.map_err(lost)?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match &self.tls {
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                Box::new(stream.map_err(|cause| self.no_tls(&cause))?)
            }
            None => Box::new(stream),
        };
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut hello = Vec::new();
        self.hello().write(&mut hello);
        writer.write_all(&hello).await.map_err(lost)?;
        writer.flush().await.map_err(lost)?;
        let mut buffer = BytesMut::new();
        let answer = loop {
            if let Some(frame) = parse(&mut buffer).map_err(|cause| self.unavailable(&cause.to_string()))? {
                break frame;
            }
            if reader.read_buf(&mut buffer).await.map_err(lost)? == 0 {
                return Err(self.unavailable("closed while greeting; is this a STOMP port?"));
            }
        };
        match &*answer.command {
            "CONNECTED" => Ok(Greeted { reader, writer, buffer, answer }),
            "ERROR" => Err(self.not_let_in(&answer)),
            _ => Err(BrokerError::Refused(format!("{self}: this is no STOMP server"))),
        }
    }

    fn hello(&self) -> Frame {
        let config = &self.config;
        let mut hello = Frame::new("CONNECT")
            .with("accept-version", "1.2")
            .with("host", self.host.clone())
            .with("heart-beat", format!("0,{}", config.heart_beat_ms));
        if let (Some(username), Some(password)) = (&config.username, &config.password) {
            hello = hello.with("login", username.clone()).with("passcode", password.reveal());
        }
        hello
    }

    fn line(&self, greeted: Greeted, messages: mpsc::UnboundedSender<Frame>) -> Line {
        let Greeted { reader, writer, buffer, answer } = greeted;
        let (out, outgoing) = mpsc::channel(OUTGOING);
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let silence = silence(&answer, self.config.heart_beat_ms);
        let sorter = Sorter { waiting: Arc::clone(&waiting), messages, silence };
        Line {
            out,
            waiting,
            next: AtomicU64::new(0),
            server: answer.header("server").map(str::to_owned),
            _writer: AbortOnDropHandle::new(tokio::spawn(write(writer, outgoing))),
            _reader: AbortOnDropHandle::new(tokio::spawn(sorter.run(reader, buffer))),
        }
    }

    pub(super) fn unavailable(&self, why: &str) -> BrokerError {
        BrokerError::Unavailable(format!("{self}: {why}"))
    }

    fn not_let_in(&self, answer: &Frame) -> BrokerError {
        let text = answer.header("message").unwrap_or("no reason given");
        BrokerError::Refused(format!("{self}: {text}; see `username` and `password`"))
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

struct Greeted {
    reader: ReadHalf<Box<dyn Stream>>,
    writer: WriteHalf<Box<dyn Stream>>,
    buffer: BytesMut,
    answer: Frame,
}

/// How long the server may say nothing: three times what both agreed on.
fn silence(answer: &Frame, asked: u32) -> Option<Duration> {
    let offered = answer.header("heart-beat")?.split(',').next()?.trim().parse::<u32>().ok()?;
    let agreed = offered.max(asked);
    (offered > 0 && asked > 0).then(|| Duration::from_millis(u64::from(agreed)) * 3)
}

impl Line {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    pub(super) fn is_up(&self) -> bool {
        self.waiting().lost.is_none()
    }

    pub(super) fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks for a receipt of `frame`; it comes after everything that was written before.
    pub(super) fn with_receipt(&self, frame: Frame) -> (Frame, oneshot::Receiver<Receipt>) {
        let id = format!("r{}", self.next());
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        match &waiting.lost {
            Some(why) => {
                let _ = sender.send(Err(Failure::Lost(why.clone())));
            }
            None => {
                waiting.receipts.insert(id.clone(), sender);
            }
        }
        drop(waiting);
        (frame.with("receipt", id), receiver)
    }

    /// Hands frames to the wire, all in one piece.
    pub(super) async fn write(&self, frames: &[Frame]) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for frame in frames {
            frame.write(&mut bytes);
        }
        self.out.send(bytes).await.map_err(|_| {
            Failure::Lost(self.waiting().lost.clone().unwrap_or_else(|| "the connection is gone".to_owned()))
        })
    }

    /// Writes frames and waits for the receipt of the last one.
    pub(super) async fn tell(&self, mut frames: Vec<Frame>) -> Receipt {
        let Some(last) = frames.pop() else { return Ok(()) };
        let (last, receipt) = self.with_receipt(last);
        frames.push(last);
        self.write(&frames).await?;
        match tokio::time::timeout(PATIENCE, receipt).await {
            Ok(Ok(receipt)) => receipt,
            Ok(Err(_)) => Err(Failure::Lost("the connection is gone".to_owned())),
            Err(_) => Err(Failure::Lost(format!("no receipt within {PATIENCE:?}"))),
        }
    }
}

impl Failure {
    pub(super) fn into_error(self, connector: &Connector) -> BrokerError {
        match self {
            Self::Refused(why) => BrokerError::Refused(format!("{connector}: {why}")),
            Self::Lost(why) => connector.unavailable(&why),
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write(mut writer: WriteHalf<Box<dyn Stream>>, mut outgoing: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = outgoing.recv().await {
        // A wire that cannot be written to is noticed by the reader, who tells everybody.
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
        if outgoing.is_empty() && writer.flush().await.is_err() {
            return;
        }
    }
}

/// Reads frames and gives each to who waits for it.
struct Sorter {
    waiting: Arc<Mutex<Waiting>>,
    messages: mpsc::UnboundedSender<Frame>,
    silence: Option<Duration>,
}

impl Sorter {
    async fn run(self, mut reader: ReadHalf<Box<dyn Stream>>, mut buffer: BytesMut) {
        let why = loop {
            match parse(&mut buffer) {
                Ok(Some(frame)) => {
                    if let Err(why) = self.sort(frame) {
                        break why;
                    }
                    continue;
                }
                Ok(None) => {}
                Err(malformed) => break malformed.to_string(),
            }
            let read = reader.read_buf(&mut buffer);
            let read = match self.silence {
                Some(silence) => match tokio::time::timeout(silence, read).await {
                    Ok(read) => read,
                    Err(_) => break format!("it said nothing for {silence:?}"),
                },
                None => read.await,
            };
            match read {
                Ok(0) => break "it closed the connection".to_owned(),
                Ok(_) => {}
                Err(cause) => break cause.to_string(),
            }
        };
        let mut waiting = lock(&self.waiting);
        for (_, receipt) in waiting.receipts.drain() {
            let _ = receipt.send(Err(Failure::Lost(why.clone())));
        }
        waiting.lost = Some(why);
    }

    fn sort(&self, frame: Frame) -> Result<(), String> {
        let answered = frame.header("receipt-id").and_then(|id| lock(&self.waiting).receipts.remove(id));
        match &*frame.command {
            "MESSAGE" => {
                let _ = self.messages.send(frame);
                Ok(())
            }
            "RECEIPT" => {
                if let Some(receipt) = answered {
                    let _ = receipt.send(Ok(()));
                }
                Ok(())
            }
            "ERROR" => {
                let text = frame.header("message").unwrap_or("an error without a reason").to_owned();
                match answered {
                    Some(receipt) => {
                        let _ = receipt.send(Err(Failure::Refused(text)));
                        Ok(())
                    }
                    None => Err(text),
                }
            }
            _ => Ok(()),
        }
    }
}

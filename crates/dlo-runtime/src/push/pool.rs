//! Connections to one server, kept alive: one request at a time on each, as many as there are messages in hand.
//!
//! A connection has no task of its own: whoever uses it drives it, so a request costs no hop between tasks. One that
//! idles is closed after [`IDLE`], before the server's own timeout can meet our next request half-way. Only a
//! request of which certainly no byte was written goes out again, on a new connection; any other that gets no
//! answer is lost, and its message a suspect.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::task::noop_waker_ref;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::target::{Target, Wire};

/// How long a connection may idle. Gunicorn closes after 2 s, Node and uvicorn after 5 s.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// How long a new connection may take at most. Where an attempt has less time it is half of that, so that a handler that
/// is not there is not taken for a slow one.
const CONNECT: Duration = Duration::from_secs(5);
/// Connections that are made at once, and how long each keeps the next one waiting. A handler has room for so many that it has
/// not accepted yet (often 128), and what comes beyond is tried again by the system after a whole second.
const OPENING: usize = 16;
const APART: Duration = Duration::from_millis(1);
/// Bytes of an answer that are read; the rest is ignored, with its connection.
pub(super) const MOST_BODY: usize = 64 * 1024;

/// An answer, as far as it is read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// No connection: nobody has seen the request.
    Absent(String),
    /// The connection went while the handler may have had the request.
    Lost(String),
}

#[derive(Debug)]
pub(super) struct Pool {
    target: Target,
    idle: Mutex<Idle>,
    opening: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The last used is at the end and is used first.
    connections: Vec<(Instant, Open)>,
    /// Somebody looks after them.
    tended: bool,
}

/// A connection with both its ends: where requests go in, and what moves bytes.
#[derive(Debug)]
struct Open {
    sender: SendRequest<Full<Bytes>>,
    driver: Connection<TokioIo<Wire>, Full<Bytes>>,
    ended: bool,
}

impl Pool {
    pub(super) fn new(target: Target) -> Arc<Self> {
        Arc::new(Self { target, idle: Mutex::default(), opening: Arc::new(Semaphore::new(OPENING)) })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Sends the request and reads its answer; a new connection may take `connect` at most. Dropping this closes the
    /// connection it used.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
        connect: Duration,
    ) -> Result<Answer, NoAnswer> {
        if let Some(mut open) = self.take() {
            match open.exchange(request).await {
                Ok(answered) => return Ok(self.finish(open, answered)),
                Err(Failed::Lost(cause)) => return Err(NoAnswer::Lost(cause)),
                Err(Failed::Unsent(back)) => request = *back,
            }
        }
        let mut open = self.connect(connect).await.map_err(NoAnswer::Absent)?;
        match open.exchange(request).await {
            Ok(answered) => Ok(self.finish(open, answered)),
            Err(Failed::Lost(cause)) => Err(NoAnswer::Lost(cause)),
            Err(Failed::Unsent(_)) => {
                Err(NoAnswer::Absent("it closes connections before it reads from them".to_owned()))
            }
        }
    }

    async fn connect(&self, within: Duration) -> Result<Open, String> {
        let until = Instant::now() + within.min(CONNECT);
        let turn = tokio::time::timeout_at(until, Arc::clone(&self.opening).acquire_owned()).await;
        let turn = turn.map_err(|_| "it takes no connections".to_owned())?;
        let wire = self.target.connect(until.saturating_duration_since(Instant::now())).await?;
        tokio::spawn(async move {
            tokio::time::sleep(APART).await;
            drop(turn);
        });
        let made = http1::Builder::new().handshake(TokioIo::new(wire)).await;
        let (sender, driver) = made.map_err(|cause| cause.to_string())?;
        Ok(Open { sender, driver, ended: false })
    }

    /// An idle connection that is still open, as far as can be seen without sending.
    fn take(&self) -> Option<Open> {
        loop {
            let (since, mut open) = self.idle().connections.pop()?;
            if since.elapsed() < IDLE && open.is_usable() {
                return Some(open);
            }
        }
    }

    fn finish(self: &Arc<Self>, mut open: Open, answered: Answered) -> Answer {
        if answered.whole && open.is_usable() {
            let mut idle = self.idle();
            idle.connections.push((Instant::now(), open));
            if !std::mem::replace(&mut idle.tended, true) {
                tokio::spawn(tend(Arc::downgrade(self)));
            }
        }
        answered.answer
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that nobody uses; ends when there are none.
async fn tend(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.connections.retain(|(since, _)| since.elapsed() < IDLE);
        if idle.connections.is_empty() {
            idle.tended = false;
            return;
        }
    }
}

enum Failed {
    /// No byte of it was written.
    Unsent(Box<Request<Full<Bytes>>>),
    Lost(String),
}

struct Answered {
    answer: Answer,
    /// The body was read to its end, so the connection may be used again.
    whole: bool,
}

impl Open {
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answered, Failed> {
        let sent = self.sender.try_send_request(request);
        let response = self.drive(sent).await.map_err(|mut error| match error.take_message() {
            Some(unsent) => Failed::Unsent(Box::new(unsent)),
            None => Failed::Lost(told(&error.into_error())),
        })?;
        let (parts, body) = response.into_parts();
        let (body, whole) = self.body(body).await.map_err(|cause| Failed::Lost(told(&cause)))?;
        Ok(Answered { answer: Answer { status: parts.status, headers: parts.headers, body }, whole })
    }

    async fn body(&mut self, mut body: Incoming) -> Result<(Vec<u8>, bool), hyper::Error> {
        let mut read = Vec::new();
        while !body.is_end_stream() {
            let Some(frame) = self.drive(body.frame()).await else { break };
            let frame = frame?;
            let Some(data) = frame.data_ref() else { continue };
            if read.len() + data.len() > MOST_BODY {
                read.extend_from_slice(&data[..MOST_BODY - read.len()]);
                return Ok((read, false));
            }
            read.extend_from_slice(data);
        }
        Ok((read, true))
    }

    /// Waits for `work`, and moves the connection's bytes meanwhile.
    async fn drive<W: Future>(&mut self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.advance(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    fn advance(&mut self, cx: &mut Context<'_>) {
        // Its error reaches whoever waits for the answer, too.
        if !self.ended && Pin::new(&mut self.driver).poll(cx).is_ready() {
            self.ended = true;
        }
    }

    /// Whether a request may go out: nothing closed it that we know of. Nobody is woken for it.
    fn is_usable(&mut self) -> bool {
        self.advance(&mut Context::from_waker(noop_waker_ref()));
        let ready = self.sender.poll_ready(&mut Context::from_waker(noop_waker_ref()));
        !self.ended && matches!(ready, Poll::Ready(Ok(())))
    }
}

/// What happened to a connection, without what was on it.
fn told(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    format!("the connection was lost: {text}")
}

//! The handler behind a sidecar: answers at once or after a while, counts, and knows how old each message is when it gets it.
//!
//! It is a process of its own. It says the port that it listens on, and when it has answered as many messages as it was
//! told, one line: the seconds since the first, and the median and 99th percentile of their ages in milliseconds.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::age;
use super::delay::Delay;
use crate::child::ROLE;

/// What stands once in every message of a batch and in no body.
const MARK: &[u8] = b"\"attempt\":";

/// How long a handler waits for a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a handler saw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saw {
    pub(crate) spent: Duration,
    /// Milliseconds between publish and handler: median and 99th percentile.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The process of a handler, or of whoever stands in for it.
pub(crate) struct Handler {
    process: Child,
    says: BufReader<ChildStdout>,
    pub(crate) port: u16,
}

impl Handler {
    pub(crate) fn start(count: u64, batch: bool) -> Self {
        let manner = if batch { "batch" } else { "single" };
        Self::speak(&["handler", manner, "0", &count.to_string()])
    }

    /// One that takes so many milliseconds for each message.
    pub(crate) fn slow(count: u64, takes: Duration) -> Self {
        Self::speak(&["handler", "single", &takes.as_millis().to_string(), &count.to_string()])
    }

    /// The bare loop in its place: it takes the messages off the queue itself.
    pub(crate) fn bare(url: &str, queue: &str, count: u64) -> Self {
        Self::speak(&["age", url, queue, &count.to_string()])
    }

    fn speak(role: &[&str]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut process = Command::new(program)
            .arg(ROLE)
            .args(role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a handler");
        let mut says = BufReader::new(process.stdout.take().expect("its words"));
        let mut line = String::new();
        says.read_line(&mut line).expect("its port");
        Self { process, says, port: line.trim().parse().expect("a port") }
    }

    /// Waits until all messages are answered.
    pub(crate) fn wait(&mut self) -> Saw {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("its word");
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [spent, p50, p99] = numbers[..] else {
            panic!("the handler got no messages: does the sidecar run? It said `{line}`")
        };
        Saw { spent: Duration::from_secs_f64(spent), p50, p99 }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a handler was told, and what it saw.
struct Work {
    batch: bool,
    count: u64,
    delay: Option<Delay>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    answered: u64,
    ages: Vec<u64>,
}

/// The life of a handler's process.
pub(crate) async fn serve(batch: bool, takes: Duration, count: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address").port());
    let work = Work { batch, count, delay: Delay::of(takes), seen: Mutex::default() };
    let work: &'static Work = Box::leak(Box::new(work));
    tokio::spawn(work.end_when_idle());
    loop {
        let (wire, _) = listener.accept().await.expect("a connection");
        wire.set_nodelay(true).expect("no delay");
        let answer = service_fn(move |request| work.answer(request));
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(wire), answer));
    }
}

impl Work {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sidecar that does not start or stops would leave the bench waiting: nothing for a minute is the end.
    async fn end_when_idle(&self) {
        let mut before = None;
        loop {
            let answered = self.seen().answered;
            if before.replace(answered) == Some(answered) {
                std::process::exit(1);
            }
            tokio::time::sleep(PATIENCE).await;
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
        let Ok(body) = request.into_body().collect().await else { return Ok(Response::default()) };
        let body = body.to_bytes();
        // A question after our health has no body.
        if !body.is_empty() {
            let messages = if self.batch { memchr::memmem::find_iter(&body, MARK).count() as u64 } else { 1 };
            let age = age::of(&body);
            if let Some(delay) = &self.delay {
                self.begin();
                delay.wait().await;
            }
            self.note(messages, age);
        }
        Ok(Response::default())
    }

    /// The clock runs from the first message.
    fn begin(&self) {
        self.seen().first.get_or_insert_with(Instant::now);
    }

    fn note(&self, messages: u64, age: Option<Duration>) {
        let mut seen = self.seen();
        let first = *seen.first.get_or_insert_with(Instant::now);
        seen.ages.extend(age.map(|age| age.as_micros() as u64));
        let before = seen.answered;
        seen.answered += messages;
        if before < self.count && seen.answered >= self.count {
            let spent = first.elapsed().as_secs_f64();
            let [p50, p99] = age::percentiles(&mut seen.ages);
            println!("{spent} {p50} {p99}");
        }
    }
}

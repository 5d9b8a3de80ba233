//! The handler behind a sidecar: answers at once or after a while, counts, and may note when it gets each message.
//!
//! It is a process of its own. It says the port that it listens on, and when it has answered as many messages as it was
//! told, the seconds since the first; then, where it notes them, a line of when it had each.

use std::collections::HashMap;
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

/// What a handler does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Single,
    Batch,
    /// One message, and when it came is noted.
    Noting,
}

impl Manner {
    const ALL: [(&'static str, Self); 3] =
        [("single", Self::Single), ("batch", Self::Batch), ("noting", Self::Noting)];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, manner)| *manner == self).map_or("", |(word, _)| word)
    }

    pub(crate) fn read(word: &str) -> Self {
        let found = Self::ALL.iter().find(|(known, _)| *known == word);
        found.unwrap_or_else(|| panic!("no such manner: {word}")).1
    }
}

/// The process of a handler, or of whoever stands in for it.
pub(crate) struct Handler {
    process: Child,
    says: BufReader<ChildStdout>,
    pub(crate) port: u16,
}

impl Handler {
    pub(crate) fn start(count: u64, manner: Manner) -> Self {
        Self::speak(&["handler", manner.word(), "0", &count.to_string()])
    }

    /// One that takes so many milliseconds for each message.
    pub(crate) fn slow(count: u64, takes: Duration) -> Self {
        Self::speak(&["handler", Manner::Single.word(), &takes.as_millis().to_string(), &count.to_string()])
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

    /// Waits until all messages are answered, and says how long that took from the first.
    pub(crate) fn wait(&mut self) -> Duration {
        let line = self.line();
        let spent: f64 = line.trim().parse().unwrap_or_else(|_| {
            panic!("the handler got no messages: does the sidecar run? It said `{line}`")
        });
        Duration::from_secs_f64(spent)
    }

    /// When it had each message, by the moment of its publish: what it says behind its end.
    pub(crate) fn moments(&mut self) -> HashMap<u64, u64> {
        age::read(&self.line())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("its word");
        line
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
    manner: Manner,
    count: u64,
    delay: Option<Delay>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    answered: u64,
    noted: Vec<age::Seen>,
}

/// The life of a handler's process.
pub(crate) async fn serve(manner: Manner, takes: Duration, count: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address").port());
    let work = Work { manner, count, delay: Delay::of(takes), seen: Mutex::default() };
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
            let messages = match self.manner {
                Manner::Batch => memchr::memmem::find_iter(&body, MARK).count() as u64,
                Manner::Single | Manner::Noting => 1,
            };
            let seen = if self.manner == Manner::Noting { age::Seen::now(&body) } else { None };
            if let Some(delay) = &self.delay {
                self.begin();
                delay.wait().await;
            }
            self.note(messages, seen);
        }
        Ok(Response::default())
    }

    /// The clock runs from the first message.
    fn begin(&self) {
        self.seen().first.get_or_insert_with(Instant::now);
    }

    fn note(&self, messages: u64, noted: Option<age::Seen>) {
        let mut seen = self.seen();
        let first = *seen.first.get_or_insert_with(Instant::now);
        seen.noted.extend(noted);
        let before = seen.answered;
        seen.answered += messages;
        if before < self.count && seen.answered >= self.count {
            let spent = first.elapsed().as_secs_f64();
            println!("{spent}\n{}", age::say(&seen.noted));
        }
    }
}

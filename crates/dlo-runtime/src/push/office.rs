//! Receipts over HTTP: gathered for a moment, posted to the office in batches, tried again a few times; and by the same way
//! how the consumers stand.
//!
//! Bounded: [`MOST`] receipts wait; beyond, the oldest is dropped and counted. A batch that the office does not take in
//! [`TRIES`] tries, or refuses, is given up and counted. Of each consumer the latest word waits, is posted before any
//! receipt, and once: it is said again while it holds. No message waits for any of this. The worker lives only while there
//! is something to post.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use tokio::sync::Notify;

use super::AGENT;
use super::pool::{NoAnswer, Pool};
use super::target::Target;
use crate::receipts::{Receipt, Receipts, Standing};

const RECEIPTS: &str = "/api/v1/receipts";
const CONSUMERS: &str = "/api/v1/consumers";
const LETTERS: &str = "/api/v1/letters";
/// Receipts that wait.
const MOST: usize = 10_000;
/// Receipts of one request.
const BATCH: usize = 500;
/// Consumers whose word waits; those of a process are far fewer.
const MOST_WORDS: usize = 100;
const TRIES: u32 = 6;
/// How long the first receipt waits for others.
const GATHER: Duration = Duration::from_millis(100);
/// The pause before the second try; it doubles with each.
const PAUSE: Duration = Duration::from_millis(500);
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// An address or a token by which no office can be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadOffice {
    #[error("expected the address of the office, such as http://127.0.0.1:8404: {0}")]
    Address(String),
    #[error("expected a token of visible characters")]
    Token,
}

/// Receipts since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiptCounts {
    /// The office has them.
    pub taken: u64,
    /// There was no room, or the office did not take them.
    pub dropped: u64,
}

/// The way of receipts to one office. Consumers of a process share it.
#[derive(Debug, Clone)]
pub struct OfficeReceipts(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    pool: Arc<Pool>,
    /// Where consumers say how they stand.
    consumers: Uri,
    letters: Uri,
    authorization: Option<HeaderValue>,
    state: Mutex<State>,
    /// Rung when the worker has nothing more to do.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Receipt>,
    /// By queue, group and instance.
    words: BTreeMap<(String, String, String), Standing>,
    working: bool,
    counts: ReceiptCounts,
}

/// Why a batch was not taken.
pub(super) enum NotTaken {
    /// It may be later.
    Away(String),
    /// Never.
    Refused(StatusCode),
}

impl OfficeReceipts {
    /// `office`: `http://127.0.0.1:8404`. Connects to nothing yet.
    pub fn new(office: &str, token: Option<&str>) -> Result<Self, BadOffice> {
        let office = office.trim_end_matches('/');
        let target = |path| {
            let parsed = Target::parse(&format!("{office}{path}"));
            parsed.map_err(|bad| BadOffice::Address(bad.why().to_owned()))
        };
        let (consumers, letters) = (target(CONSUMERS)?.path, target(LETTERS)?.path);
        let target = target(RECEIPTS)?;
        let bearer = |token: &str| {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| BadOffice::Token)?;
            value.set_sensitive(true);
            Ok(value)
        };
        let authorization = token.map(bearer).transpose()?;
        let (pool, idle) = (Pool::new(target), Notify::new());
        Ok(Self(Arc::new(Desk { pool, consumers, letters, authorization, state: Mutex::default(), idle })))
    }

    pub fn counts(&self) -> ReceiptCounts {
        self.0.state().counts
    }

    /// Stores one letter. `name`: a second letter with it is the first one.
    pub(super) async fn post_letter(&self, letter: Bytes, name: &str) -> Result<(), NotTaken> {
        self.0.post(&self.0.letters, letter, Some(name)).await
    }

    fn begin(&self, state: &mut State) {
        if !std::mem::replace(&mut state.working, true) {
            tokio::spawn(Arc::clone(&self.0).work());
        }
    }
}

/// What is posted next.
enum Post {
    Words(Vec<Standing>),
    Receipts(Vec<Receipt>),
}

#[async_trait]
impl Receipts for OfficeReceipts {
    fn take(&self, receipt: Receipt) {
        let mut state = self.0.state();
        if state.waiting.len() >= MOST {
            state.waiting.pop_front();
            state.counts.dropped += 1;
        }
        state.waiting.push_back(receipt);
        self.begin(&mut state);
    }

    fn hear(&self, standing: Standing) {
        let mut state = self.0.state();
        let key = (standing.queue.clone(), standing.consumer.clone(), standing.instance.clone());
        if state.words.len() < MOST_WORDS || state.words.contains_key(&key) {
            state.words.insert(key, standing);
        }
        self.begin(&mut state);
    }

    async fn flush(&self) {
        loop {
            let mut rung = std::pin::pin!(self.0.idle.notified());
            rung.as_mut().enable();
            if !self.0.state().working {
                return;
            }
            rung.await;
        }
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts until nothing is left.
    async fn work(self: Arc<Self>) {
        tokio::time::sleep(GATHER).await;
        while let Some(post) = self.next() {
            match post {
                Post::Words(words) => self.pass_on(&words).await,
                Post::Receipts(batch) => self.hand_over(&batch).await,
            }
        }
        self.idle.notify_waiters();
    }

    /// The next to be posted; none when nothing waits, and then nobody works.
    fn next(&self) -> Option<Post> {
        let mut state = self.state();
        if !state.words.is_empty() {
            return Some(Post::Words(std::mem::take(&mut state.words).into_values().collect()));
        }
        let count = state.waiting.len().min(BATCH);
        state.working = count > 0;
        (count > 0).then(|| Post::Receipts(state.waiting.drain(..count).collect()))
    }

    /// Once: what still holds is said again, and what does not is forgotten by the office.
    async fn pass_on(&self, words: &[Standing]) {
        let body = serde_json::json!({ "consumers": words }).to_string();
        let problem = match self.post(&self.consumers, Bytes::from(body), None).await {
            Ok(()) => return,
            Err(NotTaken::Refused(status)) => format!("the office answers {status}"),
            Err(NotTaken::Away(problem)) => problem,
        };
        tracing::debug!(problem, "standing.not_taken");
    }

    async fn hand_over(&self, batch: &[Receipt]) {
        let posted = self.deliver(batch).await;
        let count = batch.len() as u64;
        let mut state = self.state();
        match posted {
            Ok(()) => state.counts.taken += count,
            Err(problem) => {
                state.counts.dropped += count;
                tracing::warn!(receipts = count, problem, "receipts.dropped");
            }
        }
    }

    /// Tries until the office has it, or will not.
    async fn deliver(&self, batch: &[Receipt]) -> Result<(), String> {
        let body = serde_json::json!({ "receipts": batch }).to_string();
        let body = Bytes::from(body);
        let mut pause = PAUSE;
        let mut tried = 1;
        loop {
            match self.post(&self.pool.target().path, body.clone(), None).await {
                Ok(()) => return Ok(()),
                Err(NotTaken::Refused(status)) => return Err(format!("the office answers {status}")),
                Err(NotTaken::Away(problem)) if tried >= TRIES => return Err(problem),
                Err(NotTaken::Away(problem)) => {
                    tracing::debug!(problem, "receipts.not_taken");
                    tokio::time::sleep(pause).await;
                }
            }
            pause *= 2;
            tried += 1;
        }
    }

    async fn post(&self, path: &Uri, body: Bytes, name: Option<&str>) -> Result<(), NotTaken> {
        let target = self.pool.target();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, target.host_header.clone());
        headers.insert(USER_AGENT, AGENT);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(name) = name.and_then(|name| HeaderValue::from_str(name).ok()) {
            headers.insert("idempotency-key", name);
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let status = match tokio::time::timeout(PATIENCE, self.pool.send(request, PATIENCE)).await {
            Ok(Ok(answer)) => answer.status,
            Ok(Err(NoAnswer::Absent(cause) | NoAnswer::Lost(cause))) => return Err(NotTaken::Away(cause)),
            Err(_) => return Err(NotTaken::Away(format!("no answer within {PATIENCE:?}"))),
        };
        match status {
            taken if taken.is_success() => Ok(()),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(NotTaken::Away(format!("the office answers {status}")))
            }
            failed if failed.is_server_error() => Err(NotTaken::Away(format!("the office answers {status}"))),
            refused => Err(NotTaken::Refused(refused)),
        }
    }
}

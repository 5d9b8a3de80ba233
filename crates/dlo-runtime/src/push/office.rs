//! Receipts over HTTP: gathered for a moment, posted to the office in batches, tried again a few times.
//!
//! Bounded: [`MOST`] receipts wait; beyond, the oldest is dropped and counted. A batch that the office does not take in
//! [`TRIES`] tries, or refuses, is given up and counted. No message waits for any of this. The worker lives only while
//! there is something to post.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use tokio::sync::Notify;

use super::AGENT;
use super::pool::{NoAnswer, Pool};
use super::target::Target;
use crate::receipts::{Receipt, Receipts};

const PATH: &str = "/api/v1/receipts";
/// Receipts that wait.
const MOST: usize = 10_000;
/// Receipts of one request.
const BATCH: usize = 500;
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
    authorization: Option<HeaderValue>,
    state: Mutex<State>,
    /// Rung when the worker has nothing more to do.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Receipt>,
    working: bool,
    counts: ReceiptCounts,
}

/// Why a batch was not taken.
enum NotTaken {
    /// It may be later.
    Away(String),
    /// Never.
    Refused(StatusCode),
}

impl OfficeReceipts {
    /// `office`: `http://127.0.0.1:8404`. Connects to nothing yet.
    pub fn new(office: &str, token: Option<&str>) -> Result<Self, BadOffice> {
        let address = format!("{}{PATH}", office.trim_end_matches('/'));
        let target = Target::parse(&address).map_err(|bad| BadOffice::Address(bad.why().to_owned()))?;
        let bearer = |token: &str| {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| BadOffice::Token)?;
            value.set_sensitive(true);
            Ok(value)
        };
        let authorization = token.map(bearer).transpose()?;
        let (pool, idle) = (Pool::new(target), Notify::new());
        Ok(Self(Arc::new(Desk { pool, authorization, state: Mutex::default(), idle })))
    }

    pub fn counts(&self) -> ReceiptCounts {
        self.0.state().counts
    }
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
        if !std::mem::replace(&mut state.working, true) {
            tokio::spawn(Arc::clone(&self.0).work());
        }
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
        while let Some(batch) = self.next() {
            let posted = self.deliver(&batch).await;
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
        self.idle.notify_waiters();
    }

    /// The next batch; none when nothing waits, and then nobody works.
    fn next(&self) -> Option<Vec<Receipt>> {
        let mut state = self.state();
        let count = state.waiting.len().min(BATCH);
        state.working = count > 0;
        (count > 0).then(|| state.waiting.drain(..count).collect())
    }

    /// Tries until the office has it, or will not.
    async fn deliver(&self, batch: &[Receipt]) -> Result<(), String> {
        let body = serde_json::json!({ "receipts": batch }).to_string();
        let body = Bytes::from(body);
        let mut pause = PAUSE;
        let mut tried = 1;
        loop {
            match self.post(body.clone()).await {
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

    async fn post(&self, body: Bytes) -> Result<(), NotTaken> {
        let target = self.pool.target();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.path.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, target.host_header.clone());
        headers.insert(USER_AGENT, AGENT);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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

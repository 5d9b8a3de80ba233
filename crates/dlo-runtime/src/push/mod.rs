//! A handler in another process, in any language: each message is pushed to it over HTTP.
//!
//! The request is made in `request.rs`, the answer read in `answer.rs` and `said.rs`; both are pure. `pool.rs` keeps the
//! connections. `batch.rs` gathers messages into one request, `batch_body.rs` has its words; `office.rs` posts receipts
//! of replayed messages. The contract is written down in `docs/reference/consume.md`. What becomes of a message is decided where it is for every handler: by rules and
//! `decide`.

mod answer;
mod batch;
mod batch_body;
mod health;
mod large;
mod office;
mod pool;
mod request;
mod retry_after;
mod said;
mod target;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dlo_core::message::Message;
use dlo_core::time::Clock;
use http_body_util::Full;
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request};

use crate::handler::{Context, Handler, Unhandled};
pub use batch::Batch;
use batch::Gatherer;
use health::Health;
pub use large::LargeStore;
pub use office::{BadOffice, OfficeReceipts, ReceiptCounts};
use pool::{Answer, NoAnswer, Pool};
pub use target::BadTarget;
use target::Target;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("dlo/", env!("CARGO_PKG_VERSION")));

/// Where messages are pushed to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushConfig {
    /// `http://127.0.0.1:9000/price`
    pub handler: String,
    /// Several messages in one request.
    pub batch: Option<Batch>,
    /// Asked by `GET` whether the handler is there. Unset: whether it accepts connections.
    pub health: Option<String>,
}

/// Whether an address may be a handler's, or its health check's.
pub fn check(address: &str) -> Result<(), BadTarget> {
    Target::parse(address).map(drop)
}

/// Pushes messages to a handler over HTTP.
#[derive(Debug)]
pub struct PushHandler {
    line: Arc<Line>,
    gatherer: Option<Arc<Gatherer>>,
    health: Health,
}

impl PushHandler {
    /// Takes the addresses apart; connects to nothing yet.
    pub fn new(config: &PushConfig, clock: Arc<dyn Clock>) -> Result<Self, BadTarget> {
        let target = Target::parse(&config.handler)?;
        let health = Health::new(&target, config.health.as_deref())?;
        let line = Arc::new(Line { pool: Pool::new(target), clock });
        let gatherer = config.batch.map(|batch| Gatherer::new(batch, Arc::clone(&line)));
        Ok(Self { line, gatherer, health })
    }

    /// `Ok` when the handler is there; else what stands in the way. Costs no message anything.
    pub async fn is_there(&self) -> Result<(), String> {
        self.health.ask().await
    }
}

#[async_trait]
impl Handler for PushHandler {
    async fn handle(&self, message: Message, context: &Context) -> Result<(), Unhandled> {
        if let Some(gatherer) = &self.gatherer {
            return gatherer.handle(message, context).await;
        }
        let mut headers = HeaderMap::with_capacity(16);
        request::headers(&message, context, self.line.clock.now(), &mut headers);
        let answer = self.line.post(headers, message.payload.0, context.timeout).await?;
        match answer::read(answer.status, &answer.headers, &answer.body, self.line.clock.now()) {
            None => Ok(()),
            Some(failure) => Err(failure.into()),
        }
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// The way to the handler.
#[derive(Debug)]
struct Line {
    pool: Arc<Pool>,
    clock: Arc<dyn Clock>,
}

impl Line {
    /// `timeout`: how long the attempt may take in all.
    async fn post(
        &self,
        mut headers: HeaderMap,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Answer, Unhandled> {
        headers.insert(HOST, self.pool.target().host_header.clone());
        headers.insert(USER_AGENT, AGENT);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.pool.target().path.clone();
        *request.headers_mut() = headers;
        self.pool.send(request, timeout / 2).await.map_err(|no_answer| match no_answer {
            NoAnswer::Absent(cause) => Unhandled::Absent(cause),
            NoAnswer::Lost(cause) => Unhandled::Lost(cause),
        })
    }
}

//! Messages gathered into one request: sent when there are enough, or when the first has lingered.
//!
//! Each message still has an attempt, a verdict and a deadline of its own. A request whose messages have all run over
//! their time is dropped with its connection; what a handler answers to a message that ran over is too late.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::message::Message;
use dlo_core::units::HumanDuration;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use tokio::sync::oneshot;

use super::batch_body::{self, Item};
use super::{Answer, Line};
use crate::handler::{Context, Unhandled};

/// Messages of one request.
const LARGEST: usize = 1_000;
/// How long the first may wait for the others.
const LONGEST: Duration = Duration::from_secs(1);

/// `batch = { size = 10, linger = "2ms" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Batch {
    /// Messages of one request, at most.
    pub size: usize,
    /// How long the first of them waits for the others.
    pub linger: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    size: usize,
    #[serde(default = "usual")]
    linger: HumanDuration,
}

const fn usual() -> HumanDuration {
    HumanDuration(Duration::from_millis(2))
}

impl TryFrom<Written> for Batch {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if !(1..=LARGEST).contains(&written.size) {
            return Err(format!("`size`: expected 1 to {LARGEST} messages, found {}", written.size));
        }
        if written.linger.0 > LONGEST {
            return Err(format!(
                "`linger`: expected at most {}, found {}",
                HumanDuration(LONGEST),
                written.linger
            ));
        }
        Ok(Self { size: written.size, linger: written.linger.0 })
    }
}

/// What went wrong with a message goes back by this; `None`: it is done.
type Reply = oneshot::Sender<Option<Unhandled>>;

#[derive(Debug)]
pub(super) struct Gatherer {
    batch: Batch,
    line: Arc<Line>,
    open: Mutex<Open>,
}

/// The batch that is being filled.
#[derive(Debug, Default)]
struct Open {
    number: u64,
    items: Vec<(Item, Reply)>,
}

impl Gatherer {
    pub(super) fn new(batch: Batch, line: Arc<Line>) -> Arc<Self> {
        Arc::new(Self { batch, line, open: Mutex::default() })
    }

    pub(super) async fn handle(
        self: &Arc<Self>,
        message: Message,
        context: &Context,
    ) -> Result<(), Unhandled> {
        let (reply, answer) = oneshot::channel();
        self.add(Item { id: String::new(), message, context: context.clone() }, reply);
        // The request's task keeps every reply until it has one for each; it goes without only with the whole process.
        let given_up = || Some(Unhandled::Lost("the request was given up".to_owned()));
        answer.await.unwrap_or_else(|_| given_up()).map_or(Ok(()), Err)
    }

    fn add(self: &Arc<Self>, item: Item, reply: Reply) {
        let mut open = self.open();
        open.items.push((item, reply));
        if open.items.len() >= self.batch.size {
            let full = open.take();
            drop(open);
            tokio::spawn(send(Arc::clone(&self.line), full));
        } else if open.items.len() == 1 {
            let number = open.number;
            drop(open);
            tokio::spawn(Arc::clone(self).linger(number));
        }
    }

    /// Sends batch `number` when its time is over, unless it was full before.
    async fn linger(self: Arc<Self>, number: u64) {
        tokio::time::sleep(self.batch.linger).await;
        let gathered = {
            let mut open = self.open();
            if open.number != number {
                return;
            }
            open.take()
        };
        send(Arc::clone(&self.line), gathered).await;
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn take(&mut self) -> Vec<(Item, Reply)> {
        self.number += 1;
        std::mem::take(&mut self.items)
    }
}

async fn send(line: Arc<Line>, gathered: Vec<(Item, Reply)>) {
    // Whose time is over already is not sent: nobody would hear the answer.
    let waiting = gathered.into_iter().filter(|(_, reply)| !reply.is_closed());
    let (mut items, mut replies): (Vec<Item>, Vec<Reply>) = waiting.unzip();
    if items.is_empty() {
        return;
    }
    batch_body::name(&mut items);
    let answer = tokio::select! {
        answer = post(&line, &items) => answer,
        () = all_closed(&mut replies) => return,
    };
    let results: Vec<Option<Unhandled>> = match answer {
        Ok(answer) => {
            let now = line.clock.now();
            let read = batch_body::read(&items, answer.status, &answer.headers, &answer.body, now);
            read.into_iter().map(|failure| failure.map(Unhandled::from)).collect()
        }
        Err(unhandled) => items.iter().map(|_| Some(unhandled.clone())).collect(),
    };
    for (reply, result) in replies.into_iter().zip(results) {
        // Whoever ran over its time is gone, and was told so by its deadline.
        let _ = reply.send(result);
    }
}

async fn post(line: &Line, items: &[Item]) -> Result<Answer, Unhandled> {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("dlo-batch", HeaderValue::from(items.len()));
    let body = batch_body::write(items, line.clock.now());
    let shortest = items.iter().map(|item| item.context.timeout).min().unwrap_or_default();
    line.post(headers, body.into(), shortest).await
}

async fn all_closed(replies: &mut [Reply]) {
    for reply in replies {
        reply.closed().await;
    }
}

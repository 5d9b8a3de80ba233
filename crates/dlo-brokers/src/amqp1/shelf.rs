//! What lies between the link and its caller: deliveries that wait, those in hand, and the way to tell the broker.
//!
//! Shared by the source, its settlers and the task that owns the link. Everything here is bounded by `prefetch`: what
//! waits and what is in hand together are never more, because the link is given credit for the rest only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlo_core::broker::{BrokerError, Delivery, DeliveryTag};
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use tokio::sync::{Notify, mpsc};

use super::decode::{Decoded, KIND};
use super::pump::Command;
use crate::recent::Recent;

/// One delivery that is not settled.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) info: DeliveryInfo,
    /// Kept where a delayed redelivery is a copy.
    pub(super) copy: Option<Message>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<(u64, Delivery)>,
    held: HashMap<u64, Held>,
    next_tag: u64,
    /// The link's task; none when the link is lost.
    pump: Option<mpsc::Sender<Command>>,
    lost: Option<BrokerError>,
    closed: bool,
    /// A broker that was killed has forgotten its counts. Messages without an id are not known again.
    recent: Recent,
}

#[derive(Debug)]
pub(super) struct Shelf {
    queue: String,
    keeps_copies: bool,
    inner: Mutex<Inner>,
    pub(super) came: Notify,
}

/// How things stand for a caller that waits.
#[derive(Debug)]
pub(super) enum Standing {
    Came(Vec<Delivery>),
    Nothing,
    Lost(Option<BrokerError>),
}

impl Shelf {
    pub(super) fn new(queue: &str, keeps_copies: bool) -> Self {
        Self { queue: queue.to_owned(), keeps_copies, inner: Mutex::default(), came: Notify::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new link took the place of the lost one.
    pub(super) fn begin(&self, pump: mpsc::Sender<Command>) {
        let mut inner = self.inner();
        inner.lost = None;
        inner.pump = Some(pump);
    }

    /// Puts what came where the caller finds it.
    pub(super) fn put(&self, came: Vec<(DeliveryInfo, Decoded)>) {
        let mut inner = self.inner();
        for (info, decoded) in came {
            let tag = inner.next_tag;
            inner.next_tag += 1;
            let had =
                decoded.message.headers.transport(KIND, "message-id").is_some_and(|id| inner.recent.had(id));
            let copy = self.keeps_copies.then(|| decoded.message.clone());
            inner.held.insert(tag, Held { info, copy });
            let mut delivery = self.delivery(decoded, tag);
            delivery.redelivered |= had;
            inner.waiting.push_back((tag, delivery));
        }
        drop(inner);
        self.came.notify_one();
    }

    fn delivery(&self, decoded: Decoded, tag: u64) -> Delivery {
        let origin = match decoded.sequence {
            Some(sequence) => Origin::message(KIND, &self.queue, sequence),
            None => Origin::queue(KIND, &self.queue),
        };
        let mut delivery = Delivery::new(decoded.message, origin, DeliveryTag(tag));
        delivery.delivery_count = Some(decoded.earlier.saturating_add(1));
        delivery.redelivered = decoded.earlier > 0;
        delivery.published_at = decoded.published_at;
        delivery
    }

    pub(super) fn take(&self, max: usize) -> Standing {
        let mut inner = self.inner();
        if inner.waiting.is_empty() {
            return match inner.pump {
                Some(_) => Standing::Nothing,
                None => Standing::Lost(inner.lost.take()),
            };
        }
        let count = max.min(inner.waiting.len());
        Standing::Came(inner.waiting.drain(..count).map(|(_, delivery)| delivery).collect())
    }

    pub(super) fn unsettled(&self) -> usize {
        self.inner().held.len()
    }

    /// Takes the right to settle. `None`: its link is gone, or it was settled.
    pub(super) fn claim(&self, tag: &DeliveryTag) -> Option<Held> {
        self.inner().held.remove(&tag.0)
    }

    /// The way to the link's task. `Ok(None)` when the source is closed: nothing is ours to settle any more.
    pub(super) fn pump(&self) -> Result<Option<mpsc::Sender<Command>>, BrokerError> {
        let inner = self.inner();
        match (&inner.pump, inner.closed) {
            (_, true) => Ok(None),
            (Some(pump), false) => Ok(Some(pump.clone())),
            (None, false) => Err(BrokerError::Unavailable(
                "the link by which these came is gone; they are delivered again".to_owned(),
            )),
        }
    }

    /// The link is gone, and with it everything that came by it: the broker delivers it again.
    pub(super) fn lose(&self, why: BrokerError) {
        let mut inner = self.inner();
        inner.waiting.clear();
        inner.held.clear();
        inner.pump = None;
        inner.lost = Some(why);
        drop(inner);
        self.came.notify_one();
    }

    /// Ends the source. Its task sees that nobody talks to it any more.
    pub(super) fn close(&self) -> Option<mpsc::Sender<Command>> {
        let mut inner = self.inner();
        inner.closed = true;
        inner.pump.take()
    }

    /// Everything unsettled: what nobody has seen, and what was handed out.
    pub(super) fn hand_back(&self) -> (Vec<DeliveryInfo>, Vec<DeliveryInfo>) {
        let mut inner = self.inner();
        let waiting = std::mem::take(&mut inner.waiting);
        let unseen = waiting.iter().filter_map(|(tag, _)| inner.held.remove(tag)).map(|held| held.info);
        let unseen: Vec<_> = unseen.collect();
        (unseen, inner.held.drain().map(|(_, held)| held.info).collect())
    }
}

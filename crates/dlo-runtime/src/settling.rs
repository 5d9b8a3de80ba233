//! Tells the broker what became of its messages, in batches, beside everything else.
//!
//! What is done while the last batch is told makes the next one. A batch waits for a moment as long as there is something in
//! hand that could join it: a word to the broker costs both sides the more the fewer it says. Where the broker takes a
//! position for many (`cumulative_ack`), what is done waits also for what came before it (`watermark.rs`). What waits here
//! is bounded by what may be unsettled at all: each delivery comes through here once.

mod watermark;

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{BrokerError, Delivery, Settled, Settler};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::events::{Event, Watch};
use crate::room::Room;
use watermark::Watermark;

/// Told at once. Large: where a position says it all, a word for many costs as much as a word for one.
const BATCH: usize = 8_192;
/// How long a batch waits for more.
const LINGER: Duration = Duration::from_millis(2);
/// A batch that is this large does not wait.
const ENOUGH: usize = 256;

/// The way to the worker; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Settling {
    to_worker: mpsc::UnboundedSender<News>,
    /// Whether the worker wants to know what came.
    cumulative: bool,
    finish: CancellationToken,
}

/// What the worker is told.
#[derive(Debug)]
enum News {
    Received(Vec<u64>),
    Settled(Settled),
}

/// A worker that has not begun.
pub(crate) struct Unstarted {
    settler: Arc<dyn Settler>,
    watch: Arc<dyn Watch>,
    room: Arc<Room>,
    from_all: mpsc::UnboundedReceiver<News>,
    finish: CancellationToken,
    cumulative: bool,
    watermark: Watermark,
}

/// The worker, for who must know how it ended; it ends with its handle.
pub(crate) type Worker = AbortOnDropHandle<Result<(), BrokerError>>;

impl Settling {
    pub(crate) fn new(
        settler: Arc<dyn Settler>,
        cumulative: bool,
        watch: Arc<dyn Watch>,
        room: Arc<Room>,
    ) -> (Self, Unstarted) {
        let (to_worker, from_all) = mpsc::unbounded_channel();
        let finish = CancellationToken::new();
        // The rest of the room is for those that are waited for, and for what is received next.
        let watermark = Watermark::new(room.prefetch() / 2);
        let told = finish.clone();
        let worker = Unstarted { settler, watch, room, from_all, finish: told, cumulative, watermark };
        (Self { to_worker, cumulative, finish }, worker)
    }

    /// Before any of them is settled.
    pub(crate) fn received(&self, deliveries: &[Delivery]) {
        if self.cumulative {
            let numbers = deliveries.iter().map(Delivery::number).collect();
            let _ = self.to_worker.send(News::Received(numbers));
        }
    }

    pub(crate) fn settle(&self, settled: Settled) {
        // A worker that ended has told why; the delivery comes again.
        let _ = self.to_worker.send(News::Settled(settled));
    }

    /// Nothing more will come: what is there is told, and the worker ends.
    pub(crate) fn finish(&self) {
        self.finish.cancel();
    }
}

impl Unstarted {
    pub(crate) fn start(self) -> Worker {
        AbortOnDropHandle::new(tokio::spawn(self.run()))
    }

    async fn run(mut self) -> Result<(), BrokerError> {
        let mut news = Vec::new();
        loop {
            let more = self.hear(&mut news).await;
            let batch = if more { self.watermark.due(Instant::now()) } else { self.watermark.all() };
            self.tell(batch).await?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes what there is to know, as soon as there is something, or something is due. `false`: nothing more will come.
    async fn hear(&mut self, news: &mut Vec<News>) -> bool {
        let more = {
            let next = self.watermark.next();
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let something = async {
                tokio::select! {
                    biased;
                    count = self.from_all.recv_many(news, BATCH) => count > 0,
                    () = due => true,
                }
            };
            self.finish.run_until_cancelled(something).await.unwrap_or(false)
        };
        if more && news.len() < ENOUGH.min(self.room.unsettled()) {
            self.finish.run_until_cancelled(tokio::time::sleep(LINGER)).await;
        }
        // To the end only when nothing more comes: a batch must not grow with what comes meanwhile.
        while (news.len() < BATCH || !more)
            && let Ok(one) = self.from_all.try_recv()
        {
            news.push(one);
        }
        let now = Instant::now();
        for one in news.drain(..) {
            match one {
                News::Received(numbers) => self.watermark.received(numbers, now),
                News::Settled(settled) if self.cumulative => self.watermark.settled(settled, now),
                News::Settled(settled) => self.watermark.tell(settled),
            }
        }
        more
    }

    async fn tell(&mut self, mut batch: Vec<Settled>) -> Result<(), BrokerError> {
        while !batch.is_empty() {
            let later = batch.split_off(batch.len().min(BATCH));
            let told = batch.len();
            let answer = self.settler.settle(std::mem::replace(&mut batch, later)).await;
            self.room.settled(told);
            match answer {
                Ok(()) => {}
                // Nothing is known of them: each may come again, and is handled again.
                Err(error) if error.is_transient() => {
                    self.watch.saw(&Event::BrokerAway { problem: &error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! Everything that the messages of one consumer share.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dlo_core::broker::{Capabilities, Delivery};
use dlo_core::classify::{PROCESSING_TIMEOUT, Ruleset};
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::time::Clock;
use dlo_core::units::HumanDuration;
use futures::FutureExt;
use rand::rngs::StdRng;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use crate::builder::Policy;
use crate::config::Behind;
use crate::events::Watch;
use crate::gates::Gates;
use crate::handler::{Context, Handler, Unhandled};
use crate::lanes::Lane;
use crate::letters::Letters;
use crate::outbox::Outbox;
use crate::pills::Pills;
use crate::receipts::Receipts;
use crate::room::Room;
use crate::story::{Stories, Story};

pub(crate) struct Shared {
    pub(crate) letters: Letters,
    /// The queue that messages come from, as the first of them says.
    pub(crate) queue: OnceLock<String>,
    pub(crate) policy: Policy,
    pub(crate) behind: Behind,
    /// Nobody else gets what this instance does not settle.
    pub(crate) only_instance: bool,
    pub(crate) rules: Ruleset,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) capabilities: Capabilities,
    pub(crate) outbox: Outbox,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Arc<dyn Watch>,
    pub(crate) receipts: Option<Arc<dyn Receipts>>,
    pub(crate) gates: Gates,
    pub(crate) pills: Pills,
    pub(crate) stories: Mutex<Stories>,
    pub(crate) random: Mutex<StdRng>,
    pub(crate) shutdown: CancellationToken,
    /// Places among the handlers, and how many there are.
    pub(crate) slots: Semaphore,
    pub(crate) concurrency: usize,
    /// Read by everybody who is in a handler, written by a suspect: it is there alone.
    pub(crate) quiet: RwLock<()>,
    pub(crate) room: Arc<Room>,
    /// To the loop: lanes behind whose message nothing may wait.
    pub(crate) stuck: mpsc::UnboundedSender<Lane>,
}

/// A place among the handlers.
#[expect(dead_code, reason = "held, not read: to let go of it is what matters")]
pub(crate) enum Running<'a> {
    Among(SemaphorePermit<'a>, RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
    /// The consumer is gone.
    Nowhere,
}

impl Shared {
    /// Our own memory of a message that we put off.
    pub(crate) fn remembered(&self, delivery: &Delivery) -> Option<Story> {
        let mut stories = self.stories();
        if stories.is_empty() { None } else { stories.recall(&delivery.origin) }
    }

    /// What headers, broker and journal tell of a message.
    pub(crate) fn told(&self, delivery: &Delivery) -> Story {
        let mut story = Story::of(delivery, &self.policy.retry, self.capabilities.again_carries);
        if let Some((attempt, first_failed_at)) = self.pills.recall(story.mark(&delivery.message))
            && attempt > story.attempt
        {
            story.attempt = attempt;
            story.first_failed_at.get_or_insert(first_failed_at);
        }
        story
    }

    pub(crate) fn stories(&self) -> MutexGuard<'_, Stories> {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. Who runs alone needs none: nobody else has one then.
    pub(crate) async fn running(&self, alone: bool) -> Running<'_> {
        if alone {
            return Running::Alone(self.quiet.write().await);
        }
        match self.slots.acquire().await {
            Ok(slot) => Running::Among(slot, self.quiet.read().await),
            Err(_closed) => Running::Nowhere,
        }
    }

    /// Runs the handler. Running over time is a failure, and so is a panic.
    pub(crate) async fn handle(&self, message: Message, context: &Context) -> Result<(), Unhandled> {
        let running = AssertUnwindSafe(self.handler.handle(message, context)).catch_unwind();
        match tokio::time::timeout(self.policy.timeout, running).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => Err(Failure::new("panic", "the handler panicked").into()),
            Err(_elapsed) => {
                let allowed = HumanDuration(self.policy.timeout);
                let message = format!("the handler ran over its {allowed}");
                Err(Failure::new(PROCESSING_TIMEOUT, message).into())
            }
        }
    }

    /// A task of this consumer panicked.
    pub(crate) fn defect(&self, defect: &dyn std::fmt::Display) {
        let queue = self.queue.get().map(String::as_str);
        tracing::error!(queue, consumer = self.letters.group, %defect, "consumer.defect");
    }

    pub(crate) fn stuck(&self, lane: &Lane) {
        // The loop is gone only when everything ends.
        let _ = self.stuck.send(lane.clone());
    }
}

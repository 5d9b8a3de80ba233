//! A broker that exists in memory and follows a seed: for runs in which everything goes wrong, repeated exactly.
//!
//! It is one queue with its dead-letter queue, for one group. What it can do is a [`Shape`], after the brokers
//! that we serve; what goes wrong with it is [`Trouble`]: answers that are late, calls that fail with or without effect, leases
//! that run out, members that come and go. Every process that connects has a [`Life`], which ends where the seed
//! says, between any two steps. All that happens is a [`Fact`] in one [`Log`]; a model reads it afterwards.
//!
//! Nothing here judges. Time is Tokio's, and is meant to be paused.

mod ends;
mod fact;
mod life;
mod queue;
mod shape;
mod trouble;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlo_core::broker::{Publisher, Source};
use dlo_core::message::Message;
use tokio::sync::Notify;

pub use fact::{Back, Copy, End, Fact, Letter, Log, Noted, Number, number};
pub use life::Life;
pub use shape::{Returns, Shape};
pub use trouble::{Trouble, Window};

use queue::Queue;

/// The queue that is worked on; its dead-letter queue is [`DLQ`].
pub const QUEUE: &str = "orders";
pub const DLQ: &str = "orders.dlq";

/// The broker of one run.
#[derive(Debug, Clone)]
pub struct SimBroker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Rung when something may have become deliverable, or the queue empty.
    came: Notify,
    log: Arc<Log>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimBroker {
    /// `partitions`: of the queue, where the shape has any. Made inside of the runtime whose time it follows.
    pub fn new(shape: Shape, partitions: i32, trouble: Trouble, seed: u64, log: Arc<Log>) -> Self {
        let queue = Queue::new(shape, partitions, trouble, seed, Arc::clone(&log));
        Self(Arc::new(Shared { queue: Mutex::new(queue), came: Notify::new(), log }))
    }

    /// A producer's message.
    pub fn send(&self, message: Message) {
        self.0.queue().send(message);
        self.0.came.notify_waiters();
    }

    /// Joins the group for as long as the process lives.
    pub fn connect(&self, life: &Arc<Life>) -> (Box<dyn Source>, Arc<dyn Publisher>) {
        self.0.queue().join(life.id);
        self.0.came.notify_waiters();
        ends::connect(&self.0, life)
    }

    /// The process is gone: what it held comes back as the broker's kind has it.
    pub fn lost(&self, life: &Life) {
        self.0.queue().lost(life.id);
        self.0.came.notify_waiters();
    }

    /// Messages that nobody has settled for good.
    pub fn open(&self) -> Vec<Number> {
        self.0.queue().open()
    }

    /// Waits until there is none.
    pub async fn at_rest(&self) {
        loop {
            let mut came = std::pin::pin!(self.0.came.notified());
            came.as_mut().enable();
            if self.open().is_empty() {
                return;
            }
            came.await;
        }
    }
}

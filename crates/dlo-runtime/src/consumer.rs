//! The loop: receive, let each message go its way, tell the broker in batches.
//!
//! A message is a task of its own, so a slow one holds up nobody. How many go at once is bounded by places; while all
//! are taken nothing is received, and the broker keeps what it has.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_core::broker::{BrokerError, Delivery, Publisher, Settled, Settler, Source};
use dlo_core::classify::Ruleset;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::attempts::{Shared, process};
use crate::builder::ConsumerBuilder;
use crate::delay::MOST_HELD;
use crate::events::{self, Event, Watch};
use crate::gates::Gates;
use crate::handler::Handler;
use crate::story::Stories;

/// Deliveries taken at once.
const BATCH: usize = 512;
/// How long one question to the broker may wait for a message.
const WAIT: Duration = Duration::from_secs(5);
/// Pauses while the broker is away: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// A consumer, ready to run.
pub struct Consumer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: Box<dyn Source>,
    settler: Arc<dyn Settler>,
    pub(crate) tasks: JoinSet<Option<Settled>>,
    concurrency: usize,
    pub(crate) drain: Duration,
    pub(crate) handed_back: usize,
    pause: Duration,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("group", &self.shared.group).field("source", &self.source).finish()
    }
}

/// Writes the log line, then tells whoever watches.
struct Telling(Option<Arc<dyn Watch>>);

impl Watch for Telling {
    fn saw(&self, event: &Event<'_>) {
        events::log(event);
        if let Some(watch) = &self.0 {
            watch.saw(event);
        }
    }
}

impl Consumer {
    /// A consumer of `source`, whose dead letters and retries go out by `publisher`.
    pub fn builder(source: Box<dyn Source>, publisher: Arc<dyn Publisher>) -> ConsumerBuilder {
        ConsumerBuilder::new(source, publisher)
    }

    pub(crate) fn new(told: ConsumerBuilder, handler: Arc<dyn Handler>, rules: Ruleset) -> Self {
        let shared = Shared {
            group: told.group,
            consumer_id: told.consumer_id,
            consumer_version: told.consumer_version,
            gates: Gates::new(&told.policy, Arc::clone(&told.clock)),
            policy: told.policy,
            rules,
            handler,
            capabilities: told.source.capabilities().clone(),
            publisher: told.publisher,
            dead_letters: told.dead_letters,
            clock: told.clock,
            watch: Box::new(Telling(told.watch)),
            stories: Mutex::new(Stories::default()),
            random: Mutex::new(StdRng::seed_from_u64(told.seed)),
            shutdown: CancellationToken::new(),
            slots: Arc::new(Semaphore::new(told.concurrency)),
            held: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
            settler: told.source.settler(),
            source: told.source,
            tasks: JoinSet::new(),
            concurrency: told.concurrency,
            drain: told.drain,
            handed_back: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// Runs until `shutdown`, then drains. An error is one that waiting does not mend: a queue that is missing, a right
    /// that is not given.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<(), BrokerError> {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let free = self.shared.slots.available_permits();
            let room = (self.concurrency + MOST_HELD).saturating_sub(self.tasks.len());
            let most = free.min(room).min(BATCH);
            let slots = Arc::clone(&self.shared.slots);
            let received = tokio::select! {
                () = &mut shutdown => return self.drain().await,
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    self.settle(done).await?;
                    continue;
                }
                received = self.source.receive(most, WAIT), if most > 0 => received,
                // A message that waits without its place makes room before it is done.
                _ = slots.acquire(), if free == 0 => continue,
            };
            match received {
                Ok(deliveries) => self.begin(deliveries),
                Err(error) if error.is_transient() => {
                    self.broker_away(&error);
                    tokio::select! {
                        () = &mut shutdown => return self.drain().await,
                        () = tokio::time::sleep(self.pause) => {}
                    }
                    self.pause = (self.pause * 2).min(LAST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn begin(&mut self, deliveries: Vec<Delivery>) {
        self.pause = FIRST_PAUSE;
        for delivery in deliveries {
            // Places were counted before asking; only what waits without one can have taken some since.
            let slot = Arc::clone(&self.shared.slots).try_acquire_owned().ok();
            self.tasks.spawn(process(Arc::clone(&self.shared), delivery, slot));
        }
    }

    /// Tells the broker of one message that is done, and of every other that is by now.
    pub(crate) async fn settle(
        &mut self,
        first: Result<Option<Settled>, JoinError>,
    ) -> Result<(), BrokerError> {
        let mut settled = Vec::new();
        let mut next = Some(first);
        while let Some(done) = next {
            match done {
                Ok(Some(one)) => settled.push(one),
                // It goes back when the source is closed, as does what a defect of ours took down.
                Ok(None) => self.handed_back += 1,
                Err(defect) => {
                    self.handed_back += 1;
                    tracing::error!(%defect, "consumer.defect");
                }
            }
            next = self.tasks.try_join_next();
        }
        if settled.is_empty() {
            return Ok(());
        }
        match self.settler.settle(settled).await {
            Ok(()) => Ok(()),
            // Nothing is known of them: each may come again, and is handled again.
            Err(error) if error.is_transient() => {
                self.broker_away(&error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn broker_away(&self, error: &BrokerError) {
        self.shared.watch.saw(&Event::BrokerAway { problem: &error.to_string() });
    }
}

//! The loop: opens a lane for what was received, lets each message go its way, passes on what became of it.
//!
//! A message is a task of its own, so a slow one holds up nobody but its lane. Receiving, writing letters and telling the
//! broker are workers beside it (`receiving.rs`, `outbox.rs`, `settling.rs`); how much is under way is bounded in `room.rs`.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use dlo_core::broker::{BrokerError, Publisher, Settled, Source};
use dlo_core::classify::Ruleset;
use futures::FutureExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{RwLock, Semaphore, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::attempts::{Errand, process};
use crate::builder::ConsumerBuilder;
use crate::config::OrderBy;
use crate::controls::Controls;
use crate::events::{self, Event, Watch};
use crate::gates::Gates;
use crate::handler::Handler;
use crate::lanes::{Arrival, Carried, Lane, Lanes};
use crate::letters::Letters;
use crate::outbox::{Graves, Outbox, Ways};
use crate::pills::{Evidence, Pills};
use crate::receiving::{Arrived, Receiving};
use crate::room::Room;
use crate::settling::{Settling, Unstarted};
use crate::shared::Shared;
use crate::story::Stories;
use crate::telling::tell;

/// A consumer, ready to run.
pub struct Consumer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tasks: JoinSet<Through>,
    pub(crate) lanes: Lanes,
    pub(crate) settling: Settling,
    /// Until it runs.
    ends: Option<(Box<dyn Source>, Unstarted)>,
    stuck: mpsc::UnboundedReceiver<Lane>,
    order: OrderBy,
    pub(crate) drain: Duration,
}

/// A message that is through.
#[derive(Debug)]
pub(crate) struct Through {
    lane: Option<Lane>,
    settled: Result<Option<Settled>, Panic>,
}

/// What a task that panicked left.
struct Panic(Box<dyn std::any::Any + Send>);

impl std::fmt::Debug for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Panic({self})")
    }
}

impl std::fmt::Display for Panic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.downcast_ref::<String>().map(String::as_str);
        f.write_str(text.or(self.0.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text"))
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("group", &self.shared.letters.group)
            .field("source", &self.ends.as_ref().map(|(source, _)| source))
            .finish_non_exhaustive()
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
        let config = &told.config;
        let watch: Arc<dyn Watch> = Arc::new(Telling(told.watch));
        let room = Arc::new(Room::new(config.prefetch.unwrap_or_default()));
        let capabilities = told.source.capabilities().clone();
        let cumulative = capabilities.cumulative_ack;
        let (settling, worker) =
            Settling::new(told.source.settler(), cumulative, Arc::clone(&watch), Arc::clone(&room));
        let letters = Letters {
            group: config.group.clone(),
            consumer_id: config.consumer_id.clone(),
            consumer_version: config.consumer_version.clone(),
            dlq: config.dlq.clone(),
            crash_dlq: config.crash_dlq.clone(),
            rules: config.dlqs.clone(),
        };
        let policy = told.policy;
        let evidence = if handler.is_remote() { Evidence::LostConnection } else { Evidence::OurDeath };
        let pills = Pills::open(policy.poison, told.journal.as_deref(), config.concurrency, evidence);
        let spool = pills.place().filter(|_| config.state.is_some()).map(|place| place.join("spool"));
        let ways = Ways {
            publisher: told.publisher,
            settling: settling.clone(),
            watch: Arc::clone(&watch),
            words: config.compatibility.clone(),
            large: told.large,
            spool,
            spool_bytes: config.spool,
            room: Arc::clone(&room),
            graves: Graves::default(),
        };
        let (stuck, from_tasks) = mpsc::unbounded_channel();
        let shared = Shared {
            pills,
            gates: Gates::new(&policy, Arc::clone(&told.clock)),
            slots: Semaphore::new(config.concurrency),
            concurrency: config.concurrency,
            behind: config.behind,
            only_instance: config.alone,
            letters,
            queue: OnceLock::new(),
            policy,
            rules,
            handler,
            capabilities,
            outbox: Outbox::new(ways),
            clock: told.clock,
            watch,
            receipts: told.receipts,
            stories: Mutex::new(Stories::default()),
            random: Mutex::new(StdRng::seed_from_u64(told.seed)),
            shutdown: CancellationToken::new(),
            quiet: RwLock::new(()),
            room,
            stuck,
        };
        Self {
            shared: Arc::new(shared),
            ends: Some((told.source, worker)),
            tasks: JoinSet::new(),
            lanes: Lanes::default(),
            settling,
            stuck: from_tasks,
            order: config.order,
            drain: config.drain.0,
        }
    }

    /// A hand on the consumer while it runs: how it stands, and what a person may tell it.
    pub fn controls(&self) -> Controls {
        Controls::new(Arc::clone(&self.shared))
    }

    /// Runs until `shutdown`, then drains. An error is one that waiting does not mend: a queue that is missing, a right
    /// that is not given.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), BrokerError> {
        let (stop, stopped) = oneshot::channel();
        // A task of its own: a loop that `block_on` polls is on another thread than the messages, and to wake it for each of
        // them costs more than it does.
        let mut going = AbortOnDropHandle::new(tokio::spawn(self.go(stopped)));
        let ended = tokio::select! {
            biased;
            () = shutdown => {
                // One that ended meanwhile says how.
                let _ = stop.send(());
                going.await
            }
            ended = &mut going => ended,
        };
        ended.unwrap_or_else(|defect| match defect.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_aborted) => Err(BrokerError::Closed),
        })
    }

    async fn go(mut self, mut shutdown: oneshot::Receiver<()>) -> Result<(), BrokerError> {
        let Some((source, worker)) = self.ends.take() else { return Err(BrokerError::Closed) };
        let mut settled = worker.start();
        self.shared.outbox.take_up().await;
        let mut beside = JoinSet::new();
        if let Some(office) = &self.shared.receipts {
            beside.spawn(tell(Arc::clone(&self.shared), Arc::clone(office)));
        }
        let mut receiving =
            Receiving::start(source, Arc::clone(&self.shared.room), Arc::clone(&self.shared.watch));
        loop {
            // In this order, so that a run can be repeated: what arrives is bounded by what is through, so neither starves.
            tokio::select! {
                biased;
                _told = &mut shutdown => return self.drain(receiving, settled).await,
                arrived = receiving.batches.recv() => match arrived {
                    Some(Ok(arrived)) => self.begin(arrived),
                    Some(Err(error)) => return Err(error),
                    None => return Err(BrokerError::Closed),
                },
                Some(lane) = self.stuck.recv() => self.park_behind(&lane),
                ended = &mut settled => return ended.unwrap_or(Err(BrokerError::Closed)),
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.through(done),
            }
        }
    }

    fn begin(&mut self, arrived: Arrived) {
        if let Some(first) = arrived.deliveries.first() {
            self.shared.queue.get_or_init(|| first.origin.queue.clone());
        }
        self.settling.received(&arrived.deliveries);
        for delivery in arrived.deliveries {
            let lane = Lane::of(&delivery, self.order);
            let weight = self.shared.room.weigh(delivery.message.payload.0.len());
            match self.lanes.arrive(lane.as_ref(), Carried { delivery, weight }) {
                Arrival::Start(carried) => self.spawn(carried, lane, Errand::Handle, arrived.at),
                Arrival::Waits => {}
                Arrival::ParkBehind(carried) => self.spawn(carried, None, Errand::ParkBehind, arrived.at),
            }
        }
        self.shared.room.in_lanes(self.lanes.waiting());
    }

    fn spawn(&mut self, carried: Carried, lane: Option<Lane>, errand: Errand, arrived: Instant) {
        let shared = Arc::clone(&self.shared);
        let of = lane.clone();
        // No async block around it, which would keep room for it twice.
        let going = AssertUnwindSafe(process(shared, carried, of, errand, arrived)).catch_unwind();
        let task = going.map(|ended| {
            // A defect of ours took it down: it goes back when the source is closed.
            Through { lane, settled: ended.map_err(Panic) }
        });
        self.tasks.spawn(task);
    }

    /// Passes on one message that is through, and every other that is by now.
    pub(crate) fn through(&mut self, first: Result<Through, JoinError>) {
        let mut next = Some(first);
        while let Some(done) = next {
            match done {
                Ok(through) => {
                    match through.settled {
                        Ok(Some(settled)) => self.settling.settle(settled),
                        Ok(None) => {}
                        Err(panic) => self.shared.defect(&panic),
                    }
                    if let Some(lane) = through.lane {
                        self.next_of(lane);
                    }
                }
                Err(defect) => self.shared.defect(&defect),
            }
            next = self.tasks.try_join_next();
        }
    }

    fn next_of(&mut self, lane: Lane) {
        // While we shut down nothing new begins.
        if self.shared.shutdown.is_cancelled() {
            return;
        }
        if let Some(carried) = self.lanes.through(&lane) {
            self.spawn(carried, Some(lane), Errand::Handle, Instant::now());
            self.shared.room.in_lanes(self.lanes.waiting());
        }
    }

    fn park_behind(&mut self, lane: &Lane) {
        for carried in self.lanes.stick(lane) {
            self.spawn(carried, None, Errand::ParkBehind, Instant::now());
        }
    }
}

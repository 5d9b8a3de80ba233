//! Capture by delivery: receive, admit, insert, and only when the letters are durable is the broker told.
//!
//! A crash between the last two leaves a second delivery, which its dedupe key recognises, or the window of what was in
//! flight where the broker gives no coordinates (`window.rs`). While a batch is being stored and settled, the next is
//! received; up to [`window::SLOTS`] are under way. Nothing is dropped here that was not stored: what cannot be
//! stored now is held, and the broker holds the rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dlo_core::broker::{BrokerError, Delivery, Settled, Settlement, Settler, Source, Unsettled};
use dlo_core::letter::NewLetter;
use dlo_core::origin::BrokerKind;
use dlo_store::{Batch, Checkpoint, Inserted, Lease, StoreError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::admit::{self, Found};
use super::desk::{Desk, Pause, Trouble};
use super::pace::{Portion, weight};
use super::whole::make_whole;
use super::window::{self, Digest, Window};
use crate::ingest::chunk;

/// How long one question to the broker may wait for a message.
const WAIT: Duration = Duration::from_secs(1);
/// How long a batch waits for company while the store is busy with others.
const LINGER: Duration = Duration::from_millis(5);
/// A queue is one lane.
pub(super) const LANE: i32 = 0;

/// Drains the queue until `stop`, or until the lease is lost.
pub(super) async fn lane(desk: Arc<Desk>, lease: Option<Lease>, stop: CancellationToken) {
    let mut pause = Pause::new();
    while !stop.is_cancelled() {
        let trouble = match drain(&desk, lease.as_ref(), &stop, &mut pause).await {
            Ok(()) => break,
            Err(trouble) => trouble,
        };
        if trouble.is_lost_lease() {
            tracing::warn!(source = desk.spec.source, "another server captures this queue now");
            break;
        }
        desk.waits(LANE, &trouble);
        if !pause.wait(&stop).await {
            break;
        }
    }
    desk.leaves(LANE);
}

/// One source, from its opening to the error that ends it.
async fn drain(
    desk: &Arc<Desk>,
    lease: Option<&Lease>,
    stop: &CancellationToken,
    pause: &mut Pause,
) -> Result<(), Trouble> {
    let rows = desk.checkpoints().await?;
    let window = Window::load(&desk.spec.source, desk.queue_key(), &rows, desk.office.now());
    let opened = stop.run_until_cancelled(desk.spec.broker.drain(&desk.spec.dlq)).await;
    let Some(source) = opened else { return Ok(()) };
    let source = source?;
    desk.works(LANE);
    let mut drain = Drain {
        settler: source.settler(),
        desk: Arc::clone(desk),
        lease: lease.cloned(),
        stop: stop.clone(),
        window,
        jobs: JoinSet::new(),
        portion: Portion::new(),
        parted: None,
        swept: true,
    };
    let mut source = source;
    let ended = drain.run(&mut *source, pause).await;
    // What is under way is finished: it is in our hands, and settling it spares a second delivery.
    while !drain.jobs.is_empty() {
        drain.conclude().await?;
    }
    drain.sweep().await;
    if let Err(error) = source.close().await {
        let source = desk.spec.source.as_str();
        tracing::warn!(source, %error, "the queue did not close cleanly; what was not settled is delivered again");
    }
    ended
}

struct Drain {
    desk: Arc<Desk>,
    lease: Option<Lease>,
    stop: CancellationToken,
    settler: Arc<dyn Settler>,
    window: Window,
    jobs: JoinSet<Done>,
    portion: Portion,
    /// What receiving ended with after it had brought something.
    parted: Option<BrokerError>,
    /// Whether the marks of free slots are gone from the store.
    swept: bool,
}

/// One batch on its way.
struct Job {
    desk: Arc<Desk>,
    settler: Arc<dyn Settler>,
    stop: CancellationToken,
    slot: usize,
    letters: Vec<NewLetter>,
    rows: Vec<Checkpoint>,
    lease: Option<Lease>,
    settled: Vec<Settled>,
    known: u64,
}

/// What became of a batch.
struct Done {
    slot: usize,
    end: End,
}

enum End {
    Settled,
    /// Stored; what the broker knows of it is not known.
    InDoubt(BrokerError),
    /// Not stored: the lease is lost, or the office closes.
    NotStored(Option<StoreError>),
}

impl Drain {
    async fn run(&mut self, source: &mut dyn Source, pause: &mut Pause) -> Result<(), Trouble> {
        let stop = self.stop.clone();
        loop {
            while self.jobs.len() >= window::SLOTS as usize {
                self.conclude().await?;
            }
            let Some(received) = stop.run_until_cancelled(self.receive(source)).await else { return Ok(()) };
            match received {
                Ok(deliveries) if deliveries.is_empty() => {
                    self.desk.works(LANE);
                    while !self.jobs.is_empty() {
                        self.conclude().await?;
                    }
                    self.sweep().await;
                }
                Ok(deliveries) => {
                    pause.reset();
                    self.desk.works(LANE);
                    self.take_in(deliveries).await?;
                }
                // The source connects again by itself. What came before is concluded first: it may come again.
                Err(Trouble::Broker(error @ BrokerError::Unavailable(_))) => {
                    self.desk.waits(LANE, &Trouble::Broker(error));
                    while !self.jobs.is_empty() {
                        self.conclude().await?;
                    }
                    self.window.parted(self.desk.office.now());
                    if !pause.wait(&stop).await {
                        return Ok(());
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// The next deliveries; batches that finish meanwhile are concluded, and more company is waited for while others
    /// are being stored.
    async fn receive(&mut self, source: &mut dyn Source) -> Result<Vec<Delivery>, Trouble> {
        let most = self
            .portion
            .of(self.desk.room(window::SLOTS as usize))
            .min(self.desk.pace.most())
            .min(self.window.most());
        if let Some(parted) = self.parted.take() {
            return Err(parted.into());
        }
        let mut deliveries = Vec::new();
        let mut wait = WAIT;
        loop {
            let mut receiving = std::pin::pin!(source.receive(most - deliveries.len(), wait));
            let more = loop {
                tokio::select! {
                    more = &mut receiving => break more,
                    Some(done) = self.jobs.join_next() => self.note(done)?,
                }
            };
            match more {
                Ok(more) if more.is_empty() => return Ok(deliveries),
                Ok(more) => deliveries.extend(more),
                // What is in hand goes first.
                Err(error) if !deliveries.is_empty() => {
                    self.parted = Some(error);
                    return Ok(deliveries);
                }
                Err(error) => return Err(error.into()),
            }
            if deliveries.len() >= most || self.jobs.is_empty() {
                return Ok(deliveries);
            }
            wait = LINGER;
        }
    }

    /// Sends deliveries on their way to the store and back to the broker.
    async fn take_in(&mut self, deliveries: Vec<Delivery>) -> Result<(), Trouble> {
        let bytes = deliveries.iter().map(|delivery| weight(&delivery.message)).sum();
        self.portion.learn(deliveries.len(), bytes);
        self.desk.pace.pass(deliveries.len()).await;
        if deliveries.iter().any(|delivery| delivery.redelivered) {
            // What it may be a second delivery of must be known first: stored or not, settled or not.
            while !self.jobs.is_empty() {
                self.conclude().await?;
            }
        }
        let mut job = Job {
            desk: Arc::clone(&self.desk),
            settler: Arc::clone(&self.settler),
            stop: self.stop.clone(),
            slot: 0,
            letters: Vec::new(),
            rows: Vec::new(),
            lease: self.lease.clone(),
            settled: Vec::with_capacity(deliveries.len()),
            known: 0,
        };
        let mut digests = Vec::new();
        for (delivery, letters) in self.admit(deliveries).await? {
            let Admitted { unsettled, redelivered, digest } = delivery;
            job.settled.push(unsettled.settle(Settlement::Done));
            match digest {
                Some(digest) => {
                    // It stays in the window until the broker has confirmed, known or new.
                    digests.push(digest);
                    match redelivered && self.window.is_known(digest) {
                        true => job.known += 1,
                        false => job.letters.extend(letters),
                    }
                }
                None => job.letters.extend(letters),
            }
        }
        (job.slot, job.rows) = self.window.begin(digests, self.desk.office.now());
        self.swept = false;
        self.jobs.spawn(job.run());
        Ok(())
    }

    /// The letters of each delivery: one, unless it points to many.
    async fn admit(&self, deliveries: Vec<Delivery>) -> Result<Vec<(Admitted, Vec<NewLetter>)>, Trouble> {
        let (office, spec, now) = (&self.desk.office, &*self.desk.spec, self.desk.office.now());
        let mut admitted = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let (published_at, deliveries) = (delivery.published_at, delivery.delivery_count);
            // Artemis may forget with a broken connection that it had delivered a message: equal bytes must do there.
            let redelivered = delivery.redelivered || delivery.origin.broker == BrokerKind::Amqp1;
            let (message, place, unsettled) = delivery.split();
            // A place of its own makes a key of its own: no digest is needed.
            let digest = (!place.has_coordinates()).then(|| Digest::of(&message));
            let mut found = Found::new(&spec.dlq, &spec.mapper, message, place);
            (found.published_at, found.deliveries) = (published_at, deliveries);
            let whole = match found.is_pointer() {
                false => vec![found],
                true => make_whole(spec, vec![found]).await?,
            };
            let letters: Vec<NewLetter> = whole
                .into_iter()
                .map(|found| admit::letter(&office.admission, &spec.source, found, now))
                .collect::<Result<_, _>>()
                .map_err(Trouble::Refused)?;
            let digest = digest.filter(|_| letters.iter().any(|letter| letter.dedupe.is_none()));
            admitted.push((Admitted { unsettled, redelivered, digest }, letters));
        }
        Ok(admitted)
    }

    /// Waits for one batch and notes what became of it.
    async fn conclude(&mut self) -> Result<(), Trouble> {
        match self.jobs.join_next().await {
            Some(done) => self.note(done),
            None => Ok(()),
        }
    }

    fn note(&mut self, done: Result<Done, tokio::task::JoinError>) -> Result<(), Trouble> {
        let lost = |why: String| Trouble::Store(StoreError::Refused(why));
        let done = done.map_err(|error| lost(format!("a batch did not finish: {error}")))?;
        match done.end {
            End::Settled => self.window.settled(done.slot),
            End::InDoubt(error) => {
                self.window.unsettled(done.slot, self.desk.office.now());
                self.desk.waits(LANE, &Trouble::Broker(error));
            }
            End::NotStored(None) => {}
            End::NotStored(Some(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// Takes the marks of what is settled out of the store, when there is nothing else to do.
    async fn sweep(&mut self) {
        if self.swept {
            return;
        }
        let Some(checkpoints) = self.window.sweep() else { return };
        let batch = Batch { checkpoints, leases: self.lease.iter().cloned().collect(), ..Batch::default() };
        // If it fails, the next idle moment does it again.
        self.swept = chunk::insert(&self.desk.office, batch, self.desk.office.now()).await.is_ok();
    }
}

/// A batch that the store did not take yet, counted until this is dropped.
struct NotTaken(Arc<Desk>);

impl NotTaken {
    fn new(desk: &Arc<Desk>) -> Self {
        desk.not_taken.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(desk))
    }
}

impl Drop for NotTaken {
    fn drop(&mut self) {
        self.0.not_taken.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Admitted {
    unsettled: Unsettled,
    redelivered: bool,
    /// Set where the broker gives no coordinates.
    digest: Option<Digest>,
}

impl Job {
    async fn run(mut self) -> Done {
        let slot = self.slot;
        let end = match self.insert().await {
            Err(error) => End::NotStored(error),
            Ok(inserted) => {
                self.desk.count(&inserted, self.known);
                match self.settler.settle(std::mem::take(&mut self.settled)).await {
                    Ok(()) => End::Settled,
                    Err(error) => End::InDoubt(error),
                }
            }
        };
        Done { slot, end }
    }

    /// Inserts, for as long as it takes. `Err(None)`: the office closes.
    async fn insert(&mut self) -> Result<Vec<Inserted>, Option<StoreError>> {
        let mut waiting = None;
        let inserted = self.insert_at_last(&mut waiting).await;
        if waiting.take().is_some() && inserted.is_ok() {
            self.desk.works(LANE);
        }
        inserted
    }

    /// `waiting` is set as soon as the store has not taken the batch.
    async fn insert_at_last(
        &mut self,
        waiting: &mut Option<NotTaken>,
    ) -> Result<Vec<Inserted>, Option<StoreError>> {
        let mut pause = Pause::new();
        let letters = Arc::new(std::mem::take(&mut self.letters));
        let are_known_again = letters.iter().all(|letter| letter.dedupe.is_some());
        loop {
            let batch = Batch {
                letters: Arc::clone(&letters),
                checkpoints: self.rows.clone(),
                leases: self.lease.iter().cloned().collect(),
            };
            match chunk::insert(&self.desk.office, batch, self.desk.office.now()).await {
                Ok(inserted) => return Ok(inserted),
                Err(lost @ StoreError::LeaseLost(_)) => return Err(Some(lost)),
                // The broker delivers them again, and the window in the store says which of them are there.
                Err(error @ StoreError::Unconfirmed(_)) if !are_known_again => return Err(Some(error)),
                Err(error) => {
                    waiting.get_or_insert_with(|| NotTaken::new(&self.desk));
                    self.desk.waits(LANE, &Trouble::Store(error));
                }
            }
            if !pause.wait(&self.stop).await {
                return Err(None);
            }
        }
    }
}

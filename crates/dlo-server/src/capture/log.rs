//! Capture by position: one reader per partition, and the place kept in the store, in the same transaction as the letters.
//!
//! A lane reads while what it read before is being stored; it has one part on the way at most, because a place may only
//! move when everything before it is durable. The clerk ([`clerk`]) joins the parts of all lanes into large
//! transactions, two of them at once. Only when the place is durable is the broker told of it, for those who watch lag
//! there; a mirror tells nothing. What fails is read again from the stored place: nothing is kept for a second try.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{BrokerError, Look, Position, Reader};
use dlo_core::letter::NewLetter;
use dlo_store::{Batch, Checkpoint, Lease, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::admit::{self, Found};
use super::desk::{Desk, Pause, Trouble};
use super::pace::{self, Portion, weight};
use super::spec::Mode;
use super::whole::make_whole;
use crate::ingest::chunk;

/// Lanes that read at the same time; with more partitions they take turns.
const READING: usize = 16;
/// How long one look may wait for a record, when every lane has a turn of its own.
const WAIT: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(10);
/// Parts of lanes that may wait for the clerk.
const PARTS: usize = 64;
/// Transactions at once. Lanes in them differ, since each has one part on the way.
const TRANSACTIONS: usize = 2;
/// A part that is read and one that is being stored.
const SHARES: usize = 2;

/// What a lane hands to the clerk.
#[derive(Debug)]
struct Part {
    letters: Vec<NewLetter>,
    checkpoint: Checkpoint,
    lease: Option<Lease>,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// What the lanes of a log share.
#[derive(Debug)]
pub(super) struct Log {
    desk: Arc<Desk>,
    turns: Semaphore,
    parts: mpsc::Sender<Part>,
}

impl Log {
    /// The shared part, and the clerk that must run beside the lanes.
    pub(super) fn new(desk: Arc<Desk>) -> (Arc<Self>, impl Future<Output = ()> + Send) {
        let (parts, inbox) = mpsc::channel(PARTS);
        let log = Self { desk: Arc::clone(&desk), turns: Semaphore::new(READING), parts };
        (Arc::new(log), clerk(desk, inbox))
    }

    fn wait(&self) -> Duration {
        let lanes = self.desk.lanes.load(std::sync::atomic::Ordering::Relaxed).max(1);
        if lanes <= READING { WAIT } else { (WAIT * READING as u32 / lanes as u32).max(SHORTEST_WAIT) }
    }
}

/// Reads one partition until `stop`, or until its lease is lost.
pub(super) async fn lane(log: Arc<Log>, partition: i32, lease: Option<Lease>, stop: CancellationToken) {
    let mut pause = Pause::new();
    while !stop.is_cancelled() {
        let mut lane = Lane {
            log: Arc::clone(&log),
            partition,
            lease: lease.clone(),
            stop: stop.clone(),
            portion: Portion::new(),
            pending: None,
        };
        let trouble = match lane.follow(&mut pause).await {
            Ok(()) => break,
            Err(trouble) => trouble,
        };
        if trouble.is_lost_lease() {
            tracing::warn!(
                source = log.desk.spec.source,
                partition,
                "another server reads this partition now"
            );
            break;
        }
        log.desk.waits(partition, &trouble);
        if !pause.wait(&stop).await {
            break;
        }
    }
    log.desk.leaves(partition);
}

struct Lane {
    log: Arc<Log>,
    partition: i32,
    lease: Option<Lease>,
    stop: CancellationToken,
    portion: Portion,
    /// The part that is on its way, and the place it makes durable.
    pending: Option<(Position, oneshot::Receiver<Result<(), StoreError>>)>,
}

impl Lane {
    /// One reader, from its opening to the error that ends it.
    async fn follow(&mut self, pause: &mut Pause) -> Result<(), Trouble> {
        let log = Arc::clone(&self.log);
        let Some(opened) = self.stop.run_until_cancelled(self.open()).await else { return Ok(()) };
        let (mut reader, mut place) = opened?;
        log.desk.works(self.partition);
        loop {
            let Some(look) = self.look(&mut *reader).await? else { break };
            if look.skipped > 0 {
                let (source, partition, skipped) = (&log.desk.spec.source, self.partition, look.skipped);
                tracing::error!(
                    source,
                    partition,
                    skipped,
                    "records were removed before they were read; the retention of the dead-letter queue is too short"
                );
                log.desk.office.captures.skipped(source, look.skipped, log.desk.office.now());
            }
            if self.stored(&mut *reader).await? {
                pause.reset();
            }
            log.desk.works(self.partition);
            if place.as_ref() == Some(&look.position) {
                continue;
            }
            place = Some(look.position.clone());
            self.hand_over(look).await?;
        }
        self.stored(&mut *reader).await.map(drop)
    }

    /// Opens a reader at the stored place of the life that the queue has now.
    async fn open(&self) -> Result<(Box<dyn Reader>, Option<Position>), Trouble> {
        let desk = &self.log.desk;
        let stored: Vec<Position> =
            desk.checkpoints().await?.into_iter().filter_map(|row| self.position(row)).collect();
        // Which life the queue has now shows at the first look only; the furthest place is a guess, and most often right.
        let guess = stored.iter().max_by_key(|position| position.next).cloned();
        let mut reader = self.reader(guess.as_ref()).await?;
        if stored.len() < 2 {
            // A reader that is given the place of another life begins at the beginning by itself.
            return Ok((reader, guess));
        }
        let look = reader.read(1, Duration::ZERO).await?;
        let there = stored.iter().find(|position| position.incarnation == look.position.incarnation).cloned();
        // Opened anew, since looking has moved it; a look that found nothing costs nothing to repeat.
        if there != guess || look.position.next != there.as_ref().map_or(0, |there| there.next) {
            reader = self.reader(there.as_ref()).await?;
        }
        Ok((reader, there))
    }

    async fn reader(&self, from: Option<&Position>) -> Result<Box<dyn Reader>, BrokerError> {
        let spec = &self.log.desk.spec;
        spec.broker.reader(&spec.dlq, self.partition, from).await
    }

    /// The next look, when it is this lane's turn. `None`: it was stopped.
    async fn look(&mut self, reader: &mut dyn Reader) -> Result<Option<Look>, Trouble> {
        let desk = &self.log.desk;
        let most = self.portion.of(desk.room(SHARES)).min(desk.pace.most());
        let turn = self.stop.run_until_cancelled(self.log.turns.acquire()).await;
        let Some(Ok(_turn)) = turn else { return Ok(None) };
        let look = self.stop.run_until_cancelled(reader.read(most, self.log.wait())).await;
        Ok(look.transpose()?)
    }

    /// Makes letters of what was seen and hands them to the clerk.
    async fn hand_over(&mut self, look: Look) -> Result<(), Trouble> {
        let desk = &self.log.desk;
        let (office, spec, now) = (&desk.office, &*desk.spec, desk.office.now());
        let bytes = look.seen.iter().map(|seen| weight(&seen.message)).sum();
        self.portion.learn(look.seen.len(), bytes);
        desk.pace.pass(look.seen.len()).await;
        let found = look.seen.into_iter().map(|seen| {
            let mut found = Found::new(&spec.dlq, &spec.mapper, seen.message, seen.origin);
            found.published_at = seen.published_at;
            found
        });
        let whole = make_whole(spec, found.collect()).await?;
        let mut letters = Vec::with_capacity(whole.len());
        for found in whole {
            letters
                .push(admit::letter(&office.admission, &spec.source, found, now).map_err(Trouble::Refused)?);
        }
        let (reply, answer) = oneshot::channel();
        let checkpoint = self.checkpoint(&look.position);
        let part = Part { letters, checkpoint, lease: self.lease.clone(), reply };
        self.log.parts.send(part).await.map_err(|_| closed())?;
        self.pending = Some((look.position, answer));
        Ok(())
    }

    /// Waits until what is on its way is durable, then tells the broker of the place. `false`: nothing was on its way.
    async fn stored(&mut self, reader: &mut dyn Reader) -> Result<bool, Trouble> {
        let Some((position, answer)) = self.pending.take() else { return Ok(false) };
        answer.await.map_err(|_| closed())??;
        match self.log.desk.spec.mode {
            // Durable before it is told. If telling fails, the next one says it as well.
            Mode::Drain => {
                if let Err(error) = reader.tell(&position).await {
                    let source = self.log.desk.spec.source.as_str();
                    tracing::debug!(source, partition = self.partition, %error, "the broker was not told of the position");
                }
            }
            Mode::Mirror => {}
        }
        Ok(true)
    }

    fn prefix(&self) -> String {
        format!("{}@", self.log.desk.queue_key())
    }

    fn checkpoint(&self, position: &Position) -> Checkpoint {
        Checkpoint {
            source: self.log.desk.spec.source.clone(),
            incarnation: format!("{}{}", self.prefix(), position.incarnation),
            partition: position.partition,
            next: position.next,
            mark: position.mark.clone(),
        }
    }

    fn position(&self, row: Checkpoint) -> Option<Position> {
        let incarnation = row.incarnation.strip_prefix(&self.prefix())?.to_string();
        let Checkpoint { partition, next, mark, .. } = row;
        (partition == self.partition).then_some(Position { incarnation, partition, next, mark })
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("capture is closing".into())
}

/// Joins parts into transactions until no lane is left to send one.
async fn clerk(desk: Arc<Desk>, mut inbox: mpsc::Receiver<Part>) {
    let mut writing = JoinSet::new();
    while let Some(first) = inbox.recv().await {
        let mut letters = first.letters.len();
        let mut parts = vec![first];
        while letters < pace::MOST
            && let Ok(part) = inbox.try_recv()
        {
            letters += part.letters.len();
            parts.push(part);
        }
        writing.spawn(write(Arc::clone(&desk), parts));
        if writing.len() >= TRANSACTIONS {
            writing.join_next().await;
        }
    }
    while writing.join_next().await.is_some() {}
}

/// Writes parts in one transaction and answers each.
async fn write(desk: Arc<Desk>, parts: Vec<Part>) {
    let (mut batch, mut letters) = (Batch::default(), Vec::new());
    let mut waiting = Vec::with_capacity(parts.len());
    for part in parts {
        letters.extend(part.letters);
        batch.checkpoints.push(part.checkpoint);
        let name = part.lease.as_ref().map(|lease| lease.name.clone());
        batch.leases.extend(part.lease);
        waiting.push((name, part.reply));
    }
    batch.letters = Arc::new(letters);
    let result = chunk::insert(&desk.office, batch, desk.office.now()).await;
    if let Ok(inserted) = &result {
        desk.count(inserted, 0);
    }
    for (name, reply) in waiting {
        let answer = match &result {
            Ok(_) => Ok(()),
            Err(StoreError::LeaseLost(lost)) if name.as_ref() != Some(lost) => Err(StoreError::Unavailable(
                format!("written together with a part whose lease `{lost}` was lost"),
            )),
            Err(error) => Err(error.clone()),
        };
        // A lane that is gone needs no answer: whoever reads next begins at the stored place.
        let _ = reply.send(answer);
    }
}

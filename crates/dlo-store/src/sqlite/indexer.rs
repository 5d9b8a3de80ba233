//! The thread that keeps the index of texts close behind the rows.
//!
//! It reads with a connection of its own, so that unpacking and sorting cost the writer nothing; what it built is
//! written by the writer between two batches. After each turn the index is kept in shape, by one deed (`upkeep.rs`); large
//! segments are merged when nothing waits any more, or when too many of them are there.
//!
//! While letters pour in it stands back, so that a burst has the processors to itself: until [`ROOM`] wait, which a
//! search scans meanwhile, and which are indexed within a second or two when the burst is over. A burst that goes on makes
//! room for it: whoever brings letters waits a little while [`MOST`] are behind, so that a storm of millions is found in
//! as soon as one of thousands.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::merge::Pace;
use super::upkeep::Upkeep;
use super::writer::{Job, Shared, Writer};
use super::{index, open};
use crate::StoreError;

/// How often it is looked whether blocks wait.
const LOOK: Duration = Duration::from_millis(200);
/// Letters that may wait while more pour in.
const ROOM: u64 = 40_000;
/// New letters between two looks that are a burst: some thousands a second.
const BURST: u64 = 1_000;
/// Letters that may be behind before whoever brings more waits for the index.
const MOST: u64 = 80_000;
/// How long one batch waits for it at most: letters are captured whatever becomes of the index.
const HOLD: Duration = Duration::from_millis(100);
/// How long nothing has waited when it is calm: a burst goes on more often than not.
const CALM: Duration = Duration::from_secs(2);
/// Between two deeds of upkeep while nothing waits.
const BREATH: Duration = Duration::from_millis(20);
/// How long after a failure it is tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// The thread ends when this is dropped, or when the writer is gone.
#[derive(Debug)]
pub(super) struct Indexing {
    _end: Sender<()>,
}

impl Indexing {
    pub(super) fn start(database: &Path, shared: Arc<Shared>, jobs: Sender<Job>) -> Result<Self, StoreError> {
        let reader = open::reader(database)?;
        let (end, ended) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("dlo-store-index".into())
            .spawn(move || run(&reader, &shared, &jobs, &ended))
            .map_err(|e| StoreError::Refused(format!("cannot start the indexing thread: {e}")))?;
        Ok(Self { _end: end })
    }
}

/// Waits while too much is behind, for a moment at most.
pub(super) async fn close_behind(shared: &Shared) {
    let until = tokio::time::Instant::now() + HOLD;
    loop {
        // Heard from here on, even before it is waited for.
        let indexed = shared.indexed.notified();
        let is_close = shared.unindexed.load(Ordering::Relaxed) <= MOST;
        if is_close || tokio::time::timeout_at(until, indexed).await.is_err() {
            return;
        }
    }
}

fn run(reader: &Connection, shared: &Shared, jobs: &Sender<Job>, ended: &Receiver<()>) {
    let (mut patience, mut before) = (LOOK, 0);
    let mut keeping = Keeping::default();
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(patience) {
        let waiting = shared.unindexed.load(Ordering::Relaxed);
        let new = waiting.saturating_sub(std::mem::replace(&mut before, waiting));
        patience = LOOK;
        // On a full disk, the index would take the space that people need for reading.
        if (new > BURST && waiting < ROOM) || shared.space.is_full() {
            keeping.calm = None;
            continue;
        }
        let indexed = if waiting > 0 { turn(reader, shared, jobs) } else { Ok(Turn::Done) };
        let kept = indexed.and_then(|turn| match turn {
            Turn::Closed => Ok((turn, Turn::Closed)),
            _ => Ok((turn, keeping.turn(reader, shared, jobs, waiting > 0)?)),
        });
        match kept {
            Ok((Turn::Closed, _) | (_, Turn::Closed)) => return,
            // What waited is written: there may be more.
            Ok((Turn::More, _)) => patience = Duration::ZERO,
            Ok((_, Turn::More)) => patience = BREATH,
            Ok((Turn::Done, Turn::Done)) => {}
            Err(error) => {
                let error = shared.space.judge(error);
                keeping = Keeping::default();
                if !error.is_disk_full() {
                    tracing::warn!(%error, "texts could not be indexed; they are scanned meanwhile");
                    patience = PAUSE;
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Done,
    More,
    /// The writer is gone.
    Closed,
}

fn turn(reader: &Connection, shared: &Shared, jobs: &Sender<Job>) -> Result<Turn, StoreError> {
    let built = index::build(reader, shared)?;
    let store = move |writer: &mut Writer| match built {
        Some(built) => index::store(&mut writer.connection, &writer.shared, &built),
        // None waits, whatever was counted.
        None => count_anew(writer).map(|_| 0),
    };
    match written(jobs, store) {
        // A block that keeps its mark waits for the next look.
        Some(blocks) => Ok(if blocks? > 0 { Turn::More } else { Turn::Done }),
        None => Ok(Turn::Closed),
    }
}

/// The upkeep of the index, a deed between two turns.
#[derive(Debug, Default)]
struct Keeping {
    upkeep: Upkeep,
    /// Since when nothing waits.
    calm: Option<Instant>,
    /// All was well in this epoch, and nothing was indexed since.
    settled: Option<u64>,
}

impl Keeping {
    fn turn(
        &mut self,
        reader: &Connection,
        shared: &Shared,
        jobs: &Sender<Job>,
        indexed: bool,
    ) -> Result<Turn, StoreError> {
        let epoch = shared.epoch.load(Ordering::SeqCst);
        if !indexed && self.settled == Some(epoch) {
            return Ok(Turn::Done);
        }
        self.settled = None;
        if shared.unindexed.load(Ordering::Relaxed) > 0 {
            self.calm = None;
        }
        let calm = shared.unindexed.load(Ordering::Relaxed) == 0
            && self.calm.get_or_insert_with(Instant::now).elapsed() >= CALM;
        let pace = if calm { Pace::Calm } else { Pace::Busy };
        let Some(deed) = self.upkeep.next(reader, shared, pace)? else {
            self.settled = calm.then_some(epoch);
            return Ok(Turn::Done);
        };
        match written(jobs, |writer| deed.perform(writer)) {
            Some(outcome) => self.upkeep.note(outcome?),
            None => return Ok(Turn::Closed),
        }
        Ok(Turn::More)
    }
}

/// Counts what waits by its marks. On the writing thread only, where nobody adds to it meanwhile.
pub(super) fn count_anew(writer: &Writer) -> Result<u64, StoreError> {
    let waiting = index::waiting(&writer.connection)?;
    writer.shared.unindexed.store(waiting, Ordering::Relaxed);
    Ok(waiting)
}

/// Has the writer do it, and waits. `None`: there is no writer any more.
fn written<T: Send + 'static>(
    jobs: &Sender<Job>,
    work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
) -> Option<Result<T, StoreError>> {
    let (reply, answer) = std::sync::mpsc::channel();
    let job = Job::Run(Box::new(move |writer| {
        let _ = reply.send(work(writer));
    }));
    jobs.send(job).ok()?;
    answer.recv().ok()
}

/// Indexes and merges whatever waits, here and now.
pub(super) fn finish(writer: &mut Writer) -> Result<u64, StoreError> {
    let shared = Arc::clone(&writer.shared);
    // The thread gives up what it has under way: its merges would be of the same segments.
    shared.epoch.fetch_add(1, Ordering::SeqCst);
    let mut upkeep = Upkeep::default();
    loop {
        let built = index::build(&writer.connection, &shared)?;
        let indexed = match &built {
            Some(built) => index::store(&mut writer.connection, &shared, built)?,
            None => 0,
        };
        while let Some(deed) = upkeep.next(&writer.connection, &shared, Pace::Calm)? {
            upkeep.note(deed.perform(writer)?);
        }
        if indexed == 0 {
            return count_anew(writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn behind(letters: u64) -> Arc<Shared> {
        let shared = Shared::default();
        shared.unindexed.store(letters, Ordering::Relaxed);
        Arc::new(shared)
    }

    #[tokio::test(start_paused = true)]
    async fn letters_wait_for_the_index_until_it_is_close_and_for_a_moment_at_most() {
        let started = Instant::now();
        close_behind(&behind(MOST)).await;
        assert_eq!(started.elapsed(), Duration::ZERO, "it is close");

        let shared = behind(MOST + 8_000);
        let waiting = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { close_behind(&shared).await }
        });
        tokio::time::sleep(HOLD / 4).await;
        shared.indexed.notify_waiters();
        tokio::time::sleep(HOLD / 4).await;
        assert!(!waiting.is_finished(), "something was indexed, and not enough");
        shared.unindexed.store(MOST, Ordering::Relaxed);
        shared.indexed.notify_waiters();
        waiting.await.unwrap();
        assert_eq!(started.elapsed(), HOLD / 2);

        close_behind(&behind(u64::MAX)).await;
        assert_eq!(started.elapsed(), HOLD / 2 + HOLD, "nobody indexes any more");
    }
}

//! The thread that keeps the index of texts close behind the rows.
//!
//! It reads with a connection of its own, so that unpacking and sorting cost the writer nothing; what it built is
//! written by the writer between two batches. After each turn segments are merged where there are many, and what died
//! in them is left out.
//!
//! While letters pour in it stands back, so that a burst has the processors to itself: until [`ROOM`] wait, which a
//! search scans meanwhile, and which are indexed within a second or two when the burst is over. A burst that goes on makes
//! room for it: whoever brings letters waits a little while [`MOST`] are behind, so that a storm of millions is found in
//! as soon as one of thousands.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rusqlite::Connection;

use super::writer::{Job, Shared, Writer};
use super::{index, merge, open};
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
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(patience) {
        patience = LOOK;
        let waiting = shared.unindexed.load(Ordering::Relaxed);
        let new = waiting.saturating_sub(std::mem::replace(&mut before, waiting));
        if waiting == 0 || (new > BURST && waiting < ROOM) {
            continue;
        }
        match turn(reader, jobs) {
            Ok(Turn::Done) => {}
            // What waited is written: there may be more.
            Ok(Turn::More) => patience = Duration::ZERO,
            Ok(Turn::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "texts could not be indexed; they are scanned meanwhile");
                patience = PAUSE;
            }
        }
    }
}

enum Turn {
    Done,
    More,
    /// The writer is gone.
    Closed,
}

fn turn(reader: &Connection, jobs: &Sender<Job>) -> Result<Turn, StoreError> {
    let built = index::build(reader)?;
    let store = move |writer: &mut Writer| match built {
        Some(built) => index::store(&mut writer.connection, &writer.shared, &built),
        // None waits, whatever was counted.
        None => count_anew(writer).map(|_| 0),
    };
    let turn = match written(jobs, store) {
        // A block that keeps its mark waits for the next look.
        Some(blocks) => {
            if blocks? > 0 {
                Turn::More
            } else {
                Turn::Done
            }
        }
        None => return Ok(Turn::Closed),
    };
    for pick in [merge::Pick::Alike, merge::Pick::Outdated] {
        let Some(merged) = merge::build(reader, pick)? else { break };
        match written(jobs, move |writer| put_in_place(writer, &merged)) {
            Some(done) => done?,
            None => return Ok(Turn::Closed),
        }
    }
    Ok(turn)
}

fn put_in_place(writer: &mut Writer, merged: &merge::Merged) -> Result<(), StoreError> {
    merge::store(&mut writer.connection, merged)?;
    if let Some(segment) = merged.damaged() {
        tracing::warn!(segment, "a segment of the text index was damaged; its letters are indexed again");
        count_anew(writer)?;
    }
    Ok(())
}

/// Counts what waits by its marks. On the writing thread only, where nobody adds to it meanwhile.
fn count_anew(writer: &Writer) -> Result<u64, StoreError> {
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

/// Indexes whatever waits, here and now.
pub(super) fn finish(writer: &mut Writer) -> Result<u64, StoreError> {
    while let Some(built) = index::build(&writer.connection)? {
        if index::store(&mut writer.connection, &writer.shared, &built)? == 0 {
            break;
        }
        for pick in [merge::Pick::Alike, merge::Pick::Outdated] {
            let Some(merged) = merge::build(&writer.connection, pick)? else { break };
            put_in_place(writer, &merged)?;
        }
    }
    count_anew(writer)
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

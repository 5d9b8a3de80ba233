//! The thread that keeps the index of texts close behind the rows.
//!
//! It reads with a connection of its own, so that unpacking and sorting cost the writer nothing; what it built is
//! written by the writer between two batches.

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

fn run(reader: &Connection, shared: &Shared, jobs: &Sender<Job>, ended: &Receiver<()>) {
    let mut patience = LOOK;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(patience) {
        patience = LOOK;
        if shared.unindexed.load(Ordering::Relaxed) == 0 {
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
    let mut turn = Turn::Done;
    if let Some(built) = index::build(reader)? {
        let store = move |writer: &mut Writer| index::store(&mut writer.connection, &writer.shared, &built);
        match written(jobs, store) {
            // A block that keeps its mark waits for the next look.
            Some(blocks) => turn = if blocks? > 0 { Turn::More } else { Turn::Done },
            None => return Ok(Turn::Closed),
        }
    }
    let merged = match merge::build(reader) {
        // What is damaged is not merged: searches then look through all blocks of its segment.
        Err(StoreError::Unreadable(_)) => None,
        merged => merged?,
    };
    if let Some(merged) = merged {
        match written(jobs, move |writer| merge::store(&mut writer.connection, &merged)) {
            Some(done) => done?,
            None => return Ok(Turn::Closed),
        }
    }
    Ok(turn)
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
        if let Some(merged) = merge::build(&writer.connection)? {
            merge::store(&mut writer.connection, &merged)?;
        }
    }
    let waiting = index::waiting(&writer.connection)?;
    writer.shared.unindexed.store(waiting, Ordering::Relaxed);
    Ok(waiting)
}

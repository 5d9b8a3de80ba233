//! The thread that keeps the index of texts close behind the rows.
//!
//! It reads with a connection of its own, so that unpacking and sorting cost the writer nothing; what it built is
//! written by the writer between two batches. After each turn segments are merged where there are many, and what died
//! in them is left out.
//!
//! While letters pour in it stands back, so that a burst has the processors to itself: until [`ROOM`] wait, which a
//! search scans meanwhile, and which are indexed within a second or two when the burst is over.

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

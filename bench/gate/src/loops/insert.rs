//! A batch of letters into the embedded store: packed, compressed, written and committed, on the threads that do so.

use dlo_core::letter::NewLetter;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Batch, Store, StoreLimits};

use super::turn;
use crate::letters;

/// Letters of one batch.
pub(super) const LETTERS: u64 = 200;

fn batch(n: u64) -> Vec<NewLetter> {
    (n * LETTERS..(n + 1) * LETTERS).map(letters::letter).collect()
}

/// The text index is built behind the rows, when the machine has time; here it would be built at another moment each run.
pub(super) fn batches(turns: u64, most: u64) {
    let scratch = tempfile::tempdir().expect("a directory");
    let limits = StoreLimits { index_behind: false, ..StoreLimits::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let store = SqliteStore::open(scratch.path(), limits).expect("a store");
    let now = letters::failed_at(most * LETTERS);
    turn(turns, most, batch, |letters| {
        let batch = Batch { letters: letters.into(), ..Batch::default() };
        runtime.block_on(store.insert(batch, now)).expect("inserted").len()
    });
    runtime.block_on(store.close()).expect("closed");
}

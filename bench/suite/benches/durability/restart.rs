//! Restarts behind a kill, in turns: an office, a bare SQLite file with the same rows, and PostgreSQL with the table that
//! people make by hand. Each is killed while rows come, and the clock runs from its start to its newest fifty.
//!
//! What is killed is not the same: the office is behind with its index as well, SQLite serves nobody but itself, and
//! PostgreSQL ends by its own immediate shutdown, which is its crash. It writes a checkpoint before each round, so that it
//! recovers what this round wrote.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measure::Median;
use crate::moment::{Moment, Moments};
use crate::office::{number_behind, post};
use crate::postgres::Postgres;
use crate::sending::{chunks, send};
use crate::serving::start;
use crate::sqlite::Sqlite;
use crate::{Asked, record};

/// Rows that come in a round; somebody is killed in the middle of them.
pub(crate) const MORE: u64 = 20_000;
/// Letters of one piece on the way to a filled store.
const PIECE: u64 = 50_000;

pub(crate) async fn run(asked: Asked<'_>, moments: &mut Moments) {
    let Asked { letters, rounds, scratch, .. } = asked;
    println!("W12 restarts behind a kill, {letters} letters, {rounds} rounds");
    let office = tokio::task::block_in_place(|| Filled::new(scratch, letters));
    let sqlite = tokio::task::block_in_place(|| Sqlite::filled(scratch, letters));
    let postgres = Postgres::filled(letters).await;
    let (mut ours, mut file, mut server) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let moment = moments.next(MORE);
        let first = letters + round * MORE;
        let (one, two) =
            tokio::task::block_in_place(|| (office.round(moment, first), sqlite.round(moment, first)));
        let three = postgres.round(moment, first).await;
        // The first round warms everything up and does not count.
        if round > 0 {
            println!("  round {round}: the office {one:.3} s, SQLite {two:.3} s, PostgreSQL {three:.3} s");
            ours.push(one);
            file.push(two);
            server.push(three);
        }
    }
    record::figure("durability.restart.office", "s", Median::of(ours));
    record::figure("durability.restart.sqlite", "s", Median::of(file));
    record::figure("durability.restart.postgres", "s", Median::of(server));
}

/// An office with letters in its store.
struct Filled {
    data: PathBuf,
}

impl Filled {
    fn new(scratch: &Path, letters: u64) -> Self {
        let data = scratch.join("filled");
        let office = crate::office::Office::start(&data);
        for first in (0..letters).step_by(PIECE as usize) {
            send(&office, first, PIECE.min(letters - first));
        }
        Self { data }
    }

    /// Seconds until an office answers that starts behind a kill.
    fn round(&self, moment: Moment, first: u64) -> f64 {
        let (office, _) = start(&self.data);
        let total = || number_behind(&office.get("/api/v1/stats").1, "\"total\":");
        let (before, port, bodies) = (total(), office.port, chunks(first, first + MORE));
        // It is refused in the middle, when the office is gone.
        let sender = std::thread::spawn(move || post(port, &bodies));
        moment.wait(|| total() - before);
        let stored = total();
        let pid = office.pid().to_string();
        let told = Command::new("kill").args(["-KILL", &pid]).status().expect("run kill");
        assert!(told.success(), "the office is there to be killed");
        let _ = sender.join().expect("the sender");
        drop(office);
        let (again, spent) = start(&self.data);
        let found = number_behind(&again.get("/api/v1/stats").1, "\"total\":");
        assert!(found >= stored, "{stored} letters were stored, {found} are there");
        spent
    }
}

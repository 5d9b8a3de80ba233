//! PostgreSQL beside the store: one hand-made table for all that is asked of both, given an index when its turn comes.
//!
//! First texts and fields without an index for them, then texts with trigrams, then lists and counts with the right
//! composite indexes. Its settings are its own defaults, but for `fsync=off`, which questions do not meet. Then those who
//! are made for one kind of question: Tantivy for texts, DuckDB for counts.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_store::sqlite::SqliteStore;
use dlo_store::{Store, StoreLimits};
use dlo_testkit::harness::postgres::Postgres;
use tokio_postgres::Client;

use crate::questions::{self, Sql, Turns};
use crate::{capture, columns, peer, piped, postgres_lists, words};

pub(crate) async fn run(scratch: &Path, data: &Path, count: u64, rounds: u64) {
    let database = Postgres::shared().await.database().await;
    let loading = Instant::now();
    let theirs = peer::filled(&database.url, count).await;
    println!("beside PostgreSQL {}", peer::said(&theirs).await);
    println!("  loaded in {:.0} s", loading.elapsed().as_secs_f64());
    let ours = SqliteStore::open(data, StoreLimits::default()).expect("open");
    println!(
        "  our index: {:.0} B a letter, payloads of 1 KB and headers included",
        capture::index_bytes(data) / count as f64
    );
    println!(
        "questions: {count} letters, each {rounds} times of ours and a tenth of that of PostgreSQL, in turn"
    );
    let turns = Turns { rounds, every: 10, patience: Duration::from_secs(60) };
    let mut sql = Sql::of(&theirs);
    questions::ask(&ours, &mut sql, &questions::WITHOUT_INDEX, count, &turns, "search.ilike").await;
    trigrams(&ours, &theirs, count, rounds).await;
    postgres_lists::run(&ours, &theirs, count).await;
    let letters = scratch.join("letters.tsv");
    piped::export(&letters, count);
    columns::run(&ours, &letters, scratch, count).await;
    words::run(&ours, &letters, scratch, count, rounds).await;
    ours.close().await.expect("close");
}

/// The same questions about error text, with the index that PostgreSQL has for them.
async fn trigrams(ours: &SqliteStore, theirs: &Client, count: u64, rounds: u64) {
    println!(
        "trigrams: {count} letters, each question {rounds} times of both in turn, pg_trgm on error_message"
    );
    if let Err(why) = theirs.batch_execute("CREATE EXTENSION pg_trgm").await {
        return println!("  SKIPPED: PostgreSQL has no pg_trgm here ({why}); Debian's postgresql brings it");
    }
    let building = Instant::now();
    theirs.batch_execute(peer::TRIGRAMS).await.expect("the index of trigrams");
    println!(
        "  index of trigrams: built in {:.0} s, {:.0} B a row",
        building.elapsed().as_secs_f64(),
        peer::bytes(theirs, "dead_letters_trigrams").await / count as f64
    );
    let turns = Turns { rounds, every: 1, patience: Duration::from_secs(20) };
    let mut sql = Sql::of(theirs);
    questions::ask(ours, &mut sql, &questions::OF_ERROR_TEXT, count, &turns, "search.trigram").await;
}

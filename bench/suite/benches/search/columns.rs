//! DuckDB beside the store: counts by type, class and status, which it takes from its columns with all processors.
//!
//! What is compared: a call of our `Store` in this process, to a statement of DuckDB in its own. It has no payloads, which
//! counts do not read.

use std::path::Path;
use std::time::Instant;

use dlo_bench::measure::Median;
use dlo_bench::record;
use dlo_store::Store;
use dlo_store::sqlite::SqliteStore;

use crate::piped::Piped;
use crate::postgres_lists::{COUNTED, open_causes};

pub(crate) async fn run(ours: &SqliteStore, letters: &Path, scratch: &Path, count: u64) {
    println!("beside DuckDB: {count} letters, counts {COUNTED} times of both in turn");
    let place = scratch.join("letters.duckdb");
    let Some(mut theirs) = Piped::start("duckdb", "duckdb_counts.py", letters, &place) else { return };
    println!("  loaded in {:.0} s", theirs.loaded.as_secs_f64());
    let (mut mine, mut other) = (Vec::<f64>::new(), Vec::<f64>::new());
    for n in 0..=COUNTED {
        let started = Instant::now();
        let causes = ours.causes(None).await.expect("causes");
        let spent = started.elapsed().as_secs_f64() * 1_000.0;
        let [rows, sum, millis] = tokio::task::block_in_place(|| theirs.ask::<3>("counts"));
        assert_eq!(open_causes(&causes), (rows as usize, sum as u64), "causes and letters");
        assert_eq!(sum as u64, count, "every letter is counted");
        if n > 0 {
            mine.push(spent);
            other.push(millis);
        }
    }
    let (faster, [mine, other]) = (Median::paired(&other, &mine), [mine, other].map(Median::of));
    println!("  counts by (type, class, status): {mine} ms; DuckDB {other} ms");
    record::figure("triage.duckdb-counts", "x", faster);
}

//! How old open letters are: one range of an index for each age.

use std::time::Duration;

use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::read_error;
use crate::StoreError;
use crate::place::Place;
use crate::triage::{AGE_HOURS, AgeCount};

pub(super) fn open_ages(db: &Connection, now: Timestamp) -> Result<Vec<AgeCount>, StoreError> {
    let mut count = db
        .prepare_cached(
            "SELECT count(*) FROM letters INDEXED BY letters_by_status WHERE status = ?1 AND place >= ?2 AND place < ?3",
        )
        .map_err(read_error)?;
    let mut ages = Vec::with_capacity(AGE_HOURS.len() + 1);
    let mut high = Place::END;
    let ranges = AGE_HOURS.iter().map(|hours| Some(Duration::from_secs(hours * 60 * 60))).chain([None]);
    for younger_than in ranges {
        let low = younger_than.map_or(Place(0), |age| Place::from(now.minus(age)));
        let n: i64 = count
            .query_row(params![Status::Open.number(), low.0, high.0], |row| row.get(0))
            .map_err(read_error)?;
        ages.push(AgeCount { younger_than, count: u64::try_from(n).unwrap_or(0) });
        high = low;
    }
    Ok(ages)
}

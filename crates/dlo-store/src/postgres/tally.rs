//! What one transaction changes of what is kept at write time: counts, first and last seen, captures of a source.
//!
//! Collected in memory and written once, last of all: the locks on these rows are then held for the commit and little
//! more. Each backend writes to a shard of its own, and rows are written in the order of their keys, so that
//! transactions neither queue behind one row nor wait for each other in a circle.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::letter::{NewLetter, Status};
use dlo_core::time::Timestamp;
use dlo_core::trend::Resolution;

use super::rows::GroupRow;
use super::text::escape;
use super::{read_error, triage};
use crate::StoreError;

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: BTreeMap<(GroupRow, Status), i64>,
    seen: BTreeMap<GroupRow, (Timestamp, Timestamp)>,
    sources: BTreeMap<String, Arrived>,
    /// What may change where groups stand.
    arrivals: triage::Arrivals,
    /// Letters by group and minute.
    minutes: HashMap<(GroupRow, i64), i64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrived {
    /// Less than zero when letters went on to another source.
    pub(super) captured: i64,
    pub(super) deaths: i64,
}

/// Of eight: enough that writers seldom meet, few enough that sums stay cheap.
const COUNT: &str = "
    INSERT INTO counts SELECT t.group_id, t.status, pg_backend_pid() % 8, t.n
      FROM UNNEST($1::bigint[], $2::smallint[], $3::bigint[]) AS t (group_id, status, n)
    ON CONFLICT (group_id, status, shard) DO UPDATE SET n = counts.n + excluded.n";

const SEE: &str = "
    INSERT INTO seen SELECT t.group_id, pg_backend_pid() % 8, t.first, t.last
      FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[]) AS t (group_id, first, last)
    ON CONFLICT (group_id, shard) DO UPDATE
       SET first_seen = least(seen.first_seen, excluded.first_seen),
           last_seen = greatest(seen.last_seen, excluded.last_seen)";

/// A source that a letter went away from captured nothing now.
const ARRIVE: &str = "
    INSERT INTO sources
    SELECT t.name, pg_backend_pid() % 8, t.captured, t.deaths, CASE WHEN t.deaths > 0 THEN $4::bigint ELSE 0 END
      FROM UNNEST($1::text[], $2::bigint[], $3::bigint[]) AS t (name, captured, deaths)
    ON CONFLICT (name, shard) DO UPDATE
       SET captured = sources.captured + excluded.captured, deaths = sources.deaths + excluded.deaths,
           last_captured = greatest(sources.last_captured, excluded.last_captured)";

impl Tally {
    pub(super) fn count(&mut self, group: GroupRow, status: Status, delta: i64) {
        *self.counts.entry((group, status)).or_default() += delta;
    }

    /// A letter arrived in the group.
    pub(super) fn see(&mut self, group: GroupRow, letter: &NewLetter) {
        let at = letter.failed_at;
        self.arrivals.entry(group).or_default().push((letter.consumer_version.clone(), at));
        *self.minutes.entry((group, Resolution::Minute.bucket(at))).or_default() += 1;
        let (first, last) = self.seen.entry(group).or_insert((at, at));
        *first = (*first).min(at);
        *last = (*last).max(at);
    }

    /// A letter went from one group to another, with its count in the trend at the time of its failure. It did not arrive:
    /// nobody is woken by it.
    pub(super) fn went(&mut self, from: GroupRow, to: GroupRow, status: Status, failed_at: Timestamp) {
        let minute = Resolution::Minute.bucket(failed_at);
        for (group, delta) in [(from, -1), (to, 1)] {
            self.count(group, status, delta);
            *self.minutes.entry((group, minute)).or_default() += delta;
        }
    }

    pub(super) fn arrived(&mut self, source: &str) -> &mut Arrived {
        self.sources.entry(source.to_string()).or_default()
    }

    pub(super) async fn write(&self, db: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
        self.write_seen(db, now).await?;
        triage::write_trends(db, &self.minutes, now).await?;
        let counts = self.counts.iter().filter(|(_, delta)| **delta != 0);
        let (keys, deltas): (Vec<_>, Vec<i64>) = counts.unzip();
        if !keys.is_empty() {
            let groups: Vec<i64> = keys.iter().map(|(group, _)| *group).collect();
            let statuses: Vec<i16> = keys.iter().map(|(_, status)| status.number().into()).collect();
            let statement = db.prepare_cached(COUNT).await.map_err(read_error)?;
            db.execute(&statement, &[&groups, &statuses, &deltas]).await.map_err(read_error)?;
        }
        if !self.sources.is_empty() {
            let names: Vec<_> = self.sources.keys().map(|name| escape(name)).collect();
            let captured: Vec<i64> = self.sources.values().map(|arrived| arrived.captured).collect();
            let deaths: Vec<i64> = self.sources.values().map(|arrived| arrived.deaths).collect();
            let statement = db.prepare_cached(ARRIVE).await.map_err(read_error)?;
            db.execute(&statement, &[&names, &captured, &deaths, &now.as_micros()])
                .await
                .map_err(read_error)?;
        }
        Ok(())
    }

    async fn write_seen(&self, db: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
        if self.seen.is_empty() {
            return Ok(());
        }
        let groups: Vec<i64> = self.seen.keys().copied().collect();
        let first: Vec<i64> = self.seen.values().map(|(first, _)| first.as_micros()).collect();
        let last: Vec<i64> = self.seen.values().map(|(_, last)| last.as_micros()).collect();
        triage::arrive(db, &self.arrivals, now).await?;
        let statement = db.prepare_cached(SEE).await.map_err(read_error)?;
        db.execute(&statement, &[&groups, &first, &last]).await.map_err(read_error)?;
        Ok(())
    }
}

//! How every capture stands, live: for the API, the metrics and `dlo check`.
//!
//! A source is read by one lane per partition or queue. Each lane says here when it waits and why; the source is
//! running when none does. Numbers are since this process started; what the store has in all is in its statistics.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dlo_core::time::Timestamp;
use dlo_core::trouble::{Trouble, TroubleKind};
use serde::Serialize;

use super::spec::{CaptureSpec, Mode};

/// How the capture of one source stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaptureStatus {
    pub source: String,
    pub broker: &'static str,
    pub queue: String,
    pub dlq: String,
    pub mode: Mode,
    pub state: CaptureState,
    /// Why it waits or ended.
    pub problem: Option<String>,
    pub last_error: Option<LastError>,
    /// Partitions of the dead-letter queue, and those that this server reads; a queue without partitions is one.
    pub partitions: Option<u32>,
    pub held: u32,
    /// Messages in the dead-letter queue, as the broker says.
    pub depth: Option<u64>,
    /// Messages that the office has not read yet, where its place is a position.
    pub lag: Option<u64>,
    /// When the oldest message that waits was published.
    pub oldest: Option<Timestamp>,
    pub captured: u64,
    pub captured_last_minute: u64,
    pub duplicates: u64,
    /// Records that the broker removed before they were read: its retention is too short, and they are lost.
    pub skipped: u64,
    pub last_captured: Option<Timestamp>,
}

/// The latest thing that went wrong, also when it is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastError {
    pub at: Timestamp,
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureState {
    /// Not asked the broker yet.
    Starting,
    Running,
    /// Another server reads it; this one takes over when that one is gone.
    Standby,
    /// Store or broker are away, or the queue is missing; it goes on by itself.
    Waiting,
    /// It cannot go on by itself, or the office is closing.
    Ended,
}

/// The live status of every capture.
#[derive(Debug, Default)]
pub(crate) struct CaptureBoard(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    status: CaptureStatus,
    asked: bool,
    /// When it ended, and why; without a reason the office closes.
    ended: Option<(Timestamp, Option<String>)>,
    /// Lanes that wait, and why. One entry a lane at most. Without a kind it is back-pressure, and no trouble.
    waiting: BTreeMap<i32, (Option<TroubleKind>, String)>,
    /// Since when some lane waits.
    waits_since: Option<Timestamp>,
    minute: Minute,
}

impl CaptureBoard {
    pub(crate) fn all(&self, now: Timestamp) -> Vec<CaptureStatus> {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        board.values_mut().map(|entry| entry.shown(now)).collect()
    }

    /// A source that will be captured.
    pub(crate) fn enter(&self, spec: &CaptureSpec) {
        let status = CaptureStatus {
            source: spec.source.clone(),
            broker: spec.broker.capabilities().kind.as_str(),
            queue: spec.queue.clone(),
            dlq: spec.dlq.clone(),
            mode: spec.mode,
            state: CaptureState::Starting,
            problem: None,
            last_error: None,
            partitions: None,
            held: 0,
            depth: None,
            lag: None,
            oldest: None,
            captured: 0,
            captured_last_minute: 0,
            duplicates: 0,
            skipped: 0,
            last_captured: None,
        };
        let entry = Entry {
            status,
            asked: false,
            ended: None,
            waiting: BTreeMap::new(),
            waits_since: None,
            minute: Minute::default(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.source.clone(), entry);
    }

    /// A lane cannot go on for now.
    pub(crate) fn waits(
        &self,
        source: &str,
        lane: i32,
        kind: Option<TroubleKind>,
        what: &str,
        now: Timestamp,
    ) {
        self.change(source, |entry| {
            entry.asked = true;
            entry.waits_since.get_or_insert(now);
            entry.waiting.insert(lane, (kind, what.to_string()));
            entry.status.last_error = Some(LastError { at: now, what: what.to_string() });
        });
    }

    /// A lane works, or is not here any more. `true` if it was the last that waited.
    pub(crate) fn works(&self, source: &str, lane: i32) -> bool {
        let mut is_last = false;
        self.change(source, |entry| {
            entry.asked = true;
            is_last = entry.waiting.remove(&lane).is_some() && entry.waiting.is_empty();
            if entry.waiting.is_empty() {
                entry.waits_since = None;
            }
        });
        is_last
    }

    pub(crate) fn ends(&self, source: &str, why: Option<String>, now: Timestamp) {
        self.change(source, |entry| entry.ended = Some((now, why)));
    }

    /// Sources that are not captured.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        board.values().filter_map(Entry::trouble).collect()
    }

    /// How many lanes there are, and how many are ours.
    pub(crate) fn holds(&self, source: &str, partitions: usize, held: usize) {
        self.change(source, |entry| {
            entry.asked = true;
            entry.status.partitions = u32::try_from(partitions).ok();
            entry.status.held = u32::try_from(held).unwrap_or(u32::MAX);
        });
    }

    pub(crate) fn stored(&self, source: &str, new: u64, duplicates: u64, now: Timestamp) {
        self.change(source, |entry| {
            entry.status.captured += new;
            entry.status.duplicates += duplicates;
            if new > 0 {
                entry.status.last_captured = Some(now);
                entry.minute.add(new, now);
            }
        });
    }

    pub(crate) fn skipped(&self, source: &str, count: u64, now: Timestamp) {
        let what = format!(
            "{count} records were removed by the broker before they were read; its retention is too short"
        );
        self.change(source, |entry| {
            entry.status.skipped += count;
            entry.status.last_error = Some(LastError { at: now, what });
        });
    }

    /// What the broker says of the queue.
    pub(crate) fn inspected(
        &self,
        source: &str,
        depth: Option<u64>,
        lag: Option<u64>,
        oldest: Option<Timestamp>,
    ) {
        self.change(source, |entry| {
            (entry.status.depth, entry.status.lag, entry.status.oldest) = (depth, lag, oldest);
        });
    }

    fn change(&self, source: &str, change: impl FnOnce(&mut Entry)) {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = board.get_mut(source) {
            change(entry);
        }
    }
}

impl Entry {
    fn trouble(&self) -> Option<Trouble> {
        let (kind, since, why) = match &self.ended {
            Some((at, Some(why))) => (TroubleKind::SourceEnded, *at, why),
            // The office closes.
            Some((_, None)) => return None,
            None => {
                let mut lanes = self.waiting.values();
                let (kind, why) = lanes.find_map(|(kind, why)| Some(((*kind)?, why)))?;
                (kind, self.waits_since?, why)
            }
        };
        Some(Trouble::source(kind, &self.status.source, since, why))
    }

    fn shown(&mut self, now: Timestamp) -> CaptureStatus {
        let mut status = self.status.clone();
        status.captured_last_minute = self.minute.sum(now);
        (status.state, status.problem) = match (&self.ended, self.waiting.values().next()) {
            (Some((_, why)), _) => (CaptureState::Ended, why.clone()),
            (None, Some((_, why))) => (CaptureState::Waiting, Some(why.clone())),
            (None, None) if !self.asked => (CaptureState::Starting, None),
            (None, None) if status.held == 0 => (CaptureState::Standby, None),
            (None, None) => (CaptureState::Running, None),
        };
        status
    }
}

/// How many came in the last minute, in buckets of five seconds.
#[derive(Debug, Default)]
struct Minute(VecDeque<(i64, u64)>);

impl Minute {
    const BUCKET: i64 = 5_000_000;
    const BUCKETS: i64 = 12;

    fn add(&mut self, count: u64, now: Timestamp) {
        let bucket = now.as_micros() / Self::BUCKET;
        self.forget(bucket);
        match self.0.back_mut() {
            Some((last, sum)) if *last >= bucket => *sum += count,
            _ => self.0.push_back((bucket, count)),
        }
    }

    fn sum(&mut self, now: Timestamp) -> u64 {
        self.forget(now.as_micros() / Self::BUCKET);
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn forget(&mut self, bucket: i64) {
        while self.0.front().is_some_and(|(first, _)| *first <= bucket - Self::BUCKETS) {
            self.0.pop_front();
        }
    }
}

/// How long what the broker said of a queue is believed.
pub(super) const LOOK: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_forgets_what_is_older() {
        let mut minute = Minute::default();
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        minute.add(5, at(0));
        minute.add(7, at(30));
        minute.add(1, at(31));
        assert_eq!(minute.sum(at(59)), 13);
        assert_eq!(minute.sum(at(61)), 8);
        assert_eq!(minute.sum(at(600)), 0);
        for second in 0..10_000 {
            minute.add(1, at(second));
        }
        assert!(minute.0.len() <= 13);
    }
}

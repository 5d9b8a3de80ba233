//! What one source has of its partitions: what was fetched, what is in hand, what is done.
//!
//! Shared by three: the poller puts records in and takes partitions away, `receive` takes deliveries out, the settler
//! answers for them. One lane per assigned partition; a lane that is gone takes its records and open deliveries with
//! it, and an answer for one of them says nothing to anybody.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dlo_core::broker::{BrokerError, Delivery, DeliveryTag, Settled, Settlement};
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::time::Timestamp;
use tokio::sync::Notify;

use super::KafkaConfig;
use super::offsets::{Commit, Offsets};
use super::retry;

/// Deliveries of one lane before the next one has its turn.
const TURN: usize = 64;

/// A record that was fetched.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) offset: i64,
    pub(super) message: Message,
    /// Where the message first stood: not this record's place if it came through a retry topic.
    pub(super) origin: Origin,
    pub(super) published_at: Option<Timestamp>,
    /// Somebody may have had it before.
    pub(super) redelivered: bool,
    /// Not to be delivered before.
    pub(super) due: Option<Instant>,
    pub(super) size: usize,
}

/// Topic and partition.
pub(super) type Place = (Arc<str>, i32);

/// One assigned partition.
#[derive(Debug)]
pub(super) struct Lane {
    id: u32,
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
    pub(super) incarnation: Option<String>,
    offsets: Offsets,
    fetched: VecDeque<Record>,
    /// Handed back, by offset: they come before what was fetched.
    again: BTreeMap<i64, Record>,
    in_hand: usize,
    /// On its way to another member: nothing is delivered any more.
    leaving: bool,
    /// Not fetched from until what it has is due.
    held: bool,
}

impl Lane {
    pub(super) fn new(
        topic: &Arc<str>,
        partition: i32,
        incarnation: Option<String>,
        offsets: Offsets,
    ) -> Self {
        Self {
            id: 0,
            topic: Arc::clone(topic),
            partition,
            incarnation,
            offsets,
            fetched: VecDeque::new(),
            again: BTreeMap::new(),
            in_hand: 0,
            leaving: false,
            held: false,
        }
    }

    /// Nothing of it is in a hand, and the group knows everything that is done.
    fn is_settled(&self) -> bool {
        self.in_hand == 0 && !self.offsets.is_dirty()
    }

    /// What was in hand waits here again, until `due`.
    fn take_back(&mut self, record: Record, due: Option<Instant>) {
        self.in_hand -= 1;
        self.again.insert(record.offset, Record { redelivered: true, due, ..record });
    }

    /// Its first record is not due, and enough of them were fetched ahead of their time.
    fn is_ahead(&self, now: Instant) -> bool {
        let waits = |record: &Record| record.due.is_some_and(|due| due > now);
        self.fetched.len() >= retry::AHEAD && self.fetched.front().is_some_and(waits)
    }

    /// When its next record may be delivered.
    fn next_due(&self) -> Option<Option<Instant>> {
        if self.leaving {
            return None;
        }
        let first = self.again.values().map(|record| record.due).min();
        first.or_else(|| self.fetched.front().map(|record| record.due))
    }
}

/// An answer that must wait elsewhere: its copy is sent before it is done here.
#[derive(Debug)]
pub(super) struct Postponed {
    pub(super) after: Duration,
    pub(super) record: Record,
    lane: u32,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Lane>,
    lanes_made: u32,
    turn: usize,
    tags_made: u64,
    in_hand: HashMap<u64, (u32, Record)>,
    fetched: usize,
    fetched_bytes: usize,
    trouble: Option<BrokerError>,
    closing: bool,
}

impl State {
    fn lane(&mut self, id: u32) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.id == id)
    }

    fn drop_lanes(&mut self, gone: impl Fn(&Lane) -> bool) {
        self.lanes.retain(|lane| !gone(lane));
        let State { lanes, in_hand, .. } = self;
        in_hand.retain(|_, (id, _)| lanes.iter().any(|lane| lane.id == *id));
        self.fetched = self.lanes.iter().map(|lane| lane.fetched.len()).sum();
        let sizes = self.lanes.iter().flat_map(|lane| &lane.fetched).map(|record| record.size);
        self.fetched_bytes = sizes.sum();
    }
}

/// The lanes of one source.
#[derive(Debug)]
pub(super) struct Lanes {
    state: Mutex<State>,
    /// Something to deliver, or something to say.
    pub(super) came: Notify,
    /// Room was made, something was settled, or it closes.
    changed: Condvar,
    most_fetched: usize,
    most_bytes: usize,
    most_in_hand: usize,
}

impl Lanes {
    pub(super) fn new(config: &KafkaConfig) -> Self {
        Self {
            state: Mutex::default(),
            came: Notify::new(),
            changed: Condvar::new(),
            most_fetched: config.prefetch.max(1) as usize,
            most_bytes: config.half_buffer().max(1),
            most_in_hand: config.in_flight.max(1) as usize,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The poller's side.

    pub(super) fn open(&self, lane: Lane) {
        let mut state = self.state();
        let same = |old: &Lane| old.topic == lane.topic && old.partition == lane.partition;
        state.drop_lanes(same);
        state.lanes_made = state.lanes_made.wrapping_add(1);
        let id = state.lanes_made;
        state.lanes.push(Lane { id, ..lane });
        state.trouble = None;
    }

    /// A record of an assigned partition; one of any other is not ours to deliver. `make` is called with its lane.
    pub(super) fn put(&self, topic: &str, partition: i32, make: impl FnOnce(&Lane) -> Record) {
        let mut state = self.state();
        let found = state.lanes.iter_mut().find(|lane| lane.partition == partition && *lane.topic == *topic);
        let Some(lane) = found.filter(|lane| !lane.leaving) else { return };
        let record = make(lane);
        let size = record.size;
        lane.fetched.push_back(record);
        state.fetched += 1;
        state.fetched_bytes += size;
        state.trouble = None;
        drop(state);
        self.came.notify_one();
    }

    /// Partitions that should not be fetched from for now, and those that should again.
    pub(super) fn hold_and_release(&self, now: Instant) -> (Vec<Place>, Vec<Place>) {
        let (mut hold, mut release) = (Vec::new(), Vec::new());
        for lane in &mut self.state().lanes {
            let ahead = lane.is_ahead(now);
            if ahead != lane.held {
                lane.held = ahead;
                let place = (Arc::clone(&lane.topic), lane.partition);
                if ahead { hold.push(place) } else { release.push(place) }
            }
        }
        (hold, release)
    }

    pub(super) fn is_full(&self) -> bool {
        let state = self.state();
        state.fetched >= self.most_fetched || state.fetched_bytes >= self.most_bytes
    }

    /// Waits until at least half of the room is free.
    pub(super) fn await_room(&self, patience: Duration) -> bool {
        let full = |state: &mut State| {
            !state.closing
                && (state.fetched > self.most_fetched / 2 || state.fetched_bytes > self.most_bytes / 2)
        };
        let waited = self.changed.wait_timeout_while(self.state(), patience, full);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Takes partitions back: nothing more of them is delivered, and what is in hand may be settled until `deadline`.
    pub(super) fn hand_over(&self, of: &[(String, i32)], patience: Duration) {
        let ours =
            |lane: &Lane| of.iter().any(|(topic, part)| *part == lane.partition && **topic == *lane.topic);
        let mut state = self.state();
        for lane in state.lanes.iter_mut().filter(|lane| ours(lane)) {
            lane.leaving = true;
        }
        let open = |state: &mut State| {
            !state.closing && state.lanes.iter().any(|lane| ours(lane) && !lane.is_settled())
        };
        let waited = self.changed.wait_timeout_while(state, patience, open);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.drop_lanes(ours);
    }

    /// Everything is taken back at once: what is in hand will come again, here or elsewhere.
    pub(super) fn forget(&self) {
        self.state().drop_lanes(|_| true);
        self.changed.notify_all();
    }

    pub(super) fn trouble(&self, trouble: BrokerError) {
        self.state().trouble = Some(trouble);
        self.came.notify_one();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state().closing
    }

    /// Sleeps, unless it closes.
    pub(super) fn pause(&self, pause: Duration) {
        let waited = self.changed.wait_timeout_while(self.state(), pause, |state| !state.closing);
        drop(waited);
    }

    // The receiver's side.

    pub(super) fn close(&self) {
        self.state().closing = true;
        self.changed.notify_all();
        self.came.notify_one();
    }

    /// Up to `max` deliveries, and when the next one is due if there are none.
    pub(super) fn take(&self, max: usize, now: Instant) -> (Vec<Delivery>, Option<Instant>) {
        let mut state = self.state();
        let mut taken = Vec::new();
        let max = max.min(self.most_in_hand.saturating_sub(state.in_hand.len()));
        let count = state.lanes.len();
        let mut idle = 0;
        while taken.len() < max && idle < count {
            let at = state.turn % count;
            state.turn = at + 1;
            let before = taken.len();
            take_turn(&mut state, at, max, now, &mut taken);
            idle = if taken.len() == before { idle + 1 } else { 0 };
        }
        let due = state.lanes.iter().filter_map(Lane::next_due).flatten().min();
        drop(state);
        self.changed.notify_all();
        (taken, due)
    }

    /// What the caller should know, said once.
    pub(super) fn take_trouble(&self) -> Option<BrokerError> {
        self.state().trouble.take()
    }

    // The settler's side.

    /// Notes answers. What should come again later is returned: it is done when its copy is confirmed.
    pub(super) fn settle(&self, settled: Vec<Settled>) -> Vec<Postponed> {
        let mut postponed = Vec::new();
        let mut state = self.state();
        for Settled { tag, how, carry } in settled {
            let Some((id, mut record)) = state.in_hand.remove(&tag.0) else { continue };
            let Some(lane) = state.lane(id) else { continue };
            match how {
                // What carries something is copied even if it need not wait: only a copy can say it to another member.
                Settlement::Again { after } if carry.is_some() || !after.is_zero() => {
                    if let Some(carry) = carry {
                        record.message.headers.supersede(*carry);
                    }
                    postponed.push(Postponed { after, record, lane: id });
                }
                Settlement::Again { .. } => lane.take_back(record, None),
                Settlement::Done | Settlement::Refuse => {
                    lane.in_hand -= 1;
                    lane.offsets.done(record.offset);
                }
            }
        }
        drop(state);
        self.came.notify_one();
        self.changed.notify_all();
        postponed
    }

    /// The copy is confirmed. If it is not, the record waits here: not lost, and not before its time.
    pub(super) fn postponed(&self, one: Postponed, confirmed: bool) {
        let mut state = self.state();
        if let Some(lane) = state.lane(one.lane) {
            if confirmed {
                lane.in_hand -= 1;
                lane.offsets.done(one.record.offset);
            } else {
                lane.take_back(one.record, Instant::now().checked_add(one.after));
            }
        }
        drop(state);
        self.came.notify_one();
        self.changed.notify_all();
    }

    pub(super) fn is_gone(&self, id: u32) -> bool {
        self.state().lane(id).is_none()
    }

    /// What the group was not told yet.
    pub(super) fn commits(&self) -> Vec<(u32, Arc<str>, i32, Commit)> {
        let state = self.state();
        let dirty = state.lanes.iter().filter_map(|lane| {
            let commit = lane.offsets.commit(lane.incarnation.as_deref())?;
            Some((lane.id, Arc::clone(&lane.topic), lane.partition, commit))
        });
        dirty.collect()
    }

    pub(super) fn told(&self, id: u32, commit: &Commit) {
        if let Some(lane) = self.state().lane(id) {
            lane.offsets.told(commit);
        }
        self.changed.notify_all();
    }
}

fn take_turn(state: &mut State, at: usize, max: usize, now: Instant, taken: &mut Vec<Delivery>) {
    let most = max.min(taken.len() + TURN);
    while taken.len() < most {
        let lane = &mut state.lanes[at];
        if lane.leaving {
            return;
        }
        let ready = |record: &Record| record.due.is_none_or(|due| due <= now);
        let again = lane.again.iter().find(|(_, record)| ready(record)).map(|(offset, _)| *offset);
        let record = match again.and_then(|offset| lane.again.remove(&offset)) {
            Some(record) => record,
            None => {
                let Some(record) = lane.fetched.pop_front_if(|record| ready(record)) else { return };
                state.fetched -= 1;
                state.fetched_bytes = state.fetched_bytes.saturating_sub(record.size);
                if !lane.offsets.arrive(record.offset) {
                    continue;
                }
                record
            }
        };
        lane.in_hand += 1;
        let id = lane.id;
        state.tags_made += 1;
        let tag = state.tags_made;
        let mut delivery = Delivery::new(record.message.clone(), record.origin.clone(), DeliveryTag(tag));
        delivery.redelivered = record.redelivered;
        delivery.published_at = record.published_at;
        taken.push(delivery);
        state.in_hand.insert(tag, (id, record));
    }
}

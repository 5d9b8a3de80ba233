//! The queue itself: who may have which message when, and what becomes of what was lent. No waiting, no errors.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{Delivery, DeliveryTag, Order, Settlement};
use dlo_core::message::{Headers, Message};
use dlo_core::origin::Origin;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::trouble::{Dice, Trouble};
use super::{Back, Fact, Log, Number, Returns, Shape, number};
use crate::clock::START;

#[derive(Debug)]
struct Entry {
    number: Number,
    message: Message,
    origin: Origin,
    partition: i32,
    sent: Instant,
    ready: Instant,
    count: u32,
    held: Option<Hold>,
    /// It left its place in the order, to wait beside the queue.
    aside: bool,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    by: u32,
    tag: u64,
    until: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Queue {
    shape: Shape,
    partitions: i32,
    /// What is not settled for good, by place: the order in which it was sent.
    entries: BTreeMap<u64, Entry>,
    by_tag: BTreeMap<u64, u64>,
    members: BTreeSet<u32>,
    /// Members that are gone and when that is noticed.
    missed: Vec<(Instant, u32)>,
    next_place: u64,
    next_tag: u64,
    began: Instant,
    pub(super) dice: Dice,
    log: Arc<Log>,
}

impl Queue {
    pub(super) fn new(shape: Shape, partitions: i32, trouble: Trouble, seed: u64, log: Arc<Log>) -> Self {
        Self {
            shape,
            partitions: if shape.has_partitions() { partitions } else { 1 },
            entries: BTreeMap::new(),
            by_tag: BTreeMap::new(),
            members: BTreeSet::new(),
            missed: Vec::new(),
            next_place: 0,
            next_tag: 0,
            began: Instant::now(),
            dice: Dice::new(trouble, StdRng::seed_from_u64(seed)),
            log,
        }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// A producer's message.
    pub(super) fn send(&mut self, message: Message) {
        self.log.note(Fact::Sent(number(&message).unwrap_or(Number::MAX)));
        let partition = self.partition_of(&message);
        self.put(message, partition, Duration::ZERO);
    }

    fn partition_of(&mut self, message: &Message) -> i32 {
        match &message.key {
            Some(key) => {
                let mut hash = DefaultHasher::new();
                key.hash(&mut hash);
                i32::try_from(hash.finish() % self.partitions.unsigned_abs() as u64).unwrap_or(0)
            }
            None => self.dice.random.random_range(0..self.partitions),
        }
    }

    pub(super) fn put(&mut self, message: Message, partition: i32, delay: Duration) {
        let now = Instant::now();
        let place = self.next_place;
        self.next_place += 1;
        let entry = Entry {
            number: number(&message).unwrap_or(Number::MAX),
            message,
            origin: self.shape.origin(partition, place),
            partition,
            sent: now,
            ready: now + delay,
            count: 0,
            held: None,
            aside: false,
        };
        self.entries.insert(place, entry);
    }

    pub(super) fn join(&mut self, member: u32) {
        self.members.insert(member);
        self.move_partitions();
    }

    /// It went without a word.
    pub(super) fn lost(&mut self, member: u32) {
        match self.shape.returns() {
            Returns::WithHolder(longest) => {
                let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
                let noticed = Duration::from_millis(self.dice.random.random_range(0..=longest));
                self.missed.push((Instant::now() + noticed, member));
            }
            // Nobody waits for it; what it has comes back lease by lease.
            Returns::AfterLease(_) => drop(self.members.remove(&member)),
        }
    }

    /// It went in good order.
    pub(super) fn leave(&mut self, member: u32) {
        self.members.remove(&member);
        self.take_back(Back::HandedBack, |hold, _| hold.by == member);
        self.move_partitions();
    }

    pub(super) fn connection_lost(&mut self, member: u32) {
        self.take_back(Back::ConnectionLost, |hold, _| hold.by == member);
    }

    /// What has become true by the mere passing of time.
    fn tick(&mut self, now: Instant) {
        let gone: Vec<u32> = self.missed.iter().filter(|(at, _)| *at <= now).map(|(_, gone)| *gone).collect();
        if !gone.is_empty() {
            self.missed.retain(|(at, _)| *at > now);
            self.members.retain(|member| !gone.contains(member));
            self.take_back(Back::HolderGone, |hold, _| gone.contains(&hold.by));
            self.move_partitions();
        }
        self.take_back(Back::LeaseOver, |hold, _| hold.until.is_some_and(|until| until <= now));
    }

    /// Each partition has one reader; what somebody holds of one that is not his any more is void.
    fn move_partitions(&mut self) {
        if self.shape.has_partitions() {
            let members: Vec<u32> = self.members.iter().copied().collect();
            self.take_back(Back::PartitionMoved, |hold, partition| {
                reader_of(&members, partition) != Some(hold.by)
            });
        }
    }

    fn take_back(&mut self, why: Back, whose: impl Fn(&Hold, i32) -> bool) {
        for entry in self.entries.values_mut() {
            if let Some(hold) = entry.held.take_if(|hold| whose(hold, entry.partition)) {
                self.by_tag.remove(&hold.tag);
                self.log.note(Fact::CameBack { message: entry.number, tag: hold.tag, why });
            }
        }
    }

    /// Up to `max` messages for `member`, and else when to look again.
    pub(super) fn take(&mut self, member: u32, max: usize) -> (Vec<Delivery>, Option<Instant>) {
        let now = Instant::now();
        self.tick(now);
        let mut ready = self.ready_for(member, now);
        if ready.is_empty() || max == 0 {
            return (Vec::new(), self.next_change(now));
        }
        if self.shape.capabilities().order == Order::None {
            ready.shuffle(&mut self.dice.random);
        }
        let most = self.dice.random.random_range(1..=max.min(ready.len()));
        let room = self.room();
        let (counted, new): (Vec<u64>, Vec<u64>) =
            ready.into_iter().partition(|place| self.entries.get(place).is_some_and(|entry| entry.aside));
        // What waits already is counted already.
        let mut ready: Vec<u64> = counted.into_iter().chain(new.into_iter().take(room)).collect();
        ready.truncate(most);
        let taken = ready.into_iter().filter_map(|place| self.lend(place, member, now)).collect();
        (taken, self.next_change(now))
    }

    fn ready_for(&self, member: u32, now: Instant) -> Vec<u64> {
        let members: Vec<u32> = self.members.iter().copied().collect();
        if !members.contains(&member) {
            return Vec::new();
        }
        let mine = |entry: &Entry| {
            !self.shape.has_partitions() || reader_of(&members, entry.partition) == Some(member)
        };
        let mut closed = HashSet::new();
        let mut ready = Vec::new();
        if self.shape == Shape::SqsFifo {
            closed.extend(
                self.entries.values().filter(|entry| entry.held.is_some()).map(|entry| &entry.message.key),
            );
        }
        for (place, entry) in &self.entries {
            if entry.held.is_some() || !mine(entry) {
                continue;
            }
            if self.shape == Shape::SqsFifo && closed.contains(&entry.message.key) {
                continue;
            }
            if entry.ready <= now {
                ready.push(*place);
            } else if self.shape == Shape::SqsFifo {
                closed.insert(&entry.message.key);
            }
        }
        ready
    }

    /// How many more may be unsettled.
    fn room(&self) -> usize {
        let Shape::JetStream { outstanding } = self.shape else { return usize::MAX };
        let unsettled = self.entries.values().filter(|entry| entry.held.is_some() || entry.aside).count();
        usize::try_from(outstanding).unwrap_or(usize::MAX).saturating_sub(unsettled)
    }

    fn lend(&mut self, place: u64, member: u32, now: Instant) -> Option<Delivery> {
        let until = match self.shape.returns() {
            Returns::AfterLease(lease) => Some(now + lease),
            Returns::WithHolder(_) => None,
        };
        let entry = self.entries.get_mut(&place)?;
        let tag = self.next_tag;
        self.next_tag += 1;
        self.by_tag.insert(tag, place);
        entry.count += 1;
        entry.aside = false;
        entry.held = Some(Hold { by: member, tag, until });
        let mut delivery = Delivery::new(entry.message.clone(), entry.origin.clone(), DeliveryTag(tag));
        delivery.redelivered = entry.count > 1;
        delivery.delivery_count = self.shape.capabilities().delivery_count.then_some(entry.count);
        delivery.published_at = Some(START.plus(entry.sent.duration_since(self.began)));
        let count = delivery.delivery_count;
        self.log.note(Fact::Delivered { to: member, message: entry.number, tag, count });
        Some(delivery)
    }

    /// When time alone will change something.
    fn next_change(&self, now: Instant) -> Option<Instant> {
        let entries = self.entries.values().filter_map(|entry| match entry.held {
            Some(hold) => hold.until,
            None => Some(entry.ready),
        });
        entries.chain(self.missed.iter().map(|(at, _)| *at)).filter(|at| *at > now).min()
    }

    /// The message behind a tag, whatever has become of it.
    pub(super) fn of_tag(&self, tag: u64) -> Option<Number> {
        self.by_tag.get(&tag).and_then(|place| self.entries.get(place)).map(|entry| entry.number)
    }

    /// Does what a settlement says. False when the delivery is nobody's any more.
    pub(super) fn settle(&mut self, tag: u64, how: Settlement, carry: Option<&Headers>) -> bool {
        self.tick(Instant::now());
        let Some(place) = self.by_tag.remove(&tag) else { return false };
        let Some(entry) = self.entries.get_mut(&place) else { return false };
        self.log.note(Fact::Settled { message: entry.number, tag, how });
        match how {
            Settlement::Done | Settlement::Refuse => drop(self.entries.remove(&place)),
            Settlement::Again { after } => {
                entry.held = None;
                entry.aside = true;
                entry.ready = Instant::now() + after;
                if let Some(carry) = carry.filter(|_| self.shape.capabilities().again_carries) {
                    entry.message.headers.supersede(carry.clone());
                }
            }
        }
        true
    }

    /// The settlement did not arrive, and with it went what it spoke of.
    pub(super) fn untold(&mut self, tag: u64) {
        self.take_back(Back::ConnectionLost, |hold, _| hold.tag == tag);
    }

    pub(super) fn open(&self) -> Vec<Number> {
        self.entries.values().map(|entry| entry.number).collect()
    }
}

fn reader_of(members: &[u32], partition: i32) -> Option<u32> {
    let count = members.len();
    (count > 0).then(|| members[partition.unsigned_abs() as usize % count])
}

//! One queue: its partitions, its groups, its room. Everything here happens under the broker's lock.
//!
//! A record's room is free when every group has settled it. While there is no group, everything is kept: the first
//! one to come begins with the oldest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::message::Message;
use dlo_core::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::QueueOptions;
use super::group::{Group, HandedOut, MemberId};
use super::log::{Log, Record, size_of};
use super::sent::Sent;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Arc<str>,
    pub(super) incarnation: Arc<str>,
    pub(super) options: QueueOptions,
    pub(super) logs: Vec<Log>,
    pub(super) groups: BTreeMap<String, Group>,
    /// What replays sent here.
    pub(super) sent: Sent,
    /// Rung when something was published, for readers, which belong to no group.
    pub(super) news: Arc<Notify>,
    /// Rung when room was made.
    pub(super) room: Arc<Notify>,
    /// Records that somebody still holds, and their bytes.
    pub(super) len: usize,
    bytes: usize,
    /// Where the next message without a key goes.
    turn: usize,
}

impl Queue {
    pub(super) fn new(name: &str, incarnation: String, options: QueueOptions) -> Self {
        let logs = (0..options.partitions.get()).map(|_| Log::default()).collect();
        Self {
            name: name.into(),
            incarnation: incarnation.into(),
            options,
            logs,
            groups: BTreeMap::new(),
            sent: Sent::default(),
            news: Arc::default(),
            room: Arc::default(),
            len: 0,
            bytes: 0,
            turn: 0,
        }
    }

    /// Takes on new options. Partitions stay: keys would move to others, and their order would be lost.
    pub(super) fn reconfigure(&mut self, options: QueueOptions) {
        let partitions = self.options.partitions;
        self.options = QueueOptions { partitions, ..options };
        self.wake_all();
    }

    pub(super) fn wake_all(&self) {
        self.room.notify_waiters();
        self.news.notify_waiters();
        for group in self.groups.values() {
            group.bell.notify_waiters();
        }
    }

    /// Whether a message of that size fits now. An empty queue takes any, or it could never be sent.
    pub(super) fn has_room(&self, size: usize) -> bool {
        self.len == 0
            || (self.len < self.options.capacity && self.bytes + size <= self.options.capacity_bytes)
    }

    /// Where a message goes: as told, by its key, or in turn.
    pub(super) fn partition_for(&mut self, message: &Message, told: Option<i32>) -> Result<usize, String> {
        let count = self.logs.len();
        match (told, &message.key) {
            (Some(told), _) => {
                usize::try_from(told).ok().filter(|partition| *partition < count).ok_or_else(|| {
                    format!("queue `{}` has no partition {told}; it has 0 to {}", self.name, count - 1)
                })
            }
            (None, Some(key)) => Ok((hash(&key.0) % count as u64) as usize),
            (None, None) => {
                self.turn = (self.turn + 1) % count;
                Ok(self.turn)
            }
        }
    }

    /// Appends without looking at the room; the caller did.
    pub(super) fn append(
        &mut self,
        partition: usize,
        message: Message,
        published_at: Timestamp,
        now: Instant,
        delay: Option<Duration>,
    ) -> u64 {
        self.len += 1;
        self.bytes += size_of(&message);
        self.logs[partition].append(message, published_at, now, delay.map(|delay| now + delay)).offset
    }

    /// Adds a member; a group that is new begins with the oldest record.
    pub(super) fn join(&mut self, group: &str, member: MemberId) -> Arc<Notify> {
        let logs = &self.logs;
        let group = self.groups.entry(group.to_owned()).or_insert_with(|| Group::new(logs));
        group.members.push(member);
        group.bell.notify_waiters();
        Arc::clone(&group.bell)
    }

    /// Hands out up to `max` messages; offsets of those that were delivered too often go to `spent`.
    pub(super) fn take(
        &mut self,
        group: &str,
        member: MemberId,
        max: usize,
        now: Instant,
        spent: &mut Vec<(u16, u64)>,
    ) -> Vec<HandedOut> {
        let limit = self.options.dead_letters.as_ref().and_then(|dead| dead.delivery_limit);
        let Some(group) = self.groups.get_mut(group) else { return Vec::new() };
        let out = group.take(&self.logs, member, max, now, limit, spent);
        self.trim();
        out
    }

    /// One group is done with a record.
    pub(super) fn finish(&mut self, group: &str, partition: u16, offset: u64) {
        let Some(group) = self.groups.get_mut(group) else { return };
        let Some(share) = group.shares.get_mut(usize::from(partition)) else { return };
        if let Some(open) = share.finish(offset)
            && open.record.release()
        {
            self.free(1, open.record.size);
        }
    }

    /// Lets the logs go of what every group has been handed.
    fn trim(&mut self) {
        let mut freed = (0, 0);
        for (partition, log) in self.logs.iter_mut().enumerate() {
            let Some(next) = self.groups.values().map(|group| group.shares[partition].next).min() else {
                return;
            };
            let (records, bytes) = log.trim(next);
            freed = (freed.0 + records, freed.1 + bytes);
        }
        if freed.0 > 0 {
            self.free(freed.0, freed.1);
        }
    }

    fn free(&mut self, records: usize, bytes: usize) {
        self.len -= records;
        self.bytes -= bytes;
        self.room.notify_waiters();
    }

    /// The oldest record that nobody was handed and whose time is over, with its partition.
    pub(super) fn expired(&self, now: Instant) -> Option<(usize, Arc<Record>)> {
        let retention = self.options.retention?;
        self.logs.iter().enumerate().find_map(|(partition, log)| {
            let oldest = log.get(log.base())?;
            let over = now.saturating_duration_since(oldest.arrived) >= retention;
            over.then(|| (partition, Arc::clone(oldest)))
        })
    }

    /// Passes by an expired record: no group is handed it any more.
    pub(super) fn pass_by(&mut self, partition: usize, offset: u64) {
        for group in self.groups.values_mut() {
            let next = &mut group.shares[partition].next;
            *next = (*next).max(offset + 1);
        }
        let (records, bytes) = self.logs[partition].trim(offset + 1);
        self.free(records, bytes);
    }

    pub(super) fn ring(&self) {
        self.news.notify_waiters();
        for group in self.groups.values() {
            group.bell.notify_waiters();
        }
    }
}

/// FNV-1a: the same in every process, so that the same messages meet the same partitions at every start.
fn hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

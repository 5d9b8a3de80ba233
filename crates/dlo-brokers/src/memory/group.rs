//! A consumer group: who its members are, and where it stands in every partition.
//!
//! Every partition is a [`Share`] of one member. When members come and go a share changes hands, but only once
//! what the former member has in flight is settled or handed back: a partition is never in two hands, so order
//! inside it is kept over a rebalance. Inside a share, what came back is handed out before what is new.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use dlo_core::message::{Headers, Message};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::log::{Log, Record};

/// One consumer of a group. Never given twice, so a settlement of somebody who left is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberId(pub(super) u32);

#[derive(Debug)]
pub(super) struct Group {
    pub(super) members: Vec<MemberId>,
    pub(super) shares: Vec<Share>,
    /// Rung when there may be something to hand out.
    pub(super) bell: Arc<Notify>,
    /// The share that is looked at first, so that a full one does not starve the others.
    turn: usize,
}

#[derive(Debug, Default)]
pub(super) struct Share {
    /// The first offset that was never looked at.
    pub(super) next: u64,
    /// Looked at and not settled.
    pub(super) open: BTreeMap<u64, Open>,
    /// Of those: came back, or their delay is over. Handed out lowest first.
    ready: BTreeSet<u64>,
    /// Of those: wait for their time.
    delayed: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Who has messages of this share in flight, and how many.
    held: Option<(MemberId, usize)>,
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) record: Arc<Record>,
    /// What this group carries from one delivery to the next, in place of the record's headers of the same names.
    pub(super) carried: Option<Arc<Headers>>,
    pub(super) deliveries: u32,
    pub(super) holder: Option<MemberId>,
}

/// One message on its way to a member.
#[derive(Debug)]
pub(super) struct HandedOut {
    pub(super) partition: u16,
    pub(super) record: Arc<Record>,
    pub(super) carried: Option<Arc<Headers>>,
    pub(super) deliveries: u32,
}

/// The message of a record as one group has it.
pub(super) fn message(record: &Record, carried: Option<&Headers>) -> Message {
    let mut message = record.message.clone();
    if let Some(carried) = carried {
        message.headers.supersede(carried.clone());
    }
    message
}

impl Group {
    /// A group that begins with the oldest record of every partition.
    pub(super) fn new(logs: &[Log]) -> Self {
        let shares = logs.iter().map(|log| Share { next: log.base(), ..Share::default() }).collect();
        Self { members: Vec::new(), shares, bell: Arc::default(), turn: 0 }
    }

    pub(super) fn leave(&mut self, member: MemberId) {
        self.members.retain(|other| *other != member);
        for share in &mut self.shares {
            share.hand_back(member);
        }
        self.bell.notify_waiters();
    }

    /// Whose share a partition is, now.
    fn owner(&self, partition: usize) -> Option<MemberId> {
        self.members.get(partition % self.members.len().max(1)).copied()
    }

    /// Hands out up to `max` messages to `member`. `limit`: deliveries after which a message is left to `spent`.
    pub(super) fn take(
        &mut self,
        logs: &[Log],
        member: MemberId,
        max: usize,
        now: Instant,
        limit: Option<u32>,
        spent: &mut Vec<(u16, u64)>,
    ) -> Vec<HandedOut> {
        let mut out = Vec::with_capacity(max.min(1_024));
        self.turn = self.turn.wrapping_add(1);
        for step in 0..self.shares.len() {
            let partition = (self.turn + step) % self.shares.len();
            if out.len() >= max || self.owner(partition) != Some(member) {
                continue;
            }
            let share = &mut self.shares[partition];
            if share.held.is_some_and(|(holder, _)| holder != member) {
                continue;
            }
            share.wake_delayed(now);
            let number = partition as u16;
            while out.len() < max {
                let Some(offset) = share.next_visible(&logs[partition], now) else { break };
                match share.hand_out(offset, member, limit) {
                    Some(open) => out.push(HandedOut {
                        partition: number,
                        record: Arc::clone(&open.record),
                        carried: open.carried.clone(),
                        deliveries: open.deliveries,
                    }),
                    None => spent.push((number, offset)),
                }
            }
        }
        out
    }

    /// When the next delayed message of a member's shares is due.
    pub(super) fn next_due(&self, member: MemberId) -> Option<Instant> {
        let shares = self.shares.iter().enumerate();
        shares
            .filter(|(partition, _)| self.owner(*partition) == Some(member))
            .filter_map(|(_, share)| share.delayed.peek().map(|Reverse((due, _))| *due))
            .min()
    }
}

impl Share {
    fn wake_delayed(&mut self, now: Instant) {
        while let Some(Reverse((due, offset))) = self.delayed.peek().copied() {
            if due > now {
                break;
            }
            self.delayed.pop();
            self.ready.insert(offset);
        }
    }

    /// The next message that may be handed out, opened. What is not due yet is set aside on the way.
    fn next_visible(&mut self, log: &Log, now: Instant) -> Option<u64> {
        if let Some(offset) = self.ready.pop_first() {
            return Some(offset);
        }
        while let Some(record) = log.get(self.next) {
            let offset = self.next;
            self.next += 1;
            let open = Open { record: record.hold(), carried: None, deliveries: 0, holder: None };
            self.open.insert(offset, open);
            match record.due {
                Some(due) if due > now => self.delayed.push(Reverse((due, offset))),
                Some(_) | None => return Some(offset),
            }
        }
        None
    }

    /// Marks a message as in flight; `None` when it was delivered as often as it may be.
    fn hand_out(&mut self, offset: u64, member: MemberId, limit: Option<u32>) -> Option<&Open> {
        let open = self.open.get_mut(&offset)?;
        if limit.is_some_and(|limit| open.deliveries >= limit) {
            return None;
        }
        open.deliveries = open.deliveries.saturating_add(1);
        open.holder = Some(member);
        let in_flight = self.held.map_or(0, |(_, count)| count);
        self.held = Some((member, in_flight + 1));
        Some(open)
    }

    /// Whether `member` has that message in flight.
    pub(super) fn is_held(&self, offset: u64, member: MemberId) -> bool {
        self.open.get(&offset).is_some_and(|open| open.holder == Some(member))
    }

    /// Ends the flight of a message, if `member` holds it.
    pub(super) fn land(&mut self, offset: u64, member: MemberId) {
        if let Some(open) = self.open.get_mut(&offset)
            && open.holder == Some(member)
        {
            open.holder = None;
            self.held = self.held.and_then(|(holder, count)| (count > 1).then(|| (holder, count - 1)));
        }
    }

    /// From its next delivery on the message says this as well.
    pub(super) fn carry(&mut self, offset: u64, more: Headers) {
        if let Some(open) = self.open.get_mut(&offset) {
            let mut all = open.carried.take().map(Arc::unwrap_or_clone).unwrap_or_default();
            all.supersede(more);
            open.carried = Some(Arc::new(all));
        }
    }

    /// Puts a landed message where it waits for its next delivery.
    pub(super) fn put_back(&mut self, offset: u64, due: Option<Instant>) {
        match due {
            Some(due) => self.delayed.push(Reverse((due, offset))),
            None => {
                self.ready.insert(offset);
            }
        }
    }

    /// Forgets a landed message: this group is done with it.
    pub(super) fn finish(&mut self, offset: u64) -> Option<Open> {
        self.open.remove(&offset)
    }

    /// Everything that `member` has in flight may be delivered again.
    fn hand_back(&mut self, member: MemberId) {
        if self.held.is_none_or(|(holder, _)| holder != member) {
            return;
        }
        for (offset, open) in &mut self.open {
            if open.holder == Some(member) {
                open.holder = None;
                self.ready.insert(*offset);
            }
        }
        self.held = None;
    }

    /// Everything before it was settled.
    pub(super) fn passed(&self) -> u64 {
        self.open.first_key_value().map_or(self.next, |(first, _)| *first)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.held.map_or(0, |(_, count)| count)
    }
}

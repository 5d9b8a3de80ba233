//! A member of a consumer group as a [`Source`], and its answers.
//!
//! The tag of a delivery is its partition and offset. That is enough: the same message is not handed out
//! again before this member settled it or left, and after that the group no longer names this member as its holder.
//! There is no lease: a consumer in this process cannot vanish without dropping its source.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, Delivery, DeliveryTag, Settled, Settlement, Settler, Source,
};
use dlo_core::origin::Origin;
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::dead::{Buried, Death, origin};
use super::group::{HandedOut, MemberId, Share, message};
use super::{LONGEST_DELAY, MemoryBroker, Queues};

/// Bits of a tag that hold the offset; the rest hold the partition.
const OFFSET_BITS: u32 = 48;

/// Where a delivery stands, as its tag says.
#[derive(Debug, Clone, Copy)]
struct Place {
    partition: u16,
    offset: u64,
}

impl Place {
    fn of(tag: &DeliveryTag) -> Self {
        Self { partition: (tag.0 >> OFFSET_BITS) as u16, offset: tag.0 & ((1 << OFFSET_BITS) - 1) }
    }

    fn tag(self) -> DeliveryTag {
        DeliveryTag((u64::from(self.partition) << OFFSET_BITS) | self.offset)
    }
}

/// One consumer of a group.
#[derive(Debug)]
pub struct MemorySource {
    seat: Arc<Seat>,
    bell: Arc<Notify>,
}

/// The seat of one member. The source leaves it when it goes, even if a settler is still around.
#[derive(Debug)]
struct Seat {
    broker: MemoryBroker,
    queue: String,
    group: String,
    member: MemberId,
}

impl MemorySource {
    pub(super) fn join(broker: MemoryBroker, queue: &str, group: &str) -> Result<Self, BrokerError> {
        let (member, bell) = {
            let mut queues = broker.queues();
            queues.queue(queue)?;
            queues.members += 1;
            let member = MemberId(queues.members);
            (member, queues.queue(queue)?.join(group, member))
        };
        let seat = Seat { broker, queue: queue.to_owned(), group: group.to_owned(), member };
        Ok(Self { seat: Arc::new(seat), bell })
    }
}

impl Drop for MemorySource {
    fn drop(&mut self) {
        let seat = &self.seat;
        if let Ok(queue) = seat.broker.queues().queue(&seat.queue)
            && let Some(group) = queue.groups.get_mut(&seat.group)
        {
            group.leave(seat.member);
        }
    }
}

#[async_trait]
impl Source for MemorySource {
    fn capabilities(&self) -> &Capabilities {
        self.seat.broker.capabilities()
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        loop {
            // Listening begins before looking: what arrives in between rings.
            let mut rung = std::pin::pin!(self.bell.notified());
            rung.as_mut().enable();
            let (deliveries, next_due) = self.seat.take(max)?;
            let now = Instant::now();
            if !deliveries.is_empty() || now >= deadline {
                return Ok(deliveries);
            }
            let until = next_due.map_or(deadline, |due| due.min(deadline));
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(MemorySettler(Arc::clone(&self.seat)))
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        Ok(())
    }
}

impl Seat {
    fn take(&self, max: usize) -> Result<(Vec<Delivery>, Option<Instant>), BrokerError> {
        let (handed_out, template, next_due) = {
            let (at, now) = (self.broker.shared.clock.now(), Instant::now());
            let mut queues = self.broker.queues();
            queues.expire(&self.queue, at, now);
            let mut spent = Vec::new();
            let queue = queues.queue(&self.queue)?;
            let handed_out = queue.take(&self.group, self.member, max, now, &mut spent);
            let next_due = queue.groups.get(&self.group).and_then(|group| group.next_due(self.member));
            let template = origin(queue, 0, 0);
            for (partition, offset) in spent {
                let place = Place { partition, offset };
                let death = self.death(Reason::DeliveryLimit, at, now);
                match queues.give_up(self, place, death)? {
                    Buried::Moved | Buried::Gone => {}
                    // It waits among those that came back, and is tried at the next call.
                    Buried::Full | Buried::Missing(_) => {
                        if let Some(share) = queues.share(self, place)? {
                            share.put_back(place.offset, None);
                        }
                    }
                }
            }
            (handed_out, template, next_due)
        };
        // Copied outside of the lock.
        Ok((handed_out.into_iter().map(|one| delivery(one, &template)).collect(), next_due))
    }

    /// The bell of the dead-letter queue; one that never rings when there is none, as nothing waits for it then.
    fn room_for_the_dead(&self) -> Result<Arc<Notify>, BrokerError> {
        let mut queues = self.broker.queues();
        let Some(dead) = &queues.queue(&self.queue)?.options.dead_letters else { return Ok(Arc::default()) };
        let name = dead.queue.clone();
        Ok(queues.by_name.get(&name).map(|queue| Arc::clone(&queue.room)).unwrap_or_default())
    }

    fn death(&self, reason: Reason, at: Timestamp, now: Instant) -> Death<'_> {
        Death { reason, group: Some(&self.group), deliveries: 0, at, now }
    }
}

fn delivery(one: HandedOut, template: &Origin) -> Delivery {
    let HandedOut { partition, record, carried, deliveries } = one;
    let tag = Place { partition, offset: record.offset }.tag();
    let place = Origin {
        partition: Some(i32::from(partition)),
        offset: i64::try_from(record.offset).ok(),
        ..template.clone()
    };
    let mut delivery = Delivery::new(message(&record, carried.as_deref()), place, tag);
    delivery.delivery_count = Some(deliveries);
    delivery.redelivered = deliveries > 1;
    delivery.published_at = Some(record.published_at);
    delivery
}

impl Queues {
    /// Brings a message to its end without delivering it again. Unless it was moved, or is gone, it stays open.
    fn give_up(&mut self, seat: &Seat, place: Place, death: Death<'_>) -> Result<Buried, BrokerError> {
        let Some(share) = self.share(seat, place)? else { return Ok(Buried::Gone) };
        let Some(open) = share.open.get(&place.offset) else { return Ok(Buried::Gone) };
        let (record, death) = (Arc::clone(&open.record), Death { deliveries: open.deliveries, ..death });
        let message = message(&record, open.carried.as_deref());
        let buried = self.bury(&seat.queue, usize::from(place.partition), &record, message, death);
        if matches!(buried, Buried::Moved | Buried::Gone) {
            self.finish(seat, place)?;
        }
        Ok(buried)
    }

    fn finish(&mut self, seat: &Seat, place: Place) -> Result<(), BrokerError> {
        if let Some(share) = self.share(seat, place)? {
            share.land(place.offset, seat.member);
        }
        self.queue(&seat.queue)?.finish(&seat.group, place.partition, place.offset);
        Ok(())
    }

    fn share(&mut self, seat: &Seat, place: Place) -> Result<Option<&mut Share>, BrokerError> {
        let group = self.queue(&seat.queue)?.groups.get_mut(&seat.group);
        Ok(group.and_then(|group| group.shares.get_mut(usize::from(place.partition))))
    }
}

#[derive(Debug)]
struct MemorySettler(Arc<Seat>);

#[async_trait]
impl Settler for MemorySettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let mut left = settled;
        loop {
            let room = self.0.room_for_the_dead()?;
            let mut made = std::pin::pin!(room.notified());
            made.as_mut().enable();
            left = self.apply(left)?;
            if left.is_empty() {
                return Ok(());
            }
            // Back-pressure: a refused message is safe nowhere before the dead-letter queue has it.
            made.await;
        }
    }
}

impl MemorySettler {
    /// Settles what can be settled now; returns the refused ones for which the dead-letter queue has no room.
    fn apply(&self, settled: Vec<Settled>) -> Result<Vec<Settled>, BrokerError> {
        let seat = &*self.0;
        let (at, now) = (seat.broker.shared.clock.now(), Instant::now());
        let mut blocked = Vec::new();
        let mut queues = seat.broker.queues();
        for one in settled {
            let place = Place::of(&one.tag);
            let Some(share) = queues.share(seat, place)? else { continue };
            if !share.is_held(place.offset, seat.member) {
                continue; // taken back: no error, and not ours to settle
            }
            match one.how {
                Settlement::Done => queues.finish(seat, place)?,
                Settlement::Again { after } => {
                    let due = (!after.is_zero()).then(|| now + after.min(LONGEST_DELAY));
                    share.land(place.offset, seat.member);
                    if let Some(carry) = one.carry {
                        share.carry(place.offset, *carry);
                    }
                    share.put_back(place.offset, due);
                }
                Settlement::Refuse => {
                    match queues.give_up(seat, place, seat.death(Reason::Rejected, at, now))? {
                        Buried::Moved | Buried::Gone => {}
                        Buried::Full => blocked.push(one),
                        Buried::Missing(name) => return Err(BrokerError::Missing(name)),
                    }
                }
            }
        }
        // What came back may be taken at once, and a share may wait for its next owner.
        if let Some(group) = queues.queue(&seat.queue)?.groups.get(&seat.group) {
            group.bell.notify_waiters();
        }
        Ok(blocked)
    }
}

//! Lanes: which message may go to its handler, and which waits for the one before it (B10).
//!
//! A lane is a key or a partition, as `order` says, and has one message on its way at a time. It exists only while it has
//! one, so memory is bounded by what was received and not settled. Pure: no waiting, no tasks.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use dlo_core::broker::Delivery;

use crate::config::OrderBy;
use crate::room::Weight;

/// What a message has to wait for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Key(Option<i32>, Bytes),
    Partition(i32),
}

impl Lane {
    /// The lane of a message; `None`: it waits for nobody.
    pub(crate) fn of(delivery: &Delivery, order: OrderBy) -> Option<Self> {
        match order {
            OrderBy::None => None,
            // A key has an order inside its partition only.
            OrderBy::Key => {
                let key = delivery.message.key.as_ref()?;
                Some(Self::Key(delivery.origin.partition, key.0.clone()))
            }
            OrderBy::Partition => Some(Self::Partition(delivery.origin.partition.unwrap_or(0))),
        }
    }
}

/// A message that was received, and the room that its body takes.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) delivery: Delivery,
    pub(crate) weight: Weight,
}

/// Messages of a lane behind the one that is on its way.
#[derive(Debug, Default)]
struct Behind {
    waiting: VecDeque<Carried>,
    /// The one before them waits for its retry, and what is behind it is parked.
    stuck: bool,
}

/// What becomes of a message that was received.
#[derive(Debug)]
#[must_use]
pub(crate) enum Arrival {
    Start(Carried),
    /// It is kept here until its lane is free.
    Waits,
    /// Its lane is stuck: it is parked.
    ParkBehind(Carried),
}

/// All lanes of a consumer that have a message on its way.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    open: HashMap<Lane, Behind>,
    waiting: usize,
}

impl Lanes {
    /// Messages that wait for their lane.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn arrive(&mut self, lane: Option<&Lane>, carried: Carried) -> Arrival {
        let Some(lane) = lane else { return Arrival::Start(carried) };
        match self.open.entry(lane.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Behind::default());
                Arrival::Start(carried)
            }
            Entry::Occupied(open) if open.get().stuck => Arrival::ParkBehind(carried),
            Entry::Occupied(mut open) => {
                open.get_mut().waiting.push_back(carried);
                self.waiting += 1;
                Arrival::Waits
            }
        }
    }

    /// The message of this lane is through: the next one, if there is any.
    pub(crate) fn through(&mut self, lane: &Lane) -> Option<Carried> {
        let behind = self.open.get_mut(lane)?;
        behind.stuck = false;
        let next = behind.waiting.pop_front();
        match next {
            Some(_) => self.waiting -= 1,
            None => drop(self.open.remove(lane)),
        }
        next
    }

    /// The message of this lane waits for its retry: everything behind it is to be parked, now and until it is through.
    pub(crate) fn stick(&mut self, lane: &Lane) -> VecDeque<Carried> {
        let Some(behind) = self.open.get_mut(lane) else { return VecDeque::new() };
        behind.stuck = true;
        let parked = std::mem::take(&mut behind.waiting);
        self.waiting -= parked.len();
        parked
    }

    /// Lets go of everything that waits: it goes back to the broker.
    pub(crate) fn clear(&mut self) -> usize {
        self.open.clear();
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::broker::DeliveryTag;
    use dlo_core::message::{Message, Payload};
    use dlo_core::origin::{BrokerKind, Origin};

    use super::*;

    fn delivery(key: &'static str, offset: i64) -> Delivery {
        let message = Message { key: Some(Payload::from(key)), ..Message::default() };
        let origin = Origin::log(BrokerKind::Memory, "orders", 0, offset);
        Delivery::new(message, origin, DeliveryTag(offset.unsigned_abs()))
    }

    fn arrive(lanes: &mut Lanes, key: &'static str, offset: i64) -> Arrival {
        let delivery = delivery(key, offset);
        let lane = Lane::of(&delivery, OrderBy::Key);
        let weight = std::sync::Arc::new(crate::room::Room::new(1)).weigh(1);
        lanes.arrive(lane.as_ref(), Carried { delivery, weight })
    }

    fn lane(key: &'static str) -> Lane {
        Lane::Key(Some(0), Bytes::from_static(key.as_bytes()))
    }

    #[test]
    fn a_lane_has_one_message_on_its_way_and_the_others_follow_in_order() {
        let mut lanes = Lanes::default();
        assert!(matches!(arrive(&mut lanes, "a", 0), Arrival::Start(_)));
        assert!(matches!(arrive(&mut lanes, "a", 1), Arrival::Waits));
        assert!(matches!(arrive(&mut lanes, "b", 2), Arrival::Start(_)), "other keys flow");
        assert!(matches!(arrive(&mut lanes, "a", 3), Arrival::Waits));
        assert_eq!(lanes.waiting(), 2);
        let next = lanes.through(&lane("a")).unwrap();
        assert_eq!(next.delivery.origin.offset, Some(1));
        assert_eq!(lanes.through(&lane("a")).unwrap().delivery.origin.offset, Some(3));
        assert!(lanes.through(&lane("a")).is_none() && lanes.waiting() == 0);
        assert!(matches!(arrive(&mut lanes, "a", 4), Arrival::Start(_)));
    }

    #[test]
    fn behind_one_that_is_stuck_everything_is_parked_until_it_is_through() {
        let mut lanes = Lanes::default();
        for offset in 0..3 {
            let _ = arrive(&mut lanes, "a", offset);
        }
        assert_eq!(lanes.stick(&lane("a")).len(), 2);
        assert!(matches!(arrive(&mut lanes, "a", 3), Arrival::ParkBehind(_)));
        assert!(lanes.through(&lane("a")).is_none());
        assert!(matches!(arrive(&mut lanes, "a", 4), Arrival::Start(_)));
    }

    #[test]
    fn without_an_order_or_a_key_nobody_waits() {
        assert_eq!(Lane::of(&delivery("a", 0), OrderBy::None), None);
        assert_eq!(Lane::of(&delivery("a", 0), OrderBy::Partition), Some(Lane::Partition(0)));
        let mut keyless = delivery("a", 0);
        keyless.message.key = None;
        assert_eq!(Lane::of(&keyless, OrderBy::Key), None);
    }

    #[test]
    fn lanes_that_are_through_take_no_memory() {
        let mut lanes = Lanes::default();
        for offset in 0..10_000 {
            let _ = arrive(&mut lanes, "a", offset);
            let _ = lanes.through(&lane("a"));
        }
        assert!(lanes.open.is_empty());
    }
}

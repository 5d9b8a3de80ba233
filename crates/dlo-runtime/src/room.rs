//! How much more may be received: what is unsettled is bounded, and back-pressure begins here.
//!
//! A message counts from its delivery until the broker was told of it. One that waits here for its retry, or for the one
//! before it, makes room for another, up to a bound, and so does one whose letter waits on disk. Bodies in memory are
//! bounded in bytes as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::delay::MOST_HELD;

#[derive(Debug)]
pub(crate) struct Room {
    prefetch: usize,
    unsettled: AtomicUsize,
    held: AtomicUsize,
    spooled: AtomicUsize,
    in_lanes: AtomicUsize,
    bytes: AtomicUsize,
    freed: Notify,
}

/// Bytes of bodies in memory beyond which nothing is received.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The weight of one body, as long as it is in memory.
#[derive(Debug)]
pub(crate) struct Weight(Arc<Room>, usize);

impl Drop for Weight {
    fn drop(&mut self) {
        let before = self.0.bytes.fetch_sub(self.1, Ordering::Relaxed);
        if before >= MOST_BYTES {
            self.0.freed.notify_one();
        }
    }
}

/// A message that waits here; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Holding<'a>(&'a Room);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    pub(crate) fn new(prefetch: usize) -> Self {
        Self {
            prefetch,
            unsettled: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            spooled: AtomicUsize::new(0),
            in_lanes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// Messages that may be unsettled at once, apart from those that wait.
    pub(crate) fn prefetch(&self) -> usize {
        self.prefetch
    }

    pub(crate) fn received(&self, count: usize) {
        self.unsettled.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn weigh(self: &Arc<Self>, bytes: usize) -> Weight {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Weight(Arc::clone(self), bytes)
    }

    /// The broker was told of so many, or they go back to it.
    pub(crate) fn settled(&self, count: usize) {
        self.unsettled.fetch_sub(count, Ordering::Relaxed);
        self.freed.notify_one();
    }

    pub(crate) fn hold(&self) -> Holding<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.freed.notify_one();
        Holding(self)
    }

    pub(crate) fn spooled(&self, count: usize) {
        self.spooled.fetch_add(count, Ordering::Relaxed);
        self.freed.notify_one();
    }

    pub(crate) fn off_disk(&self, count: usize) {
        self.spooled.fetch_sub(count, Ordering::Relaxed);
    }

    /// So many wait for the one before them.
    pub(crate) fn in_lanes(&self, count: usize) {
        self.in_lanes.store(count, Ordering::Relaxed);
        self.freed.notify_one();
    }

    pub(crate) fn waiting_in_lanes(&self) -> usize {
        self.in_lanes.load(Ordering::Relaxed)
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Relaxed)
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn on_disk(&self) -> usize {
        self.spooled.load(Ordering::Relaxed)
    }

    /// How many may be received now.
    pub(crate) fn free(&self) -> usize {
        if self.bytes.load(Ordering::Relaxed) >= MOST_BYTES {
            return 0;
        }
        let waiting = (self.held() + self.waiting_in_lanes()).min(MOST_HELD);
        (self.prefetch + waiting + self.on_disk()).saturating_sub(self.unsettled())
    }

    /// Waits until receiving is worth a question: for a quarter of all, so that batches stay batches.
    pub(crate) async fn worth_asking(&self) -> usize {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            let free = self.free();
            if free > 0 && free >= self.prefetch / 4 {
                return free;
            }
            freed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_or_on_disk_makes_room_for_another_within_bounds() {
        let room = Room::new(8);
        room.received(8);
        assert_eq!(room.free(), 0);
        let holding = room.hold();
        assert_eq!(room.free(), 1);
        drop(holding);
        assert_eq!(room.free(), 0);
        room.spooled(3);
        assert_eq!(room.free(), 3);
        room.off_disk(3);
        room.settled(5);
        assert_eq!((room.free(), room.unsettled()), (5, 3));
        room.in_lanes(2);
        assert_eq!(room.free(), 7);
    }

    #[test]
    fn bodies_are_bounded_in_bytes() {
        let room = Arc::new(Room::new(8));
        let weights: Vec<Weight> = (0..64).map(|_| room.weigh(1024 * 1024)).collect();
        assert_eq!(room.free(), 0);
        drop(weights);
        assert_eq!(room.free(), 8);
    }
}

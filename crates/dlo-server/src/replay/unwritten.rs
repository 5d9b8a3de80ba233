//! Counts the messages in calls to the broker that are not written to its connection yet.
//!
//! A crash leaves them in doubt although they never left, so the core bounds how many there are. The run waits for a change:
//! what was written makes room for the next intents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dlo_core::broker::Written;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Unwritten {
    count: AtomicU64,
    changed: Notify,
}

impl Unwritten {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns after a call was written or ended, also where that was before this was called.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Counts a call of so many messages until the callback is called or dropped.
    pub(super) fn begin(self: &Arc<Self>, messages: u64) -> Written {
        self.count.fetch_add(messages, Ordering::AcqRel);
        let call = Call { unwritten: Arc::clone(self), messages };
        Box::new(move || drop(call))
    }
}

struct Call {
    unwritten: Arc<Unwritten>,
    messages: u64,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.unwritten.count.fetch_sub(self.messages, Ordering::AcqRel);
        self.unwritten.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_until_it_is_written_or_dropped() {
        let unwritten = Arc::<Unwritten>::default();
        let (first, second) = (unwritten.begin(3), unwritten.begin(4));
        assert_eq!(unwritten.count(), 7);
        first();
        assert_eq!(unwritten.count(), 4);
        drop(second);
        assert_eq!(unwritten.count(), 0);
    }

    #[tokio::test]
    async fn a_change_that_came_before_the_wait_is_seen() {
        let unwritten = Arc::<Unwritten>::default();
        unwritten.begin(3)();
        unwritten.changed().await;
    }
}

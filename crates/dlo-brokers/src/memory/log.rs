//! One partition: records in the order they came, with offsets that never change.
//!
//! The log holds what some group has not been handed yet. From then on a record is held by the groups that have not
//! settled it. `holders` counts both, so that the queue knows when a record is gone and its room is free.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dlo_core::message::Message;
use dlo_core::time::Timestamp;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) offset: u64,
    pub(super) message: Message,
    pub(super) published_at: Timestamp,
    pub(super) arrived: Instant,
    /// Invisible to consumers until then.
    pub(super) due: Option<Instant>,
    pub(super) size: usize,
    /// The log and every group that has it open. Changed under the broker's lock only.
    holders: AtomicU32,
}

impl Record {
    pub(super) fn hold(self: &Arc<Self>) -> Arc<Self> {
        self.holders.fetch_add(1, Ordering::Relaxed);
        Arc::clone(self)
    }

    /// Lets go; true when nobody holds it any more.
    pub(super) fn release(&self) -> bool {
        self.holders.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// Bytes of a whole message, headers and key included.
pub(super) fn size_of(message: &Message) -> usize {
    message.payload.0.len() + message.headers.size() + message.key.as_ref().map_or(0, |key| key.0.len())
}

#[derive(Debug, Default)]
pub(super) struct Log {
    base: u64,
    records: VecDeque<Arc<Record>>,
}

impl Log {
    /// The offset of the oldest record in the log; `end()` when there is none.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The offset that the next record gets.
    pub(super) fn end(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    pub(super) fn get(&self, offset: u64) -> Option<&Arc<Record>> {
        let index = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        self.records.get(index)
    }

    pub(super) fn append(
        &mut self,
        message: Message,
        published_at: Timestamp,
        arrived: Instant,
        due: Option<Instant>,
    ) -> &Arc<Record> {
        let (offset, size) = (self.end(), size_of(&message));
        let holders = AtomicU32::new(1);
        let record = Record { offset, message, published_at, arrived, due, size, holders };
        self.records.push_back(Arc::new(record));
        &self.records[self.records.len() - 1]
    }

    /// Lets go of everything below `offset`; returns how many records, and bytes, nobody holds any more.
    pub(super) fn trim(&mut self, offset: u64) -> (usize, usize) {
        let mut freed = (0, 0);
        while self.base < offset {
            let Some(record) = self.records.pop_front() else { break };
            self.base += 1;
            if record.release() {
                freed.0 += 1;
                freed.1 += record.size;
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(log: &mut Log, text: &str) -> u64 {
        let message = Message { payload: text.to_owned().into(), ..Message::default() };
        log.append(message, Timestamp::EPOCH, Instant::now(), None).offset
    }

    #[test]
    fn offsets_go_on_counting_when_the_log_is_trimmed() {
        let mut log = Log::default();
        assert_eq!((append(&mut log, "a"), append(&mut log, "b")), (0, 1));
        assert_eq!(log.trim(2), (2, 2));
        assert_eq!((append(&mut log, "c"), log.base(), log.end()), (2, 2, 3));
        assert!(log.get(1).is_none() && log.get(2).is_some() && log.get(3).is_none());
    }

    #[test]
    fn what_a_group_holds_is_not_counted_as_free() {
        let mut log = Log::default();
        append(&mut log, "a");
        let held = log.get(0).unwrap().hold();
        assert_eq!(log.trim(1), (0, 0));
        assert!(held.release());
    }
}

//! The rules of the simulated record: what a call reads and writes of letters and items.

use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::replay::{Item, ItemCounts, ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;
use dlo_store::StoreError;
use dlo_store::replays::{Run, SendEnd, ToSend};

use super::world::{Row, Stands, StoreFlaw, World, letter};

impl World {
    pub(super) fn whole(&self) -> Replay {
        let mut replay = self.replay.clone();
        replay.counts = self.counts();
        replay
    }

    pub(super) fn counts(&self) -> ItemCounts {
        let mut counts = ItemCounts::default();
        for row in &self.rows {
            counts.set(row.state, counts.get(row.state) + 1);
        }
        counts
    }

    pub(super) fn fenced(&mut self, run: &Run<'_>, now: Timestamp) -> Result<(), StoreError> {
        let held = self.leases.get(&run.lease.name).is_some_and(|lease| {
            lease.holder == run.lease.holder && lease.fence == run.lease.fence && lease.until > now
        });
        if held {
            return Ok(());
        }
        if self.store_flaw == Some(StoreFlaw::IgnoreFence) {
            self.fault("a server wrote under a lease that it had lost".to_owned());
            return Ok(());
        }
        Err(StoreError::LeaseLost(run.lease.name.clone()))
    }

    pub(super) fn item(&self, number: usize) -> Item {
        let row = &self.rows[number];
        Item {
            number: number as u64,
            letter: letter(number as u64),
            state: row.state,
            at: row.at,
            sent_at: row.sent_at,
            partition: row.partition,
            offset: row.offset,
            note: None,
        }
    }

    pub(super) fn to_send(&self, number: usize) -> ToSend {
        let row = &self.rows[number];
        ToSend {
            number: number as u64,
            letter: letter(number as u64),
            source: "orders".to_owned(),
            origin: Origin::queue(BrokerKind::Memory, "orders"),
            consumer: Some("shop".to_owned()),
            event_type: None,
            error_class: Some("KeyError".to_owned()),
            message: Message {
                key: Some(row.key.clone()),
                payload: number.to_string().into(),
                ..Message::default()
            },
            repaired: false,
            replays: 0,
        }
    }

    pub(super) fn is_held_back(&self, number: usize) -> bool {
        let good = |row: &Row| {
            matches!(
                row.state,
                ItemState::Confirmed
                    | ItemState::Passed
                    | ItemState::Presumed
                    | ItemState::Short
                    | ItemState::Refused
            )
        };
        let key = &self.rows[number].key;
        self.replay.settings.order && self.rows[..number].iter().any(|row| row.key == *key && !good(row))
    }

    pub(super) fn end(&mut self, number: usize, end: SendEnd, now: Timestamp) {
        let row = &mut self.rows[number];
        if row.state != ItemState::Intended {
            return;
        }
        match end {
            SendEnd::Sent { partition, offset } => {
                (row.state, row.letter) = (ItemState::Sent, Stands::Sent);
                (row.sent_at, row.at, row.partition, row.offset) = (Some(now), Some(now), partition, offset);
            }
            SendEnd::Unsent => (row.state, row.letter, row.at) = (ItemState::Claimed, Stands::Claimed, None),
            SendEnd::Refused(_) => (row.state, row.letter) = (ItemState::Refused, Stands::Open),
            SendEnd::Doubtful => row.doubts(),
        }
    }

    /// A state was reached in which nothing is sent, or sending goes on.
    pub(super) fn moved(&mut self, to: ReplayState, reason: Option<String>) {
        let from = self.replay.state;
        self.note(|| format!("replay {from} -> {to}: {reason:?}"));
        self.check_end(to);
        self.check_stop(reason.as_deref());
        self.replay.state = to;
        self.replay.stop_reason = reason;
        self.halted = (!to.is_active()).then(tokio::time::Instant::now);
    }
}

impl Row {
    pub(super) fn doubts(&mut self) {
        (self.state, self.letter, self.doubted) = (ItemState::InDoubt, Stands::InDoubt, true);
    }
}

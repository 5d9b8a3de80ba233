//! Nothing twice from brokers that give no coordinates (RabbitMQ, AMQP).
//!
//! Such a message has nothing of its own that tells a second delivery from an equal message; only the broker's word
//! that it was delivered before does. So the digests of the letters that are stored and not known to be settled are
//! kept beside them, in the same transaction: each batch in flight has a *slot*, a row whose mark holds the digests of
//! that batch. When the broker has confirmed the settlement, the slot is free for the next batch. What was not
//! confirmed is *carried*: a redelivered message that is among the carried is known, is settled without a second
//! letter, and is taken out. A message that is not redelivered is always a new letter, but for
//! AMQP 1.0, where the broker's word is not to be relied on.
//!
//! A confirmation says that the broker has read a settlement, not that it outlives the broker. So a free slot remembers its
//! batch until it is used again, and when this process dies or the connection is lost these are carried as well.
//!
//! What this cannot tell: by then another message that is equal in every byte was handed out, or, for AMQP 1.0, comes
//! within the hour. These two are taken for one.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use dlo_core::message::Message;
use dlo_core::time::Timestamp;
use dlo_store::Checkpoint;
use sha2::{Digest as _, Sha256};

use super::carried::Carried;

/// Batches in flight at once.
pub(super) const SLOTS: i32 = 4;
/// The row of what is carried, beside those of the slots.
const CARRIED: i32 = -1;
/// Digests of one row: what fits into a mark.
const MOST: usize = Checkpoint::MARK / TEXT;
/// Digests of one batch: those of all slots together can be carried.
const BATCH: usize = MOST / SLOTS as usize;
/// Characters of one digest in a mark.
const TEXT: usize = 22;
/// How long something is carried. By then every broker has redelivered what it ever will.
const CARRY: Duration = Duration::from_secs(60 * 60);

/// What two deliveries of one message have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 16]);

impl Digest {
    /// Over payload, key and headers, each by its length, without what a broker changes from delivery to delivery.
    pub(super) fn of(message: &Message) -> Self {
        let mut hash = Sha256::new();
        let mut part = |bytes: Option<&[u8]>| match bytes {
            Some(bytes) => {
                hash.update((bytes.len() as u64 + 1).to_be_bytes());
                hash.update(bytes);
            }
            None => hash.update(0_u64.to_be_bytes()),
        };
        part(Some(&message.payload.0));
        part(message.key.as_ref().map(|key| &key.0[..]));
        for header in message.headers.iter().filter(|header| !counts_deliveries(&header.name)) {
            part(Some(header.name.as_bytes()));
            part(header.value.as_deref());
        }
        let digest = hash.finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Self(short)
    }
}

/// Headers that are not the same at the second delivery: counts, flags, tags, and the note of their types.
fn counts_deliveries(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("deliver") || name.contains("acquired") || name.ends_with(":types")
}

/// One batch, as its stored row has it.
#[derive(Debug)]
enum Slot {
    InFlight(Vec<Digest>),
    /// Free for the next batch. The last one was settled, as far as the broker's answer goes.
    Settled(Vec<Digest>),
}

impl Slot {
    const EMPTY: Self = Self::Settled(Vec::new());

    fn is_in_flight(&self) -> bool {
        matches!(self, Self::InFlight(_))
    }

    fn take(&mut self) -> Vec<Digest> {
        let (Self::InFlight(digests) | Self::Settled(digests)) = std::mem::replace(self, Self::EMPTY);
        digests
    }
}

/// The letters of one queue that are stored and not known to be settled.
#[derive(Debug)]
pub(super) struct Window {
    source: String,
    /// Which queue, as the incarnation of its rows.
    queue: String,
    slots: Vec<Slot>,
    carried: Carried,
    carried_since: Option<Timestamp>,
    /// Whether the stored row of the carried is not what is carried now.
    changed: bool,
    /// Whether there is, or may be, a digest in a stored row. Brokers with coordinates never write one.
    used: bool,
    /// Whether the broker gives no coordinates, as far as was seen.
    needed: bool,
    /// The number of the next row that is written.
    next: i64,
    /// The slot that is looked at first.
    turn: usize,
}

impl Window {
    /// What a predecessor left: everything that was in flight is carried from now on.
    pub(super) fn load(source: &str, queue: String, rows: &[Checkpoint], now: Timestamp) -> Self {
        let mut window = Self {
            source: source.to_string(),
            slots: (0..SLOTS).map(|_| Slot::EMPTY).collect(),
            carried: Carried::new(MOST),
            carried_since: None,
            changed: false,
            used: false,
            needed: false,
            next: 1,
            turn: 0,
            queue,
        };
        let ours = window.queue.clone();
        let mut rows: Vec<&Checkpoint> = rows.iter().filter(|row| row.incarnation == ours).collect();
        // What was carried already is older than every slot, and a slot is as old as its number says.
        rows.sort_by_key(|row| (row.partition != CARRIED, row.next));
        for row in rows {
            window.next = window.next.max(row.next + 1);
            window.used |= row.mark.as_ref().is_some_and(|mark| !mark.is_empty());
            window.carry(parse(row.mark.as_deref().unwrap_or_default()), now);
        }
        window.needed = window.used;
        window
    }

    /// Deliveries that one batch may have.
    pub(super) fn most(&self) -> usize {
        if self.needed { BATCH } else { MOST }
    }

    /// Whether this redelivered message is a letter already. It is so once.
    pub(super) fn is_known(&mut self, digest: Digest) -> bool {
        if !self.carried.take(digest) {
            return false;
        }
        self.changed = true;
        true
    }

    /// Takes a free slot for a batch; its rows go into the batch's transaction. At most [`SLOTS`] at once.
    pub(super) fn begin(&mut self, digests: Vec<Digest>, now: Timestamp) -> (usize, Vec<Checkpoint>) {
        // In turn: what was settled last is remembered longest.
        let count = self.slots.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let slot = in_turn.into_iter().find(|slot| !self.slots[*slot].is_in_flight()).unwrap_or(0);
        self.turn = slot + 1;
        self.used |= !digests.is_empty();
        self.needed |= self.used;
        let mut rows = Vec::new();
        if self.used {
            rows.push(self.row(slot as i32, &digests));
        }
        self.slots[slot] = Slot::InFlight(digests);
        let stale = self.carried_since.is_some_and(|since| since.plus(CARRY) <= now);
        if stale {
            self.carried.clear();
            self.carried_since = None;
            self.changed = true;
        }
        if self.changed {
            // What moved from a slot to the carried must not be in both: a successor would know it twice.
            rows.extend(self.empty_rows());
            rows.push(self.carried_row());
            self.changed = false;
        }
        (slot, rows)
    }

    /// The broker has confirmed the batch of a slot.
    pub(super) fn settled(&mut self, slot: usize) {
        self.slots[slot] = Slot::Settled(self.slots[slot].take());
    }

    /// The batch of a slot is stored, and nothing is known of its settlement.
    pub(super) fn unsettled(&mut self, slot: usize, now: Timestamp) {
        let digests = self.slots[slot].take();
        self.carry(digests, now);
    }

    /// The connection is lost, perhaps with the broker: what was settled last may come again. No batch is in flight.
    pub(super) fn parted(&mut self, now: Timestamp) {
        // The oldest first, which is the slot that is next in turn.
        for step in 0..self.slots.len() {
            self.unsettled((self.turn + step) % self.slots.len(), now);
        }
    }

    /// Rows for a moment without letters: the slots are free, so their marks go. `None`: there is none.
    pub(super) fn sweep(&mut self) -> Option<Vec<Checkpoint>> {
        if !self.used || self.slots.iter().any(Slot::is_in_flight) {
            return None;
        }
        self.used = !self.carried.is_empty();
        self.slots.fill_with(|| Slot::EMPTY);
        let mut rows = self.empty_rows();
        rows.push(self.carried_row());
        self.changed = false;
        Some(rows)
    }

    fn carry(&mut self, digests: Vec<Digest>, now: Timestamp) {
        for digest in digests {
            self.carried.add(digest);
            self.carried_since = Some(now);
            self.changed = true;
        }
    }

    fn empty_rows(&mut self) -> Vec<Checkpoint> {
        let is_empty = |slot: &Slot| matches!(slot, Slot::Settled(digests) if digests.is_empty());
        let empty: Vec<i32> = (0..SLOTS).filter(|slot| is_empty(&self.slots[*slot as usize])).collect();
        empty.into_iter().map(|slot| self.row(slot, &[])).collect()
    }

    fn carried_row(&mut self) -> Checkpoint {
        let all: Vec<Digest> = self.carried.by_age().collect();
        self.row(CARRIED, &all)
    }

    fn row(&mut self, partition: i32, digests: &[Digest]) -> Checkpoint {
        let next = self.next;
        self.next += 1;
        let mut mark = String::with_capacity(digests.len() * TEXT);
        for digest in digests {
            STANDARD_NO_PAD.encode_string(digest.0, &mut mark);
        }
        let (source, incarnation) = (self.source.clone(), self.queue.clone());
        Checkpoint { source, incarnation, partition, next, mark: Some(mark) }
    }
}

/// The digests of a mark. What is no digest is passed over: at worst a letter comes twice.
fn parse(mark: &str) -> Vec<Digest> {
    let one = |text: &[u8]| {
        let mut digest = [0; 16];
        let length = STANDARD_NO_PAD.decode_slice(text, &mut digest).ok()?;
        (length == digest.len()).then_some(Digest(digest))
    };
    mark.as_bytes().chunks(TEXT).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn message(text: &str) -> Message {
        Message { payload: text.to_owned().into(), ..Message::default() }
    }

    fn digests(texts: &[&str]) -> Vec<Digest> {
        texts.iter().map(|text| Digest::of(&message(text))).collect()
    }

    fn fresh() -> Window {
        Window::load("orders", "rabbitmq:orders.dlq".into(), &[], NOW)
    }

    #[test]
    fn what_a_broker_counts_does_not_make_another_message() {
        let (once, mut twice) = (message("a"), message("a"));
        twice.headers.push_text("x-delivery-count", "2");
        twice.headers.push_text("rabbitmq:redelivered", "true");
        assert_eq!(Digest::of(&once), Digest::of(&twice));
        twice.headers.push_text("x-tenant", "acme");
        assert_ne!(Digest::of(&once), Digest::of(&twice));
        let keyed = Message { key: Some("".into()), ..message("a") };
        assert_ne!(Digest::of(&once), Digest::of(&keyed));
    }

    #[test]
    fn a_successor_knows_what_was_stored_and_not_settled_as_often_as_it_was_stored() {
        let mut before = fresh();
        let (slot, rows) = before.begin(digests(&["a", "a", "b"]), NOW);
        assert_eq!(slot, 0);
        let mut after = Window::load("orders", "rabbitmq:orders.dlq".into(), &rows, NOW);
        let [a, b, c] = ["a", "b", "c"].map(|text| Digest::of(&message(text)));
        assert!(after.is_known(a) && after.is_known(a) && !after.is_known(a));
        assert!(after.is_known(b) && !after.is_known(b) && !after.is_known(c));
        // Another queue's rows are none of ours.
        assert!(!Window::load("orders", "rabbitmq:other".into(), &rows, NOW).is_known(a));
    }

    #[test]
    fn what_was_settled_is_forgotten_and_what_was_not_is_carried_into_the_next_row() {
        let mut window = fresh();
        let (one, _) = window.begin(digests(&["a"]), NOW);
        let (two, _) = window.begin(digests(&["b"]), NOW);
        window.settled(one);
        window.unsettled(two, NOW);
        let (_, rows) = window.begin(digests(&["c"]), NOW);
        let mut after = Window::load("orders", "rabbitmq:orders.dlq".into(), &rows, NOW);
        let [a, b, c] = ["a", "b", "c"].map(|text| Digest::of(&message(text)));
        assert!(!after.is_known(a) && after.is_known(b) && after.is_known(c));
        let later = NOW.plus(CARRY);
        window.begin(Vec::new(), later);
        assert!(!window.is_known(b), "nothing is carried for ever");
    }

    /// A broker that stops may have read a settlement and not kept it.
    #[test]
    fn what_was_settled_last_is_known_after_the_connection_was_lost_and_only_once() {
        let [a, b, c] = ["a", "b", "c"].map(|text| Digest::of(&message(text)));
        let mut window = fresh();
        let (slot, mut rows) = window.begin(vec![a, b], NOW);
        window.settled(slot);
        assert!(!window.is_known(a), "settled, and the broker is there");
        window.parted(NOW);
        assert!(window.is_known(a) && !window.is_known(a));
        let (_, newer) = window.begin(vec![c], NOW);
        for row in newer {
            rows.retain(|old| old.partition != row.partition);
            rows.push(row);
        }
        let mut after = Window::load("orders", "rabbitmq:orders.dlq".into(), &rows, NOW);
        assert!(after.is_known(b) && !after.is_known(b), "moved, not copied");
        assert!(after.is_known(c) && !after.is_known(a));
    }

    #[test]
    fn what_was_settled_before_a_quiet_moment_is_forgotten() {
        let mut window = fresh();
        let (slot, _) = window.begin(digests(&["a"]), NOW);
        window.settled(slot);
        window.sweep().expect("rows to empty");
        window.parted(NOW);
        assert!(!window.is_known(Digest::of(&message("a"))));
    }

    /// Every crash leaves rows of batches that were settled long ago; they must not crowd out what is in doubt now.
    #[test]
    fn after_many_crashes_what_was_in_flight_last_is_still_known() {
        let numbered = |round: u32, slot: u32| -> Vec<Digest> {
            (0..BATCH as u32).map(|n| Digest::of(&message(&format!("{round}/{slot}/{n}")))).collect()
        };
        let mut rows: Vec<Checkpoint> = Vec::new();
        for round in 0..3 {
            let mut office = Window::load("orders", "rabbitmq:orders.dlq".into(), &rows, NOW);
            for slot in 0..SLOTS as u32 {
                for row in office.begin(numbered(round, slot), NOW).1 {
                    rows.retain(|old| old.partition != row.partition);
                    rows.push(row);
                }
            }
            let mut successor = Window::load("orders", "rabbitmq:orders.dlq".into(), &rows, NOW);
            for digest in (0..SLOTS as u32).flat_map(|slot| numbered(round, slot)) {
                assert!(successor.is_known(digest), "round {round}");
            }
        }
    }

    #[test]
    fn a_mark_of_the_largest_batch_is_taken_by_the_store() {
        let mut window = fresh();
        let many = vec![Digest([7; 16]); MOST];
        let (_, rows) = window.begin(many, NOW);
        assert!(rows[0].mark.as_ref().unwrap().len() <= Checkpoint::MARK);
        assert_eq!(parse(rows[0].mark.as_ref().unwrap()).len(), MOST);
        assert_eq!(parse("no digest at all, but long enough to be one"), []);
    }
}

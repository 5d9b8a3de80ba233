//! Letters that may repeat another letter: a copy that a crash left, or a message that a replay sent.
//!
//! A copy is certain only where the broker names messages. Elsewhere equal bytes prove nothing: two orders may be equal.
//! A suspected letter stays a letter of its own. It names the other letter, and a plan leaves it out unless a person
//! includes it. Which of two letters is suspected is decided here; stores look up what they need for it.

use serde::Serialize;

use crate::codes::coded;
use crate::id::{DeathId, LetterId};
use crate::letter::Status;
use crate::origin::digest;

coded! {
    /// Why a letter may repeat another letter. The word is also what `is:` asks for.
    pub enum Suspicion as "suspicion" {
        /// A consumer went down between the copy and the acknowledgement, so it may have parked one message twice.
        Duplicate = 1 => "suspected_duplicate",
        /// It has the payload and the key of a message that a replay had just sent.
        Return = 2 => "suspected_return",
    }
}

/// The letter that another one may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Suspect {
    pub kind: Suspicion,
    /// The letter that was here first.
    pub letter: LetterId,
}

impl Suspect {
    /// Whether a plan leaves the suspected letter out. A return has its turn unless the first letter may be sent as well.
    pub const fn is_left_out(kind: Suspicion, first: Status) -> bool {
        match kind {
            Suspicion::Duplicate => true,
            Suspicion::Return => matches!(first, Status::Open | Status::Claimed),
        }
    }
}

/// What a dead letter without coordinates says of its death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeathMark {
    /// A hash of the bytes: equal ids alone prove nothing.
    pub id: DeathId,
    /// It was parked after a redelivery, so that an earlier copy may exist.
    pub redelivered: bool,
}

impl DeathMark {
    /// The bytes under which a store finds the first letter of `source` with this death id.
    pub fn key(&self, source: &str) -> [u8; 16] {
        let id = self.id.to_string();
        let mut key = [0; 16];
        key.copy_from_slice(&digest(&[Some(source), Some(&id)])[..16]);
        key
    }
}

/// The first letter of a source with a death id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstDeath {
    pub letter: LetterId,
    /// It is a copy after a redelivery, and the message that it may repeat has not arrived.
    pub awaits_original: bool,
}

/// What follows from the next letter with a known death id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeathCopy {
    /// The letter that the next one is suspected to repeat.
    pub of: Option<LetterId>,
    /// What [`FirstDeath::awaits_original`] is afterwards.
    pub awaits_original: bool,
}

impl FirstDeath {
    /// What a letter is whose death id nobody had before.
    pub const fn new(letter: LetterId, mark: DeathMark) -> Self {
        Self { letter, awaits_original: mark.redelivered }
    }

    /// Decides about the next letter with the same death id.
    ///
    /// The later letter is always the suspected one: the first may be in a plan, or sent. Where the copy was stored first,
    /// the next letter without a mark is its original; later ones without a mark are orders of their own.
    pub const fn next(self, mark: DeathMark) -> DeathCopy {
        if mark.redelivered {
            return DeathCopy { of: Some(self.letter), awaits_original: self.awaits_original };
        }
        let of = if self.awaits_original { Some(self.letter) } else { None };
        DeathCopy { of, awaits_original: false }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const FIRST: LetterId = LetterId(Uuid::from_u128(1));

    fn mark(redelivered: bool) -> DeathMark {
        DeathMark { id: DeathId(Uuid::from_u128(7)), redelivered }
    }

    /// Which of some copies with one death id are suspected, in the order of their arrival.
    fn suspected(copies: &[bool]) -> Vec<bool> {
        let mut first = FirstDeath::new(FIRST, mark(copies[0]));
        let mut all = vec![false];
        for redelivered in &copies[1..] {
            let next = first.next(mark(*redelivered));
            first.awaits_original = next.awaits_original;
            assert!(next.of.is_none_or(|of| of == FIRST));
            all.push(next.of.is_some());
        }
        all
    }

    #[test]
    fn a_copy_after_a_redelivery_is_suspected_of_the_first() {
        assert_eq!(suspected(&[false, true, true]), [false, true, true]);
    }

    #[test]
    fn equal_bytes_without_a_redelivery_are_two_orders() {
        assert_eq!(suspected(&[false, false, false]), [false, false, false]);
    }

    #[test]
    fn a_copy_that_was_stored_first_is_paired_with_one_original() {
        assert_eq!(suspected(&[true, false, false]), [false, true, false]);
        assert_eq!(suspected(&[true, true, false, false]), [false, true, true, false]);
    }

    #[test]
    fn a_return_is_left_out_only_while_the_first_letter_may_be_sent() {
        let left_out = |kind| -> Vec<Status> {
            Status::ALL.iter().copied().filter(|status| Suspect::is_left_out(kind, *status)).collect()
        };
        assert_eq!(left_out(Suspicion::Duplicate), Status::ALL);
        assert_eq!(left_out(Suspicion::Return), [Status::Open, Status::Claimed]);
    }
}

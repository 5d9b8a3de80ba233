//! Which deliveries of one channel are still open, and how their answers are told in the fewest words.
//!
//! AMQP numbers the deliveries of a channel one by one, and an acknowledgement may mean everything up to its number. That
//! saves a frame a message, and is a trap: it must not run over a delivery whose other answer is just on its way. So a
//! delivery whose answer is being told stands in the way of everybody else until it was told.

use std::collections::VecDeque;

/// The deliveries of one channel, from the oldest that is not answered.
#[derive(Debug)]
pub(super) struct Ledger<T> {
    /// The number of the first slot.
    base: u64,
    slots: VecDeque<Slot<T>>,
}

#[derive(Debug)]
enum Slot<T> {
    /// Arrived, and not handed out yet.
    Expected,
    /// In somebody's hand.
    Held(T),
    /// Its answer is on its way.
    Telling,
    Told,
}

/// How the acknowledgement of several deliveries is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Acks {
    /// Everything up to here.
    pub(super) up_to: Option<u64>,
    pub(super) single: Vec<u64>,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self { base: 1, slots: VecDeque::new() }
    }
}

impl<T> Ledger<T> {
    /// Writes down a delivery that is handed out. Each number once, nearly in their order.
    pub(super) fn hold(&mut self, number: u64, what: T) {
        while self.base + self.slots.len() as u64 <= number {
            self.slots.push_back(Slot::Expected);
        }
        if let Some(slot) = self.slot(number) {
            *slot = Slot::Held(what);
        }
    }

    /// Begins to answer a delivery. `None`: it is answered already, or never was here.
    pub(super) fn answer(&mut self, number: u64) -> Option<T> {
        let slot = self.slot(number)?;
        match std::mem::replace(slot, Slot::Telling) {
            Slot::Held(what) => Some(what),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// How to acknowledge these, all of which are being answered; in ascending order.
    pub(super) fn acks(&self, done: &[u64]) -> Acks {
        let mut left = done.iter().copied().peekable();
        let mut up_to = None;
        for (number, slot) in (self.base..).zip(&self.slots) {
            match slot {
                Slot::Told => {}
                Slot::Telling if left.next_if_eq(&number).is_some() => up_to = Some(number),
                Slot::Telling | Slot::Held(_) | Slot::Expected => break,
            }
        }
        Acks { up_to, single: left.collect() }
    }

    /// The server was told.
    pub(super) fn told(&mut self, number: u64) {
        if let Some(slot) = self.slot(number) {
            *slot = Slot::Told;
        }
        while let Some(Slot::Told) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// Deliveries that were handed out and that the server has no answer to yet.
    pub(super) fn open(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Held(_) | Slot::Telling)).count()
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot<T>> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.slots.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(numbers: std::ops::RangeInclusive<u64>) -> Ledger<u64> {
        let mut ledger = Ledger::default();
        numbers.for_each(|number| ledger.hold(number, number));
        ledger
    }

    fn answer(ledger: &mut Ledger<u64>, numbers: &[u64]) -> Acks {
        for number in numbers {
            assert_eq!(ledger.answer(*number), Some(*number));
        }
        ledger.acks(numbers)
    }

    #[test]
    fn a_whole_batch_is_one_acknowledgement() {
        let mut ledger = ledger(1..=1_000);
        let batch: Vec<u64> = (1..=500).collect();
        assert_eq!(answer(&mut ledger, &batch), Acks { up_to: Some(500), single: vec![] });
        batch.into_iter().for_each(|number| ledger.told(number));
        assert_eq!(ledger.open(), 500);
        assert_eq!(answer(&mut ledger, &[501, 503]), Acks { up_to: Some(501), single: vec![503] });
    }

    #[test]
    fn nothing_is_acknowledged_over_what_somebody_still_holds() {
        let mut ledger = ledger(1..=5);
        assert_eq!(answer(&mut ledger, &[2, 3, 5]), Acks { up_to: None, single: vec![2, 3, 5] });
        [2, 3, 5].into_iter().for_each(|number| ledger.told(number));
        assert_eq!(
            answer(&mut ledger, &[1, 4]),
            Acks { up_to: Some(4), single: vec![] },
            "over what was told"
        );
    }

    #[test]
    fn nothing_is_acknowledged_over_an_answer_that_is_on_its_way() {
        let mut ledger = ledger(1..=4);
        assert_eq!(ledger.answer(2), Some(2), "somebody refuses it, and has not said so yet");
        assert_eq!(answer(&mut ledger, &[1, 3, 4]), Acks { up_to: Some(1), single: vec![3, 4] });
    }

    #[test]
    fn nothing_is_acknowledged_over_what_arrived_and_was_not_handed_out() {
        let mut ledger = ledger(1..=2);
        ledger.hold(4, 4);
        assert_eq!(answer(&mut ledger, &[1, 2, 4]), Acks { up_to: Some(2), single: vec![4] });
        [1, 2, 4].into_iter().for_each(|number| ledger.told(number));
        ledger.hold(3, 3);
        assert_eq!((ledger.open(), answer(&mut ledger, &[3])), (1, Acks { up_to: Some(3), single: vec![] }));
    }

    #[test]
    fn a_delivery_is_answered_once() {
        let mut ledger = ledger(1..=2);
        assert_eq!(ledger.answer(1), Some(1));
        assert_eq!(ledger.answer(1), None);
        ledger.told(1);
        assert_eq!((ledger.answer(1), ledger.answer(0), ledger.answer(99)), (None, None, None));
        assert_eq!(ledger.open(), 1);
    }
}

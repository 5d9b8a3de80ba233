//! What is done waits for what came before it, so that one position says both; not for long, and not much of it.
//!
//! A broker that takes a position for many is told of everything below it in one word. One message that waits for its retry
//! or for its letter to be confirmed is a hole: whatever is done behind it would have to be told in words of its own, which
//! costs a broker more than to deliver it did. So what is done behind a hole is kept for a moment. When the
//! hole closes, one word is enough.
//!
//! A crash meanwhile has what is kept here delivered and handled once more, as what is in handlers is. That is why both the
//! time and the number are bounded. A hole that stays, of a slow handler or of a delivery that nobody will settle any more,
//! is not waited for again and again: it counts for a second.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use dlo_core::broker::{Settled, Settlement};
use tokio::time::Instant;

/// The longest that one waits for those before it.
const LONGEST: Duration = Duration::from_millis(100);
/// How long after its delivery anybody waits for one.
const HOLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Watermark {
    /// In somebody's hands, by the number of their delivery, which counts up, and since when.
    open: BTreeMap<u64, Instant>,
    kept: BTreeMap<u64, Settled>,
    /// Until when each is kept, in their order; some of them are told already.
    until: VecDeque<(Instant, u64)>,
    /// So many are kept at most.
    most: usize,
    due: Vec<Settled>,
}

impl Watermark {
    pub(super) fn new(most: usize) -> Self {
        Self { open: BTreeMap::new(), kept: BTreeMap::new(), until: VecDeque::new(), most, due: Vec::new() }
    }

    pub(super) fn received(&mut self, numbers: impl IntoIterator<Item = u64>, now: Instant) {
        self.open.extend(numbers.into_iter().map(|number| (number, now)));
    }

    /// Is told as soon as anything is.
    pub(super) fn tell(&mut self, settled: Settled) {
        self.due.push(settled);
    }

    pub(super) fn settled(&mut self, settled: Settled, now: Instant) {
        let number = settled.tag.0;
        self.open.remove(&number);
        // Only what is done is told by a position.
        if settled.how != Settlement::Done {
            return self.due.push(settled);
        }
        self.until.push_back((now + LONGEST, number));
        self.due.extend(self.kept.insert(number, settled));
    }

    /// What is to be told now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Settled> {
        while self.open.first_key_value().is_some_and(|(_, since)| now.duration_since(*since) >= HOLE) {
            self.open.pop_first();
        }
        let above = match self.open.first_key_value() {
            Some((oldest, _)) => self.kept.split_off(oldest),
            None => BTreeMap::new(),
        };
        let below = std::mem::replace(&mut self.kept, above);
        self.due.extend(below.into_values());
        while let Some((until, number)) = self.until.front()
            && (*until <= now || self.kept.len() > self.most || !self.kept.contains_key(number))
        {
            self.due.extend(self.kept.remove(number));
            self.until.pop_front();
        }
        std::mem::take(&mut self.due)
    }

    /// Everything, whatever it stands behind.
    pub(super) fn all(&mut self) -> Vec<Settled> {
        self.until.clear();
        self.due.extend(std::mem::take(&mut self.kept).into_values());
        std::mem::take(&mut self.due)
    }

    /// When something is due though nothing happens before.
    pub(super) fn next(&self) -> Option<Instant> {
        self.until.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::broker::{Delivery, DeliveryTag};
    use dlo_core::message::Message;
    use dlo_core::origin::{BrokerKind, Origin};

    use super::*;

    fn settled(tag: u64, how: Settlement) -> Settled {
        let origin = Origin::queue(BrokerKind::Rabbitmq, "orders");
        Delivery::new(Message::default(), origin, DeliveryTag(tag)).settle(how)
    }

    fn with(open: std::ops::RangeInclusive<u64>, most: usize, now: Instant) -> Watermark {
        let mut watermark = Watermark::new(most);
        watermark.received(open, now);
        watermark
    }

    fn done(watermark: &mut Watermark, tags: impl IntoIterator<Item = u64>, now: Instant) -> Vec<u64> {
        tags.into_iter().for_each(|tag| watermark.settled(settled(tag, Settlement::Done), now));
        tags_of(&watermark.due(now))
    }

    fn tags_of(settled: &[Settled]) -> Vec<u64> {
        settled.iter().map(|settled| settled.tag.0).collect()
    }

    #[test]
    fn what_is_behind_a_hole_is_told_when_the_hole_closes() {
        let now = Instant::now();
        let mut watermark = with(1..=6, 100, now);
        assert_eq!(done(&mut watermark, [1, 2], now), [1, 2]);
        assert!(done(&mut watermark, [6, 4, 5], now).is_empty());
        assert_eq!(done(&mut watermark, [3], now), [3, 4, 5, 6]);
        assert_eq!(watermark.next(), None);
    }

    #[test]
    fn nothing_is_kept_longer_than_a_moment() {
        let now = Instant::now();
        let mut watermark = with(1..=4, 100, now);
        assert!(done(&mut watermark, [2], now).is_empty());
        let later = now + LONGEST / 2;
        assert!(done(&mut watermark, [4], later).is_empty());
        assert_eq!(watermark.next(), Some(now + LONGEST));
        assert_eq!(tags_of(&watermark.due(now + LONGEST)), [2]);
        assert_eq!(watermark.next(), Some(later + LONGEST));
    }

    #[test]
    fn a_hole_that_stays_is_waited_for_once_and_closes_without_harm() {
        let now = Instant::now();
        let mut watermark = with(1..=2, 100, now);
        let later = now + HOLE;
        watermark.received(3..=4, later);
        assert_eq!(done(&mut watermark, [3], later), [3], "nobody waits for 1 and 2 any more");
        assert_eq!(done(&mut watermark, [1, 4], later), [1, 4]);
        assert!(watermark.open.is_empty(), "what is never settled is forgotten");
    }

    #[test]
    fn no_more_is_kept_than_the_bound() {
        let now = Instant::now();
        let mut watermark = with(1..=10, 3, now);
        assert_eq!(done(&mut watermark, 2..=7, now), [2, 3, 4], "the oldest");
        assert_eq!(tags_of(&watermark.all()), [5, 6, 7]);
    }

    #[test]
    fn what_comes_again_or_is_refused_waits_for_nobody() {
        let now = Instant::now();
        let mut watermark = with(1..=3, 100, now);
        watermark.settled(settled(3, Settlement::Refuse), now);
        watermark.settled(settled(2, Settlement::Again { after: Duration::ZERO }), now);
        assert_eq!(tags_of(&watermark.due(now)), [3, 2]);
    }
}

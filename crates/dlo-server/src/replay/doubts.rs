//! What becomes of items in doubt: sends of which nobody knows whether they arrived.
//!
//! | the broker | what is done |
//! |---|---|
//! | knows send ids for a week | sent again: it is one message; after the week, the policy |
//! | knows them within a window | sent again while the window of the first send lasts; then the policy |
//! | can be read back | whoever could still publish is fenced off, then the queue is read from before the send |
//! | tells nothing | the policy: a person decides, or it is sent again |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{BrokerError, LostConfirm, Position, Publisher, SENDS_REMEMBERED};
use dlo_core::envelope::replay_mark;
use dlo_core::replay::{DoubtPolicy, Item, ItemState, Settings, parse_send_id};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Settling, ToSend};
use dlo_store::{Page, StoreError};

use super::calls::{Did, Prepared, Trouble};
use super::flaw::Flaw;
use super::hand::Hand;
use super::note::Note;

/// Records read back with one look.
const LOOK: usize = 1_000;
/// How long one look waits for the next record.
const WAIT: Duration = Duration::from_millis(500);
/// Looks that may see nothing, one after the other, before the queue counts as out of reach.
const EMPTY: u32 = 20;
/// Of a window of deduplication this much is not used: clocks differ, and a publish takes its time.
const MARGIN: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Cleared {
    /// To be sent again; each before a time, where the broker forgets.
    pub(super) again: Vec<(Prepared, Option<Timestamp>)>,
    /// Left to a person.
    pub(super) held: u64,
    /// The publisher to go on with, where the one before was fenced off.
    pub(super) publisher: Option<Arc<dyn Publisher>>,
}

/// Until when sending an item again is safe, that was first intended `at`.
pub(super) fn safe_until(at: Timestamp, window: Duration) -> Timestamp {
    at.plus(window.saturating_sub(MARGIN.min(window / 4)))
}

/// Doubts by whether the broker still knows them.
#[derive(Debug, PartialEq, Eq)]
struct Sorted {
    /// Sending these again is one message…
    safe: Vec<u64>,
    /// …until then.
    before: Timestamp,
    /// Of these it may have forgotten the first send: nothing can be known of them.
    late: Vec<u64>,
}

fn sort(doubts: &[Item], window: Duration, now: Timestamp) -> Sorted {
    let mut sorted = Sorted { safe: Vec::new(), before: now.plus(window), late: Vec::new() };
    for item in doubts {
        let until = safe_until(item.at.unwrap_or_default(), window);
        if now < until {
            sorted.before = sorted.before.min(until);
            sorted.safe.push(item.number);
        } else {
            sorted.late.push(item.number);
        }
    }
    sorted
}

impl Hand {
    pub(super) async fn clear(self: Arc<Self>, settings: Settings, note: Note) -> Did {
        Did::Cleared(Box::new(self.clear_doubts(&settings, &note).await))
    }

    async fn clear_doubts(&self, settings: &Settings, note: &Note) -> Result<Cleared, Trouble> {
        match self.lost_confirm(note.queues.keys()) {
            LostConfirm::ReadBack => self.read_back(settings, note).await,
            LostConfirm::SendAgain | LostConfirm::SendAgainInWindow => {
                let window = self.remembered(note).await?;
                self.again_within(window, settings).await
            }
            LostConfirm::Unknown => {
                let numbers = self.in_doubt().await?.iter().map(|item| item.number).collect();
                self.by_policy(numbers, settings).await
            }
        }
    }

    /// How long every queue that was sent to knows a send again.
    async fn remembered(&self, note: &Note) -> Result<Duration, BrokerError> {
        let mut shortest = SENDS_REMEMBERED;
        for queue in note.queues.keys() {
            shortest = shortest.min(self.broker().remembers_sends(queue).await?);
        }
        Ok(shortest)
    }

    async fn again_within(&self, window: Duration, settings: &Settings) -> Result<Cleared, Trouble> {
        let window = if self.engine.flaw.has(Flaw::ForgetWindow) { Duration::MAX } else { window };
        let Sorted { safe, before, late } = sort(&self.in_doubt().await?, window, self.now());
        let mut cleared = self.by_policy(late, settings).await?;
        self.again(safe, Some(before), settings, &mut cleared).await?;
        Ok(cleared)
    }

    /// Where nothing can be known.
    async fn by_policy(&self, numbers: Vec<u64>, settings: &Settings) -> Result<Cleared, Trouble> {
        let ignored = self.engine.flaw.has(Flaw::IgnorePolicy);
        match settings.doubts {
            DoubtPolicy::Hold if !ignored => Ok(Cleared { held: numbers.len() as u64, ..Cleared::default() }),
            DoubtPolicy::Hold | DoubtPolicy::SendAgain => {
                let mut cleared = Cleared::default();
                self.again(numbers, None, settings, &mut cleared).await?;
                Ok(cleared)
            }
        }
    }

    /// Intends them again. What the store does not hand out stays in doubt, and is for a person: its letter is in other
    /// hands, or cannot be read any more.
    async fn again(
        &self,
        numbers: Vec<u64>,
        before: Option<Timestamp>,
        settings: &Settings,
        cleared: &mut Cleared,
    ) -> Result<(), StoreError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let lease = self.lease();
        let items: Vec<ToSend> = self.replays().intend_again(&self.run(&lease), &numbers, self.now()).await?;
        cleared.held += numbers.len().saturating_sub(items.len()) as u64;
        cleared.again.push((self.outgoing(items, settings).await, before));
        Ok(())
    }

    async fn in_doubt(&self) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut page = Page::first(Page::MOST);
        loop {
            let found = self.replays().items(self.id, Some(ItemState::InDoubt), &page).await?;
            items.extend(found.items);
            match found.next {
                Some(next) => page.cursor = Some(next),
                None => return Ok(items),
            }
        }
    }

    async fn read_back(&self, settings: &Settings, note: &Note) -> Result<Cleared, Trouble> {
        // First nobody can add to the queue any more, ourselves included; then it is read.
        let publisher = match self.engine.flaw.has(Flaw::SkipFence) {
            true => self.broker().publisher(),
            false => self.fence().await?,
        };
        let doubts: Vec<u64> = self.in_doubt().await?.iter().map(|item| item.number).collect();
        let mut found = BTreeSet::new();
        let mut whole = true;
        for queue in note.queues.keys() {
            whole &= self.find_sends(queue, note, &mut found).await?;
        }
        let (there, missing): (Vec<u64>, Vec<u64>) =
            doubts.into_iter().partition(|number| found.contains(number));
        self.settle(&there, Settling::FoundSent).await?;
        let mut cleared = if whole {
            self.settle(&missing, Settling::FoundUnsent).await?;
            Cleared::default()
        } else {
            // Records were removed before they were read: what was not found may have been among them.
            self.by_policy(missing, settings).await?
        };
        cleared.publisher = Some(publisher);
        Ok(cleared)
    }

    async fn settle(&self, numbers: &[u64], how: Settling) -> Result<(), StoreError> {
        if !numbers.is_empty() {
            let deed = self.deed(Some("the queue was read back".to_owned()));
            self.replays().settle(self.id, numbers, how, &deed, self.now()).await?;
        }
        Ok(())
    }

    /// Adds the sends of this replay that are in `queue`. Whether it could be read without a gap.
    async fn find_sends(
        &self,
        queue: &str,
        note: &Note,
        found: &mut BTreeSet<u64>,
    ) -> Result<bool, BrokerError> {
        let begun: Vec<Position> = note.queues.get(queue).into_iter().flatten().map(Position::from).collect();
        let mut whole = true;
        for end in self.broker().ends(queue).await? {
            // A partition that was not there when it was marked is read from its beginning.
            let from = begun.iter().find(|place| place.partition == end.partition);
            whole &= from.is_none_or(|from| from.incarnation == end.incarnation);
            if from.is_some_and(|from| from.incarnation == end.incarnation && from.next >= end.next) {
                continue;
            }
            let mut reader = self.broker().reader(queue, end.partition, from).await?;
            let mut empty = 0;
            loop {
                let look = reader.read(LOOK, WAIT).await?;
                whole &= look.skipped == 0;
                let marks = look.seen.iter().filter_map(|seen| replay_mark(&seen.message.headers));
                let sends = marks.filter_map(|mark| parse_send_id(&mark.replay_id));
                found.extend(sends.filter(|(replay, _)| *replay == self.id).map(|(_, number)| number));
                if look.position.next >= end.next {
                    break;
                }
                empty = if look.seen.is_empty() { empty + 1 } else { 0 };
                if empty >= EMPTY {
                    return Err(BrokerError::Unavailable(format!(
                        "`{queue}` could not be read to its end ({} of {})",
                        look.position.next, end.next
                    )));
                }
            }
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_never_used_to_its_end() {
        let at = Timestamp::from_millis(1_793_534_400_000);
        assert_eq!(safe_until(at, Duration::from_secs(120)), at.plus(Duration::from_secs(110)));
        assert_eq!(safe_until(at, Duration::from_secs(4)), at.plus(Duration::from_secs(3)));
        assert_eq!(safe_until(at, Duration::ZERO), at);
    }

    #[test]
    fn a_doubt_that_is_older_than_the_broker_remembers_is_one_that_nobody_can_tell() {
        let now = Timestamp::from_millis(1_793_534_400_000);
        let doubt = |number: u64, age: Duration| Item {
            number,
            letter: dlo_core::id::LetterId(uuid::Uuid::nil()),
            state: ItemState::InDoubt,
            at: Some(now.minus(age)),
            sent_at: None,
            partition: None,
            offset: None,
            note: None,
        };
        let day = Duration::from_secs(24 * 60 * 60);
        let doubts = [doubt(1, 8 * day), doubt(2, 6 * day), doubt(3, Duration::from_secs(1))];
        let sorted = sort(&doubts, SENDS_REMEMBERED, now);
        assert_eq!((sorted.safe, sorted.late), (vec![2, 3], vec![1]));
        assert_eq!(sorted.before, now.plus(day - MARGIN));
        // Without a time nobody knows how old it is.
        let timeless = [Item { at: None, ..doubt(1, day) }];
        assert_eq!(sort(&timeless, SENDS_REMEMBERED, now).late, [1]);
    }
}

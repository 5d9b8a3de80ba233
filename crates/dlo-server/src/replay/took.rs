//! What a run makes of what its calls came to.
//!
//! A store that does not answer is waited for. A lease that is lost ends the run at once: whoever has it now knows what
//! was intended. After an intent of which the store did not say whether it was written, the run ends as well, and the
//! next one finds it in doubt.

use std::time::Duration;

use dlo_core::broker::{BrokerError, LostConfirm, Outgoing};
use dlo_core::replay::run::Tally;
use dlo_core::replay::{ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;
use dlo_store::replays::SendEnd;
use dlo_store::{Lease, StoreError};
use tokio::time::Instant;

use super::calls::{Answer, Did, End, Kind, Prepared, Trouble};
use super::doubts::Cleared;
use super::hand::TTL;
use super::note::Note;
use super::runner::Runner;
use super::seen::partitions;
use super::send::{Ready, Unfit};

/// How long a store that did not answer is left alone.
const STORE_PAUSE: Duration = Duration::from_millis(500);
/// Pauses while the broker is away: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(2);

impl Runner {
    pub(super) fn took(&mut self, did: Did) -> Result<(), StoreError> {
        match did {
            Did::Claimed(result) => {
                self.wrote(Kind::Claim);
                let Some(claimed) = self.heard(result)? else { return Ok(()) };
                self.tally.frozen = claimed.left;
                self.tally.claimed += claimed.claimed;
                self.dry = false;
            }
            Did::Intended(result) => {
                self.wrote(Kind::Intend);
                match result {
                    Ok(items) => self.intended(items),
                    Err(error) => return self.leave(error),
                }
            }
            Did::Published(answer) => self.published(answer),
            Did::Recorded(ends, result) => {
                self.wrote(Kind::Record);
                match self.heard(result)? {
                    Some(()) => {
                        self.settling = false;
                        self.recorded(ends);
                    }
                    None => self.ends.extend(ends),
                }
            }
            Did::Refreshed(writes, result) => {
                self.busy[Kind::Refresh as usize] = false;
                let Some(replay) = self.heard(*result)? else { return Ok(()) };
                self.refreshed(writes, replay);
            }
            Did::Renewed(result) => return self.renewed(result),
            Did::Looked(result) => {
                self.busy[Kind::Look as usize] = false;
                self.looked = Some((self.looked.map_or(self.hand.now(), |(at, _)| at), Instant::now()));
                let Some(looked) = self.heard(*result)? else { return Ok(()) };
                self.saw(looked);
            }
            Did::Cleared(result) => {
                self.wrote(Kind::Clear);
                match *result {
                    Ok(cleared) => self.cleared(cleared),
                    Err(Trouble::Broker(error)) => self.broker_gone(&error.to_string()),
                    Err(Trouble::Store(error)) => return self.leave(error),
                }
            }
            Did::Marked(note, result) => return self.noted(note, result),
            Did::Ends(result) => {
                self.busy[Kind::Ends as usize] = false;
                self.marked = Instant::now();
                // Whatever is in hand by now may lie before these ends.
                if let Ok(ends) = result {
                    self.generation += 1;
                    self.next_mark = Some(ends.into_iter().collect());
                }
            }
            Did::Turned(result) => {
                self.wrote(Kind::Turn);
                self.refreshed = None;
                match *result {
                    Ok(replay) => self.turned(replay),
                    // A person was faster: what they wanted is read next.
                    Err(StoreError::Conflict { .. }) => {}
                    Err(error) => drop(self.heard::<()>(Err(error))?),
                }
            }
            Did::GaveBack(result) => {
                self.wrote(Kind::GiveBack);
                self.refreshed = None;
                let Some(count) = self.heard(result)? else { return Ok(()) };
                self.tally.claimed = if count == 0 { 0 } else { self.tally.claimed.saturating_sub(count) };
            }
            Did::Fenced(result) => self.fenced(result),
        }
        Ok(())
    }

    fn noted(&mut self, note: Note, result: Result<(), Trouble>) -> Result<(), StoreError> {
        self.busy[Kind::Mark as usize] = false;
        match result {
            Ok(()) => {
                self.to_judge &= note.judged != self.note.judged;
                self.note.queues = note.queues;
                self.next_mark = None;
                self.marked = Instant::now();
                Ok(())
            }
            Err(Trouble::Broker(error)) => {
                self.broker_gone(&error.to_string());
                Ok(())
            }
            Err(Trouble::Store(error)) => self.heard::<()>(Err(error)).map(drop),
        }
    }

    /// A write is over: what was read meanwhile is not exact.
    fn wrote(&mut self, kind: Kind) {
        self.busy[kind as usize] = false;
        self.writes += 1;
    }

    /// What the store said; `None` if it did not answer, and is asked again.
    fn heard<T>(&mut self, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => {
                if self.store_back.take().is_some() {
                    tracing::warn!(replay = %self.hand.id, recovered = true, "the store answers a replay again");
                }
                Ok(Some(value))
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(replay = %self.hand.id, %error, "a replay waits for the store");
                self.store_back = Some(Instant::now() + STORE_PAUSE);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What the store was asked to intend may be written: this run ends, and the next one finds it in doubt.
    fn leave(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.is_transient() {
            return Err(error);
        }
        tracing::warn!(replay = %self.hand.id, %error, "a replay waits for the store, and is taken up anew");
        self.leaving = true;
        Ok(())
    }

    fn intended(&mut self, items: Prepared) {
        self.dry = items.is_empty();
        if self.dry {
            self.refreshed = None;
        }
        self.tally.claimed = self.tally.claimed.saturating_sub(items.len() as u64);
        for (number, outgoing) in items {
            self.in_hand(number, outgoing, false, None, false);
        }
        self.tally.ready = self.ready.len() as u64;
    }

    fn in_hand(
        &mut self,
        number: u64,
        outgoing: Result<Outgoing, Unfit>,
        again: bool,
        before: Option<Timestamp>,
        first: bool,
    ) {
        let generation = self.generation;
        self.tally.in_hand += 1;
        self.by_generation[usize::from(generation % 2 == 1)] += 1;
        match outgoing {
            Ok(outgoing) => {
                let size = outgoing.message.payload.0.len() as u64;
                self.bytes += size;
                self.bytes -= self.sizes.insert(number, size).unwrap_or(0);
                let key = outgoing.message.key.clone();
                let ready = Ready { number, key, outgoing, again, before, generation };
                if first { self.ready.push_front(ready) } else { self.ready.push_back(ready) }
            }
            Err(Unfit::Any(why)) => {
                self.unready = Some(why);
                let end = if again { SendEnd::Doubtful } else { SendEnd::Unsent };
                self.ends.push(End { number, generation, end });
            }
            Err(Unfit::Letter(_)) if again => {
                self.held += 1;
                self.ends.push(End { number, generation, end: SendEnd::Doubtful });
            }
            Err(Unfit::Letter(why)) => {
                self.ends.push(End { number, generation, end: SendEnd::Refused(why) });
            }
        }
    }

    fn published(&mut self, answer: Answer) {
        self.publishing -= 1;
        self.pacer.landed(answer.ends.len() as u64, answer.left, self.hand.steady());
        self.blocked = false;
        self.held += answer.held;
        for key in answer.keys {
            if let std::collections::hash_map::Entry::Occupied(mut count) = self.keys.entry(key) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        if self.lost_confirm() == LostConfirm::ReadBack {
            self.normal.markers += partitions(&answer.ends);
        }
        if answer.taken {
            (self.proven, self.refused) = (true, None);
        }
        if let Some((more, why)) = answer.refused {
            let before = self.refused.as_ref().map_or(0, |(count, _)| *count);
            self.refused = Some((before + more, why));
        }
        self.ends.extend(answer.ends);
        match answer.trouble {
            Some(why) => self.broker_gone(&why),
            None if answer.taken => {
                if self.pause.take().is_some() {
                    tracing::warn!(replay = %self.hand.id, recovered = true, "a replay sends again");
                }
                self.gone = None;
            }
            None => {}
        }
    }

    fn recorded(&mut self, ends: Vec<End>) {
        for End { number, generation, end } in ends {
            self.bytes -= self.sizes.remove(&number).unwrap_or(0);
            self.tally.in_hand = self.tally.in_hand.saturating_sub(1);
            let left = &mut self.by_generation[usize::from(generation % 2 == 1)];
            *left = left.saturating_sub(1);
            match end {
                SendEnd::Sent { .. } => {
                    self.tally.sent += 1;
                    self.tally.open += 1;
                    self.canary_ripe = None;
                }
                SendEnd::Unsent => {
                    self.tally.claimed += 1;
                    self.dry = false;
                }
                SendEnd::Doubtful => self.tally.in_doubt += 1,
                SendEnd::Refused(_) => {}
            }
        }
        // It was halted while these were with the broker: they were sent before, though recorded after.
        if matches!(self.replay.state, ReplayState::Paused | ReplayState::Stopped) {
            let replay = self.replay.clone();
            self.judge(&replay);
        }
    }

    fn refreshed(&mut self, writes: u64, replay: Replay) {
        if std::mem::take(&mut self.stale) {
            self.refreshed = None;
        } else {
            self.refreshed = Some(Instant::now());
            self.rung = false;
        }
        if replay.settings.doubts != self.replay.settings.doubts {
            self.held = 0;
        }
        if replay.state == ReplayState::Running && self.replay.state != ReplayState::Running {
            self.since = self.hand.steady();
        }
        match (self.replay.state.is_active(), replay.state.is_active()) {
            // A person halted it.
            (true, false) if !replay.state.is_over() => self.judge(&replay),
            // What could not be cleared before may be now.
            (false, true) => self.held = 0,
            (true, true | false) | (false, false) => {}
        }
        if writes == self.writes && !self.is_writing() {
            let stored = Tally::stored(&replay.counts);
            let (in_hand, ready) = (self.tally.in_hand, self.tally.ready);
            if replay.counts != self.replay.counts {
                self.dry = false;
            }
            self.tally = Tally { in_hand, ready, ..stored };
            self.held = self.held.min(stored.in_doubt);
            self.exact = Some(self.writes);
            // Intended, and not by us: an intent of which we never heard. The next run finds it in doubt.
            if replay.counts.get(ItemState::Intended) > in_hand {
                self.leaving = true;
            }
        }
        self.replay = replay;
    }

    fn is_writing(&self) -> bool {
        [Kind::Claim, Kind::Intend, Kind::Record, Kind::Clear, Kind::Turn, Kind::GiveBack]
            .into_iter()
            .any(|kind| self.is_busy(kind))
    }

    fn renewed(&mut self, result: Result<Option<Lease>, StoreError>) -> Result<(), StoreError> {
        self.busy[Kind::Renew as usize] = false;
        match result {
            Ok(Some(lease)) if lease.fence == self.hand.lease().fence => {
                self.hand.keep(lease);
                self.renewed = Instant::now();
                Ok(())
            }
            Ok(_) => Err(StoreError::LeaseLost(self.hand.lease().name)),
            Err(error) if error.is_transient() => {
                self.renewed = Instant::now() + STORE_PAUSE - TTL / 3;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn cleared(&mut self, cleared: Cleared) {
        self.held = cleared.held;
        self.dry = false;
        self.refreshed = None;
        if let Some(publisher) = cleared.publisher {
            self.publisher = Some(publisher);
        }
        // Those that were in doubt go first, in their order.
        for (items, before) in cleared.again.into_iter().rev() {
            for (number, outgoing) in items.into_iter().rev() {
                self.in_hand(number, outgoing, true, before, true);
            }
        }
        self.tally.in_doubt = self.held;
        self.tally.ready = self.ready.len() as u64;
    }

    fn turned(&mut self, replay: Replay) {
        match replay.state {
            ReplayState::Running => self.since = self.hand.steady(),
            ReplayState::Paused | ReplayState::Stopped => self.judge(&replay),
            ReplayState::Planned
            | ReplayState::AwaitingApproval
            | ReplayState::Canary
            | ReplayState::Completed
            | ReplayState::Cancelled => {}
        }
        tracing::info!(
            replay = %self.hand.id,
            state = %replay.state,
            reason = replay.stop_reason.as_deref(),
            "a replay moved on"
        );
        self.replay = replay;
    }

    fn fenced(&mut self, result: Result<std::sync::Arc<dyn dlo_core::broker::Publisher>, BrokerError>) {
        self.busy[Kind::Fence as usize] = false;
        match result {
            Ok(publisher) => {
                self.publisher = Some(publisher);
                // The pauses go on growing until something is confirmed.
                self.gone = None;
            }
            Err(error) => self.broker_gone(&error.to_string()),
        }
    }

    fn broker_gone(&mut self, why: &str) {
        // What was under way fails together: one outage, one pause, one line.
        if self.gone.as_ref().is_some_and(|(_, until)| Instant::now() < *until) {
            return;
        }
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LAST_PAUSE));
        self.pause = Some(pause);
        tracing::warn!(replay = %self.hand.id, error = why, "a replay waits for the broker");
        self.gone = Some((why.to_owned(), Instant::now() + pause));
    }
}

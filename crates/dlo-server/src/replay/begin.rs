//! The calls that a run begins: whatever its orders say and is not under way yet.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{Calls, LostConfirm};
use dlo_core::message::Payload;
use dlo_core::replay::Pace;
use dlo_core::replay::run::{BATCH, CLAIM, Orders, RECORD_WAIT, RECORDS};
use dlo_store::replays::BYTES_AT_ONCE;
use tokio::time::Instant;

use super::calls::{Did, End, Kind};
use super::flaw::Flaw;
use super::hand::{TTL, group};
use super::note::{Note, outcomes};
use super::outcome::Question;
use super::runner::{BREAK, EVERY, Runner};
use super::send::Ready;

/// How often the marked ends of a queue are moved on, so that reading back stays short.
const MARK_EVERY: Duration = Duration::from_secs(60);
/// Calls to the broker at once, where none waits for another.
const SIDE_BY_SIDE: usize = 32;

impl Runner {
    fn start(&mut self, kind: Kind, call: impl Future<Output = Did> + Send + 'static) {
        self.busy[kind as usize] = true;
        self.under_way.push(Box::pin(call));
    }

    /// Begins a call that writes, so that what is read meanwhile is not taken for exact.
    fn write(&mut self, kind: Kind, call: impl Future<Output = Did> + Send + 'static) {
        self.writes += 1;
        self.start(kind, call);
    }

    pub(super) fn begin(&mut self, orders: &Orders) {
        self.begin_upkeep(orders);
        if orders.recall && !self.hand.engine.flaw.has(Flaw::IgnorePause) {
            self.recall();
        }
        self.begin_record();
        if !self.store_answers() || !self.hand.holds() || self.rung {
            return;
        }
        self.begin_steps(orders);
        if orders.publish {
            self.pacer.change(orders.rate, self.hand.steady());
            self.publish();
        } else if self.hand.engine.flaw.has(Flaw::IgnorePause) {
            self.publish();
        }
    }

    /// Records what became of items. One that may be intended again afterwards is recorded while nothing is being
    /// intended, and nothing is intended before the record is known to stand: repeated after an answer that was lost, it
    /// would undo the next intent.
    fn begin_record(&mut self) {
        if self.ends.is_empty() || self.is_busy(Kind::Record) || !self.store_answers() {
            return;
        }
        let first = *self.first_end.get_or_insert_with(Instant::now);
        let more = (self.ends.len() as u64) < self.tally.in_hand && self.ends.len() < RECORDS;
        if more && first.elapsed() < RECORD_WAIT {
            return;
        }
        self.first_end = None;
        let mut ends = std::mem::take(&mut self.ends);
        if self.is_busy(Kind::Intend) || self.is_busy(Kind::Clear) {
            (self.ends, ends) = ends.into_iter().partition(End::may_come_again);
        }
        if ends.is_empty() {
            return;
        }
        self.settling = ends.iter().any(End::may_come_again);
        self.write(Kind::Record, Arc::clone(&self.hand).record(ends));
    }

    /// What goes on whatever the replay does: the lease, the stored state, the outcomes.
    fn begin_upkeep(&mut self, orders: &Orders) {
        let now = Instant::now();
        if !self.is_busy(Kind::Renew) && now >= self.renewed + TTL / 3 {
            self.start(Kind::Renew, Arc::clone(&self.hand).renew());
        }
        if !self.store_answers() {
            return;
        }
        if !self.is_busy(Kind::Refresh) && self.refreshed.is_none_or(|at| now >= at + EVERY) {
            self.start(Kind::Refresh, Arc::clone(&self.hand).refresh(self.writes));
        }
        let due = self.looked.is_none_or(|(_, at)| now >= at + EVERY);
        if due && !self.is_busy(Kind::Look) && !orders.let_go && self.hand.holds() {
            let question = self.question();
            self.failed_asked = outcomes(&self.replay.counts).1;
            self.start(Kind::Look, Arc::clone(&self.hand).look(question));
        }
        if self.to_judge && !self.is_busy(Kind::Mark) {
            let note = self.note.clone();
            self.start(Kind::Mark, Arc::clone(&self.hand).mark(note, Vec::new()));
        }
    }

    fn question(&self) -> Question {
        let queue = self.hand.queue(&self.replay.settings.target);
        Question {
            state: self.replay.state,
            settings: self.replay.settings.clone(),
            usual: self.usual,
            judged: self.note.judged.until,
            last: self.looked.map(|(at, _)| at),
            one_queue: self.note.queues.keys().all(|name| name == queue),
            open: self.tally.open > 0,
            group: self.group(),
            traffic: matches!(self.replay.settings.pace, Pace::Share(_)),
        }
    }

    pub(super) fn group(&self) -> Option<String> {
        group(&self.replay, &self.hand.target)
    }

    fn begin_steps(&mut self, orders: &Orders) {
        if let Some(turning) = &orders.turn
            && !self.is_busy(Kind::Turn)
        {
            // A guard is obeyed at once; every other move is decided on what is stored, not on what we think is.
            if orders.recall || self.is_exact() {
                let call = Arc::clone(&self.hand).turn(self.replay.state, turning.clone());
                self.write(Kind::Turn, call);
                return;
            }
            self.refreshed = None;
        }
        if orders.give_back && !self.is_busy(Kind::GiveBack) {
            self.write(Kind::GiveBack, Arc::clone(&self.hand).give_back(CLAIM));
        }
        let away = self.gone.as_ref().is_some_and(|(_, until)| Instant::now() < *until);
        let may_intend = !self.settling && !self.is_busy(Kind::Clear);
        if orders.clear_doubts && may_intend && !self.is_busy(Kind::Mark) && !away {
            let (settings, note) = (self.replay.settings.clone(), self.note.clone());
            self.write(Kind::Clear, Arc::clone(&self.hand).clear(settings, note));
        }
        if (self.publisher.is_none() && orders.publish || self.gone.is_some())
            && !self.is_busy(Kind::Fence)
            && !self.is_busy(Kind::Clear)
            && self.publishing == 0
            && !away
        {
            self.start(Kind::Fence, Arc::clone(&self.hand).fenced());
        }
        if orders.claim && !self.is_busy(Kind::Claim) {
            self.write(Kind::Claim, Arc::clone(&self.hand).claim(CLAIM));
        }
        let room = self.bytes < BYTES_AT_ONCE;
        if orders.intend > 0 && room && may_intend && !self.is_busy(Kind::Intend) && self.publisher.is_some()
        {
            let most =
                if self.hand.engine.flaw.has(Flaw::IntendFarAhead) { 2 * BATCH } else { orders.intend };
            let call = Arc::clone(&self.hand).intend(most, self.replay.settings.clone());
            self.write(Kind::Intend, call);
        }
    }

    fn note_send(&mut self, count: u64) {
        let steady = self.hand.steady();
        if self.sent_lately.back().is_none_or(|(at, _)| steady.since(*at) > BREAK) {
            self.sending = steady;
        }
        self.sent_lately.push_back((steady, count));
    }

    /// Whether the tally is what is stored, and nothing of ours is on its way to change it.
    pub(super) fn is_exact(&self) -> bool {
        self.exact == Some(self.writes)
    }

    /// What did not go out is put back: claimed again, as if it had never been intended.
    fn recall(&mut self) {
        while let Some(ready) = self.ready.pop_front() {
            let end = ready.unsent();
            self.ends.push(End { number: ready.number, generation: ready.generation, end });
        }
        self.tally.ready = 0;
    }

    pub(super) fn store_answers(&self) -> bool {
        self.store_back.is_none_or(|until| Instant::now() >= until)
    }

    /// Sends what is due, in batches; keys that are with the broker already wait.
    fn publish(&mut self) {
        let Some(publisher) = self.publisher.clone() else { return };
        if !self.can_publish() || !self.mark_queues() {
            return;
        }
        while self.has_line() && !self.ready.is_empty() {
            let most = BATCH.min(self.ready.len() as u64);
            let allowed = if self.hand.engine.flaw.has(Flaw::IgnorePace) {
                most
            } else {
                self.pacer.take(most, self.hand.steady())
            };
            let batch = self.batch(allowed);
            self.pacer.untake(allowed - batch.len() as u64);
            if batch.is_empty() {
                self.blocked = allowed > 0;
                return;
            }
            self.blocked = false;
            self.tally.ready = self.ready.len() as u64;
            self.note_send(batch.len() as u64);
            self.publishing += 1;
            let left = self.hand.steady();
            let written = self.unwritten.begin(batch.len() as u64);
            let call = Arc::clone(&self.hand).publish(Arc::clone(&publisher), batch, left, written);
            self.under_way.push(Box::pin(call));
        }
    }

    pub(super) fn can_publish(&self) -> bool {
        let waits =
            self.is_busy(Kind::Clear) || self.is_busy(Kind::Mark) || self.is_busy(Kind::Fence) || self.rung;
        self.publisher.is_some() && !waits && !self.ready.is_empty() && self.has_line()
    }

    pub(super) fn calls(&self) -> Calls {
        self.publisher.as_ref().map_or(Calls::SideBySide, |publisher| publisher.calls())
    }

    /// Whether another call to the broker may begin. Where each waits for the one before, what becomes due meanwhile
    /// gathers here, where it can still be called back, and goes with the next.
    fn has_line(&self) -> bool {
        match self.calls() {
            Calls::SideBySide => self.publishing < SIDE_BY_SIDE,
            Calls::OneByOne => self.publishing == 0,
        }
    }

    fn batch(&mut self, most: u64) -> Vec<Ready> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut batch: Vec<Ready> = Vec::with_capacity(most.min(self.ready.len()));
        let mut waits: VecDeque<Ready> = VecDeque::new();
        let mut ours: HashSet<Payload> = HashSet::new();
        while batch.len() < most
            && let Some(ready) = self.ready.pop_front()
        {
            if !self.hand.in_time(ready.before) {
                let end = ready.unsent();
                self.ends.push(End { number: ready.number, generation: ready.generation, end });
                continue;
            }
            let held =
                ready.key.as_ref().is_some_and(|key| self.keys.contains_key(key) && !ours.contains(key));
            if held {
                waits.push_back(ready);
                continue;
            }
            if let Some(key) = &ready.key {
                *self.keys.entry(key.clone()).or_default() += 1;
                ours.insert(key.clone());
            }
            batch.push(ready);
        }
        while let Some(ready) = waits.pop_back() {
            self.ready.push_front(ready);
        }
        self.tally.ready = self.ready.len() as u64;
        batch
    }

    /// Whether every queue that is sent to is in the note; if not, it is being written.
    fn mark_queues(&mut self) -> bool {
        let mut new: Vec<String> = Vec::new();
        for ready in &self.ready {
            let queue = &ready.outgoing.to.queue;
            if !self.note.queues.contains_key(queue) && !new.contains(queue) {
                new.push(queue.clone());
            }
        }
        if new.is_empty() {
            self.advance_mark();
            return true;
        }
        let away = self.gone.as_ref().is_some_and(|(_, until)| Instant::now() < *until);
        if !away {
            let note = self.note.clone();
            self.next_mark = None;
            self.start(Kind::Mark, Arc::clone(&self.hand).mark(note, new));
        }
        false
    }

    /// Moves the marked ends of the queues on: first they are read; when everything that was in hand by then is recorded,
    /// nothing that may come into doubt lies before them.
    fn advance_mark(&mut self) {
        if self.lost_confirm() != LostConfirm::ReadBack || self.tally.in_doubt > 0 {
            self.next_mark = None;
            return;
        }
        let old = self.by_generation[usize::from(self.generation.is_multiple_of(2))];
        if let Some(queues) = &self.next_mark {
            if old == 0 && !self.is_busy(Kind::Mark) {
                let note = Note { queues: queues.clone(), judged: self.note.judged };
                self.start(Kind::Mark, Arc::clone(&self.hand).mark(note, Vec::new()));
            }
        } else if old == 0 && Instant::now() >= self.marked + MARK_EVERY && !self.is_busy(Kind::Ends) {
            let queues = self.note.queues.keys().cloned().collect();
            self.start(Kind::Ends, Arc::clone(&self.hand).all_ends(queues));
        }
    }
}

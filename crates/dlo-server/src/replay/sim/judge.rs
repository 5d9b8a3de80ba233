//! What must hold, whatever happens: asked in the moment where it can be seen, and once more at the end.

use std::time::Duration;

use dlo_core::broker::LostConfirm;
use dlo_core::replay::run::{UNCERTAIN, UNWRITTEN, UNWRITTEN_MOST};
use dlo_core::replay::{DoubtPolicy, ItemState, ReplayState};
use dlo_core::time::Timestamp;
use tokio::time::Instant;

use super::world::{Stands, World};

/// A pause is obeyed within this, and a server that was not rung sees it within that.
const RUNG: Duration = Duration::from_millis(100);
const SEEN: Duration = Duration::from_millis(1_300);
/// A lease runs out, servers start again, and frozen ones wake within this.
const HALTED: Duration = Duration::from_secs(90);

impl World {
    /// The same letter is in the queue for the second time.
    pub(super) fn twice(&mut self, number: u64) {
        let row = &self.rows[number as usize];
        let by_policy = self.scenario.settings.doubts == DoubtPolicy::SendAgain;
        let excused = row.doubted && (by_policy || row.by_person);
        let allowed = match self.scenario.lost_confirm {
            LostConfirm::Unknown => excused || row.state == ItemState::InDoubt,
            // Past the window the broker cannot tell either.
            LostConfirm::SendAgainInWindow => excused,
            LostConfirm::SendAgain | LostConfirm::ReadBack => false,
        };
        if !allowed {
            self.fault(format!("a letter was sent twice ({:?})", self.scenario.lost_confirm));
        }
    }

    /// A publish begins: may it?
    pub(super) fn publishing(&mut self, count: u64, frozen: bool) {
        let now = Instant::now();
        self.begun.push((now, count, !frozen));
        if frozen {
            return;
        }
        let latency = self.scenario.latency * 2;
        let grace = if self.scenario.rings { RUNG } else { SEEN };
        if self.halted.is_some_and(|since| now.duration_since(since) > grace + latency) {
            self.fault("a replay that was not to send any more sent".to_owned());
        }
        let guards = &self.scenario.settings.guards;
        if let Some(within) = guards.recurrence.map(|within| within.0) {
            let at = self.now();
            let let_go = self.now().minus(now.duration_since(self.let_go));
            let late = Duration::from_secs(3) + latency * 4;
            let same = self.returns.iter().any(|back| {
                let soon = back.sent_at.is_none_or(|sent| back.at.since(sent) <= within);
                // What was sent before a person let it go on was judged before.
                let ours = back.sent_at.unwrap_or(back.at) > let_go;
                soon && ours && back.error_class == back.former_class && at.since(back.at) > late
            });
            // A store that fails, or nobody there to see it, takes longer.
            if same && self.scenario.store_fails == 0.0 && self.scenario.life.is_none() {
                self.fault("a letter came back with its class, and the replay went on".to_owned());
            }
        }
    }

    /// A later message of a key is in the queue only after the earlier had a good end.
    pub(super) fn check_order(&mut self, number: u64) {
        if !self.scenario.settings.order {
            return;
        }
        let key = self.rows[number as usize].key.clone();
        let early = self.rows[..number as usize].iter().any(|row| {
            row.key == key
                && !row.by_person
                && !matches!(
                    row.state,
                    ItemState::Confirmed
                        | ItemState::Passed
                        | ItemState::Presumed
                        | ItemState::Short
                        | ItemState::Refused
                )
        });
        // What was in doubt was in the queue's hands before the others.
        if early && !self.rows[number as usize].doubted {
            self.fault("a later letter of a key was sent before the outcome of the earlier".to_owned());
        }
    }

    /// A crash now would leave these in doubt, and a person would have to settle those that never left.
    pub(super) fn check_intents(&mut self) {
        let uncertain =
            matches!(self.scenario.lost_confirm, LostConfirm::Unknown | LostConfirm::SendAgainInWindow);
        let intended: Vec<u64> = (0..self.rows.len())
            .filter(|at| self.rows[*at].state == ItemState::Intended)
            .map(|at| at as u64)
            .collect();
        let unleft = intended.iter().filter(|number| !self.handed.contains(number)).count() as u64;
        let most = if self.fastest.is_some() { UNWRITTEN } else { UNWRITTEN_MOST };
        if uncertain && (unleft > most || intended.len() as u64 > UNCERTAIN) {
            self.fault("more letters were intended than a person should have to settle".to_owned());
        }
    }

    pub(super) fn check_conclusion(&mut self, number: u64, presumed: bool, now: Timestamp) {
        let row = &self.rows[number as usize];
        let window = self.scenario.settings.window.0.max(self.scenario.usual.unwrap_or_default());
        if row.sent_at.is_none_or(|sent| now.since(sent) < window) {
            self.fault("an outcome was concluded before its window was over".to_owned());
        }
        if !presumed && self.is_out_since(Duration::from_secs(1)) {
            self.fault("an outcome was given up while the broker was away".to_owned());
        }
        let passed = self.queue.iter().any(|record| record.number == number && record.passed);
        if presumed && !passed {
            self.fault("a letter was presumed recovered that nobody had consumed".to_owned());
        }
    }

    /// Of a replay that has long been halted nothing is left in the hands of somebody who is gone.
    pub(super) fn check_halted(&mut self) {
        let long = self.halted.is_some_and(|since| since.elapsed() > HALTED);
        let settled = self.began.elapsed() > self.scenario.calm + HALTED;
        if long && settled && self.counts().get(ItemState::Intended) > 0 {
            self.fault("a halted replay has sends of which nobody says what became".to_owned());
        }
    }

    /// A guard that has spoken does not speak again of what was sent before a person let it go on.
    pub(super) fn check_stop(&mut self, reason: Option<&str>) {
        let let_go = self.now().minus(self.let_go.elapsed());
        let since = |back: &dlo_store::replays::Return| back.sent_at.unwrap_or(back.at) >= let_go;
        let for_returns = reason.is_some_and(|reason| reason.contains("came back"));
        if for_returns && self.judged && !self.returns.iter().any(since) {
            self.fault("a replay was stopped for letters that were judged before".to_owned());
        }
    }

    pub(super) fn check_end(&mut self, to: ReplayState) {
        let open = |row: &super::world::Row| !row.state.is_over();
        if to == ReplayState::Completed && self.rows.iter().any(open) {
            self.fault("a replay was completed with letters that had no end".to_owned());
        }
    }

    /// Once everything is over.
    pub(super) fn check_all(&mut self) {
        for number in 0..self.rows.len() {
            self.check_letter(number);
        }
        self.check_pace();
    }

    fn check_letter(&mut self, number: usize) {
        let row = self.rows[number].clone();
        let there = self.queue.iter().any(|record| record.number == number as u64);
        if row.state.was_sent() && !there && !row.by_person {
            self.fault(format!("a letter is lost: {} and not in the queue", row.state));
        }
        let unsent = matches!(
            row.state,
            ItemState::Released
                | ItemState::Refused
                | ItemState::Short
                | ItemState::Claimed
                | ItemState::Frozen
        );
        if unsent && there && !row.by_person {
            self.fault(format!("a letter is {} and in the queue", row.state));
        }
        let stands = match row.state {
            ItemState::Confirmed | ItemState::Passed | ItemState::Routed => Stands::Recovered,
            ItemState::Presumed | ItemState::Unknown | ItemState::Sent | ItemState::SuspectedReturn => {
                Stands::Sent
            }
            ItemState::Returned | ItemState::Released | ItemState::Refused | ItemState::Frozen => {
                Stands::Open
            }
            ItemState::Short => Stands::Taken,
            ItemState::InDoubt => Stands::InDoubt,
            ItemState::Claimed | ItemState::Intended => Stands::Claimed,
        };
        if row.letter != stands && !row.by_person && !(row.letter == Stands::Taken && stands == Stands::Open)
        {
            self.fault(format!("a letter is {:?} and its item {}", row.letter, row.state));
        }
    }

    fn check_pace(&mut self) {
        let Some(fastest) = self.fastest else { return };
        let most = (fastest * 1.02).ceil() as u64 + 1;
        let begun = std::mem::take(&mut self.begun);
        for (at, (from, ..)) in begun.iter().enumerate() {
            let second = begun[at..]
                .iter()
                .take_while(|(when, ..)| when.duration_since(*from) < Duration::from_secs(1));
            let count: u64 = second.map(|(_, count, _)| count).sum();
            if count > most {
                self.fault(format!("{count} were sent within a second, at most {most} may be"));
            }
        }
    }
}

//! Who else is there: the consumer, and the persons who pause, resume, cancel, settle, and take letters away.

use std::time::Duration;

use dlo_core::replay::{ItemState, Pace, ReplayState};
use dlo_store::replays::{Return, Settling};
use rand::RngExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::scenario::{Act, Fate};
use super::world::{Shared, Stands, World, letter};

/// How often a person looks, once it is calm: an eager one, and one who has other things to do.
const ROUND: Duration = Duration::from_secs(5);
const LAZY: Duration = Duration::from_secs(200);

impl World {
    pub(super) fn settle_one(&mut self, number: usize, how: Settling) -> bool {
        let row = &mut self.rows[number];
        let settled = match (row.state, how) {
            (ItemState::InDoubt, Settling::FoundSent) => {
                // When it was sent is not known better than by its intent.
                row.sent_at = Some(row.at.unwrap_or_default());
                (row.state, row.letter) = (ItemState::Sent, Stands::Sent);
                true
            }
            (ItemState::InDoubt, Settling::FoundUnsent) => {
                (row.state, row.letter, row.at) = (ItemState::Claimed, Stands::Claimed, None);
                true
            }
            (ItemState::InDoubt | ItemState::Sent, Settling::Recovered) => {
                (row.state, row.letter) = (ItemState::Confirmed, Stands::Recovered);
                true
            }
            (ItemState::InDoubt | ItemState::Sent, Settling::Open) => {
                (row.state, row.letter) = (ItemState::Released, Stands::Open);
                true
            }
            _ => false,
        };
        row.by_person |= settled && matches!(how, Settling::Recovered | Settling::Open);
        settled
    }

    /// The consumer is done with a message, well or badly.
    fn consumed(&mut self, at: usize) {
        let number = self.queue[at].number;
        self.queue[at].passed = true;
        let fate = self.fate(number);
        let (now, receipts) = (self.now(), self.scenario.receipts);
        let row = &mut self.rows[number as usize];
        let known = matches!(
            row.state,
            ItemState::Intended
                | ItemState::Sent
                | ItemState::InDoubt
                | ItemState::Passed
                | ItemState::Presumed
                | ItemState::Unknown
        );
        if !known {
            return;
        }
        match fate {
            Fate::Handled | Fate::Refused => {
                if receipts {
                    (row.state, row.letter) = (ItemState::Confirmed, Stands::Recovered);
                }
            }
            Fate::SameAgain | Fate::Otherwise => {
                let class = if fate == Fate::SameAgain { "KeyError" } else { "Timeout" };
                let sent_at = row.sent_at;
                (row.state, row.letter) = (ItemState::Returned, Stands::Open);
                self.note(|| format!("#{number} died again with {class}"));
                self.returns.push(Return {
                    number,
                    letter: letter(number),
                    sent_at,
                    at: now,
                    error_class: Some(class.to_owned()),
                    former_class: Some("KeyError".to_owned()),
                });
            }
        }
    }

    fn act(&mut self, act: Act) {
        let state = self.replay.state;
        match act {
            Act::Pause if state.is_active() => self.moved(ReplayState::Paused, Some("a person".to_owned())),
            Act::Resume if matches!(state, ReplayState::Paused | ReplayState::Stopped) => self.resume(),
            Act::Cancel if !state.is_over() => self.moved(ReplayState::Cancelled, None),
            Act::Speed(rate) => {
                self.replay.settings.pace = Pace::Rate(rate);
                self.fastest = self.fastest.map(|fastest| fastest.max(rate));
            }
            Act::Take(at) if self.rows[at].letter == Stands::Open => self.rows[at].take(),
            Act::Pause | Act::Resume | Act::Cancel | Act::Take(_) => return,
        }
        if self.scenario.rings {
            self.desks.iter().for_each(|desk| desk.ring());
        }
    }

    fn resume(&mut self) {
        let canary = self.replay.settings.canary > 0 && self.dice.random_bool(0.5);
        self.let_go = Instant::now();
        let calmly = self.scenario.life.is_none() && self.scenario.store_fails == 0.0;
        self.judged = self.replay.state == ReplayState::Stopped && calmly;
        self.moved(if canary { ReplayState::Canary } else { ReplayState::Running }, None);
    }

    /// A person who knows what to do: fixes the consumer, settles what is in doubt by looking at the queue, lets it go on.
    fn tend(&mut self) {
        self.fixed = true;
        if !matches!(self.replay.state, ReplayState::Paused | ReplayState::Stopped) {
            return;
        }
        let stuck =
            self.replay.stop_reason.as_deref().is_some_and(|reason| reason.contains("earlier letter"));
        for number in 0..self.rows.len() {
            if self.rows[number].state == ItemState::InDoubt {
                let there = self.queue.iter().any(|record| record.number == number as u64);
                self.settle_one(number, if there { Settling::Recovered } else { Settling::Open });
            }
        }
        if stuck { self.act(Act::Cancel) } else { self.act(Act::Resume) }
    }
}

/// Takes one message after the other.
pub(super) async fn consume(shared: Shared) {
    loop {
        let (next, pause) = {
            let mut world = shared.world();
            let most = world.scenario.handling.as_millis() as u64;
            let pause = Duration::from_millis(world.dice.random_range(0..=most));
            (world.queue.iter().position(|record| !record.passed), pause)
        };
        // Handling, death and capture take their time, before anybody knows.
        sleep(pause + Duration::from_millis(1)).await;
        match next {
            Some(at) => shared.world().consumed(at),
            None => sleep(Duration::from_millis(250)).await,
        }
    }
}

pub(super) async fn people(shared: Shared) {
    let (acts, began, calm, lazy) = {
        let world = shared.world();
        (world.scenario.acts.clone(), world.began, world.scenario.calm, world.scenario.lazy)
    };
    for (at, act) in acts {
        sleep_until(began + at).await;
        let mut world = shared.world();
        world.note(|| format!("a person: {act:?}"));
        world.act(act);
    }
    sleep_until(began + calm).await;
    loop {
        sleep(if lazy { LAZY } else { ROUND }).await;
        shared.world().tend();
    }
}

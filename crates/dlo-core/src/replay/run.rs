//! One run of a replay, decided: from what is known now to what is to be done. No I/O, no memory.
//!
//! Everything follows from what is stored and what the driver has in hand, so a server that takes over decides the same.
//!
//! ```text
//!  doubts cleared ─▶ canary sent ─▶ its outcome ─▶ ramp ─▶ full pace ─▶ everything sent ─▶ outcomes or windows ─▶ completed
//! ```

use std::time::Duration;

use super::guard::Ruling;
use super::pace::{Rate, ramped, slowed};
use super::{ItemCounts, ItemState, ReplayState, Settings};
use crate::broker::LostConfirm;
use crate::id::LetterId;
use crate::time::Timestamp;

/// Letters that are intended and not recorded, at most: a crash leaves them in doubt. [`in_flight`] gives the bound of a rate.
pub const IN_FLIGHT: u64 = 2_000;
/// The same where the broker cannot tell what became of a send: a person settles what is in doubt.
pub const UNCERTAIN: u64 = 600;
/// Where the broker cannot tell, letters that are intended and not written to its connection, at most: a crash leaves them
/// in doubt although they never left. 64 are promised: a connection that is cut may lose as many that were just written.
pub const UNWRITTEN: u64 = 32;
/// The same at more than 1,500 messages a second, in seconds of the rate, and without a limit.
const UNWRITTEN_FAST: f64 = 0.02;
pub const UNWRITTEN_MOST: u64 = 300;
/// Sends whose records wait for each other, so that one transaction takes many.
pub const RECORDS: usize = 100;
/// How long they wait at most.
pub const RECORD_WAIT: Duration = Duration::from_millis(10);
/// At a rate, seconds of it that are in flight at most: enough for a slow broker, a slow store and what goes ahead.
const FLIGHT: f64 = 0.5;
/// However slow it is, so many may be in flight.
const FEW: u64 = 10;
/// Letters that are claimed at once.
pub const CLAIM: u64 = 2_000;
/// Messages of one call to the broker.
pub const BATCH: u64 = 500;
/// How far intents go ahead of sends, in seconds of the rate: so that a slow store does not make the pace uneven.
const AHEAD: f64 = 0.2;
/// Whoever passed a message may still be telling of its failure.
const SETTLING: Duration = Duration::from_secs(5);

/// How long a death is believed to take, at most.
pub const LONGEST_DEATH: Duration = Duration::from_secs(3_600);

/// Items of a replay, by what is still to be done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub frozen: u64,
    pub claimed: u64,
    /// Intended by us: published or about to be, and not recorded.
    pub in_hand: u64,
    /// Of those, how many are not with the broker yet.
    pub ready: u64,
    pub in_doubt: u64,
    /// Sent, and no outcome yet.
    pub open: u64,
    /// Sent, whatever came of it.
    pub sent: u64,
}

impl Tally {
    /// What is stored, when nothing of it is in our hands.
    pub fn stored(counts: &ItemCounts) -> Self {
        Self {
            frozen: counts.get(ItemState::Frozen),
            claimed: counts.get(ItemState::Claimed),
            in_hand: 0,
            ready: 0,
            in_doubt: counts.get(ItemState::InDoubt),
            open: counts.get(ItemState::Sent),
            sent: counts.sent(),
        }
    }

    /// Whether there is anything left that a guard could hold back.
    pub const fn has_more(&self) -> bool {
        self.frozen + self.claimed + self.ready > 0
    }
}

/// What is known at one moment.
#[derive(Debug, Clone)]
pub struct View<'a> {
    pub now: Timestamp,
    pub state: ReplayState,
    pub settings: &'a Settings,
    pub tally: Tally,
    /// How many were sent when a person last let it go on after a guard: what follows has a canary of its own.
    pub sent_before: u64,
    pub ruling: &'a Ruling,
    /// Doubts that something can be done about, and whether nothing may be under way meanwhile.
    pub doubts: Doubts,
    /// When the last of the canary has had its time; `None`: not known yet.
    pub canary_ripe: Option<Timestamp>,
    /// Since when it runs at its pace, for the ramp.
    pub since: Timestamp,
    /// What the consumer gets without us, a second, if known.
    pub normal: Option<f64>,
    /// The last attempt to intend found nothing, and nothing changed since.
    pub dry: bool,
    /// Letters came back that the guards have not looked at yet.
    pub unseen: bool,
    /// The broker took something since we have it in hand.
    pub proven: bool,
    /// What the broker can tell of a send whose confirmation was lost.
    pub lost_confirm: LostConfirm,
    /// In calls to the broker, and not written to its connection.
    pub unwritten: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubts {
    None,
    /// They are sent again: any time.
    SendAgain,
    /// The queue is read back: only while nothing is under way.
    ReadBack,
}

/// What is to be done now. Several things may be under way at once, each at most once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Orders {
    /// What is intended and not yet with the broker is not sent: it is recorded as unsent.
    pub recall: bool,
    pub clear_doubts: bool,
    pub claim: bool,
    /// How many more may be intended.
    pub intend: u64,
    /// What is ready goes out, at this rate.
    pub publish: bool,
    pub rate: Rate,
    pub give_back: bool,
    pub turn: Option<Turning>,
    /// There is nothing left to do here.
    pub let_go: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turning {
    pub to: ReplayState,
    pub reason: Option<String>,
    pub letters: Vec<LetterId>,
}

impl Turning {
    fn to(to: ReplayState) -> Self {
        Self { to, reason: None, letters: Vec::new() }
    }

    fn pause(reason: String) -> Self {
        Self { to: ReplayState::Paused, reason: Some(reason), letters: Vec::new() }
    }
}

/// Letters that are intended and not recorded, at most, at this rate.
pub fn in_flight(rate: Rate, lost_confirm: LostConfirm) -> u64 {
    let most = if is_uncertain(lost_confirm) { UNCERTAIN } else { IN_FLIGHT };
    rate.map_or(most, |rate| ((rate * FLIGHT).ceil() as u64).clamp(FEW, most))
}

/// Whether a letter in doubt may need a person. Within its window such a broker recognises a send, after it no longer.
const fn is_uncertain(lost_confirm: LostConfirm) -> bool {
    match lost_confirm {
        LostConfirm::Unknown | LostConfirm::SendAgainInWindow => true,
        LostConfirm::ReadBack | LostConfirm::SendAgain => false,
    }
}

/// How far intents go ahead of what is written to the connection, at this rate.
fn ahead(rate: Rate, lost_confirm: LostConfirm) -> u64 {
    let most = match rate {
        _ if !is_uncertain(lost_confirm) => 2 * BATCH,
        Some(rate) => ((rate * UNWRITTEN_FAST) as u64).clamp(UNWRITTEN, UNWRITTEN_MOST),
        None => UNWRITTEN_MOST,
    };
    rate.map_or(most, |rate| ((rate * AHEAD).ceil() as u64).clamp(1, most))
}

impl View<'_> {
    pub fn orders(&self) -> Orders {
        match self.state {
            ReplayState::Canary | ReplayState::Running => self.active(),
            ReplayState::Cancelled | ReplayState::Completed => self.over(),
            ReplayState::Planned
            | ReplayState::AwaitingApproval
            | ReplayState::Paused
            | ReplayState::Stopped => {
                Orders { recall: true, let_go: self.tally.in_hand == 0, ..Orders::default() }
            }
        }
    }

    /// Nothing is sent any more: letters go back, and what was sent has its outcome waited for.
    fn over(&self) -> Orders {
        let quiet = self.tally.in_hand == 0;
        // Only reading back tells the truth about a doubt; sending again is over.
        let clear_doubts = quiet && self.doubts == Doubts::ReadBack;
        Orders {
            recall: true,
            clear_doubts,
            give_back: quiet && self.tally.claimed > 0,
            let_go: quiet && !clear_doubts && self.tally.claimed == 0 && self.tally.open == 0,
            ..Orders::default()
        }
    }

    fn active(&self) -> Orders {
        match self.ruling {
            Ruling::Stop(reason, letters) => self.halt(ReplayState::Stopped, reason, letters),
            Ruling::Pause(reason, letters) => self.halt(ReplayState::Paused, reason, letters),
            Ruling::Wait(_) => Orders { recall: true, ..Orders::default() },
            Ruling::Go | Ruling::Slow(..) => self.going(),
        }
    }

    fn halt(&self, to: ReplayState, reason: &str, letters: &[LetterId]) -> Orders {
        let turn = Turning { to, reason: Some(reason.to_owned()), letters: letters.to_vec() };
        Orders { recall: true, turn: Some(turn), ..Orders::default() }
    }

    fn going(&self) -> Orders {
        if self.doubts == Doubts::ReadBack {
            // What is ready waits: with the new publisher it goes out as before.
            let clear_doubts = self.tally.in_hand == self.tally.ready;
            return Orders { clear_doubts, ..Orders::default() };
        }
        let rate = self.rate();
        Orders {
            clear_doubts: self.doubts == Doubts::SendAgain,
            claim: self.tally.frozen > 0 && self.tally.claimed < CLAIM / 2,
            intend: self.room(rate),
            publish: true,
            rate,
            turn: self.turn(),
            ..Orders::default()
        }
    }

    fn rate(&self) -> Rate {
        let limit = self.settings.pace.rate(self.normal);
        let rate = match self.state {
            ReplayState::Running => ramped(limit, self.settings.ramp, self.now.since(self.since)),
            _ => limit,
        };
        match self.ruling {
            Ruling::Slow(factor, _) => slowed(rate, *factor),
            _ => rate,
        }
    }

    /// How many more may be intended: what the rate needs soon, within what may be in flight, and within the canary.
    fn room(&self, rate: Rate) -> u64 {
        let tally = &self.tally;
        let ahead = ahead(rate, self.lost_confirm);
        let most = in_flight(rate, self.lost_confirm);
        let room = ahead.saturating_sub(tally.ready + self.unwritten).min(most.saturating_sub(tally.in_hand));
        // A small window opens letter by letter, and each intent is a transaction: it waits for half of the window.
        let waits = is_uncertain(self.lost_confirm) && room < ahead.min(most) / 2;
        let room = if waits { 0 } else { room };
        let room = match self.settings.guards.refusals.filter(|_| !self.proven) {
            Some(few) => room.min(few.max(1).saturating_sub(tally.in_hand)),
            None => room,
        };
        let room = match self.state {
            ReplayState::Canary => room.min(self.canary_left()),
            _ => room,
        };
        if self.dry || tally.claimed == 0 { 0 } else { room }
    }

    fn canary_left(&self) -> u64 {
        let out =
            (self.tally.sent + self.tally.in_doubt + self.tally.in_hand).saturating_sub(self.sent_before);
        u64::from(self.settings.canary).saturating_sub(out)
    }

    fn turn(&self) -> Option<Turning> {
        let tally = &self.tally;
        if tally.in_hand > 0 || self.doubts != Doubts::None {
            return None;
        }
        if tally.open == 0 && tally.frozen == 0 {
            if tally.claimed == 0 && tally.in_doubt == 0 {
                return Some(Turning::to(ReplayState::Completed));
            }
            if tally.claimed == 0 {
                return Some(Turning::pause(in_doubt(tally.in_doubt)));
            }
            if self.dry {
                return Some(Turning::pause(held_by_order(tally.claimed)));
            }
        }
        let over = self.state == ReplayState::Canary && self.canary_is_over();
        over.then(|| Turning::to(ReplayState::Running))
    }

    /// Everything of the canary is out, and had its outcome or its time.
    fn canary_is_over(&self) -> bool {
        let tally = &self.tally;
        let all_out = self.canary_left() == 0 || (tally.frozen == 0 && (tally.claimed == 0 || self.dry));
        let looked_at = !self.unseen;
        all_out && looked_at && (tally.open == 0 || self.canary_ripe.is_some_and(|ripe| ripe <= self.now))
    }
}

fn in_doubt(count: u64) -> String {
    format!(
        "everything else is done, and {count} in doubt: whether the message is in the queue is not known; settle each (`dlo replay settle`), then resume"
    )
}

fn held_by_order(count: u64) -> String {
    format!(
        "{count} not sent: an earlier letter of the same key has no good end, and order was asked for; cancel to give these back, or settle the earlier one if it is in doubt or unknown, then resume"
    )
}

/// How long an outcome is waited for: letters of this kind take `usual` from their first failure to their death. That is
/// what others wrote on them, so it is believed up to [`LONGEST_DEATH`]; a longer window is said in the settings.
pub fn window(settings: &Settings, usual: Option<Duration>) -> Duration {
    settings.window.0.max(usual.unwrap_or_default().min(LONGEST_DEATH))
}

/// When a canary letter has had its time. One that the consumer passed is done with sooner, if letters of its kind are
/// known to die soon.
pub fn ripe(sent_at: Timestamp, passed: bool, window: Duration, usual: Option<Duration>) -> Timestamp {
    match usual.filter(|_| passed) {
        Some(usual) => sent_at.plus(usual.max(SETTLING).min(window)),
        None => sent_at.plus(window),
    }
}

#[cfg(test)]
mod tests;

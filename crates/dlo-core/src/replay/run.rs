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
use crate::id::LetterId;
use crate::time::Timestamp;

/// Letters that are intended and not recorded, at most: what a crash can leave in doubt.
pub const IN_FLIGHT: u64 = 2_000;
/// Letters that are claimed at once.
pub const CLAIM: u64 = 2_000;
/// Messages of one call to the broker.
pub const BATCH: u64 = 500;
/// How far intents go ahead of sends, in seconds of the rate: so that a slow store does not make the pace uneven.
const AHEAD: f64 = 0.1;
/// Whoever passed a message may still be telling of its failure.
const SETTLING: Duration = Duration::from_secs(5);

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
        let ahead = rate.map_or(2 * BATCH, |rate| ((rate * AHEAD).ceil() as u64).clamp(1, 2 * BATCH));
        let room = ahead.saturating_sub(tally.ready).min(IN_FLIGHT.saturating_sub(tally.in_hand));
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
        all_out && (tally.open == 0 || self.canary_ripe.is_some_and(|ripe| ripe <= self.now))
    }
}

fn in_doubt(count: u64) -> String {
    format!(
        "everything else is done, and {count} in doubt: whether the message is in the queue is not known; settle each (`dlo replay settle`), then resume"
    )
}

fn held_by_order(count: u64) -> String {
    format!(
        "{count} not sent: an earlier letter of the same key has no good end, and order was asked for; settle the earlier ones, then resume, or cancel to give these back"
    )
}

/// How long an outcome is waited for: letters of this kind take `usual` from their first failure to their death.
pub fn window(settings: &Settings, usual: Option<Duration>) -> Duration {
    settings.window.0.max(usual.unwrap_or_default())
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
mod tests {
    use super::*;
    use crate::replay::Pace;

    const NOW: Timestamp = Timestamp::from_millis(1_793_534_400_000);

    fn view<'a>(settings: &'a Settings, tally: Tally, ruling: &'a Ruling) -> View<'a> {
        View {
            now: NOW,
            state: ReplayState::Canary,
            settings,
            tally,
            sent_before: 0,
            ruling,
            doubts: Doubts::None,
            canary_ripe: None,
            since: NOW,
            normal: None,
            dry: false,
        }
    }

    #[test]
    fn the_canary_is_sent_and_nothing_else_before_its_outcome() {
        let settings = Settings::default();
        let start = Tally { frozen: 100, ..Tally::default() };
        assert!(view(&settings, start, &Ruling::Go).orders().claim);
        let claimed = Tally { claimed: 100, ..Tally::default() };
        assert_eq!(view(&settings, claimed, &Ruling::Go).orders().intend, 5);
        let out = Tally { claimed: 95, open: 3, sent: 3, in_hand: 1, in_doubt: 1, ..Tally::default() };
        assert_eq!(view(&settings, out, &Ruling::Go).orders().intend, 0);
        let waits = Tally { claimed: 95, open: 2, sent: 5, ..Tally::default() };
        let mut waiting = view(&settings, waits, &Ruling::Go);
        assert_eq!(waiting.orders().turn, None);
        waiting.canary_ripe = Some(NOW);
        assert_eq!(waiting.orders().turn, Some(Turning::to(ReplayState::Running)));
        let known = Tally { open: 0, ..waits };
        assert_eq!(view(&settings, known, &Ruling::Go).orders().turn.unwrap().to, ReplayState::Running);
    }

    #[test]
    fn who_is_let_go_on_after_a_stop_sends_another_canary() {
        let settings = Settings::default();
        let tally = Tally { claimed: 95, sent: 5, ..Tally::default() };
        let again = View { sent_before: 5, ..view(&settings, tally, &Ruling::Go) };
        assert_eq!(again.orders().intend, 5);
    }

    #[test]
    fn it_is_completed_only_when_nothing_is_open() {
        let settings = Settings::default();
        for open in [
            Tally { open: 1, ..Tally::default() },
            Tally { in_hand: 1, ..Tally::default() },
            Tally { claimed: 1, ..Tally::default() },
            Tally { frozen: 1, ..Tally::default() },
            Tally { in_doubt: 1, ..Tally::default() },
        ] {
            let running = View { state: ReplayState::Running, ..view(&settings, open, &Ruling::Go) };
            assert_ne!(running.orders().turn.map(|turn| turn.to), Some(ReplayState::Completed), "{open:?}");
        }
        let done = Tally { sent: 100, ..Tally::default() };
        assert_eq!(view(&settings, done, &Ruling::Go).orders().turn.unwrap().to, ReplayState::Completed);
    }

    #[test]
    fn what_only_a_person_can_settle_pauses_it_at_the_end() {
        let settings = Settings::default();
        let doubt = Tally { in_doubt: 2, sent: 5, ..Tally::default() };
        let turn = view(&settings, doubt, &Ruling::Go).orders().turn.unwrap();
        assert!(turn.to == ReplayState::Paused && turn.reason.unwrap().contains("2 in doubt"));
        let stuck = Tally { claimed: 2, sent: 5, ..Tally::default() };
        let turn = View { dry: true, ..view(&settings, stuck, &Ruling::Go) }.orders().turn.unwrap();
        assert!(turn.to == ReplayState::Paused && turn.reason.unwrap().contains("earlier letter"));
    }

    #[test]
    fn a_pause_and_a_wait_call_back_what_is_not_out() {
        let settings = Settings::default();
        let tally = Tally { claimed: 10, in_hand: 3, ready: 2, ..Tally::default() };
        let paused = View { state: ReplayState::Paused, ..view(&settings, tally, &Ruling::Go) }.orders();
        assert!(paused.recall && !paused.publish && paused.intend == 0 && !paused.let_go);
        let wait = Ruling::Wait("x".into());
        let waits = view(&settings, tally, &wait).orders();
        assert!(waits.recall && !waits.publish && waits.intend == 0);
        let free = Tally { claimed: 10, ..Tally::default() };
        assert!(View { state: ReplayState::Stopped, ..view(&settings, free, &Ruling::Go) }.orders().let_go);
    }

    #[test]
    fn a_cancelled_replay_gives_back_and_waits_for_outcomes() {
        let settings = Settings::default();
        let cancelled =
            |tally| View { state: ReplayState::Cancelled, ..view(&settings, tally, &Ruling::Go) }.orders();
        assert!(cancelled(Tally { claimed: 3, ..Tally::default() }).give_back);
        assert!(!cancelled(Tally { claimed: 3, in_hand: 1, ..Tally::default() }).give_back);
        assert!(!cancelled(Tally { open: 3, ..Tally::default() }).let_go);
        assert!(cancelled(Tally { sent: 3, in_doubt: 1, ..Tally::default() }).let_go);
    }

    #[test]
    fn the_queue_is_read_back_only_while_nothing_is_under_way() {
        let settings = Settings::default();
        let tally = Tally { claimed: 9, in_hand: 3, ready: 2, in_doubt: 1, ..Tally::default() };
        let mut looking = View { doubts: Doubts::ReadBack, ..view(&settings, tally, &Ruling::Go) };
        let orders = looking.orders();
        assert!(!orders.clear_doubts && !orders.publish && orders.intend == 0);
        looking.tally.in_hand = 2;
        assert!(looking.orders().clear_doubts);
    }

    #[test]
    fn intents_go_ahead_of_sends_by_a_tenth_of_a_second_and_stay_within_the_window() {
        let settings = Settings { pace: Pace::Rate(500.0), ramp: 1, ..Settings::default() };
        let running = |tally| View { state: ReplayState::Running, ..view(&settings, tally, &Ruling::Go) };
        let tally = Tally { claimed: 2_000, ..Tally::default() };
        assert_eq!(running(tally).orders().intend, 50);
        assert_eq!(running(Tally { ready: 45, in_hand: 45, ..tally }).orders().intend, 5);
        assert_eq!(running(Tally { in_hand: IN_FLIGHT - 3, ..tally }).orders().intend, 3);
        assert_eq!(running(Tally { in_hand: IN_FLIGHT, ..tally }).orders().intend, 0);
    }

    #[test]
    fn a_passed_canary_is_ripe_sooner_where_letters_die_soon() {
        let (window, short) = (Duration::from_secs(30), Some(Duration::from_secs(1)));
        assert_eq!(ripe(NOW, true, window, short), NOW.plus(SETTLING));
        assert_eq!(ripe(NOW, true, window, None), NOW.plus(window));
        assert_eq!(ripe(NOW, false, window, short), NOW.plus(window));
    }
}

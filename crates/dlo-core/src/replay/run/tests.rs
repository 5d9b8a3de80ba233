//! What a run is ordered to do: canary, pauses, ends, and what must not happen before its time.

mod ends;
mod room;

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
        proven: true,
        unseen: false,
        lost_confirm: LostConfirm::SendAgain,
        unwritten: 0,
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
fn intents_go_ahead_of_sends_by_a_fifth_of_a_second_and_stay_within_the_window() {
    let settings = Settings { pace: Pace::Rate(500.0), ramp: 1, ..Settings::default() };
    let running = |tally| View { state: ReplayState::Running, ..view(&settings, tally, &Ruling::Go) };
    let tally = Tally { claimed: 2_000, ..Tally::default() };
    assert_eq!(running(tally).orders().intend, 100);
    assert_eq!(running(Tally { ready: 95, in_hand: 95, ..tally }).orders().intend, 5);
    assert_eq!(running(Tally { in_hand: 247, ..tally }).orders().intend, 3);
    assert_eq!(running(Tally { in_hand: 250, ..tally }).orders().intend, 0);
    let knows = |rate| in_flight(rate, LostConfirm::SendAgain);
    assert_eq!([Some(0.1), Some(50.0), Some(5_000.0), None].map(knows), [10, 25, IN_FLIGHT, IN_FLIGHT]);
    let cannot_tell = |rate| in_flight(rate, LostConfirm::Unknown);
    assert_eq!([Some(0.1), Some(50.0), Some(1_500.0), None].map(cannot_tell), [10, 25, UNCERTAIN, UNCERTAIN]);
}

#[test]
fn where_the_broker_cannot_tell_intents_go_ahead_of_what_is_written_by_a_few_at_most() {
    let paces =
        [(Pace::Rate(1_500.0), 32), (Pace::Rate(5_000.0), 100), (Pace::Max, 300), (Pace::Rate(50.0), 10)];
    for (rate, most) in paces {
        let settings = Settings { pace: rate, ramp: 1, ..Settings::default() };
        for lost_confirm in [LostConfirm::Unknown, LostConfirm::SendAgainInWindow] {
            let intend = |ready, unwritten, in_hand| {
                let tally = Tally { claimed: 2_000, ready, in_hand, ..Tally::default() };
                let state = ReplayState::Running;
                let running = view(&settings, tally, &Ruling::Go);
                View { state, lost_confirm, unwritten, ..running }.orders().intend
            };
            assert_eq!(intend(0, 0, 0), most);
            assert_eq!(intend(1, 2, 3), most - 3);
            // It waits until half of the window is free.
            assert_eq!([most / 2, most / 2 + 1].map(|ready| intend(ready, 0, ready)), [most - most / 2, 0]);
            assert_eq!(intend(0, most, most), 0);
            assert_eq!(intend(most, 1, most + 1), 0);
            let full = in_flight(settings.pace.rate(None), lost_confirm);
            let half = most.min(full) / 2;
            assert_eq!(
                [full - half, full - half + 1, full].map(|in_hand| intend(0, 0, in_hand)),
                [half, 0, 0]
            );
        }
    }
}

#[test]
fn a_passed_canary_is_ripe_sooner_where_letters_die_soon() {
    let (window, short) = (Duration::from_secs(30), Some(Duration::from_secs(1)));
    assert_eq!(ripe(NOW, true, window, short), NOW.plus(SETTLING));
    assert_eq!(ripe(NOW, true, window, None), NOW.plus(window));
    assert_eq!(ripe(NOW, false, window, short), NOW.plus(window));
}

#[test]
fn a_canary_whose_letters_came_back_is_not_over_before_the_guards_have_looked() {
    let settings = Settings::default();
    let back = Tally { claimed: 95, sent: 5, ..Tally::default() };
    let over = view(&settings, back, &Ruling::Go);
    assert_eq!(over.orders().turn.unwrap().to, ReplayState::Running);
    let unseen = View { unseen: true, ..over };
    assert_eq!(unseen.orders().turn, None);
}

#[test]
fn until_the_broker_took_something_only_a_few_are_under_way() {
    let settings = Settings { canary: 0, ramp: 1, pace: Pace::Max, ..Settings::default() };
    let tally = Tally { claimed: 2_000, in_hand: 4, ..Tally::default() };
    let unproven = View { proven: false, state: ReplayState::Running, ..view(&settings, tally, &Ruling::Go) };
    assert_eq!(unproven.orders().intend, 6);
    let full = Tally { in_hand: 10, ..tally };
    assert_eq!(View { tally: full, ..unproven.clone() }.orders().intend, 0);
    assert!(View { proven: true, ..unproven }.orders().intend > 90);
}

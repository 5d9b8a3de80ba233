//! How a run halts, ends and is given back, and what becomes of doubts meanwhile.

use super::*;

const NAMED: LetterId = LetterId(uuid::Uuid::from_u128(7));

#[test]
fn a_guard_halts_it_with_its_reason_and_calls_back_what_is_not_out() {
    let settings = Settings::default();
    let tally = Tally { claimed: 10, in_hand: 3, ready: 2, ..Tally::default() };
    for (ruling, to) in [
        (Ruling::Stop("it comes back".into(), vec![NAMED]), ReplayState::Stopped),
        (Ruling::Pause("look at it".into(), vec![NAMED]), ReplayState::Paused),
    ] {
        let reason = if to == ReplayState::Stopped { "it comes back" } else { "look at it" };
        let turn = Turning { to, reason: Some(reason.to_owned()), letters: vec![NAMED] };
        let expected = Orders { recall: true, turn: Some(turn), ..Orders::default() };
        assert_eq!(view(&settings, tally, &ruling).orders(), expected);
    }
}

#[test]
fn who_is_not_active_calls_back_and_lets_go_once_nothing_is_in_hand() {
    let settings = Settings::default();
    for state in
        [ReplayState::Planned, ReplayState::AwaitingApproval, ReplayState::Paused, ReplayState::Stopped]
    {
        for in_hand in [0, 1] {
            let tally = Tally { claimed: 3, frozen: 2, in_hand, ..Tally::default() };
            let orders = View { state, ..view(&settings, tally, &Ruling::Go) }.orders();
            let expected = Orders { recall: true, let_go: in_hand == 0, ..Orders::default() };
            assert_eq!(orders, expected, "{state:?}");
        }
    }
}

#[test]
fn after_its_end_nothing_is_sent_and_only_reading_back_clears_doubts() {
    let settings = Settings::default();
    let over = |doubts, tally| {
        View { state: ReplayState::Cancelled, doubts, ..view(&settings, tally, &Ruling::Go) }.orders()
    };
    let nothing = Tally { sent: 5, in_doubt: 1, ..Tally::default() };
    let calls_back = Orders { recall: true, ..Orders::default() };
    let lets_go = Orders { let_go: true, ..calls_back.clone() };
    assert_eq!(over(Doubts::None, nothing), lets_go);
    assert_eq!(over(Doubts::SendAgain, nothing), lets_go);
    assert_eq!(over(Doubts::ReadBack, nothing), Orders { clear_doubts: true, ..calls_back.clone() });
    assert_eq!(over(Doubts::ReadBack, Tally { in_hand: 1, ..nothing }), calls_back);
    assert_eq!(over(Doubts::None, Tally { in_hand: 1, ..nothing }), calls_back);
    assert_eq!(over(Doubts::None, Tally { open: 1, ..nothing }), calls_back);
    let back = Orders { give_back: true, ..calls_back };
    assert_eq!(over(Doubts::None, Tally { claimed: 1, ..nothing }), back);
}

#[test]
fn doubts_that_are_sent_again_hold_up_nothing() {
    let settings = Settings::default();
    let tally = Tally { claimed: 9, in_hand: 3, ready: 2, in_doubt: 1, ..Tally::default() };
    let orders = |doubts| View { doubts, ..view(&settings, tally, &Ruling::Go) }.orders();
    let again = orders(Doubts::SendAgain);
    assert!(again.clear_doubts && again.publish && again.intend > 0);
    assert!(!orders(Doubts::None).clear_doubts);
}

#[test]
fn it_does_not_end_before_its_doubts_are_cleared() {
    let settings = Settings::default();
    let done = Tally { sent: 5, ..Tally::default() };
    let again = View { doubts: Doubts::SendAgain, ..view(&settings, done, &Ruling::Go) };
    assert_eq!(again.orders().turn, None);
}

#[test]
fn nobody_is_asked_to_settle_what_may_still_move_by_itself() {
    let settings = Settings::default();
    let turn = |tally, dry| {
        let state = ReplayState::Running;
        View { state, dry, ..view(&settings, tally, &Ruling::Go) }.orders().turn
    };
    let doubt = Tally { in_doubt: 2, sent: 5, ..Tally::default() };
    for moves in [
        Tally { open: 1, ..doubt },
        Tally { frozen: 1, ..doubt },
        Tally { claimed: 1, ..doubt },
        Tally { in_hand: 1, ..doubt },
    ] {
        assert_eq!(turn(moves, false), None, "{moves:?}");
    }
    let stuck = Tally { claimed: 2, sent: 5, ..Tally::default() };
    for moves in [Tally { open: 1, ..stuck }, Tally { frozen: 1, ..stuck }, Tally { in_hand: 1, ..stuck }] {
        assert_eq!(turn(moves, true), None, "{moves:?}");
    }
    assert_eq!(turn(stuck, true).map(|turn| turn.to), Some(ReplayState::Paused));
}

#[test]
fn a_canary_is_over_when_it_is_out_or_nothing_is_left_to_send() {
    let settings = Settings::default();
    let turns = |tally, dry| {
        let waits = View { dry, canary_ripe: Some(NOW), ..view(&settings, tally, &Ruling::Go) };
        waits.orders().turn.map(|turn| turn.to)
    };
    let few = Tally { open: 2, sent: 2, ..Tally::default() };
    assert_eq!(turns(few, false), Some(ReplayState::Running));
    assert_eq!(turns(Tally { frozen: 1, ..few }, false), None);
    assert_eq!(turns(Tally { frozen: 1, ..few }, true), None);
    assert_eq!(turns(Tally { claimed: 1, ..few }, false), None);
    assert_eq!(turns(Tally { claimed: 1, ..few }, true), Some(ReplayState::Running));
    let out = Tally { claimed: 9, frozen: 9, open: 5, sent: 5, ..Tally::default() };
    assert_eq!(turns(out, false), Some(ReplayState::Running));
}

#[test]
fn a_canary_that_waits_for_outcomes_has_its_time_and_not_less() {
    let settings = Settings::default();
    let tally = Tally { claimed: 9, open: 5, sent: 5, ..Tally::default() };
    let turn = |state, ripe: Timestamp| {
        View { state, canary_ripe: Some(ripe), ..view(&settings, tally, &Ruling::Go) }.orders().turn
    };
    let soon = NOW.plus(Duration::from_millis(1));
    assert_eq!(turn(ReplayState::Canary, soon), None);
    assert!(turn(ReplayState::Canary, NOW).is_some());
    assert_eq!(turn(ReplayState::Running, NOW), None);
}

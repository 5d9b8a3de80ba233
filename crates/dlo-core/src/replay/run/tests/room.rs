//! How many letters are claimed and intended, and how fast they go: bounds of the rate, the canary and the broker.

use super::*;

/// Running at full pace, with as many claimed letters as it may have.
fn running<'a>(settings: &'a Settings, tally: Tally, ruling: &'a Ruling) -> View<'a> {
    View { state: ReplayState::Running, ..view(settings, tally, ruling) }
}

fn at_full_pace(pace: Pace) -> Settings {
    Settings { pace, ramp: 1, ..Settings::default() }
}

const PLENTY: Tally =
    Tally { frozen: 0, claimed: CLAIM, in_hand: 0, ready: 0, in_doubt: 0, open: 0, sent: 0 };

#[test]
fn what_is_stored_is_counted_with_nothing_in_hand() {
    let mut counts = ItemCounts::default();
    for (state, count) in [
        (ItemState::Frozen, 1),
        (ItemState::Claimed, 2),
        (ItemState::InDoubt, 4),
        (ItemState::Sent, 8),
        (ItemState::Confirmed, 16),
        (ItemState::Returned, 32),
        (ItemState::Intended, 64),
    ] {
        counts.set(state, count);
    }
    let expected = Tally { frozen: 1, claimed: 2, in_hand: 0, ready: 0, in_doubt: 4, open: 8, sent: 56 };
    assert_eq!(Tally::stored(&counts), expected);
}

#[test]
fn a_guard_can_hold_back_what_is_not_with_the_broker_yet() {
    for held_back in [
        Tally { frozen: 1, ..Tally::default() },
        Tally { claimed: 1, ..Tally::default() },
        Tally { ready: 1, ..Tally::default() },
    ] {
        assert!(held_back.has_more(), "{held_back:?}");
    }
    let gone = Tally { in_hand: 2, in_doubt: 3, open: 4, sent: 7, ..Tally::default() };
    assert!(!gone.has_more());
}

#[test]
fn letters_are_claimed_when_less_than_half_of_a_claim_is_left() {
    let settings = Settings::default();
    let claims = |frozen, claimed| {
        let tally = Tally { frozen, claimed, ..Tally::default() };
        running(&settings, tally, &Ruling::Go).orders().claim
    };
    assert!(claims(1, 999));
    assert!(!claims(1, 1_000));
    assert!(!claims(0, 0));
}

#[test]
fn a_canary_goes_at_the_pace_that_was_set_and_the_rest_climbs_to_it() {
    let settings = Settings::default();
    let canary = view(&settings, PLENTY, &Ruling::Go).orders();
    assert_eq!((canary.rate, canary.publish, canary.recall), (Some(50.0), true, false));
    let later =
        |secs| View { now: NOW.plus(Duration::from_secs(secs)), ..running(&settings, PLENTY, &Ruling::Go) };
    assert_eq!(later(0).orders().rate, Some(10.0));
    assert_eq!(later(20).orders().rate, Some(50.0));
}

#[test]
fn a_share_follows_what_the_consumer_normally_gets() {
    let settings = at_full_pace(Pace::Share(0.5));
    let busy = View { normal: Some(400.0), ..running(&settings, PLENTY, &Ruling::Go) };
    assert_eq!(busy.orders().rate, Some(200.0));
}

#[test]
fn a_guard_that_slows_down_takes_its_share_of_the_rate() {
    let settings = at_full_pace(Pace::Rate(50.0));
    let slow = Ruling::Slow(0.5, "the consumer is behind".to_owned());
    let orders = running(&settings, PLENTY, &slow).orders();
    assert_eq!((orders.rate, orders.publish), (Some(25.0), true));
}

#[test]
fn however_slow_or_fast_intents_go_ahead_by_one_letter_to_two_batches() {
    let intends = |pace| running(&at_full_pace(pace), PLENTY, &Ruling::Go).orders().intend;
    assert_eq!(intends(Pace::Rate(0.1)), 1);
    assert_eq!(intends(Pace::Rate(12.0)), 3);
    assert_eq!(intends(Pace::Rate(50_000.0)), 1_000);
    assert_eq!(intends(Pace::Max), 1_000);
}

#[test]
fn nothing_is_intended_where_nothing_is_claimed_or_order_holds_it_all_back() {
    let settings = at_full_pace(Pace::Max);
    let none = Tally { frozen: 5, ..Tally::default() };
    assert_eq!(running(&settings, none, &Ruling::Go).orders().intend, 0);
    let dry = View { dry: true, ..running(&settings, PLENTY, &Ruling::Go) };
    assert_eq!(dry.orders().intend, 0);
}

#[test]
fn before_the_broker_took_one_at_least_one_goes_and_no_more_than_may_be_refused() {
    let intends = |refusals, in_hand| {
        let mut settings = at_full_pace(Pace::Max);
        settings.guards.refusals = refusals;
        let tally = Tally { in_hand, ..PLENTY };
        View { proven: false, ..running(&settings, tally, &Ruling::Go) }.orders().intend
    };
    assert_eq!(intends(Some(0), 0), 1);
    assert_eq!(intends(Some(3), 0), 3);
    assert_eq!(intends(Some(3), 2), 1);
    assert_eq!(intends(None, 0), 1_000);
}

#[test]
fn whatever_left_the_canary_counts_wherever_it_is_now() {
    let settings = Settings::default();
    let left = |tally: Tally, sent_before| {
        View { sent_before, ..view(&settings, tally, &Ruling::Go) }.orders().intend
    };
    assert_eq!(left(Tally { sent: 2, ..PLENTY }, 0), 3);
    assert_eq!(left(Tally { in_doubt: 2, ..PLENTY }, 0), 3);
    assert_eq!(left(Tally { in_hand: 2, ..PLENTY }, 0), 3);
    assert_eq!(left(Tally { sent: 2, in_doubt: 1, in_hand: 1, ..PLENTY }, 0), 1);
    assert_eq!(left(Tally { sent: 7, in_doubt: 1, ..PLENTY }, 5), 2);
    assert_eq!(left(Tally { sent: 7, ..PLENTY }, 0), 0);
}

#[test]
fn an_outcome_is_waited_for_as_long_as_such_letters_take_but_no_longer_than_an_hour() {
    let settings = Settings::default();
    let waits = |secs| window(&settings, Some(Duration::from_secs(secs))).as_secs();
    assert_eq!([10, 30, 90, 3_600, 7_200].map(waits), [30, 30, 90, 3_600, 3_600]);
    assert_eq!(window(&settings, None).as_secs(), 30);
}

#[test]
fn a_passed_canary_waits_no_longer_than_its_window() {
    let (secs, window) = (Duration::from_secs, Duration::from_secs(30));
    assert_eq!(ripe(NOW, true, window, Some(secs(20))), NOW.plus(secs(20)));
    assert_eq!(ripe(NOW, true, window, Some(secs(60))), NOW.plus(window));
}

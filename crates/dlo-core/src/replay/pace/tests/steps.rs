//! The pacer step by step: what a take, a return, a landing and a change of pace do to the next message.

use super::*;

fn millis(count: u64) -> Timestamp {
    START.plus(Duration::from_millis(count))
}

fn micros(count: u64) -> Timestamp {
    START.plus(Duration::from_micros(count))
}

/// One that has sent its first message at [`START`], which landed at once: the next is due one interval later.
fn warm(rate: f64) -> Pacer {
    let mut pacer = Pacer::new(Some(rate), START);
    assert_eq!(pacer.take(1, START), 1);
    pacer.landed(1, START, START);
    pacer
}

#[test]
fn without_a_limit_everything_goes_and_time_changes_nothing() {
    let mut pacer = Pacer::new(None, START);
    assert_eq!((pacer.rate(), pacer.take(7, START), pacer.take(9, START)), (None, 7, 9));
    pacer.landed(16, START, millis(3));
    pacer.untake(1);
    assert_eq!((pacer.take(5, millis(3)), pacer.next(Calls::SideBySide)), (5, None));
}

#[test]
fn the_next_message_is_due_one_interval_after_the_first_landed() {
    let pacer = warm(50.0);
    assert_eq!(pacer.rate(), Some(50.0));
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(20)));
    let mut late = Pacer::new(Some(50.0), START);
    assert_eq!(late.take(1, START), 1);
    late.landed(1, START, millis(300));
    assert_eq!(late.next(Calls::SideBySide), Some(millis(320)));
    assert_eq!((late.take(9, millis(319)), late.take(9, millis(320))), (0, 1));
    assert_eq!(late.next(Calls::SideBySide), Some(millis(340)));
}

#[test]
fn the_first_message_goes_alone_and_only_its_landing_lets_others_go() {
    let mut pacer = Pacer::new(Some(500.0), START);
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(2)), "before the first, time is what counts");
    assert_eq!(pacer.take(1, START), 1);
    assert_eq!(pacer.next(Calls::SideBySide), None);
    assert_eq!(pacer.take(9, millis(400)), 0);
    pacer.landed(1, START, millis(400));
    assert!(pacer.next(Calls::SideBySide).is_some());
    assert!(pacer.take(9, millis(402)) > 0);
}

#[test]
fn only_the_first_landing_starts_the_clock_again() {
    let mut pacer = warm(50.0);
    assert_eq!(pacer.take(1, millis(20)), 1);
    pacer.landed(1, millis(20), millis(35));
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(40)));
}

#[test]
fn what_did_not_go_may_go_at_once_and_moves_nothing_behind_it() {
    let mut pacer = warm(50.0);
    assert_eq!(pacer.take(1, millis(20)), 1);
    pacer.untake(1);
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(20)));
    assert_eq!((pacer.take(9, millis(20)), pacer.take(9, millis(20))), (1, 0));
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(40)));
}

/// Three are allowed at once after a hundred milliseconds; two of them come back and go again, and no third one.
#[test]
fn what_came_back_is_all_that_goes_again() {
    let mut pacer = warm(50.0);
    assert_eq!(pacer.take(9, millis(100)), 3);
    pacer.untake(2);
    assert_eq!(pacer.take(9, millis(100)), 2);
    // Fifty milliseconds are made up for, at a tenth more than the rate: 0.05 s and three times a fifty-fifth.
    let next = pacer.next(Calls::SideBySide).unwrap();
    assert!(next > micros(104_400) && next < micros(104_700), "{next:?}");
}

#[test]
fn the_mean_is_kept_by_a_debt_of_one_second_at_most() {
    let mut pacer = warm(50.0);
    let mut taken = 0;
    for at in 0..3_000 {
        let now = millis(5_000 + at);
        let count = pacer.take(9, now);
        pacer.landed(count, now, now);
        taken += count;
    }
    // Three seconds of the rate, and what the bound of a second leaves for the debt.
    assert!((150..=153).contains(&taken), "{taken}");
}

#[test]
fn messages_that_are_due_together_go_together_as_calls_allow() {
    // Four milliseconds of five thousand a second are twenty messages: nineteen intervals behind the first.
    let next = |rate, calls| warm(rate).next(calls).unwrap();
    assert_eq!(next(5_000.0, Calls::SideBySide), micros(200 + 19 * 200));
    assert_eq!(next(5_000.0, Calls::OneByOne), micros(200 + 49 * 200));
    assert_eq!(next(200.0, Calls::SideBySide), millis(5));
    assert_eq!(next(200.0, Calls::OneByOne), millis(10));
}

#[test]
fn a_full_second_opens_a_second_after_its_first_landing_or_waits_for_one() {
    let mut half = warm(1.0);
    assert_eq!(half.take(9, millis(2_500)), 1);
    assert!(half.next(Calls::SideBySide).is_some(), "a second holds one more");
    let mut pacer = warm(1.0);
    let taken: u64 = [1_000, 2_500, 2_501].map(|at| pacer.take(9, millis(at))).into_iter().sum();
    assert_eq!(taken, 2, "one is under way and a second holds two");
    assert_eq!(pacer.next(Calls::SideBySide), None, "only a landing makes room");
    pacer.landed(2, millis(2_500), millis(2_600));
    let next = pacer.next(Calls::SideBySide).unwrap();
    assert!(next > millis(3_600), "{next:?}");
}

#[test]
fn the_same_pace_again_changes_nothing() {
    let mut pacer = warm(1.0);
    pacer.change(Some(1.0), millis(500));
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(1_000)));
}

#[test]
fn a_change_of_pace_waits_one_interval_of_the_faster_pace_at_most() {
    let mut faster = warm(0.1);
    faster.change(Some(2.0), millis(500));
    assert_eq!((faster.rate(), faster.next(Calls::SideBySide)), (Some(2.0), Some(millis(1_000))));
    let mut slower = warm(2.0);
    slower.change(Some(0.1), millis(100));
    assert_eq!(slower.next(Calls::SideBySide), Some(millis(500)), "as long as it would have been");
    let mut at_once = warm(0.1);
    at_once.change(None, millis(500));
    at_once.change(Some(1.0), millis(500));
    assert_eq!(at_once.next(Calls::SideBySide), Some(millis(500)));
}

#[test]
fn who_takes_over_at_the_slowest_pace_waits_its_whole_interval() {
    let mut pacer = Pacer::after_another(START);
    assert_eq!(pacer.rate(), Some(0.1));
    assert_eq!(pacer.next(Calls::SideBySide), Some(millis(10_000)));
    assert_eq!((pacer.take(9, millis(9_999)), pacer.take(9, millis(10_000))), (0, 1));
}

#[test]
fn a_ramp_without_a_limit_doubles_and_stops_doubling_before_it_overflows() {
    let at = |secs| ramped(None, u32::MAX, Duration::from_secs(secs)).unwrap();
    assert_eq!([at(0), at(5), at(14), at(100), at(200)], [100.0, 200.0, 400.0, 104_857_600.0, 104_857_600.0]);
    assert_eq!(ramped(Some(0.2), 5, Duration::ZERO), Some(0.1), "no step is slower than the slowest");
}

#[test]
fn nothing_is_slowed_to_more_than_its_rate_or_less_than_the_slowest() {
    assert_eq!((slowed(Some(50.0), 2.0), slowed(Some(50.0), -1.0)), (Some(50.0), Some(0.1)));
    assert_eq!(Pace::Rate(0.01).rate(None), Some(0.1));
    assert_eq!(Pace::Rate(70.0).rate(Some(400.0)), Some(70.0));
}

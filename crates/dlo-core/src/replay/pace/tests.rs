//! The pace against clocks, timers and brokers that are late.

mod steps;

use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_793_534_400_000);

/// What a replay runs on: how late a timer is, and how long a broker takes, in microseconds each.
struct World<L, B> {
    calls: Calls,
    lateness: L,
    way: B,
}

/// When each message landed over `seconds`.
fn landings<L, B>(rate: f64, seconds: u64, mut world: World<L, B>) -> Vec<i64>
where
    L: FnMut() -> u64,
    B: FnMut(Timestamp) -> u64,
{
    let mut pacer = Pacer::new(Some(rate), START);
    let mut landed = Vec::new();
    // When it lands, when it left, how many: at most one where calls go one by one.
    let mut under_way: Vec<(Timestamp, Timestamp, u64)> = Vec::new();
    let end = START.plus(Duration::from_secs(seconds));
    let mut now = START;
    // Each message takes a timer and a landing. A pacer that asks much more often, or that never sends, is wrong.
    let mut steps_left = 1_000 + 4 * seconds * rate as u64;
    while now < end {
        steps_left = steps_left.checked_sub(1).expect("the pacer asks too often");
        under_way.sort_unstable();
        while let Some((at, left, count)) = under_way.first().copied().filter(|(at, ..)| *at <= now) {
            under_way.remove(0);
            pacer.landed(count, left, now);
            landed.extend(std::iter::repeat_n(at.as_micros(), usize::try_from(count).unwrap()));
        }
        let waits = world.calls == Calls::OneByOne && !under_way.is_empty();
        let count = if waits { 0 } else { pacer.take(u64::MAX, now) };
        if count > 0 {
            under_way.push((now.plus(Duration::from_micros((world.way)(now))), now, count));
        }
        let waits = waits || world.calls == Calls::OneByOne && count > 0;
        let timer = pacer.next(world.calls).filter(|_| !waits);
        let timer = timer.map(|next| next.max(now).plus(Duration::from_micros((world.lateness)() + 1)));
        let landing = under_way.iter().map(|(at, ..)| *at).min();
        now = timer.into_iter().chain(landing).min().unwrap_or(end).max(now.plus(Duration::from_micros(1)));
    }
    landed
}

fn worst_second(landed: &[i64]) -> u64 {
    let after = |at: i64| landed.partition_point(|other| *other < at + 1_000_000);
    landed.iter().enumerate().map(|(index, at)| (after(*at) - index) as u64).max().unwrap_or(0)
}

/// How far the mean is off, from the first landing to the last.
fn error(rate: f64, landed: &[i64]) -> f64 {
    let span = landed.last().unwrap() - landed.first().unwrap();
    ((landed.len() - 1) as f64 * 1e6 / span as f64 / rate - 1.0).abs()
}

/// Two percent, or the one message that they are less than.
fn promised(rate: f64) -> u64 {
    ((rate * 1.02) as u64).max(rate as u64 + 1)
}

const BOTH: [Calls; 2] = [Calls::SideBySide, Calls::OneByOne];

#[test]
fn the_mean_is_met_and_no_second_has_two_percent_too_many() {
    for (rate, calls) in [50.0, 500.0, 5_000.0].into_iter().flat_map(|rate| BOTH.map(|calls| (rate, calls))) {
        let landed = landings(rate, 60, World { calls, lateness: || 0, way: |_| 7_000 });
        assert!(error(rate, &landed) < 0.002, "{rate} {calls:?}: {}", error(rate, &landed));
        assert!(worst_second(&landed) <= promised(rate), "{rate} {calls:?}: {}", worst_second(&landed));
    }
}

#[test]
fn a_broker_that_is_far_away_gets_the_whole_rate() {
    let landed = landings(500.0, 60, World { calls: Calls::SideBySide, lateness: || 900, way: |_| 250_000 });
    // The first goes alone, so that the second comes a quarter of a second later.
    assert!(error(500.0, &landed[1..]) < 0.002, "{}", error(500.0, &landed[1..]));
}

/// The machine stands still for 30 ms, every three seconds or so.
#[test]
fn what_a_late_timer_held_up_is_made_up_for() {
    let mut calls = 0;
    let lateness = || {
        calls += 1;
        if calls % 700 == 0 { 30_000 } else { 500 }
    };
    let landed = landings(500.0, 60, World { calls: Calls::SideBySide, lateness, way: |_| 1_000 });
    assert!(error(500.0, &landed) < 0.002, "{}", error(500.0, &landed));
    assert!(worst_second(&landed) <= 510, "{}", worst_second(&landed));
}

/// For 120 ms of every two seconds the broker takes nothing, and then everything that it was given.
#[test]
fn what_a_broker_held_up_does_not_come_as_a_heap() {
    let way = |left: Timestamp| {
        let phase = left.since(START).as_micros() as u64 % 2_000_000;
        1_000 + 120_000_u64.saturating_sub(phase)
    };
    for rate in [50.0, 500.0, 5_000.0] {
        let landed = landings(rate, 60, World { calls: Calls::SideBySide, lateness: || 700, way });
        assert!(error(rate, &landed) < 0.01, "{rate}: {}", error(rate, &landed));
        assert!(worst_second(&landed) <= promised(rate), "{rate}: {}", worst_second(&landed));
    }
}

#[test]
fn what_gathers_while_connections_are_made_does_not_come_as_a_heap() {
    let mut first = true;
    let way = |_| if std::mem::take(&mut first) { 400_000 } else { 2_000 };
    let landed = landings(500.0, 30, World { calls: Calls::SideBySide, lateness: || 500, way });
    assert!(error(500.0, &landed) < 0.002, "{}", error(500.0, &landed));
    assert!(worst_second(&landed) <= 506, "{}", worst_second(&landed));
}

#[test]
fn after_a_long_stop_no_more_comes_at_once_than_a_twentieth_of_a_second() {
    let mut pacer = Pacer::new(Some(1_000.0), START);
    assert_eq!(pacer.take(1, START), 1);
    pacer.landed(1, START, START);
    let later = START.plus(Duration::from_secs(600));
    assert!(pacer.take(u64::MAX, later) <= 56);
    assert_eq!(pacer.take(u64::MAX, later), 0);
}

#[test]
fn a_ramp_climbs_in_steps_to_its_limit() {
    let at = |secs| ramped(Some(50.0), 5, Duration::from_secs(secs));
    assert_eq!([at(0), at(4), at(5), at(19), at(20)].map(Option::unwrap), [10.0, 10.0, 20.0, 40.0, 50.0]);
    assert_eq!(ramped(Some(50.0), 1, Duration::ZERO), Some(50.0));
    assert_eq!(ramped(Some(50.0), 0, Duration::ZERO), Some(50.0));
    assert_eq!(ramped(None, 3, Duration::from_secs(5)), Some(200.0));
    assert_eq!(ramped(None, 3, Duration::from_secs(10)), None);
}

#[test]
fn a_share_is_of_normal_traffic_and_at_least_one_a_second() {
    assert_eq!(Pace::Share(0.1).rate(Some(400.0)), Some(40.0));
    assert_eq!(Pace::Share(0.1).rate(Some(2.0)), Some(1.0));
    assert_eq!(Pace::Share(0.1).rate(None), Some(1.0));
    assert_eq!(Pace::Max.rate(Some(400.0)), None);
    assert_eq!(Pace::Rate(f64::NAN).rate(None), Some(0.1));
}

#[test]
fn slowing_down_works_without_a_limit_too() {
    assert_eq!(slowed(Some(50.0), 0.5), Some(25.0));
    assert_eq!(slowed(None, 0.5), Some(500.0));
    assert_eq!(slowed(Some(50.0), 0.0), Some(0.1));
}

#[test]
fn a_change_of_pace_is_obeyed_at_once_and_brings_no_burst() {
    let mut pacer = Pacer::new(Some(0.1), START);
    assert_eq!(pacer.take(10, START), 1);
    pacer.landed(1, START, START);
    let later = START.plus(Duration::from_millis(500));
    assert_eq!(pacer.take(10, later), 0);
    pacer.change(Some(50.0), later);
    assert!(pacer.next(Calls::SideBySide).unwrap() <= later.plus(Duration::from_millis(20)));
    assert!(pacer.take(10, later.plus(Duration::from_millis(20))) <= 1);
}

#[test]
fn who_takes_over_begins_one_interval_later() {
    let mut pacer = Pacer::after_another(START);
    pacer.change(Some(50.0), START);
    assert_eq!(pacer.take(10, START.plus(Duration::from_millis(19))), 0);
    assert_eq!(pacer.take(10, START.plus(Duration::from_millis(20))), 1);
}

proptest! {
    // Each case is half a minute of messages.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn timers_and_brokers_that_are_late_do_not_change_the_mean(
        rate in prop::sample::select(vec![50.0, 500.0, 5_000.0]),
        calls in prop::sample::select(BOTH.to_vec()),
        lateness in prop::collection::vec(0_u64..4_000, 1..50),
        ways in prop::collection::vec(3_000_u64..9_000, 1..50),
    ) {
        let (mut timers, mut ways) = (lateness.iter().cycle(), ways.iter().cycle());
        let world = World { calls, lateness: || *timers.next().unwrap(), way: |_| *ways.next().unwrap() };
        let landed = landings(rate, 30, world);
        prop_assert!(error(rate, &landed) < 0.01, "{}", error(rate, &landed));
        prop_assert!(worst_second(&landed) <= promised(rate), "{}", worst_second(&landed));
    }
}

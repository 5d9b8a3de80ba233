//! The specification of backoffs: each by its formula, within the cap, and as config writes it.

use proptest::prelude::*;

use super::*;

fn read(json: &str) -> Result<RetryPolicy, String> {
    serde_json::from_str(json).map_err(|e| e.to_string())
}

fn policy(backoff: Backoff) -> RetryPolicy {
    RetryPolicy { backoff, ..RetryPolicy::default() }
}

/// Delays in milliseconds after attempts 1 to 9, each random number being the same.
fn delays(backoff: Backoff, random: f64) -> Vec<u128> {
    let mut previous = None;
    (1..=9)
        .filter_map(Attempt::new)
        .map(|attempt| {
            let delay = policy(backoff).delay_after(attempt, previous, random);
            previous = Some(delay);
            delay.as_millis()
        })
        .collect()
}

#[test]
fn every_backoff_follows_its_formula() {
    assert_eq!(delays(Backoff::Fixed, 0.5), [200; 9]);
    let doubling = [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000];
    assert_eq!(delays(Backoff::Exponential, 0.5), doubling);
    assert_eq!(delays(Backoff::FullJitter, 0.0), [0; 9]);
    assert_eq!(delays(Backoff::FullJitter, 0.5), doubling.map(|ms| ms / 2));
    assert_eq!(delays(Backoff::EqualJitter, 0.0), doubling.map(|ms| ms / 2));
    assert_eq!(delays(Backoff::EqualJitter, 0.5), doubling.map(|ms| ms * 3 / 4));
    assert_eq!(delays(Backoff::JitterFactor(0.0), 0.5), doubling);
    assert_eq!(delays(Backoff::JitterFactor(0.5), 0.5), doubling.map(|ms| ms * 3 / 4));
    assert_eq!(delays(Backoff::Decorrelated, 0.0), [200; 9]);
    // Base, then 200 + (3 × previous − 200) / 2.
    assert_eq!(delays(Backoff::Decorrelated, 0.5)[..4], [200, 400, 700, 1_150]);
}

#[test]
fn the_config_line_of_the_design_is_the_default_but_for_its_quick_retries() {
    let written = read(r#"{"attempts":5,"base":"200ms","cap":"30s","jitter":"full","quick":2}"#).unwrap();
    assert_eq!(written, RetryPolicy::default());
    assert_eq!(read("{}").unwrap(), RetryPolicy::default());
    assert_eq!(read(r#"{"attempts":1}"#).unwrap().quick, 0);
}

#[test]
fn each_backoff_can_be_written_and_is_shown_as_it_was() {
    let table = [
        (r#"{"backoff":"fixed"}"#, Backoff::Fixed),
        (r#"{"jitter":"none"}"#, Backoff::Exponential),
        (r#"{"jitter":"full"}"#, Backoff::FullJitter),
        (r#"{"jitter":"equal"}"#, Backoff::EqualJitter),
        (r#"{"jitter":0.25}"#, Backoff::JitterFactor(0.25)),
        (r#"{"jitter":"decorrelated"}"#, Backoff::Decorrelated),
    ];
    for (json, backoff) in table {
        let read_once = read(json).unwrap();
        assert_eq!(read_once.backoff, backoff);
        assert_eq!(read(&serde_json::to_string(&read_once).unwrap()).unwrap(), read_once);
    }
}

#[test]
fn a_wrong_policy_is_refused_with_directions() {
    let table = [
        (r#"{"attempts":0}"#, "`attempts`: expected 1 to 1000, found 0"),
        (r#"{"base":"0s"}"#, "`base`: expected more than 0s"),
        (r#"{"cap":"100ms"}"#, "`cap`: expected 200ms (the base) to 7d, found 100ms"),
        (r#"{"cap":"8d"}"#, "`cap`: expected 200ms (the base) to 7d, found 8d"),
        (r#"{"attempts":1001}"#, "`attempts`: expected 1 to 1000, found 1001"),
        (r#"{"multiplier":100.5}"#, "`multiplier`: expected 1 to 100, found 100.5"),
        (r#"{"multiplier":0.5}"#, "`multiplier`: expected 1 to 100, found 0.5"),
        (r#"{"quick":5}"#, "`quick`: expected at most 4 (attempts less the first), found 5"),
        (r#"{"max_age":"0s"}"#, "`max_age`: expected more than 0s"),
        (
            r#"{"jitter":"ful"}"#,
            "`jitter`: expected full, equal, decorrelated, none or a factor from 0 to 1, found `ful`",
        ),
        (r#"{"jitter":1.5}"#, "`jitter`: expected a factor from 0 to 1, found 1.5"),
        (r#"{"backoff":"fixed","jitter":"full"}"#, "`jitter`: a fixed backoff has none"),
        (r#"{"base":"fast"}"#, "expected a duration such as 200ms"),
        (r#"{"tries":5}"#, "unknown field `tries`, expected one of `attempts`"),
    ];
    for (json, expected) in table {
        let refusal = read(json).unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn a_policy_may_be_as_large_or_as_small_as_its_bounds() {
    for json in [
        r#"{"base":"30s","cap":"30s"}"#,
        r#"{"cap":"7d"}"#,
        r#"{"attempts":1000,"quick":999}"#,
        r#"{"attempts":1,"quick":0}"#,
        r#"{"multiplier":1}"#,
        r#"{"multiplier":100}"#,
        r#"{"jitter":0}"#,
        r#"{"jitter":1}"#,
    ] {
        assert!(read(json).is_ok(), "{json}: {:?}", read(json));
    }
}

fn backoffs() -> impl Strategy<Value = Backoff> {
    prop_oneof![
        Just(Backoff::Fixed),
        Just(Backoff::Exponential),
        Just(Backoff::FullJitter),
        Just(Backoff::EqualJitter),
        (0.0..=1.0).prop_map(Backoff::JitterFactor),
        Just(Backoff::Decorrelated),
    ]
}

proptest! {
    #[test]
    fn no_delay_is_longer_than_the_cap(
        backoff in backoffs(), attempt in 1..u32::MAX, previous: Option<u64>, random: f64,
        base in 1..100_000_u64, multiplier in 1.0..100.0_f64,
    ) {
        let base = Duration::from_millis(base);
        let policy = RetryPolicy { backoff, base, multiplier, cap: base * 7, ..RetryPolicy::default() };
        let previous = previous.map(Duration::from_millis);
        let attempt = Attempt::new(attempt).unwrap();
        let delay = policy.delay_after(attempt, previous, random);
        prop_assert!(delay <= policy.cap);
        prop_assert_eq!(delay, policy.delay_after(attempt, previous, random));
    }

    #[test]
    fn without_jitter_delays_never_shrink(attempt in 1..10_000_u32) {
        let policy = policy(Backoff::Exponential);
        let attempt = Attempt::new(attempt).unwrap();
        prop_assert!(policy.delay_after(attempt, None, 0.0) <= policy.delay_after(attempt.next(), None, 0.0));
    }
}

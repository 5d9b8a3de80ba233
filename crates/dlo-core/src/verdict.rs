//! What becomes of a message whose handler failed: the one place where retry, dead-letter or discard is chosen.
//!
//! `classify.rs` says what kind of failure it is; [`decide`] adds what only the situation knows: how often it was
//! tried, since when, and how long the next try should wait. Everything is a pure function of its arguments.
//! The runtime carries a [`Decision`] out; it has no opinions of its own.

use std::time::Duration;

use crate::attempt::Attempt;
use crate::classify::Classified;
use crate::codes::coded;
use crate::failure::Failure;
use crate::policy::RetryPolicy;
use crate::reason::Reason;
use crate::time::Timestamp;

coded! {
    /// The three ways out (A1). There is no fourth: an unknown error is terminal.
    pub enum VerdictKind as "verdict" {
        Retry = 1 => "retry",
        DeadLetter = 2 => "dead_letter",
        Discard = 3 => "discard",
    }
}

/// A quick retry holds its lane while it waits, so it never waits longer than this; else it leaves as a delayed one.
pub const QUICK_LONGEST: Duration = Duration::from_secs(1);

/// What is to be done with the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Retry {
        after: Duration,
        stage: Stage,
    },
    DeadLetter {
        reason: Reason,
    },
    /// Dropped by a decision, and recorded as a letter in status discarded (A6).
    Discard {
        reason: Reason,
    },
}

/// Where a retry waits (B2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// In place: the messages behind it in its lane wait too.
    Quick,
    /// By the broker's means: the lane goes on.
    Delayed,
}

impl Verdict {
    pub const fn kind(&self) -> VerdictKind {
        match self {
            Self::Retry { .. } => VerdictKind::Retry,
            Self::DeadLetter { .. } => VerdictKind::DeadLetter,
            Self::Discard { .. } => VerdictKind::Discard,
        }
    }
}

/// A verdict and who spoke it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a decision that nobody carries out leaves the message in flight"]
pub struct Decision {
    pub verdict: Verdict,
    /// The rule that decided; written on the record.
    pub rule: String,
}

/// What is known of a message at the moment it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// The attempt that failed.
    pub attempt: Attempt,
    /// By the consumer's clock; `now` when this was the first failure.
    pub first_failed_at: Timestamp,
    pub now: Timestamp,
    /// The delay before this attempt, for backoffs that build on it.
    pub previous_delay: Option<Duration>,
}

/// Chooses. `random` lies in `[0, 1)` and only spreads delays.
pub fn decide(
    classified: &Classified,
    failure: &Failure,
    situation: &Situation,
    policy: &RetryPolicy,
    random: f64,
) -> Decision {
    let verdict = match classified.verdict {
        VerdictKind::DeadLetter => Verdict::DeadLetter { reason: classified.reason },
        VerdictKind::Discard => Verdict::Discard { reason: classified.reason },
        VerdictKind::Retry => match exit(classified, situation, policy) {
            Some(reason) => Verdict::DeadLetter { reason },
            None => retry(failure, situation, policy, random),
        },
    };
    Decision { verdict, rule: classified.rule.clone() }
}

/// Why a retryable message is tried no more, if so. The rule's own limits come before the policy's.
fn exit(classified: &Classified, situation: &Situation, policy: &RetryPolicy) -> Option<Reason> {
    let attempts = classified.limits.attempts.unwrap_or(policy.attempts);
    if situation.attempt.number() >= attempts.get() {
        return Some(classified.reason);
    }
    let max_age = classified.limits.age.or(policy.max_age)?;
    if situation.now.since(situation.first_failed_at) < max_age {
        return None;
    }
    // It ran out of time, not of tries, unless the rule names a reason of its own.
    Some(match classified.reason {
        Reason::MaxRetriesExceeded => Reason::Expired,
        named => named,
    })
}

fn retry(failure: &Failure, situation: &Situation, policy: &RetryPolicy, random: f64) -> Verdict {
    let after = match failure.retry_after {
        Some(asked) => asked.min(policy.cap),
        None => policy.delay_after(situation.attempt, situation.previous_delay, random),
    };
    let quick = situation.attempt.number() <= policy.quick && after <= QUICK_LONGEST;
    Verdict::Retry { after, stage: if quick { Stage::Quick } else { Stage::Delayed } }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::classify::{Limits, Place, Ruleset, Unknown};

    const MINUTE: Duration = Duration::from_secs(60);

    fn failed(attempt: u32, since_first: Duration) -> Situation {
        let first_failed_at = Timestamp::from_millis(1_000_000);
        let attempt = Attempt::new(attempt).unwrap();
        Situation { attempt, first_failed_at, now: first_failed_at.plus(since_first), previous_delay: None }
    }

    fn transient() -> Classified {
        Classified {
            verdict: VerdictKind::Retry,
            rule: "builtin:timeout".into(),
            reason: Reason::MaxRetriesExceeded,
            limits: Limits::default(),
            dependency: None,
        }
    }

    fn decided(
        classified: &Classified,
        failure: &Failure,
        situation: &Situation,
        policy: &RetryPolicy,
    ) -> Verdict {
        let decision = decide(classified, failure, situation, policy, 0.5);
        assert_eq!(decision.rule, classified.rule);
        decision.verdict
    }

    #[test]
    fn quick_retries_come_first_then_delayed_ones_then_the_dead_letter_queue() {
        let policy = RetryPolicy::default();
        let ways: Vec<Verdict> = (1..=6)
            .map(|n| decided(&transient(), &Failure::default(), &failed(n, Duration::ZERO), &policy))
            .collect();
        let retry = |ms, stage| Verdict::Retry { after: Duration::from_millis(ms), stage };
        let parked = Verdict::DeadLetter { reason: Reason::MaxRetriesExceeded };
        let expected = [
            retry(100, Stage::Quick),
            retry(200, Stage::Quick),
            retry(400, Stage::Delayed),
            retry(800, Stage::Delayed),
            parked.clone(),
            parked,
        ];
        assert_eq!(ways, expected);
    }

    #[test]
    fn a_terminal_failure_leaves_at_the_first_attempt_with_its_own_reason() {
        let ruleset = Ruleset::compile(Vec::new()).unwrap();
        let situation = failed(1, Duration::ZERO);
        for (class, reason) in [
            ("JSONDecodeError", Reason::DeserializationError),
            ("ValidationError", Reason::ValidationError),
            ("UnknownVersionError", Reason::UnknownVersion),
            ("KeyError", Reason::ProcessingError),
            ("NobodyKnows", Reason::ProcessingError),
        ] {
            let failure = Failure::new(class, "");
            let classified = ruleset.classify(&failure, &Place::default(), Unknown::DeadLetter);
            let verdict = decided(&classified, &failure, &situation, &RetryPolicy::default());
            assert_eq!(verdict, Verdict::DeadLetter { reason }, "{class}");
        }
    }

    #[test]
    fn running_over_the_deadline_again_and_again_is_parked_as_a_timeout() {
        let ruleset = Ruleset::compile(Vec::new()).unwrap();
        let failure = Failure::new(crate::classify::PROCESSING_TIMEOUT, "");
        let classified = ruleset.classify(&failure, &Place::default(), Unknown::DeadLetter);
        let verdict = decided(&classified, &failure, &failed(5, MINUTE), &RetryPolicy::default());
        assert_eq!(verdict, Verdict::DeadLetter { reason: Reason::Timeout });
    }

    #[test]
    fn age_ends_retries_as_a_count_does() {
        let policy = RetryPolicy { max_age: Some(MINUTE), ..RetryPolicy::default() };
        let young = decided(&transient(), &Failure::default(), &failed(2, MINUTE / 2), &policy);
        assert_eq!(young.kind(), VerdictKind::Retry);
        let old = decided(&transient(), &Failure::default(), &failed(2, MINUTE), &policy);
        assert_eq!(old, Verdict::DeadLetter { reason: Reason::Expired });
    }

    #[test]
    fn the_limits_of_a_rule_come_before_those_of_the_policy() {
        let policy = RetryPolicy { max_age: Some(MINUTE), ..RetryPolicy::default() };
        let limits = Limits { attempts: NonZeroU32::new(9), age: Some(MINUTE * 10) };
        let patient = Classified { limits, ..transient() };
        let verdict = decided(&patient, &Failure::default(), &failed(8, MINUTE * 5), &policy);
        assert_eq!(verdict.kind(), VerdictKind::Retry);
        let hard = Classified { limits: Limits { attempts: NonZeroU32::new(1), age: None }, ..transient() };
        let verdict = decided(&hard, &Failure::default(), &failed(1, Duration::ZERO), &policy);
        assert_eq!(verdict.kind(), VerdictKind::DeadLetter);
    }

    #[test]
    fn retry_after_is_honoured_within_the_cap_and_leaves_the_lane_when_long() {
        let asks = |after| Failure { retry_after: Some(after), ..Failure::default() };
        let decide =
            |failure| decided(&transient(), &failure, &failed(1, Duration::ZERO), &RetryPolicy::default());
        let ten = Duration::from_secs(10);
        assert_eq!(decide(asks(ten)), Verdict::Retry { after: ten, stage: Stage::Delayed });
        let cap = Duration::from_secs(30);
        assert_eq!(decide(asks(MINUTE * 60)), Verdict::Retry { after: cap, stage: Stage::Delayed });
        let short = Duration::from_millis(50);
        assert_eq!(decide(asks(short)), Verdict::Retry { after: short, stage: Stage::Quick });
    }

    proptest! {
        /// The count alone ends it, whatever the random numbers, clocks and hints say.
        #[test]
        fn no_message_is_tried_more_often_than_allowed(
            attempts in 1..20_u32, random: f64, hint: Option<u32>, first: i64, now: i64,
        ) {
            let policy = RetryPolicy { attempts: NonZeroU32::new(attempts).unwrap(), ..RetryPolicy::default() };
            let retry_after = hint.map(|s| Duration::from_secs(u64::from(s)));
            let failure = Failure { retry_after, ..Failure::default() };
            let mut tries = 1;
            while let Verdict::Retry { after, .. } = decide(
                &transient(),
                &failure,
                &Situation {
                    attempt: Attempt::new(tries).unwrap(),
                    first_failed_at: Timestamp::from_micros(first),
                    now: Timestamp::from_micros(now),
                    previous_delay: None,
                },
                &policy,
                random,
            ).verdict {
                prop_assert!(after <= policy.cap);
                tries += 1;
            }
            prop_assert_eq!(tries, attempts);
        }
    }
}

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

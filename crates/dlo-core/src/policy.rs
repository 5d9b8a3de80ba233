//! How often and how far apart a message is tried again (B1).
//!
//! `delay_after` is pure: the same attempt, previous delay and random number give the same delay, so asking
//! twice changes nothing. The caller draws the random number. Whether to retry at all is not decided here but in
//! `verdict.rs`.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attempt::Attempt;
use crate::setting::SettingError;
use crate::units::HumanDuration;

/// Attempts that a policy may allow.
pub const MOST_ATTEMPTS: u32 = 1_000;
/// The longest cap: a week. Whoever wants to wait longer wants a replay.
pub const LONGEST_CAP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How delays grow. Every one of them stays within the cap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backoff {
    /// Always the base.
    Fixed,
    /// Base × multiplier^(attempt − 1).
    Exponential,
    /// Anywhere between nothing and the exponential delay: the fewest collisions after an outage.
    FullJitter,
    /// Half of the exponential delay, and anywhere up to the whole.
    EqualJitter,
    /// The exponential delay, shortened at random by up to this share of it (0 to 1).
    JitterFactor(f64),
    /// Anywhere between the base and three times the previous delay.
    Decorrelated,
}

/// When a message is tried again, and when no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct RetryPolicy {
    /// Tries in all, the first one included.
    pub attempts: NonZeroU32,
    pub backoff: Backoff,
    pub base: Duration,
    pub multiplier: f64,
    /// No delay is longer, a server's `Retry-After` included.
    pub cap: Duration,
    /// Time since the first failure after which it is not tried again.
    pub max_age: Option<Duration>,
    /// How many of the retries happen in place, before those that leave the lane (B2).
    pub quick: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: NonZeroU32::MIN.saturating_add(4),
            backoff: Backoff::FullJitter,
            base: Duration::from_millis(200),
            multiplier: 2.0,
            cap: Duration::from_secs(30),
            max_age: None,
            quick: 2,
        }
    }
}

impl RetryPolicy {
    /// How long to wait after that attempt failed. `random` lies in `[0, 1)`; anything else is taken as the nearest.
    pub fn delay_after(&self, attempt: Attempt, previous: Option<Duration>, random: f64) -> Duration {
        let random = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) };
        let base = self.base.as_secs_f64();
        let cap = self.cap.as_secs_f64();
        let seconds = match self.backoff {
            Backoff::Fixed => base,
            Backoff::Exponential => self.exponential(attempt),
            Backoff::FullJitter => self.exponential(attempt) * random,
            Backoff::EqualJitter => self.exponential(attempt) * (0.5 + random / 2.0),
            Backoff::JitterFactor(factor) => {
                self.exponential(attempt) * (1.0 - factor.clamp(0.0, 1.0) * random)
            }
            Backoff::Decorrelated => {
                let reach = previous.map_or(base, |delay| delay.as_secs_f64() * 3.0).max(base);
                base + (reach - base) * random
            }
        };
        // Seconds that no Duration holds (NaN, infinite) can only come from a policy built by hand: the cap is safe.
        Duration::try_from_secs_f64(seconds.min(cap)).unwrap_or(self.cap).min(self.cap)
    }

    fn exponential(&self, attempt: Attempt) -> f64 {
        let exponent = i32::try_from(attempt.number() - 1).unwrap_or(i32::MAX);
        (self.base.as_secs_f64() * self.multiplier.powi(exponent)).min(self.cap.as_secs_f64())
    }
}

/// The policy as config writes it: `{ attempts = 5, base = "200ms", cap = "30s", jitter = "full", quick = 2 }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    attempts: u32,
    base: HumanDuration,
    multiplier: f64,
    cap: HumanDuration,
    backoff: Curve,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<Jitter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<HumanDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quick: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Curve {
    Fixed,
    Exponential,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Jitter {
    Factor(f64),
    Named(String),
}

impl Default for Written {
    fn default() -> Self {
        let policy = RetryPolicy::default();
        Self {
            attempts: policy.attempts.get(),
            base: HumanDuration(policy.base),
            multiplier: policy.multiplier,
            cap: HumanDuration(policy.cap),
            backoff: Curve::Exponential,
            jitter: None,
            max_age: None,
            quick: None,
        }
    }
}

impl From<RetryPolicy> for Written {
    fn from(policy: RetryPolicy) -> Self {
        let (backoff, jitter) = match policy.backoff {
            Backoff::Fixed => (Curve::Fixed, Jitter::Named("none".into())),
            Backoff::Exponential => (Curve::Exponential, Jitter::Named("none".into())),
            Backoff::FullJitter => (Curve::Exponential, Jitter::Named("full".into())),
            Backoff::EqualJitter => (Curve::Exponential, Jitter::Named("equal".into())),
            Backoff::JitterFactor(factor) => (Curve::Exponential, Jitter::Factor(factor)),
            Backoff::Decorrelated => (Curve::Exponential, Jitter::Named("decorrelated".into())),
        };
        Self {
            attempts: policy.attempts.get(),
            base: HumanDuration(policy.base),
            multiplier: policy.multiplier,
            cap: HumanDuration(policy.cap),
            backoff,
            jitter: Some(jitter),
            max_age: policy.max_age.map(HumanDuration),
            quick: Some(policy.quick),
        }
    }
}

impl TryFrom<Written> for RetryPolicy {
    type Error = SettingError;

    fn try_from(written: Written) -> Result<Self, SettingError> {
        let refuse = |field, problem: String| Err(SettingError { field, problem });
        let (base, cap) = (written.base.0, written.cap.0);
        let Some(attempts) = NonZeroU32::new(written.attempts).filter(|n| n.get() <= MOST_ATTEMPTS) else {
            return refuse("attempts", format!("expected 1 to {MOST_ATTEMPTS}, found {}", written.attempts));
        };
        if base.is_zero() {
            return refuse(
                "base",
                "expected more than 0s; a message retried at once, again and again, is a hot loop".into(),
            );
        }
        if cap < base || cap > LONGEST_CAP {
            let (base, longest) = (HumanDuration(base), HumanDuration(LONGEST_CAP));
            return refuse("cap", format!("expected {base} (the base) to {longest}, found {}", written.cap));
        }
        if !(1.0..=100.0).contains(&written.multiplier) {
            return refuse("multiplier", format!("expected 1 to 100, found {}", written.multiplier));
        }
        if written.max_age.is_some_and(|age| age.0.is_zero()) {
            return refuse(
                "max_age",
                "expected more than 0s; for no retries at all, set attempts = 1".into(),
            );
        }
        let retries = attempts.get() - 1;
        if let Some(quick) = written.quick.filter(|quick| *quick > retries) {
            return refuse(
                "quick",
                format!("expected at most {retries} (attempts less the first), found {quick}"),
            );
        }
        Ok(Self {
            attempts,
            backoff: backoff(written.backoff, written.jitter)?,
            base,
            multiplier: written.multiplier,
            cap,
            max_age: written.max_age.map(|age| age.0),
            quick: written.quick.unwrap_or(Self::default().quick.min(retries)),
        })
    }
}

fn backoff(curve: Curve, jitter: Option<Jitter>) -> Result<Backoff, SettingError> {
    let refuse = |problem: String| Err(SettingError::new("jitter", problem));
    match (curve, jitter) {
        (Curve::Fixed, None) => Ok(Backoff::Fixed),
        (Curve::Exponential, None) => Ok(Backoff::FullJitter),
        (Curve::Fixed, Some(Jitter::Named(name))) if name == "none" => Ok(Backoff::Fixed),
        (Curve::Fixed, Some(_)) => {
            refuse("a fixed backoff has none; leave it out, or set backoff = \"exponential\"".into())
        }
        (Curve::Exponential, Some(Jitter::Factor(factor))) if (0.0..=1.0).contains(&factor) => {
            Ok(Backoff::JitterFactor(factor))
        }
        (Curve::Exponential, Some(Jitter::Factor(factor))) => {
            refuse(format!("expected a factor from 0 to 1, found {factor}"))
        }
        (Curve::Exponential, Some(Jitter::Named(name))) => match name.as_str() {
            "none" => Ok(Backoff::Exponential),
            "full" => Ok(Backoff::FullJitter),
            "equal" => Ok(Backoff::EqualJitter),
            "decorrelated" => Ok(Backoff::Decorrelated),
            other => refuse(format!(
                "expected full, equal, decorrelated, none or a factor from 0 to 1, found `{}`",
                other.chars().take(64).collect::<String>()
            )),
        },
    }
}

#[cfg(test)]
mod tests;

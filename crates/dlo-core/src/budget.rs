//! The retry budget (B6): retries are a share of traffic, so they shrink when failures grow.
//!
//! A first try earns a share of a retry; a retry spends one; both are forgotten after the window. What is earned is spent
//! evenly, a tenth of it in a tenth of the window: what was saved up in calm times must not fall on a dependency in the
//! moment it weakens. What this very moment earns may be spent in it, so a consumer that has just begun is not held back.
//! A retry that comes through is given back, so the end of an outage is not slowed by the budget: only retries in vain are
//! bounded. A small floor lets a quiet queue retry at all. When the budget is spent a retry waits, which costs it no
//! attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::SettingError;
use crate::time::Timestamp;
use crate::units::HumanDuration;
use crate::window::{Counts, SLOTS, Window};

/// `budget = { share = 0.2, floor = 10, window = "10s" }`
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct BudgetConfig {
    /// Retries for each first try, 0 to 1.
    pub share: f64,
    /// Retries in a window that are always allowed.
    pub floor: u32,
    pub window: Duration,
}

impl Default for BudgetConfig {
    fn default() -> Self {
        Self { share: 0.2, floor: 10, window: Duration::from_secs(10) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    share: f64,
    floor: u32,
    window: HumanDuration,
}

impl Default for Written {
    fn default() -> Self {
        BudgetConfig::default().into()
    }
}

impl From<BudgetConfig> for Written {
    fn from(config: BudgetConfig) -> Self {
        Self { share: config.share, floor: config.floor, window: HumanDuration(config.window) }
    }
}

impl TryFrom<Written> for BudgetConfig {
    type Error = SettingError;

    fn try_from(written: Written) -> Result<Self, SettingError> {
        if !(0.0..=1.0).contains(&written.share) {
            let problem = format!("expected 0 to 1 (0.2 is a fifth of the traffic), found {}", written.share);
            return Err(SettingError::new("share", problem));
        }
        if written.share == 0.0 && written.floor == 0 {
            let problem =
                "with share = 0 nothing would ever be retried; for that, set attempts = 1 in `retry`";
            return Err(SettingError::new("floor", problem));
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(3_600)).contains(&written.window.0) {
            let problem = format!("expected 1s to 1h, found {}", written.window);
            return Err(SettingError::new("window", problem));
        }
        Ok(Self { share: written.share, floor: written.floor, window: written.window.0 })
    }
}

/// The answer to "may I retry now?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a retry that was granted is spent"]
pub enum Grant {
    Go,
    /// The budget is spent: ask again after this long, at no charge.
    Wait(Duration),
}

/// What one consumer may still spend on retries.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    config: BudgetConfig,
    /// All: first tries. Marked: retries granted.
    window: Window,
}

impl RetryBudget {
    pub fn new(config: BudgetConfig) -> Self {
        Self { config, window: Window::new(config.window) }
    }

    /// A message is tried for the first time.
    pub fn first_try(&mut self, now: Timestamp) {
        self.window.add(now, Counts { all: 1, marked: 0 });
    }

    /// Asks for one retry, and spends it if it is granted.
    pub fn retry(&mut self, now: Timestamp) -> Grant {
        let spent = self.window.sum(now);
        let allowed = self.allowed(spent.all);
        let newest = self.window.newest();
        let evenly = allowed.div_ceil(SLOTS as u64).max(self.allowed(newest.all));
        if spent.marked >= allowed || newest.marked >= evenly {
            return Grant::Wait(self.window.until_change(now));
        }
        self.window.add(now, Counts { all: 0, marked: 1 });
        Grant::Go
    }

    /// A retry that was granted came through: it did no harm, and is given back.
    pub fn came_through(&mut self, now: Timestamp) {
        self.window.unmark(now);
    }

    fn allowed(&self, traffic: u64) -> u64 {
        // A float holds every count that matters here; `as` saturates beyond.
        let earned = (traffic as f64 * self.config.share) as u64;
        earned.max(u64::from(self.config.floor))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn granted(budget: &mut RetryBudget, now: Timestamp, asked: u32) -> usize {
        (0..asked).filter(|_| budget.retry(now) == Grant::Go).count()
    }

    #[test]
    fn retries_are_a_fifth_of_the_traffic() {
        let mut budget = RetryBudget::new(BudgetConfig::default());
        (0..10_000).for_each(|n| budget.first_try(at(n)));
        let seconds: Vec<usize> =
            (9..16).map(|second| granted(&mut budget, at(second * 1_000 + 999), 1_000)).collect();
        assert_eq!(seconds[0], 200, "a tenth of what ten seconds earned: {seconds:?}");
        assert!(
            seconds.iter().sum::<usize>() <= 2_000 && seconds.iter().all(|one| *one <= 200),
            "{seconds:?}"
        );
    }

    #[test]
    fn what_a_moment_earns_may_be_spent_in_it_and_what_was_saved_may_not() {
        let mut budget = RetryBudget::new(BudgetConfig::default());
        (0..1_000).for_each(|n| budget.first_try(at(n)));
        assert_eq!(granted(&mut budget, at(999), 1_000), 200, "it has just begun");
        let mut budget = RetryBudget::new(BudgetConfig::default());
        (0..9_000).for_each(|n| budget.first_try(at(n)));
        assert_eq!(granted(&mut budget, at(9_000), 1_000), 180, "a tenth of what nine seconds earned");
    }

    #[test]
    fn after_an_outage_what_comes_through_costs_nothing() {
        let mut budget = RetryBudget::new(BudgetConfig::default());
        assert_eq!(granted(&mut budget, at(0), 50), 10);
        for _ in 0..1_000 {
            budget.came_through(at(500));
            assert_eq!(budget.retry(at(500)), Grant::Go);
        }
        assert!(matches!(budget.retry(at(500)), Grant::Wait(_)), "those in vain still count");
    }

    #[test]
    fn a_quiet_queue_has_its_floor_and_gets_it_back_after_the_window() {
        let mut budget = RetryBudget::new(BudgetConfig::default());
        assert_eq!(granted(&mut budget, at(0), 50), 10);
        assert!(matches!(budget.retry(at(500)), Grant::Wait(wait) if wait == Duration::from_millis(500)));
        assert_eq!(granted(&mut budget, at(10_000), 50), 10);
    }

    #[test]
    fn a_wrong_budget_is_refused_with_directions() {
        let read = |json: &str| serde_json::from_str::<BudgetConfig>(json).map_err(|e| e.to_string());
        assert_eq!(read("{}"), Ok(BudgetConfig::default()));
        assert!(read(r#"{"share":0,"floor":5}"#).is_ok() && read(r#"{"share":0.2,"floor":0}"#).is_ok());
        assert!(read(r#"{"share":20}"#).unwrap_err().contains("`share`: expected 0 to 1 (0.2 is a fifth"));
        assert!(read(r#"{"share":0,"floor":0}"#).unwrap_err().contains("set attempts = 1"));
        assert!(read(r#"{"window":"10ms"}"#).unwrap_err().contains("expected 1s to 1h"));
        assert!(read(r#"{"shore":0.1}"#).unwrap_err().contains("unknown field `shore`"));
    }

    proptest! {
        /// In each second at most a quarter of the traffic of that and the last second was granted, or the floor.
        #[test]
        fn grants_never_exceed_what_was_earned(steps in prop::collection::vec((0..300_i64, any::<bool>()), 1..400)) {
            let config = BudgetConfig { share: 0.25, floor: 2, window: Duration::from_secs(1) };
            let mut budget = RetryBudget::new(config);
            let (mut now, mut tries, mut grants) = (0, 0_u64, 0_u64);
            for (wait, is_retry) in steps {
                now += wait;
                if is_retry {
                    match budget.retry(at(now)) {
                        Grant::Go => grants += 1,
                        Grant::Wait(wait) => prop_assert!(wait > Duration::ZERO && wait <= Duration::from_millis(100)),
                    }
                } else {
                    budget.first_try(at(now));
                    tries += 1;
                }
            }
            let windows = u64::try_from(now).unwrap_or(0) / 1_000 + 1;
            prop_assert!(grants <= tries / 2 + 2 * windows, "{grants} of {tries} in {windows}");
        }
    }
}

//! Poison pills (B9): who was in the handler when it went down, and when that is enough.
//!
//! A crash makes suspects of all who were in the handler. A suspect is run again alone, so the next crash has one
//! suspect only; who comes through is innocent. So many crashes within the window, and the message is poison. The
//! broker's count of deliveries speaks for crashes on other instances, but only beside a crash that was seen here
//! with nobody else in the handler: it also counts deployments.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::SettingError;
use crate::time::Timestamp;
use crate::units::HumanDuration;

/// Suspects remembered at once; beyond, a new one goes unwatched until others are cleared.
pub const MOST_SUSPECTS: usize = 65_536;

/// `poison = { crashes = 3, window = "60s" }`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct PoisonConfig {
    /// Crashes with a message in the handler that make it poison.
    pub crashes: NonZeroU32,
    /// The time within which they must lie.
    pub window: Duration,
}

impl Default for PoisonConfig {
    fn default() -> Self {
        Self { crashes: NonZeroU32::MIN.saturating_add(2), window: Duration::from_secs(60) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    crashes: u32,
    window: HumanDuration,
}

impl Default for Written {
    fn default() -> Self {
        PoisonConfig::default().into()
    }
}

impl From<PoisonConfig> for Written {
    fn from(config: PoisonConfig) -> Self {
        Self { crashes: config.crashes.get(), window: HumanDuration(config.window) }
    }
}

impl TryFrom<Written> for PoisonConfig {
    type Error = SettingError;

    fn try_from(written: Written) -> Result<Self, SettingError> {
        let crashes = NonZeroU32::new(written.crashes).filter(|crashes| crashes.get() <= 100);
        let Some(crashes) = crashes else {
            return Err(SettingError::new(
                "crashes",
                format!("expected 1 to 100, found {}", written.crashes),
            ));
        };
        if !(Duration::from_secs(1)..=Duration::from_secs(24 * 3_600)).contains(&written.window.0) {
            return Err(SettingError::new("window", format!("expected 1s to 24h, found {}", written.window)));
        }
        Ok(Self { crashes, window: written.window.0 })
    }
}

/// A message over all its deliveries, as far as one consumer can recognise it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark(pub u64);

/// One crash, as a suspect remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    pub at: Timestamp,
    /// Nobody else was in the handler.
    pub alone: bool,
}

/// What is thought of a message before it goes to the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Innocent,
    /// It was there at a crash: it runs with nobody else in the handler.
    Suspect,
    /// It is not tried again.
    Poison {
        crashes: u32,
    },
}

/// Who was there when the handler went down.
#[derive(Debug, Clone)]
pub struct Suspects {
    config: PoisonConfig,
    by_mark: BTreeMap<Mark, Vec<Crash>>,
}

impl Suspects {
    pub fn new(config: PoisonConfig) -> Self {
        Self { config, by_mark: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.by_mark.is_empty()
    }

    /// The handler went down while it had these.
    pub fn crashed(&mut self, marks: &[Mark], now: Timestamp) {
        let crash = Crash { at: now, alone: marks.len() == 1 };
        for mark in marks {
            self.add(*mark, crash);
        }
    }

    /// Takes back what was remembered elsewhere.
    pub fn add(&mut self, mark: Mark, crash: Crash) {
        if self.by_mark.len() >= MOST_SUSPECTS && !self.by_mark.contains_key(&mark) {
            return;
        }
        let crashes = self.by_mark.entry(mark).or_default();
        let most = self.config.crashes.get() as usize;
        if crashes.len() >= most {
            crashes.remove(0);
        }
        crashes.push(crash);
    }

    /// It came through, or is safe elsewhere.
    pub fn cleared(&mut self, mark: Mark) -> bool {
        self.by_mark.remove(&mark).is_some()
    }

    /// `unexplained`: deliveries by the broker's count of which nothing is known here.
    pub fn look(&self, mark: Mark, unexplained: u32, now: Timestamp) -> Standing {
        let enough = self.config.crashes.get();
        let Some(crashes) = self.by_mark.get(&mark) else {
            return if unexplained >= enough { Standing::Suspect } else { Standing::Innocent };
        };
        let recent = crashes.iter().filter(|crash| now.since(crash.at) <= self.config.window);
        let recent = u32::try_from(recent.count()).unwrap_or(u32::MAX);
        let seen_alone = crashes.iter().any(|crash| crash.alone);
        if recent >= enough || (seen_alone && unexplained >= enough) {
            return Standing::Poison { crashes: recent.max(unexplained) };
        }
        Standing::Suspect
    }

    /// Everything that is remembered, to be kept over a restart.
    pub fn all(&self) -> impl Iterator<Item = (Mark, &[Crash])> {
        self.by_mark.iter().map(|(mark, crashes)| (*mark, crashes.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    const PILL: Mark = Mark(1);
    const NEIGHBOUR: Mark = Mark(2);

    #[test]
    fn a_crash_makes_suspects_of_all_who_were_there_and_of_nobody_else() {
        let mut suspects = Suspects::new(PoisonConfig::default());
        assert!(suspects.is_empty());
        suspects.crashed(&[PILL, NEIGHBOUR], at(0));
        assert!(!suspects.is_empty());
        assert_eq!(suspects.look(PILL, 0, at(1)), Standing::Suspect);
        assert_eq!(suspects.look(NEIGHBOUR, 0, at(1)), Standing::Suspect);
        assert_eq!(suspects.look(Mark(3), 0, at(1)), Standing::Innocent);
    }

    #[test]
    fn three_crashes_within_the_window_are_poison_and_whoever_came_through_is_innocent() {
        let mut suspects = Suspects::new(PoisonConfig::default());
        suspects.crashed(&[PILL, NEIGHBOUR], at(0));
        assert!(suspects.cleared(NEIGHBOUR));
        suspects.crashed(&[PILL], at(20));
        assert_eq!(suspects.look(PILL, 0, at(20)), Standing::Suspect);
        suspects.crashed(&[PILL], at(40));
        assert_eq!(suspects.look(PILL, 0, at(41)), Standing::Poison { crashes: 3 });
        assert_eq!(suspects.look(NEIGHBOUR, 0, at(41)), Standing::Innocent);
    }

    #[test]
    fn crashes_far_apart_are_not_poison() {
        let mut suspects = Suspects::new(PoisonConfig::default());
        for hour in 0..10 {
            suspects.crashed(&[PILL], at(hour * 3_600));
            assert_eq!(suspects.look(PILL, 0, at(hour * 3_600 + 1)), Standing::Suspect);
        }
    }

    #[test]
    fn the_brokers_count_makes_a_suspect_and_poison_only_beside_a_crash_alone() {
        let mut suspects = Suspects::new(PoisonConfig::default());
        assert_eq!(suspects.look(PILL, 3, at(0)), Standing::Suspect);
        suspects.crashed(&[PILL, NEIGHBOUR], at(0));
        assert_eq!(suspects.look(NEIGHBOUR, 9, at(1)), Standing::Suspect, "deployments count as well");
        suspects.crashed(&[PILL], at(2));
        assert_eq!(suspects.look(PILL, 3, at(3)), Standing::Poison { crashes: 3 });
    }

    #[test]
    fn suspects_are_bounded() {
        let mut suspects = Suspects::new(PoisonConfig::default());
        (0..100_000).for_each(|n| suspects.crashed(&[Mark(n)], at(0)));
        (0..100).for_each(|_| suspects.crashed(&[Mark(7)], at(0)));
        assert_eq!(suspects.all().count(), MOST_SUSPECTS);
        assert!(suspects.all().all(|(_, crashes)| crashes.len() <= 3));
    }

    #[test]
    fn a_wrong_setting_is_refused_with_directions() {
        let read = |json: &str| serde_json::from_str::<PoisonConfig>(json).map_err(|e| e.to_string());
        assert_eq!(read("{}"), Ok(PoisonConfig::default()));
        assert!(read(r#"{"crashes":100,"window":"24h"}"#).is_ok());
        assert!(read(r#"{"crashes":0}"#).unwrap_err().contains("`crashes`: expected 1 to 100, found 0"));
        assert!(read(r#"{"window":"2d"}"#).unwrap_err().contains("`window`: expected 1s to 24h"));
    }
}

//! When the brake goes on, as config writes it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::SettingError;
use crate::units::HumanDuration;

/// What the brake does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrakeMode {
    /// Everything is parked as it fails.
    Off,
    /// Parked, with a warning.
    Warn,
    /// The consumer pauses and probes.
    #[default]
    Pause,
}

/// `brake = { mode = "pause", share = 0.8, least = 20, grace = "1s", pause = "5s", longest_pause = "1m" }`
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct BrakeConfig {
    pub mode: BrakeMode,
    /// The share of other attempts that must have failed for the same cause, 0 to 1.
    pub share: f64,
    /// How many other attempts must have ended.
    pub least: u32,
    /// How long a message waits for them before it is parked.
    pub grace: Duration,
    /// How long the consumer pauses before it probes; doubled by each probe that fails, up to `longest_pause`.
    pub pause: Duration,
    pub longest_pause: Duration,
}

impl Default for BrakeConfig {
    fn default() -> Self {
        Self {
            mode: BrakeMode::Pause,
            share: 0.8,
            least: 20,
            grace: Duration::from_secs(1),
            pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// A word for the mode alone, or everything.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"off\", \"warn\", \"pause\", or { mode = \"pause\", share = 0.8, … }"
)]
enum Written {
    Word(BrakeMode),
    Whole(Whole),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Whole {
    mode: BrakeMode,
    share: f64,
    least: u32,
    grace: HumanDuration,
    pause: HumanDuration,
    longest_pause: HumanDuration,
}

impl Default for Whole {
    fn default() -> Self {
        BrakeConfig::default().into()
    }
}

impl From<BrakeConfig> for Whole {
    fn from(config: BrakeConfig) -> Self {
        Self {
            mode: config.mode,
            share: config.share,
            least: config.least,
            grace: HumanDuration(config.grace),
            pause: HumanDuration(config.pause),
            longest_pause: HumanDuration(config.longest_pause),
        }
    }
}

impl From<BrakeConfig> for Written {
    fn from(config: BrakeConfig) -> Self {
        Self::Whole(config.into())
    }
}

impl TryFrom<Written> for BrakeConfig {
    type Error = SettingError;

    fn try_from(written: Written) -> Result<Self, SettingError> {
        let whole = match written {
            Written::Word(mode) => Whole { mode, ..Whole::default() },
            Written::Whole(whole) => whole,
        };
        if !(whole.share > 0.0 && whole.share <= 1.0) {
            let problem =
                format!("expected more than 0 and at most 1 (0.8 is four of five), found {}", whole.share);
            return Err(SettingError::new("share", problem));
        }
        if !(2..=10_000).contains(&whole.least) {
            return Err(SettingError::new("least", format!("expected 2 to 10000, found {}", whole.least)));
        }
        let tenth = Duration::from_millis(100);
        for (field, found, least, most) in [
            ("grace", whole.grace, Duration::ZERO, Duration::from_secs(60)),
            ("pause", whole.pause, tenth, Duration::from_secs(3_600)),
            ("longest_pause", whole.longest_pause, whole.pause.0.max(tenth), Duration::from_secs(3_600)),
        ] {
            if !(least..=most).contains(&found.0) {
                let (least, most) = (HumanDuration(least), HumanDuration(most));
                return Err(SettingError::new(field, format!("expected {least} to {most}, found {found}")));
            }
        }
        Ok(Self {
            mode: whole.mode,
            share: whole.share,
            least: whole.least,
            grace: whole.grace.0,
            pause: whole.pause.0,
            longest_pause: whole.longest_pause.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_sets_the_mode_and_a_wrong_value_is_refused_with_directions() {
        let read = |json: &str| serde_json::from_str::<BrakeConfig>(json).map_err(|e| e.to_string());
        assert_eq!(read("{}"), Ok(BrakeConfig::default()));
        assert_eq!(read("\"off\"").unwrap().mode, BrakeMode::Off);
        assert_eq!(read(r#"{"mode":"warn","least":5}"#).unwrap().least, 5);
        assert!(read(r#"{"share":80}"#).unwrap_err().contains("0.8 is four of five"));
        assert!(read(r#"{"grace":"2m"}"#).unwrap_err().contains("`grace`: expected 0s to 1m"));
        assert!(read("\"on\"").unwrap_err().contains("expected \"off\""));
    }
}

//! When a breaker opens and for how long, as config writes it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::setting::SettingError;
use crate::units::HumanDuration;

/// `breaker = { in_a_row = 5, share = 0.5, least = 20, window = "10s", pause = "5s", longest_pause = "1m" }`
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct BreakerConfig {
    /// Opens after this many failures one after the other.
    pub in_a_row: u32,
    /// Opens when this share of the calls in the window failed, 0 to 1.
    pub share: f64,
    /// Calls that the window must hold before the share counts.
    pub least: u32,
    pub window: Duration,
    /// How long it stays open the first time.
    pub pause: Duration,
    /// Each failed probe doubles the pause, up to this.
    pub longest_pause: Duration,
    /// A probe that has not answered by then is replaced.
    pub probe_timeout: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            in_a_row: 5,
            share: 0.5,
            least: 20,
            window: Duration::from_secs(10),
            pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(60),
            probe_timeout: Duration::from_secs(30),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    in_a_row: u32,
    share: f64,
    least: u32,
    window: HumanDuration,
    pause: HumanDuration,
    longest_pause: HumanDuration,
    probe_timeout: HumanDuration,
}

impl Default for Written {
    fn default() -> Self {
        BreakerConfig::default().into()
    }
}

impl From<BreakerConfig> for Written {
    fn from(config: BreakerConfig) -> Self {
        Self {
            in_a_row: config.in_a_row,
            share: config.share,
            least: config.least,
            window: HumanDuration(config.window),
            pause: HumanDuration(config.pause),
            longest_pause: HumanDuration(config.longest_pause),
            probe_timeout: HumanDuration(config.probe_timeout),
        }
    }
}

impl TryFrom<Written> for BreakerConfig {
    type Error = SettingError;

    fn try_from(written: Written) -> Result<Self, SettingError> {
        let refuse = |field, problem| Err(SettingError { field, problem });
        let hour = Duration::from_secs(3_600);
        let second = Duration::from_secs(1);
        if written.in_a_row == 0 {
            return refuse("in_a_row", "expected at least 1, found 0".to_owned());
        }
        if written.least == 0 {
            return refuse("least", "expected at least 1, found 0".to_owned());
        }
        if !(written.share > 0.0 && written.share <= 1.0) {
            return refuse(
                "share",
                format!("expected more than 0 and at most 1 (0.5 is half), found {}", written.share),
            );
        }
        let times = [
            ("window", written.window, second),
            ("pause", written.pause, Duration::from_millis(100)),
            ("longest_pause", written.longest_pause, written.pause.0),
            ("probe_timeout", written.probe_timeout, second),
        ];
        for (field, found, least) in times {
            if !(least..=hour).contains(&found.0) {
                return refuse(field, format!("expected {} to 1h, found {found}", HumanDuration(least)));
            }
        }
        Ok(Self {
            in_a_row: written.in_a_row,
            share: written.share,
            least: written.least,
            window: written.window.0,
            pause: written.pause.0,
            longest_pause: written.longest_pause.0,
            probe_timeout: written.probe_timeout.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_breaker_is_refused_with_directions() {
        let read = |json: &str| serde_json::from_str::<BreakerConfig>(json).map_err(|e| e.to_string());
        assert_eq!(read("{}"), Ok(BreakerConfig::default()));
        assert!(read(r#"{"in_a_row":0}"#).unwrap_err().contains("`in_a_row`: expected at least 1"));
        assert!(read(r#"{"share":0}"#).unwrap_err().contains("expected more than 0"));
        assert!(read(r#"{"share":50}"#).unwrap_err().contains("0.5 is half"));
        assert!(
            read(r#"{"pause":"2m"}"#).unwrap_err().contains("`longest_pause`: expected 2m to 1h, found 1m")
        );
    }
}

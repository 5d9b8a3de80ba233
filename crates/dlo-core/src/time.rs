//! Time as the office keeps it: UTC, microseconds, handed in.
//!
//! `Timestamp` is a number, so it sorts, stores and subtracts without a library; RFC 3339 text is read and
//! written at the edges only. Nothing in this crate asks what time it is: whoever does holds a [`Clock`].

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Where the time comes from. The office and the runtime own one; tests own one that they move.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment by this clock.
    fn now(&self) -> Timestamp;
}

/// Text that is no RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a time such as 2026-11-01T12:30:00Z or 2026-11-01")]
pub struct BadTime;

impl Timestamp {
    pub const EPOCH: Self = Self(0);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Reads RFC 3339 (`2026-11-01T12:30:00.5Z`, any offset) or a bare date, which means its midnight in UTC.
    pub fn parse(text: &str) -> Result<Self, BadTime> {
        if text.len() > 64 {
            return Err(BadTime);
        }
        let moment = match text.parse::<jiff::Timestamp>() {
            Ok(moment) => moment,
            Err(_) => {
                let date: jiff::civil::Date = text.parse().map_err(|_| BadTime)?;
                date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| BadTime)?.timestamp()
            }
        };
        // The last moments of the calendar can be read and not written; what is stored must be readable again.
        let micros = moment.as_microsecond();
        jiff::Timestamp::from_microsecond(micros).map(|_| Self(micros)).map_err(|_| BadTime)
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_micros()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus(self, back: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(back.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl std::fmt::Display for Timestamp {
    /// RFC 3339 in UTC with as many digits as needed: `2026-11-01T12:30:00.5Z`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => f.pad(&moment.to_string()),
            Err(_) => f.pad("beyond-the-calendar"),
        }
    }
}

impl std::fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_text_round_trips_to_the_microsecond() {
        for text in ["2026-11-01T12:30:00Z", "2026-11-01T12:30:00.5Z", "2026-11-01T12:30:00.000001Z"] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
        let shifted = Timestamp::parse("2026-11-01T14:30:00+02:00").unwrap();
        assert_eq!(shifted.to_string(), "2026-11-01T12:30:00Z");
    }

    #[test]
    fn a_bare_date_is_its_midnight_in_utc() {
        assert_eq!(Timestamp::parse("2026-11-01").unwrap().to_string(), "2026-11-01T00:00:00Z");
    }

    #[test]
    fn whatever_is_read_can_be_written_and_read_again() {
        for text in [
            "9999-12-30T22:00:00Z",
            "9999-12-30T22:00:00.999999999Z",
            "9999-12-31T23:59:59.5+23:59",
            "-009999-01-02T01:59:59Z",
            "-009999-01-02T01:59:59.000000001Z",
        ] {
            if let Ok(time) = Timestamp::parse(text) {
                assert_eq!(Timestamp::parse(&time.to_string()), Ok(time), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "yesterday", "2026-13-01", "2026-11-01T25:00:00Z", &"9".repeat(100)] {
            assert_eq!(Timestamp::parse(text), Err(BadTime), "{text}");
        }
    }
}

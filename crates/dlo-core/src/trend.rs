//! Trends: how many letters arrived when, by the minute, the hour and the day.
//!
//! Kept at write time in buckets that only count, each resolution as far back as it is looked at. A letter that came too
//! late for a resolution is counted in the coarser ones only.

use std::time::Duration;

use crate::codes::coded;
use crate::time::Timestamp;

coded! {
    /// How wide a bucket is.
    pub enum Resolution as "resolution" {
        Minute = 1 => "minute",
        Hour = 2 => "hour",
        Day = 3 => "day",
    }
}

impl Resolution {
    /// Seconds of one bucket.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 60 * 60,
            Self::Day => 24 * 60 * 60,
        }
    }

    /// Buckets that are kept: minutes of 24 hours, hours of 30 days, days of 400.
    pub const fn kept(self) -> i64 {
        match self {
            Self::Minute => 24 * 60,
            Self::Hour => 30 * 24,
            Self::Day => 400,
        }
    }

    /// The bucket of a moment: whole widths since 1970.
    pub const fn bucket(self, at: Timestamp) -> i64 {
        at.as_micros().div_euclid(self.seconds() * 1_000_000)
    }

    /// When a bucket begins.
    pub const fn begins(self, bucket: i64) -> Timestamp {
        Timestamp::from_micros(bucket.saturating_mul(self.seconds()).saturating_mul(1_000_000))
    }

    /// The first bucket that is still kept at `now`.
    pub const fn oldest(self, now: Timestamp) -> i64 {
        self.bucket(now) - self.kept() + 1
    }

    /// The finest resolution that shows this long a time in at most `buckets`.
    pub fn fitting(span: Duration, buckets: usize) -> Self {
        let fits = |resolution: &&Self| {
            span.as_secs().div_ceil(resolution.seconds() as u64)
                <= buckets.min(resolution.kept() as usize) as u64
        };
        Self::ALL.iter().find(fits).copied().unwrap_or(Self::Day)
    }
}

/// A row of buckets that ends with the one of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub resolution: Resolution,
    /// The first bucket.
    pub from: i64,
    /// How many.
    pub buckets: usize,
}

impl Window {
    /// The newest `buckets` at `now`, no more than are kept.
    pub fn until(now: Timestamp, resolution: Resolution, buckets: usize) -> Self {
        let buckets = buckets.clamp(1, resolution.kept() as usize);
        Self { resolution, from: resolution.bucket(now) - buckets as i64 + 1, buckets }
    }

    /// Where a bucket stands in the window.
    pub fn index(&self, bucket: i64) -> Option<usize> {
        usize::try_from(bucket.checked_sub(self.from)?).ok().filter(|index| *index < self.buckets)
    }

    /// The bucket behind the last.
    pub const fn end(&self) -> i64 {
        self.from + self.buckets as i64
    }

    pub const fn begins(&self) -> Timestamp {
        self.resolution.begins(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_moment_is_in_the_bucket_that_begins_before_it() {
        let moment = at("2026-11-16T10:34:59.999Z");
        for (resolution, begins) in [
            (Resolution::Minute, "2026-11-16T10:34:00Z"),
            (Resolution::Hour, "2026-11-16T10:00:00Z"),
            (Resolution::Day, "2026-11-16T00:00:00Z"),
        ] {
            assert_eq!(resolution.begins(resolution.bucket(moment)), at(begins));
        }
        assert_eq!(Resolution::Minute.bucket(Timestamp::from_micros(-1)), -1);
    }

    #[test]
    fn a_window_ends_with_the_bucket_of_its_moment_and_is_no_longer_than_what_is_kept() {
        let now = at("2026-11-16T10:34:30Z");
        let window = Window::until(now, Resolution::Hour, 24);
        assert_eq!(window.begins(), at("2026-11-15T11:00:00Z"));
        assert_eq!(window.index(Resolution::Hour.bucket(now)), Some(23));
        assert_eq!(window.index(window.end()), None);
        assert_eq!(window.index(window.from - 1), None);
        assert_eq!(Window::until(now, Resolution::Day, 10_000).from, Resolution::Day.oldest(now));
    }

    #[test]
    fn the_finest_resolution_that_fits_is_chosen() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        for (span, expected) in [
            (1, Resolution::Minute),
            (3, Resolution::Hour),
            (24 * 5, Resolution::Hour),
            (24 * 90, Resolution::Day),
        ] {
            assert_eq!(Resolution::fitting(hours(span), 120), expected, "{span} h");
        }
    }
}

//! From letters by the minute to the buckets of all resolutions: what both stores write with an insert.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use dlo_core::limits;
use dlo_core::time::Timestamp;
use dlo_core::trend::Resolution;

/// Counts by (group, resolution, bucket), in the order of the keys; less than zero where letters went to another group. What is older than a resolution keeps, or further ahead
/// than a reported time may lie, is not counted in it.
pub(crate) fn buckets(
    minutes: &HashMap<(i64, i64), i64>,
    now: Timestamp,
) -> BTreeMap<(i64, Resolution, i64), i64> {
    let mut counts = BTreeMap::new();
    let ahead = now.plus(Duration::from_secs(limits::FUTURE_SECONDS));
    for ((group, minute), count) in minutes {
        let at = Resolution::Minute.begins(*minute);
        for resolution in Resolution::ALL {
            let bucket = resolution.bucket(at);
            if (resolution.oldest(now)..=resolution.bucket(ahead)).contains(&bucket) {
                *counts.entry((*group, *resolution, bucket)).or_default() += count;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_letter_is_counted_only_where_its_time_is_still_kept() {
        let now = Timestamp::parse("2026-11-16T10:00:00Z").unwrap();
        let minute = |back: u64| Resolution::Minute.bucket(now.minus(Duration::from_secs(back)));
        let day = 24 * 60 * 60;
        let kept = |back: u64| {
            let counts = buckets(&HashMap::from([((7, minute(back)), 2)]), now);
            counts.into_iter().map(|((_, resolution, _), n)| (resolution.as_str(), n)).collect::<Vec<_>>()
        };
        assert_eq!(kept(60), [("minute", 2), ("hour", 2), ("day", 2)]);
        assert_eq!(kept(2 * day), [("hour", 2), ("day", 2)]);
        assert_eq!(kept(40 * day), [("day", 2)]);
        assert_eq!(kept(500 * day), []);
        let future = HashMap::from([((7, Resolution::Minute.bucket(Timestamp::from_micros(i64::MAX))), 1)]);
        assert_eq!(buckets(&future, now).len(), 0);
    }
}

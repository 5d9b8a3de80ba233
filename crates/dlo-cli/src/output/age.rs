//! How long ago something was, in the one unit that matters.

use std::time::Duration;

use dlo_core::time::Timestamp;

/// `5s`, `12m`, `3h`, `9d`: the largest unit, cut down.
fn span(length: Duration) -> String {
    match length.as_secs() {
        0 => format!("{}ms", length.subsec_millis()),
        seconds @ 1..=59 => format!("{seconds}s"),
        seconds @ 60..=3_599 => format!("{}m", seconds / 60),
        seconds @ 3_600..=172_799 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The age of a moment by our clock. What lies ahead, by another machine's clock, is `now`.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let age = now.since(then);
    if age < Duration::from_secs(1) { "now".to_string() } else { format!("{} ago", span(age)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_largest_unit() {
        let now = Timestamp::from_millis(10_000_000_000);
        let back = |seconds| ago(now.minus(Duration::from_secs(seconds)), now);
        assert_eq!([back(0), back(59), back(60), back(7_200)], ["now", "59s ago", "1m ago", "2h ago"]);
        assert_eq!([back(172_800), back(86_400)], ["2d ago", "24h ago"]);
        assert_eq!(ago(now.plus(Duration::from_secs(60)), now), "now");
        assert_eq!(span(Duration::from_millis(12)), "12ms");
    }
}

//! Moments as conventions write them: RFC 3339, its relatives in .NET, Python and Ruby, and numbers since 1970.

use crate::time::Timestamp;

/// The last second that has a date with four digits for its year.
const LAST_SECOND: i64 = 253_402_300_799;

/// Milliseconds since 1970, if that is a date.
pub(super) fn millis(number: i64) -> Option<Timestamp> {
    (0..=LAST_SECOND * 1_000).contains(&number).then(|| Timestamp::from_millis(number))
}

/// Seconds since 1970, if that is a date.
pub(super) fn seconds(number: i64) -> Option<Timestamp> {
    (0..=LAST_SECOND).contains(&number).then(|| Timestamp::from_millis(number * 1_000))
}

/// A number since 1970 whose unit is told by its size: until the year 5138 seconds, milliseconds, microseconds and
/// nanoseconds do not overlap for any moment after 1973.
pub(super) fn epoch(number: i64) -> Option<Timestamp> {
    match number {
        0..100_000_000_000 => seconds(number),
        100_000_000_000..100_000_000_000_000 => millis(number),
        100_000_000_000_000..100_000_000_000_000_000 => Some(Timestamp::from_micros(number)),
        100_000_000_000_000_000.. => Some(Timestamp::from_micros(number / 1_000)),
        _ => None,
    }
}

/// Text in any of the notations.
pub(super) fn any(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if text.is_empty() || text.len() > 64 {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return epoch(text.parse().ok()?);
    }
    if let Some((whole, fraction)) = text.split_once('.')
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return fractional(whole, fraction);
    }
    // A date with a clock and no zone would be taken for its midnight, so everything with a clock is given one.
    let is_date = text.len() <= "2026-11-15".len();
    if is_date { Timestamp::parse(text).ok() } else { Timestamp::parse(&plainly(text)).ok() }
}

/// Seconds with a fraction, as Ruby and Python write a float.
fn fractional(whole: &str, fraction: &str) -> Option<Timestamp> {
    let seconds = seconds(whole.parse().ok()?)?;
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    Some(Timestamp::from_micros(seconds.as_micros() + digits.parse::<i64>().ok()?))
}

/// The relatives of RFC 3339 in its own words: `2026/11/15 19:01:12 UTC`, `2026-11-15 19:01:12:427339 Z` (a colon before the
/// microseconds), a time without a zone, which is UTC.
fn plainly(text: &str) -> String {
    let mut text = text.replace('/', "-");
    for zone in [" UTC", " GMT", " Z", "Z"] {
        if let Some(bare) = text.strip_suffix(zone) {
            text = bare.to_owned();
            break;
        }
    }
    // An offset, also behind a blank, is read as it is.
    if text.get(10..).is_some_and(|clock| clock.contains(['+', '-'])) {
        return text.replace(" +", "+").replace(" -", "-");
    }
    if text.bytes().filter(|byte| *byte == b':').count() == 3
        && let Some((head, micros)) = text.rsplit_once(':')
    {
        text = format!("{head}.{micros}");
    }
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_the_field_names_the_same_moment() {
        let moment = Timestamp::parse("2026-11-15T19:01:12.427339Z").unwrap();
        for text in [
            "2026-11-15T19:01:12.427339036Z",
            "2026-11-15T19:01:12.4273390Z",
            "2026-11-15T19:01:12.427339",
            "2026-11-15 19:01:12.427339+00:00",
            "2026-11-15 19:01:12:427339 Z",
            "2026-11-15T20:01:12.427339+01:00",
            "1794769272427339",
            "1794769272427339036",
            "1794769272.427339",
            "\"2026-11-15T19:01:12.427339Z\"",
        ] {
            assert_eq!(any(text), Some(moment), "{text}");
        }
        let second = Timestamp::parse("2026-11-15T19:01:12Z").unwrap();
        for text in ["1794769272", "1794769272000", "2026/11/15 19:01:12 UTC", "2026-11-15 19:01:12"] {
            assert_eq!(any(text), Some(second), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in ["", "soon", "99999999999999999999", "12:30", "2026-13-01T00:00:00Z", "-5"] {
            assert_eq!(any(text), None, "{text}");
        }
        assert_eq!(millis(i64::MAX), None);
        assert_eq!(seconds(-1), None);
    }
}

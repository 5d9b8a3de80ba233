//! `Retry-After`: seconds, or the date that HTTP writes (RFC 9110, 10.2.3). Anything else is as if it were not there.

use std::time::Duration;

use dlo_core::time::Timestamp;

/// No server means longer than this; the policy's cap is shorter anyway.
const LONGEST: u64 = 365 * 24 * 60 * 60;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How long to wait from `now`; a date that has passed is no wait at all.
pub(super) fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse::<u64>().unwrap_or(LONGEST);
        return Some(Duration::from_secs(seconds.min(LONGEST)));
    }
    let wait = date(text)?.since(now);
    Some(wait.min(Duration::from_secs(LONGEST)))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. The two older forms have not been sent by anybody for decades.
fn date(text: &str) -> Option<Timestamp> {
    let mut words = text.split(' ');
    let (_weekday, day, month, year) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (time, zone) = (words.next()?, words.next()?);
    if zone != "GMT" || words.next().is_some() {
        return None;
    }
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_nothing_else() {
        let now = Timestamp::parse("1994-11-06T08:49:07Z").unwrap();
        let seconds = |text| parse(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(30));
        assert_eq!(seconds("Sun, 06 Nov 1993 08:49:37 GMT"), Some(0), "it has passed");
        assert_eq!(seconds("99999999999999999999999"), Some(LONGEST));
        for nonsense in
            ["", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:49:37 CET", "Sunday, 06-Nov-94 08:49:37 GMT"]
        {
            assert_eq!(seconds(nonsense), None, "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_wait_for_ever(text in ".{0,64}", now: i64) {
            let wait = parse(&text, Timestamp::from_micros(now));
            prop_assert!(wait.is_none_or(|wait| wait <= Duration::from_secs(LONGEST)));
        }
    }
}

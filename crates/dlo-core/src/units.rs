//! Durations and sizes as people write them: `200ms`, `1h30m`, `7d`, `100kb`, `64KiB`.
//!
//! Config, query language and CLI read and show both through this file, so that one spelling works everywhere.
//! Reading is exact integer arithmetic; what is shown by `Display` reads back as the same value, and `rounded` is for
//! tables, where a person wants to see `3h` and not `3h12m7s41ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// The longest duration: a hundred years. More is a typo.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A span of time. Zero is `0s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HumanDuration(pub Duration);

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a duration such as 200ms, 30s, 1h30m or 7d (units ms, s, m, h, d, w; largest first; at most 36500d)"
)]
pub struct BadDuration;

/// Text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a size such as 512, 100kb, 1.5mb or 64KiB (kb, mb, gb, tb by 1000; KiB, MiB, GiB, TiB by 1024)"
)]
pub struct BadSize;

/// Largest first, in nanoseconds. The last one is what a duration is exact to when it is shown.
const TIME_UNITS: [(&str, u128); 8] = [
    ("w", 7 * 86_400_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const SIZE_UNITS: [(&str, u128); 9] = [
    ("TiB", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("gb", 1_000_000_000),
    ("MiB", 1 << 20),
    ("mb", 1_000_000),
    ("KiB", 1 << 10),
    ("kb", 1_000),
    ("b", 1),
];

/// Digits on either side of the point that are read; more is refused, so that nothing overflows.
const DIGITS: usize = 20;

impl FromStr for HumanDuration {
    type Err = BadDuration;

    fn from_str(text: &str) -> Result<Self, BadDuration> {
        let text = text.trim();
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut rest = text;
        let mut total: u128 = 0;
        let mut smallest = u128::MAX;
        while !rest.is_empty() || smallest == u128::MAX {
            let (quantity, unit, after) = take_quantity(rest).ok_or(BadDuration)?;
            let (_, nanos) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(BadDuration)?;
            // Largest first, each once: `30m1h` is more often a slip than a wish.
            if nanos >= smallest {
                return Err(BadDuration);
            }
            smallest = nanos;
            total = total.checked_add(quantity.times(nanos).ok_or(BadDuration)?).ok_or(BadDuration)?;
            rest = after.trim_start_matches(' ');
        }
        if total > LONGEST.as_nanos() {
            return Err(BadDuration);
        }
        u64::try_from(total).map(|nanos| Self(Duration::from_nanos(nanos))).map_err(|_| BadDuration)
    }
}

impl fmt::Display for HumanDuration {
    /// Exactly, in days and smaller units: `1h30m`, `7d`, `200ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return f.pad("0s");
        }
        let mut shown = String::new();
        for (name, nanos) in TIME_UNITS.into_iter().skip(1) {
            if rest >= nanos {
                shown.push_str(&format!("{}{name}", rest / nanos));
                rest %= nanos;
            }
        }
        f.pad(&shown)
    }
}

impl HumanDuration {
    /// For tables: at most two units, the rest dropped (`3d4h`, `12m5s`, `250ms`).
    pub fn rounded(self) -> String {
        let nanos = self.0.as_nanos();
        let units = &TIME_UNITS[1..];
        let Some(at) = units.iter().position(|(_, unit)| nanos >= *unit) else { return "0s".to_owned() };
        let (name, unit) = units[at];
        let mut shown = format!("{}{name}", nanos / unit);
        // Below a second one unit says enough.
        if let Some((next_name, next)) = units.get(at + 1).filter(|_| unit >= 60_000_000_000) {
            let count = nanos % unit / next;
            if count > 0 {
                shown.push_str(&format!("{count}{next_name}"));
            }
        }
        shown
    }
}

impl FromStr for ByteSize {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let text = text.trim();
        let (quantity, unit, after) = take_quantity(text).ok_or(BadSize)?;
        if !after.is_empty() {
            return Err(BadSize);
        }
        let unit = if unit.is_empty() { "b" } else { unit };
        let (_, bytes) =
            SIZE_UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(BadSize)?;
        let total = quantity.times(bytes).ok_or(BadSize)?;
        u64::try_from(total).map(Self).map_err(|_| BadSize)
    }
}

impl fmt::Display for ByteSize {
    /// Exactly, in the largest unit that divides it: `64KiB`, `100kb`, `1234b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = u128::from(self.0);
        let exact = SIZE_UNITS.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
        match exact {
            Some((name, unit)) => f.pad(&format!("{}{name}", bytes / unit)),
            None => f.pad("0b"),
        }
    }
}

impl ByteSize {
    /// For tables: one decimal at most, by 1000 (`1.5mb`, `980b`).
    pub fn rounded(self) -> String {
        let bytes = u128::from(self.0);
        let decimal = [("tb", 1_000_000_000_000), ("gb", 1_000_000_000), ("mb", 1_000_000), ("kb", 1_000)];
        match decimal.into_iter().find(|(_, unit)| bytes >= *unit) {
            Some((name, unit)) if bytes % unit * 10 / unit > 0 => {
                format!("{}.{}{name}", bytes / unit, bytes % unit * 10 / unit)
            }
            Some((name, unit)) => format!("{}{name}", bytes / unit),
            None => format!("{bytes}b"),
        }
    }
}

/// A decimal number as it was written.
struct Quantity {
    whole: u128,
    fraction: u128,
    scale: u128,
}

impl Quantity {
    /// This many units; `None` if it does not fit. What is finer than one is dropped.
    fn times(&self, unit: u128) -> Option<u128> {
        let whole = self.whole.checked_mul(unit)?;
        whole.checked_add(self.fraction.checked_mul(unit)? / self.scale)
    }
}

/// Takes a number and the letters behind it off the front.
fn take_quantity(text: &str) -> Option<(Quantity, &str, &str)> {
    let (whole, rest) = take_while(text, |c| c.is_ascii_digit());
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (digits, rest) = take_while(rest, |c| c.is_ascii_digit());
            if digits.is_empty() {
                return None;
            }
            (digits, rest)
        }
        None => ("", rest),
    };
    let (unit, rest) = take_while(rest.trim_start_matches(' '), |c| c.is_ascii_alphabetic());
    if whole.is_empty() || whole.len() > DIGITS || fraction.len() > DIGITS {
        return None;
    }
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some((Quantity { whole: whole.parse().ok()?, fraction, scale }, unit, rest))
}

fn take_while(text: &str, condition: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !condition(c)).unwrap_or(text.len()))
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = HumanDuration;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in quotes, such as \"200ms\", \"30s\" or \"7d\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<HumanDuration, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a size in quotes such as \"100kb\" or \"64KiB\"")
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes).map(ByteSize).map_err(|_| E::custom(BadSize))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration(text: &str) -> Result<Duration, BadDuration> {
        text.parse::<HumanDuration>().map(|d| d.0)
    }

    fn size(text: &str) -> Result<u64, BadSize> {
        text.parse::<ByteSize>().map(|s| s.0)
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        let known = [
            ("200ms", 200),
            ("30s", 30_000),
            ("1.5s", 1_500),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("1w", 604_800_000),
            ("1h30m", 5_400_000),
            (" 1h 30m ", 5_400_000),
            ("0", 0),
            ("0s", 0),
        ];
        for (text, millis) in known {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_directions() {
        for text in
            ["", "5", "ms", "-1s", "1x", "30m1h", "1h1h", "1.s", "36501d", "99999999999999999999999d", "1e3s"]
        {
            assert_eq!(duration(text), Err(BadDuration), "{text}");
        }
        assert!(BadDuration.to_string().contains("such as 200ms"));
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let known = [
            ("512", 512),
            ("512b", 512),
            ("100kb", 100_000),
            ("1.5MB", 1_500_000),
            ("64KiB", 65_536),
            ("64kib", 65_536),
            ("2 gb", 2_000_000_000),
        ];
        for (text, bytes) in known {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "kb", "-1kb", "10kbb", "1 kb 2", "99999999tb", "1..5mb"] {
            assert_eq!(size(text), Err(BadSize), "{text}");
        }
    }

    #[test]
    fn tables_show_the_units_that_matter() {
        let shown = |millis| HumanDuration(Duration::from_millis(millis)).rounded();
        assert_eq!(shown(11_527_041), "3h12m");
        assert_eq!(shown(725_000), "12m5s");
        assert_eq!(shown(1_250), "1s");
        assert_eq!(shown(250), "250ms");
        assert_eq!(shown(0), "0s");
        assert_eq!(ByteSize(1_540_000).rounded(), "1.5mb");
        assert_eq!(ByteSize(2_000).rounded(), "2kb");
        assert_eq!(ByteSize(980).rounded(), "980b");
    }

    #[test]
    fn config_takes_quoted_durations_and_says_so() {
        assert_eq!(serde_json::from_str::<HumanDuration>("\"2h\"").unwrap().0, Duration::from_secs(7_200));
        let refusal = serde_json::from_str::<HumanDuration>("200").unwrap_err().to_string();
        assert!(refusal.contains("in quotes, such as \"200ms\""), "{refusal}");
        assert_eq!(serde_json::from_str::<ByteSize>("512").unwrap(), ByteSize(512));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_itself(nanos in 0..LONGEST.as_nanos() as u64, bytes: u64) {
            let human = HumanDuration(Duration::from_nanos(nanos));
            prop_assert_eq!(human.to_string().parse(), Ok(human));
            let size = ByteSize(bytes);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn no_text_makes_reading_panic(text in "\\PC{0,40}") {
            let _ = duration(&text);
            let _ = size(&text);
        }
    }
}

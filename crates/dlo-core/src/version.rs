//! Versions of consumers, as far as one can be told to be older than another.
//!
//! Teams write versions as they like: `2.10.0`, `v3`, `2026-11-16`, a commit. Numbers are compared as numbers, and a
//! pre-release comes before its release. Where the two cannot be compared, nothing is said.

use std::cmp::Ordering;

/// Whether `found` is known to be older than `other`. What cannot be compared is not known to be older.
pub fn is_older(found: &str, other: &str) -> bool {
    compare(found, other) == Some(Ordering::Less)
}

/// The order of two versions; `None` where it is not known.
pub fn compare(one: &str, other: &str) -> Option<Ordering> {
    if one.trim() == other.trim() {
        return Some(Ordering::Equal);
    }
    let (one, other) = (Version::read(one)?, Version::read(other)?);
    let longest = one.numbers.len().max(other.numbers.len());
    for at in 0..longest {
        let digit = |version: &Version<'_>| version.numbers.get(at).copied().unwrap_or(0);
        match digit(&one).cmp(&digit(&other)) {
            Ordering::Equal => {}
            decided => return Some(decided),
        }
    }
    Some(match (one.pre, other.pre) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => compare_pre(one, other),
    })
}

struct Version<'a> {
    numbers: Vec<u64>,
    /// `rc.1` of `2.0-rc.1`.
    pre: Option<&'a str>,
}

impl<'a> Version<'a> {
    /// Digits and dots, optionally a `v` before, a pre-release behind `-`, a build behind `+`.
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        if let Some(numbers) = date(text) {
            return Some(Self { numbers, pre: None });
        }
        let (main, pre) = match text.split_once('-') {
            Some((main, pre)) => (main, Some(pre)),
            None => (text, None),
        };
        let numbers = main.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Self { numbers, pre })
    }
}

/// `2026-11-16` is a version of three numbers, and no pre-release of 2026.
fn date(text: &str) -> Option<Vec<u64>> {
    let parts: Vec<&str> = text.split('-').collect();
    let all_digits = |part: &&str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() < 3 || parts[0].len() != 4 || !parts.iter().all(all_digits) {
        return None;
    }
    parts.iter().map(|part| part.parse().ok()).collect()
}

fn compare_pre(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        let order = match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(one), Some(other)) => match (one.parse::<u64>(), other.parse::<u64>()) {
                (Ok(one), Ok(other)) => one.cmp(&other),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => one.cmp(other),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (older, newer) in [
            ("2.9.1", "2.10.0"),
            ("v1", "2"),
            ("1.0", "1.0.1"),
            ("2.0-rc.1", "2.0"),
            ("2.0-rc.2", "2.0-rc.10"),
            ("2026-11-09", "2026-11-16"),
            ("2026.9", "2026.11+build7"),
        ] {
            assert!(is_older(older, newer), "{older} {newer}");
            assert!(!is_older(newer, older), "{newer} {older}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_not_known_to_be_older() {
        for (one, other) in
            [("9fceb02", "a1b2c3d"), ("latest", "2.0"), ("", "1"), ("1.99999999999999999999", "2")]
        {
            assert_eq!((is_older(one, other), is_older(other, one)), (false, false), "{one} {other}");
        }
        assert_eq!(compare("9fceb02", "9fceb02"), Some(Ordering::Equal));
        assert_eq!(compare("1.0", "v1"), Some(Ordering::Equal));
    }
}

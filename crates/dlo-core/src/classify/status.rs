//! HTTP statuses as a rule names them: `503`, `"5xx"`, `"500-599"`, or a list of these.

use serde::{Deserialize, Serialize};

/// Statuses that a rule is about, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected an HTTP status such as 503, a range such as \"500-599\" or \"5xx\", or a list of these"
)]
pub enum HttpStatus {
    One(u16),
    Range(String),
    Any(Vec<HttpStatus>),
}

/// Ranges in one rule.
const RANGES: usize = 100;

impl HttpStatus {
    /// The ranges it stands for, both ends included; else what is wrong with it.
    pub(super) fn ranges(&self) -> Result<Vec<(u16, u16)>, String> {
        let mut ranges = Vec::new();
        self.collect(&mut ranges)?;
        if ranges.is_empty() || ranges.len() > RANGES {
            return Err(format!("expected 1 to {RANGES} statuses or ranges, found {}", ranges.len()));
        }
        Ok(ranges)
    }

    fn collect(&self, ranges: &mut Vec<(u16, u16)>) -> Result<(), String> {
        match self {
            Self::One(status) => ranges.push(checked(*status, *status)?),
            Self::Range(text) => ranges.push(range(text)?),
            Self::Any(several) => several.iter().try_for_each(|one| one.collect(ranges))?,
        }
        Ok(())
    }
}

fn range(text: &str) -> Result<(u16, u16), String> {
    if let [hundreds @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] = text.as_bytes() {
        let first = u16::from(hundreds - b'0') * 100;
        return Ok((first, first + 99));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => checked(first, last),
        _ => Err(format!(
            "expected a status such as 503, or a range such as 500-599 or 5xx, found `{}`",
            text.chars().take(64).collect::<String>()
        )),
    }
}

fn checked(first: u16, last: u16) -> Result<(u16, u16), String> {
    if !(100..=599).contains(&first) || !(100..=599).contains(&last) || first > last {
        return Err(format!("expected statuses from 100 to 599, the lower one first, found {first}-{last}"));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(json: &str) -> Result<Vec<(u16, u16)>, String> {
        serde_json::from_str::<HttpStatus>(json).map_err(|e| e.to_string())?.ranges()
    }

    #[test]
    fn a_number_a_range_and_a_list_are_read() {
        assert_eq!(ranges("503"), Ok(vec![(503, 503)]));
        assert_eq!(ranges("\"500-599\""), Ok(vec![(500, 599)]));
        assert_eq!(ranges("[429, \"5xx\"]"), Ok(vec![(429, 429), (500, 599)]));
    }

    #[test]
    fn what_is_no_status_is_refused_with_directions() {
        for json in ["99", "\"6xx\"", "\"599-500\"", "\"all\"", "[]", "true"] {
            let refusal = ranges(json).unwrap_err();
            assert!(refusal.contains("expected"), "{json}: {refusal}");
        }
    }
}

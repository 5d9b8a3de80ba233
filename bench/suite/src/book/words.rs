//! How numbers and verdicts are written, in the same way on the page and in the pictures.

use super::{Row, Verdict};
use crate::bars::Bar;
use crate::measure::Median;

/// Three digits that count, and no more: `0.0123`, `1.23`, `12.3`, `123`, `12,300`.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "?".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // The place of the last digit: below the point if positive.
    let places = 2 - value.abs().log10().floor() as i32;
    if places > 0 {
        let text = format!("{value:.*}", places.unsigned_abs() as usize);
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let scale = 10f64.powi(-places);
    grouped((value / scale).round() * scale)
}

/// Thousands apart.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// `12.3 ms`, `0.9x`, `1.2 %`.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "x" => format!("{}x", number(value)),
        "/s" => format!("{}/s", number(value)),
        "" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

/// The median, and the spread where there is one.
pub(super) fn taken(median: &Median, unit: &str) -> String {
    let middle = with_unit(median.middle, unit);
    if median.rounds > 1 {
        format!("{middle} ({} to {})", number(median.low), number(median.high))
    } else {
        middle
    }
}

pub(super) fn bar(bar: Bar, unit: &str) -> String {
    match bar {
        Bar::AtLeast(value) => format!("≥ {}", with_unit(value, unit)),
        Bar::AtMost(value) => format!("≤ {}", with_unit(value, unit)),
    }
}

pub(super) fn verdict(row: &Row) -> String {
    let reached = row.goal.zip(row.taken).is_some_and(|(goal, taken)| goal.holds(taken.middle));
    let goal = if reached { ", goal reached" } else { "" };
    match row.verdict {
        Verdict::Passed => format!("passed{goal}"),
        Verdict::NotPassed => "**not passed**".to_owned(),
        Verdict::NotMeasured => "not measured".to_owned(),
        Verdict::Proven => row.instead.clone().unwrap_or_default(),
        Verdict::GoalReached => "goal reached".to_owned(),
        Verdict::GoalNotReached => "goal not reached".to_owned(),
        Verdict::Beside => "nothing demanded".to_owned(),
    }
}

/// `W2` before `W10`, and what has no number last.
pub(super) fn workload_order(workload: &str) -> (u32, String) {
    let number = workload.strip_prefix('W').and_then(|number| number.parse().ok());
    (number.unwrap_or(u32::MAX), workload.to_owned())
}

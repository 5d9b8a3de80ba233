//! This build compared with the gate of another commit, loop by loop, on one machine.
//!
//! Both are counted with the same compiler, C library and processor, so the tolerance is smaller than beside the baseline.
//! The other program is only asked to `run` a loop, which every version of the gate can do.

use std::path::Path;

use crate::callgrind;
use crate::judge::change;
use crate::loops::{ALL, Loop};
use crate::middle;

/// How much dearer than in the other commit an operation may be.
const TOLERANCE: f64 = 0.01;

/// Prints the change of every loop. An error names the loops that cost more than the tolerance allows.
pub(crate) fn compare(other: &Path, name: &str) -> Result<(), String> {
    println!("against {name}\n");
    println!("loop                   before          now    change  verdict");
    let mut dearer = Vec::new();
    for one in &ALL {
        let Some(mut before) = before(one, other)? else {
            println!("{:<16} {:>12} {:>12} {:>9}  new loop", one.name, "-", one.measure()?, "-");
            continue;
        };
        let mut now = one.measure()?;
        if is_dearer(before, now) {
            // Two more of each: the median of three decides.
            before = middle([before, one.measure_in(other)?, one.measure_in(other)?]);
            now = middle([now, one.measure()?, one.measure()?]);
        }
        println!("{}", line(one.name, before, now));
        if is_dearer(before, now) {
            dearer.push(one.name);
        }
    }
    println!("\ntolerance: {:.0} %", TOLERANCE * 100.0);
    conclude(&dearer)
}

/// The count of a loop in the other commit; `None` if that commit does not have the loop.
fn before(one: &Loop, other: &Path) -> Result<Option<u64>, String> {
    if callgrind::has_loop(other, one.name)? { one.measure_in(other).map(Some) } else { Ok(None) }
}

fn is_dearer(before: u64, now: u64) -> bool {
    change(now, before) > TOLERANCE
}

fn line(name: &str, before: u64, now: u64) -> String {
    let verdict = if is_dearer(before, now) { "DEARER" } else { "holds" };
    let change = format!("{:+.2} %", 100.0 * change(now, before));
    format!("{name:<16} {before:>12} {now:>12} {change:>9}  {verdict}")
}

fn conclude(dearer: &[&str]) -> Result<(), String> {
    if dearer.is_empty() {
        return Ok(());
    }
    Err(format!("more than {:.0} % dearer than before: {}", TOLERANCE * 100.0, dearer.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_holds_and_more_does_not() {
        assert!(!is_dearer(10_000, 10_100));
        assert!(is_dearer(10_000, 10_101));
        assert!(!is_dearer(10_000, 5_000));
    }

    #[test]
    fn a_line_shows_both_counts_and_the_change() {
        assert_eq!(
            line("decide", 1_000, 1_005),
            "decide                   1000         1005   +0.50 %  holds"
        );
        assert!(line("decide", 1_000, 1_050).ends_with("+5.00 %  DEARER"));
    }

    #[test]
    fn the_error_names_every_loop_that_is_dearer() {
        assert_eq!(conclude(&[]), Ok(()));
        let problem = conclude(&["decide", "classify"]).unwrap_err();
        assert!(problem.contains("1 %") && problem.contains("decide, classify"), "{problem}");
    }
}

//! What a run prints: a line per tier as it ends, failures with the command that repeats them, and the summary.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::build::Built;
use crate::libtest::Failure;
use crate::run::Report;
use crate::scratch::LOGS;
use crate::tiers::{self, Tier};

/// Lines of a failed test that are printed; its log has all of them.
const LAST_LINES: usize = 30;
/// Failures that are printed in full.
const MOST_SHOWN: usize = 20;

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) rows: Vec<Row>,
    pub(crate) seconds: u64,
    /// Processes that were still there at the end.
    pub(crate) left: Vec<String>,
}

/// One line of the summary.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    budget: Option<u64>,
    report: Report,
}

impl Summary {
    pub(crate) fn add(&mut self, tier: &'static Tier, report: Report) {
        let row = Row { name: tier.name, budget: Some(tier.budget), report };
        println!("{}", row.line());
        for failure in row.report.failures.iter().take(MOST_SHOWN) {
            println!("{}", explain(tier.name, failure));
        }
        self.rows.push(row);
    }
}

impl Row {
    pub(crate) fn build(built: &Built, seconds: u64) -> Self {
        let failures =
            built.errors.iter().map(|text| Failure { test: "build".to_owned(), output: text.clone() });
        let mut failures: Vec<Failure> = failures.collect();
        if !built.succeeded && failures.is_empty() {
            let output = "cargo failed; run `cargo test --workspace --all-targets --no-run`".to_owned();
            failures.push(Failure { test: "build".to_owned(), output });
        }
        for failure in &failures {
            println!("{}", failure.output);
        }
        let report = Report { passed: usize::from(built.succeeded), failures, seconds, ..Report::default() };
        let row = Self { name: "build", budget: None, report };
        println!("{}", row.line());
        row
    }

    fn line(&self) -> String {
        let Report { passed, failures, seconds, .. } = &self.report;
        format!("  {:<11} {passed:>5} passed {:>4} failed {seconds:>5} s", self.name, failures.len())
    }
}

/// A failed test: its last lines, where all are, and the command that runs just this one.
fn explain(tier: &str, failure: &Failure) -> String {
    let lines: Vec<&str> = failure.output.trim_end().lines().collect();
    let mut text = format!("\n  FAILED {}\n", failure.test);
    if lines.len() > LAST_LINES {
        let _ = writeln!(text, "    … {} lines before, in {LOGS}/{tier}.log", lines.len() - LAST_LINES);
    }
    for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
        let _ = writeln!(text, "    {line}");
    }
    let one = if failure.test.contains("::") { format!(" --only {}", failure.test) } else { String::new() };
    let _ = writeln!(text, "  again: ./test {tier}{one}");
    text
}

/// Prints the summary. Whether everything passed.
pub(crate) fn print(summary: &Summary) -> bool {
    println!();
    let (mut passed, mut failed, mut notes) = (0, summary.left.len(), Vec::new());
    for row in &summary.rows {
        println!("{}", row.line());
        passed += row.report.passed;
        failed += row.report.failures.len();
        for (test, reason) in &row.report.retried {
            notes.push(format!("retried: {test} ({reason}), see {LOGS}/{}.log", row.name));
        }
        if row.budget.is_some_and(|budget| row.report.seconds > budget) {
            let budget = row.budget.unwrap_or_default();
            notes.push(format!("over its budget: {} took {} s of {budget} s", row.name, row.report.seconds));
        }
        for failure in &row.report.failures {
            notes.push(format!("failed: {} {}", row.name, failure.test));
        }
    }
    notes.extend(summary.left.iter().map(|process| format!("left behind: {process}")));
    notes.iter().for_each(|note| println!("{note}"));
    remember_times(summary);
    println!("in {} s", summary.seconds);
    println!("{passed} passed, {failed} failed");
    failed == 0
}

fn times_file() -> PathBuf {
    PathBuf::from(LOGS).join("times")
}

/// Seconds that each tier took when it last passed on this machine.
pub(crate) fn last_times() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(times_file()).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?))).collect()
}

fn remember_times(summary: &Summary) {
    let mut times = last_times();
    for row in summary.rows.iter().filter(|row| row.report.failures.is_empty()) {
        times.insert(row.name.to_owned(), row.report.seconds);
    }
    let lines: String = times.iter().map(|(name, seconds)| format!("{name} {seconds}\n")).collect();
    // Times are a convenience: a run does not fail for want of them.
    let _ = std::fs::write(times_file(), lines);
}

/// `./test --list`.
pub(crate) fn list() -> String {
    // Without the repository there are no last times, and the table is still worth showing.
    let _ = crate::scratch::enter_repository();
    let times = last_times();
    let mut text = format!("{:<11} {:>7} {:>7}  {:<31} {}\n", "tier", "budget", "last", "runs", "needs");
    for tier in tiers::ALL {
        let last = times.get(tier.name).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
        let needs: Vec<String> = tier.needs.iter().map(|need| need.name()).collect();
        let _ = writeln!(
            text,
            "{:<11} {:>5} s {last:>7}  {:<31} {}",
            tier.name,
            tier.budget,
            tier.set.title(),
            needs.join(" ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_last_lines_and_the_command_that_repeats_it() {
        let output: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let text = explain("kafka", &Failure { test: "kafka::suite::order".to_owned(), output });
        assert!(
            text.contains("line 99") && !text.contains("line 60\n") && text.contains("70 lines before"),
            "{text}"
        );
        assert!(text.contains("./test kafka --only kafka::suite::order"), "{text}");
    }
}

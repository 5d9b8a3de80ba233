//! The page: bars and goals in one table, runners beside each other, growth, and where it was measured.

use std::fmt::Write;

use super::words::{bar, grouped, number, taken, verdict, with_unit};
use super::{Book, Contest, Curve, Row, Runner, Verdict, plot};
use crate::lines::Run;
use crate::measure::Median;

const OPENING: &str = "\
# The bench book

What retry, parking, search and replay cost, beside what people would use instead. Written by `bench/run book` from the
records of `bench/run`; no number in it is typed by hand. The same as data: [results.json](results.json).

How to read it: where others stand beside us, both run in turns on one machine, after a round that does not count, and
messages are counted in every round. A ratio (x) is the median of the ratios of the same
rounds, the smallest and the largest stand in brackets. A figure without brackets was taken once, or is the worst of many, which
are listed below the table. A *bar* is what must hold; a *goal* is what should come to hold. Rates are this machine's and move
with whatever else it does; ratios of one run and processor time for a message move much less, and are what to compare.
";

const CLOSING: &str = "
## What this does not say

One machine, on which servers, runners and load share the cores and the disk: with servers of their own the limits lie
elsewhere. Loopback only, so no network. Messages of a kilobyte. Peers run with the settings in their scripts (`bench/peers/`);
somebody who knows one better may make it faster, and is welcome to. What stands as *not measured* has
a bar and no figure yet; it is neither passed nor missed.
";

pub(super) fn page(book: &Book) -> String {
    let mut page = String::from(OPENING);
    bars(&mut page, &book.figures);
    parts(&mut page, &book.figures);
    runners(&mut page, &book.contests);
    growth(&mut page, &book.curves);
    machines(&mut page, &book.runs);
    page.push_str(CLOSING);
    page
}

/// A table: writing to a string cannot fail.
fn table<const N: usize>(page: &mut String, head: [&str; N], rows: impl Iterator<Item = [String; N]>) {
    let _ = write!(page, "\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    for row in rows {
        let _ = writeln!(page, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
}

fn bars(page: &mut String, rows: &[Row]) {
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let _ = write!(
        page,
        "\n## Bars and goals\n\nOf the bars: {} passed, {} not passed, {} not measured, {} proven by tests instead.\n",
        count(Verdict::Passed),
        count(Verdict::NotPassed),
        count(Verdict::NotMeasured),
        count(Verdict::Proven)
    );
    let dash = || "–".to_owned();
    let row = |row: &Row| {
        [
            row.workload.clone(),
            row.words.clone(),
            row.taken.as_ref().map_or_else(dash, |median| taken(median, &row.unit)) + &over(row),
            row.bar.map_or_else(dash, |value| bar(value, &row.unit)),
            row.goal.map_or_else(dash, |value| bar(value, &row.unit)),
            verdict(row),
        ]
    };
    table(page, ["", "figure", "measured (spread)", "bar", "goal", "verdict"], rows.iter().map(row));
    if plot::bars(rows).is_some() {
        page.push_str("\nEach figure as a multiple of its bar, in the direction that is better; the line is the bar, the mark the goal.\n");
        page.push_str("\n![Every figure as a multiple of its bar](bars.svg)\n");
    }
}

/// How far a curve reached: a bar that is meant for ten million letters says less of a million.
fn over(row: &Row) -> String {
    row.over.map_or_else(String::new, |(first, last)| {
        format!("; {} to {} letters", grouped(first), grouped(last))
    })
}

/// What the worst of many was the worst of.
fn parts(page: &mut String, rows: &[Row]) {
    for row in rows.iter().filter(|row| !row.parts.is_empty()) {
        let _ = write!(page, "\n<details><summary>{}: all of them</summary>\n", row.words);
        let lines = row.parts.iter().map(|(part, value)| [part.clone(), with_unit(*value, &row.unit)]);
        table(page, ["", "measured"], lines);
        page.push_str("\n</details>\n");
    }
}

fn runners(page: &mut String, contests: &[Contest]) {
    if contests.is_empty() {
        return;
    }
    page.push_str("\n## Runners\n\nMedians of all rounds. CPU is processor time for one message, of the runner and of the servers; memory is the runner's peak.\n");
    for contest in contests {
        let _ = write!(page, "\n### {}: {}\n", contest.workload, contest.contest);
        let cell = |median: Option<Median>, unit: &str| {
            median.map_or_else(|| "–".to_owned(), |median| with_unit(median.middle, unit))
        };
        let lines = contest.runners.iter().map(|Runner { name, took }| {
            let rate = format!(
                "{} ({} to {})",
                number(took.rate.middle),
                number(took.rate.low),
                number(took.rate.high)
            );
            let [client, server] = [took.client_us, took.server_us].map(|cpu| cell(cpu, "µs"));
            [name.clone(), rate, client, server, cell(took.peak_mb, "MB")]
        });
        table(page, ["runner", "messages/s (spread)", "client CPU", "server CPU", "memory"], lines);
    }
}

fn growth(page: &mut String, curves: &[Curve]) {
    if curves.is_empty() {
        return;
    }
    page.push_str("\n## Growth\n\nEach point is a median, over the number of letters in the store; both axes are logarithmic.\n");
    for curve in curves {
        let _ = write!(page, "\n### {}\n\n![{}]({})\n", curve.words, curve.words, curve.file());
        let lines = curve.points.iter().map(|(x, y)| [number(*x), with_unit(*y, &curve.unit)]);
        table(page, ["letters", "measured"], lines);
    }
}

fn machines(page: &mut String, runs: &[Run]) {
    if runs.is_empty() {
        return;
    }
    page.push_str("\n## Where and when\n");
    let row = |run: &Run| {
        let asked = format!("`bench/run {}`", run.asked).replace(" `", "`");
        let memory = format!("{} MB", number(run.memory_mb as f64));
        [
            run.at.clone(),
            asked,
            run.commit.clone(),
            run.cores.to_string(),
            memory,
            run.kernel.clone(),
            run.load.clone(),
        ]
    };
    let head = ["began (UTC)", "asked for", "commit", "cores", "memory", "Linux", "load before"];
    table(page, head, runs.iter().map(row));
    let mut versions: Vec<(&String, &String)> = runs.iter().flat_map(|run| &run.versions).collect();
    versions.sort();
    versions.dedup();
    let versions: Vec<String> = versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let _ = writeln!(
        page,
        "\nVersions: {}. Those of the peers' packages are pinned in `bench/peers/`.",
        versions.join(", ")
    );
}

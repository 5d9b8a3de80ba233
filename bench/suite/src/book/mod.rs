//! The bench book: records in, pages and pictures out.
//!
//! Records are merged: of each figure the newest counts, of a contest of runners and of a growth curve the newest as a whole, so
//! that nothing is compared that was not measured together. Everything here is a function of the records and the bars: the
//! same give the same bytes, and no number comes from anywhere else. The book that stood before counts as the records it was
//! made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bars::{Bar, Bars, Entry, Take};
use super::lines::{Line, Run, Took, numbers};
use super::measure::Median;

mod former;
mod page;
mod plot;
mod words;

/// What all records together say.
#[derive(Debug, Serialize, Deserialize)]
pub struct Book {
    /// The runs of which something is shown, oldest first.
    runs: Vec<Run>,
    figures: Vec<Row>,
    contests: Vec<Contest>,
    curves: Vec<Curve>,
}

/// A line of the table: a figure that was taken, or a bar that waits for one.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    id: String,
    workload: String,
    words: String,
    unit: String,
    #[serde(flatten)]
    taken: Option<Median>,
    bar: Option<Bar>,
    goal: Option<Bar>,
    from: String,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    instead: Option<String>,
    /// The parts of which the worst is the figure.
    #[serde(default, deserialize_with = "numbers", skip_serializing_if = "BTreeMap::is_empty")]
    parts: BTreeMap<String, f64>,
    /// From how many letters to how many, if it is taken from a curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<(f64, f64)>,
    /// When the run began that it is from.
    run: Option<String>,
}

/// What is to be said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Passed,
    NotPassed,
    NotMeasured,
    /// A test proves it, not a bench.
    Proven,
    /// No bar, only a goal.
    GoalReached,
    GoalNotReached,
    /// Nothing is demanded of it.
    Beside,
}

#[derive(Debug, Serialize, Deserialize)]
struct Contest {
    workload: String,
    contest: String,
    runners: Vec<Runner>,
    run: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Runner {
    name: String,
    #[serde(flatten)]
    took: Took,
}

#[derive(Debug, Serialize, Deserialize)]
struct Curve {
    name: String,
    words: String,
    unit: String,
    points: Vec<(f64, f64)>,
    run: String,
}

/// One record: its run, and what was taken.
struct Record {
    run: Run,
    lines: Vec<Line>,
}

impl Record {
    fn read(name: &str, text: &str) -> Result<Self, String> {
        let mut run = None;
        let mut lines = Vec::new();
        for (number, text) in text.lines().enumerate() {
            let line: Line =
                serde_json::from_str(text).map_err(|why| format!("{name}, line {}: {why}", number + 1))?;
            match line {
                Line::Run(facts) => run = Some(facts),
                Line::Figure { .. } | Line::Part { .. } | Line::Point { .. } | Line::Runner { .. } => {
                    lines.push(line);
                }
            }
        }
        let run = run.ok_or_else(|| {
            format!("{name} does not say which machine it is from; remove it, or make it by `bench/run`")
        })?;
        Ok(Self { run, lines })
    }

    /// Writes its figures into their rows. Parts come before their figure, and without it they count for nothing: the bench
    /// stopped between them.
    fn fill(&self, rows: &mut Vec<Row>) {
        let mut parts: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
        for line in &self.lines {
            match line {
                Line::Figure { id, workload, words, unit, taken } => {
                    let at = rows.iter().position(|row| row.id == *id).unwrap_or_else(|| {
                        rows.push(Row::unknown(id, workload.as_deref(), words));
                        rows.len() - 1
                    });
                    rows[at].unit.clone_from(unit);
                    rows[at].taken = Some(*taken);
                    rows[at].parts = parts.remove(id.as_str()).unwrap_or_default();
                    rows[at].run = Some(self.run.at.clone());
                }
                Line::Part { id, part, value, .. } => {
                    parts.entry(id).or_default().insert(part.clone(), *value);
                }
                Line::Run(_) | Line::Point { .. } | Line::Runner { .. } => {}
            }
        }
    }
}

impl Book {
    /// Of records by name, in any order; each tells itself when it was made. `former` is the `results.json` of the book that
    /// stood before, by its name.
    pub fn of(
        bars: &Bars,
        records: &[(String, String)],
        former: Option<(&str, &str)>,
    ) -> Result<Self, String> {
        let read = records.iter().map(|(name, text)| Record::read(name, text));
        let mut records = read.collect::<Result<Vec<Record>, String>>()?;
        if let Some((name, json)) = former {
            let mut kept = former::records(name, json, bars)?;
            // Of a run that is here itself the book has nothing to add.
            kept.retain(|former| records.iter().all(|record| record.run.at != former.run.at));
            records.extend(kept);
        }
        records.sort_by(|one, other| one.run.at.cmp(&other.run.at));
        let curves = curves(bars, &records);
        let contests = contests(&records);
        let figures = figures(bars, &records, &curves);
        let shown = |run: &Run| {
            figures.iter().any(|row| row.run.as_ref() == Some(&run.at))
                || contests.iter().any(|contest| contest.run == run.at)
                || curves.iter().any(|curve| curve.run == run.at)
        };
        let runs = records.iter().map(|record| record.run.clone()).filter(shown).collect();
        Ok(Self { runs, figures, contests, curves })
    }

    /// Every file of the book, by its name.
    pub fn files(&self) -> Vec<(String, String)> {
        let json = serde_json::to_string_pretty(self).expect("a book is JSON");
        let mut files = vec![
            ("README.md".to_owned(), page::page(self)),
            ("results.json".to_owned(), format!("{json}\n")),
        ];
        files.extend(plot::bars(&self.figures).map(|picture| ("bars.svg".to_owned(), picture)));
        files.extend(self.curves.iter().map(|curve| (curve.file(), plot::curve(curve))));
        files
    }
}

impl Curve {
    /// `text-payload` is drawn in `growth-text-payload.svg`.
    fn file(&self) -> String {
        format!("growth-{}.svg", self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
    }

    fn take(&self, take: Take) -> Option<f64> {
        let ((_, first), (_, last)) = (self.points.first()?, self.points.last()?);
        match take {
            Take::Ends => (self.points.len() > 1).then(|| last / first),
            Take::Most => self.points.iter().map(|(_, y)| *y).reduce(f64::max),
            Take::Last => Some(*last),
        }
    }
}

/// Each curve from the newest record that has it.
fn curves(bars: &Bars, records: &[Record]) -> Vec<Curve> {
    let mut found: BTreeMap<&str, Curve> = BTreeMap::new();
    for record in records {
        let mut points: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for line in &record.lines {
            if let Line::Point { curve, x, y } = line
                && x.is_finite()
                && y.is_finite()
            {
                let points = points.entry(curve).or_default();
                points.retain(|(size, _)| size != x);
                points.push((*x, *y));
            }
        }
        for (name, mut points) in points {
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let drawn = bars.curve.iter().find(|curve| curve.name == name);
            let words = drawn.map_or(name, |curve| &curve.words).to_owned();
            let unit = drawn.map_or("", |curve| &curve.unit).to_owned();
            let run = record.run.at.clone();
            found.insert(name, Curve { name: name.to_owned(), words, unit, points, run });
        }
    }
    // In the order of the bars; what has no entry there comes last.
    let place = |curve: &Curve| bars.curve.iter().position(|drawn| drawn.name == curve.name);
    let mut curves: Vec<Curve> = found.into_values().collect();
    curves.sort_by_key(|curve| place(curve).unwrap_or(usize::MAX));
    curves
}

/// Each contest from the newest record that has it.
fn contests(records: &[Record]) -> Vec<Contest> {
    let mut found: Vec<Contest> = Vec::new();
    for record in records {
        for line in &record.lines {
            let Line::Runner { workload, contest, name, took } = line else { continue };
            let at = &record.run.at;
            found.retain(|old| (&old.workload, &old.contest) != (workload, contest) || old.run == *at);
            let same = found.iter_mut().find(|old| (&old.workload, &old.contest) == (workload, contest));
            let runner = Runner { name: name.clone(), took: *took };
            match same {
                Some(old) => {
                    old.runners.retain(|old| old.name != runner.name);
                    old.runners.push(runner);
                }
                None => found.push(Contest {
                    workload: workload.clone(),
                    contest: contest.clone(),
                    runners: vec![runner],
                    run: at.clone(),
                }),
            }
        }
    }
    found.sort_by_key(|contest| words::workload_order(&contest.workload));
    found
}

/// A row for each bar, and for each figure that has none.
fn figures(bars: &Bars, records: &[Record], curves: &[Curve]) -> Vec<Row> {
    let mut rows: Vec<Row> = bars.figure.iter().map(Row::waiting).collect();
    for (row, entry) in rows.iter_mut().zip(&bars.figure) {
        let Some(from) = &entry.curve else { continue };
        let curve = curves.iter().find(|curve| curve.name == from.name);
        if let Some((curve, value)) = curve.and_then(|curve| Some((curve, curve.take(from.take)?))) {
            row.taken = Some(Median::once(value));
            row.over = curve.points.first().zip(curve.points.last()).map(|(first, last)| (first.0, last.0));
            row.run = Some(curve.run.clone());
        }
    }
    for record in records {
        record.fill(&mut rows);
    }
    for row in &mut rows {
        row.verdict = row.judge();
    }
    rows.sort_by_key(|row| words::workload_order(&row.workload));
    rows
}

impl Row {
    fn waiting(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            workload: entry.workload.clone(),
            words: entry.words.clone(),
            unit: entry.unit.clone(),
            taken: None,
            bar: entry.bar(),
            goal: entry.goal(),
            from: entry.from.clone(),
            verdict: Verdict::NotMeasured,
            instead: entry.instead.clone(),
            parts: BTreeMap::new(),
            over: None,
            run: None,
        }
    }

    fn unknown(id: &str, workload: Option<&str>, words: &str) -> Self {
        Self {
            id: id.to_owned(),
            workload: workload.unwrap_or_default().to_owned(),
            words: words.to_owned(),
            unit: String::new(),
            taken: None,
            bar: None,
            goal: None,
            from: String::new(),
            verdict: Verdict::NotMeasured,
            instead: None,
            parts: BTreeMap::new(),
            over: None,
            run: None,
        }
    }

    fn judge(&self) -> Verdict {
        let taken = self.taken.filter(|taken| taken.middle.is_finite());
        match (taken, self.bar, self.goal) {
            (None, _, _) if self.instead.is_some() => Verdict::Proven,
            (None, _, _) => Verdict::NotMeasured,
            (Some(taken), Some(bar), _) if bar.holds(taken.middle) => Verdict::Passed,
            (Some(_), Some(_), _) => Verdict::NotPassed,
            (Some(taken), None, Some(goal)) if goal.holds(taken.middle) => Verdict::GoalReached,
            (Some(_), None, Some(_)) => Verdict::GoalNotReached,
            (Some(_), None, None) => Verdict::Beside,
        }
    }
}

#[cfg(test)]
mod tests;

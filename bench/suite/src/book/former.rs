//! The book as it stood: what was measured before and not anew stays in it, with the run that it is from.
//!
//! Records are left on the machine that made them, and the book is what is kept of them. So whoever measures one workload
//! on another machine does not lose the others; what is no longer asked for is left out. Verdicts and words are made anew.

use super::{Book, Record};
use crate::bars::Bars;
use crate::lines::Line;

/// The records that a book was made of, as far as it shows them.
pub(super) fn records(name: &str, json: &str, bars: &Bars) -> Result<Vec<Record>, String> {
    let former: Book = serde_json::from_str(json)
        .map_err(|why| format!("{name}: {why}; remove it to begin a book without what it has"))?;
    let lines = |at: &str| {
        let mut lines = former.figures_of(at, bars);
        lines.extend(former.runners_of(at));
        lines.extend(former.points_of(at));
        lines
    };
    Ok(former.runs.iter().map(|run| Record { run: run.clone(), lines: lines(&run.at) }).collect())
}

impl Book {
    /// Parts stand before their figure. What was taken from a curve is taken from it again.
    fn figures_of(&self, run: &str, bars: &Bars) -> Vec<Line> {
        let mut lines = Vec::new();
        for row in &self.figures {
            let asked = row.run.as_deref() == Some(run) && row.over.is_none() && bars.of(&row.id).is_some();
            let Some(taken) = row.taken.filter(|_| asked) else { continue };
            let [id, unit] = [&row.id, &row.unit].map(String::clone);
            lines.extend(row.parts.iter().map(|(part, value)| Line::Part {
                id: id.clone(),
                part: part.clone(),
                unit: unit.clone(),
                value: *value,
            }));
            let (workload, words) = (Some(row.workload.clone()), row.words.clone());
            lines.push(Line::Figure { id, workload, words, unit, taken });
        }
        lines
    }

    fn runners_of(&self, run: &str) -> impl Iterator<Item = Line> {
        self.contests.iter().filter(move |contest| contest.run == run).flat_map(|held| {
            held.runners.iter().map(|runner| Line::Runner {
                workload: held.workload.clone(),
                contest: held.contest.clone(),
                name: runner.name.clone(),
                took: runner.took,
            })
        })
    }

    fn points_of(&self, run: &str) -> impl Iterator<Item = Line> {
        self.curves.iter().filter(move |curve| curve.run == run).flat_map(|curve| {
            curve.points.iter().map(|(x, y)| Line::Point { curve: curve.name.clone(), x: *x, y: *y })
        })
    }
}

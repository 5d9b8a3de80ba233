//! The curves: what is drawn over the number of letters, as a table and against the bars of `bench/bars.toml`.

use std::fmt;

use dlo_bench::bars::{self, Entry, Take};
use dlo_bench::measure::percentile;
use dlo_bench::record;

/// What is measured at every size, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Curve {
    Capture,
    Storm,
    IndexLag,
    List,
    DeepPage,
    Counts,
    Stats,
    Groups,
    Count,
    TextOfErrors,
    Word,
    TextOfPayloads,
    Replay,
    Restart,
    RestartKilled,
    MemoryCapturing,
    MemoryAfter,
    MemoryIdle,
    MemoryTriage,
    Disk,
}

impl Curve {
    const ALL: [Self; 20] = [
        Self::Capture,
        Self::Storm,
        Self::IndexLag,
        Self::List,
        Self::DeepPage,
        Self::Counts,
        Self::Stats,
        Self::Groups,
        Self::Count,
        Self::TextOfErrors,
        Self::Word,
        Self::TextOfPayloads,
        Self::Replay,
        Self::Restart,
        Self::RestartKilled,
        Self::MemoryCapturing,
        Self::MemoryAfter,
        Self::MemoryIdle,
        Self::MemoryTriage,
        Self::Disk,
    ];

    /// Its name in records and bars, and the unit of its points.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Capture => ("capture", "letters/s"),
            Self::Storm => ("storm", "letters/s"),
            Self::IndexLag => ("index-lag", "s"),
            Self::List => ("list", "ms"),
            Self::DeepPage => ("page", "ms"),
            Self::Counts => ("counts", "ms"),
            Self::Stats => ("stats", "ms"),
            Self::Groups => ("groups", "ms"),
            Self::Count => ("count", "ms"),
            Self::TextOfErrors => ("text", "ms"),
            Self::Word => ("word", "ms"),
            Self::TextOfPayloads => ("text-payload", "ms"),
            Self::Replay => ("replay", "ms"),
            Self::Restart => ("restart", "s"),
            Self::RestartKilled => ("restart-killed", "s"),
            Self::MemoryCapturing => ("memory-capturing", "MB"),
            Self::MemoryAfter => ("memory-after", "MB"),
            Self::MemoryIdle => ("memory-idle", "MB"),
            Self::MemoryTriage => ("memory-triage", "MB"),
            Self::Disk => ("disk", "B/letter"),
        }
    }

    const fn name(self) -> &'static str {
        self.words().0
    }
}

/// One figure at one size.
struct Point {
    curve: Curve,
    size: u64,
    median: f64,
    /// Where it was taken often enough to say so.
    p99: Option<f64>,
}

/// Every curve, as far as it was drawn.
#[derive(Default)]
pub(crate) struct Curves {
    points: Vec<Point>,
}

/// Figures from which on a 99th percentile is worth saying.
const OFTEN: usize = 20;

impl Curves {
    /// Adds what was measured of a curve at a size; records its median.
    pub(crate) fn add(&mut self, curve: Curve, size: u64, mut figures: Vec<f64>) {
        if figures.is_empty() {
            return;
        }
        let median = percentile(&mut figures, 0.5);
        // Of a rate the slow end is the other one.
        let often = figures.len() >= OFTEN && !matches!(curve, Curve::Capture | Curve::Storm);
        let p99 = often.then(|| percentile(&mut figures, 0.99));
        record::point(curve.name(), size as f64, median);
        self.points.push(Point { curve, size, median, p99 });
    }

    /// Holds every curve against its bars, which are meant to reach `whole` letters.
    pub(crate) fn hold(&self, whole: u64) {
        for entry in &bars::all().figure {
            let Some((name, take)) = entry.curve.as_ref().map(|curve| (&curve.name, curve.take)) else {
                continue;
            };
            let points: Vec<&Point> = self.points.iter().filter(|point| point.curve.name() == name).collect();
            if let (Some(first), Some(last)) = (points.first(), points.last()) {
                let figure = match take {
                    Take::Ends => last.median / first.median,
                    Take::Most => points.iter().map(|point| point.median).fold(f64::MIN, f64::max),
                    Take::Last => last.median,
                };
                println!("{}", verdict(entry, figure, (first.size, last.size), whole));
            }
        }
    }
}

/// What is said of one demand; a store that ended early shows only that much.
fn verdict(entry: &Entry, figure: f64, (first, last): (u64, u64), whole: u64) -> String {
    let Entry { words, unit, .. } = entry;
    let judged = entry.bar().map_or_else(|| "no bar".into(), |bar| bar.judge(figure));
    let early = match last < whole {
        true => format!(" as far as {} shows; the bar is for {}", count(last), count(whole)),
        false => String::new(),
    };
    format!("  {words}: {figure:.2} {unit} ({} to {}), {judged}{early}", count(first), count(last))
}

/// A number of letters, shortly.
fn count(letters: u64) -> String {
    match letters {
        _ if letters.is_multiple_of(1_000_000) => format!("{}M", letters / 1_000_000),
        _ if letters.is_multiple_of(1_000) => format!("{}k", letters / 1_000),
        _ => letters.to_string(),
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = |figure: f64| if figure < 100.0 { 2 } else { 0 };
        write!(f, "{:.*}", digits(self.median), self.median)?;
        match self.p99 {
            Some(p99) => write!(f, " / {:.*}", digits(p99), p99),
            None => Ok(()),
        }
    }
}

/// A row for each size, a column for each curve: the median, and behind a stroke the 99th percentile.
impl fmt::Display for Curves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![
            std::iter::once("letters".into()).chain(Curve::ALL.map(|curve| curve.words().0.into())).collect(),
            std::iter::once(String::new()).chain(Curve::ALL.map(|curve| curve.words().1.into())).collect(),
        ];
        let mut sizes: Vec<u64> = self.points.iter().map(|point| point.size).collect();
        sizes.dedup();
        for size in sizes {
            let at = |curve| self.points.iter().find(|point| point.curve == curve && point.size == size);
            let cells = Curve::ALL.map(|curve| at(curve).map_or_else(String::new, Point::to_string));
            rows.push(std::iter::once(count(size)).chain(cells).collect::<Vec<String>>());
        }
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                let width = rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
                write!(f, "{cell:>width$}  ", width = width.unwrap_or(0))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

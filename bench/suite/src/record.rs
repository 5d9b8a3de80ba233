//! Every figure that a bench takes: printed beside its bar, and appended as a line of JSON to the file that
//! `DLO_BENCH_RECORD` names. Without that file it is printed only.
//!
//! `bench/run` names a new file for each run; the bench book is made of them. A line is written whole, so that a bench that
//! stops in the middle leaves what it had taken.

use std::io::Write;
use std::path::Path;

use super::bars;
use super::lines::{Line, Took};
use super::measure::Median;

/// The variable that names the file.
pub const RECORD: &str = "DLO_BENCH_RECORD";

/// One figure. `id` has an entry in `bench/bars.toml`, which says what it is and what is demanded of it.
pub fn figure(id: &str, unit: &str, median: Median) {
    let entry = bars::all().of(id);
    let words = entry.map_or(id, |entry| entry.words.as_str());
    match entry.map(|entry| entry.bar()) {
        Some(Some(bar)) => println!("  {words}: {median} {unit}, {}", bar.judge(median.middle)),
        Some(None) => println!("  {words}: {median} {unit}"),
        None => println!("  {words}: {median} {unit} (`{id}` has no entry in bench/bars.toml)"),
    }
    write(&Line::Figure {
        id: id.to_owned(),
        workload: entry.map(|entry| entry.workload.clone()),
        words: words.to_owned(),
        unit: unit.to_owned(),
        taken: median,
    });
}

/// One point of a growth curve: the value `y` at size `x`.
pub fn point(curve: &str, x: f64, y: f64) {
    println!("  {curve} at {x}: {y:.3}");
    write(&Line::Point { curve: curve.to_owned(), x, y });
}

/// How one runner of a contest did: `workload` is `W4`, `contest` where it was held ("RabbitMQ, 10 % poison").
pub fn runner(workload: &str, contest: &str, name: &str, took: Took) {
    let [workload, contest, name] = [workload, contest, name].map(str::to_owned);
    write(&Line::Runner { workload, contest, name, took });
}

/// One demand on many parts (every screen, every question): each is printed, and the worst is the figure.
#[derive(Debug)]
pub struct Parts<'a> {
    id: &'a str,
    unit: &'a str,
    taken: Vec<f64>,
}

impl<'a> Parts<'a> {
    pub fn new(id: &'a str, unit: &'a str) -> Self {
        Self { id, unit, taken: Vec::new() }
    }

    pub fn part(&mut self, what: &str, value: f64) {
        let bar = bars::all().of(self.id).and_then(|entry| entry.bar());
        let verdict = bar.map_or_else(String::new, |bar| format!(", {}", bar.judge(value)));
        println!("  {what}: {value:.2} {}{verdict}", self.unit);
        let [id, part, unit] = [self.id, what, self.unit].map(str::to_owned);
        write(&Line::Part { id, part, unit, value });
        self.taken.push(value);
    }

    /// The worst of all parts is the figure; of none there is none.
    pub fn worst(self) {
        let most = |taken: &[f64]| taken.iter().copied().reduce(f64::max);
        let entry = bars::all().of(self.id);
        let worst = entry.map_or_else(|| most(&self.taken), |entry| entry.worst(&self.taken));
        if let Some(worst) = worst {
            figure(self.id, self.unit, Median::once(worst));
        }
    }
}

fn write(line: &Line) {
    if let Some(path) = std::env::var_os(RECORD) {
        append(Path::new(&path), line);
    }
}

/// Appends a line to a record, which is made if it is not there.
pub fn append(path: &Path, line: &Line) {
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|why| panic!("the record {}: {why}", path.display()));
    let mut line = serde_json::to_vec(line).expect("a line is JSON");
    line.push(b'\n');
    file.write_all(&line).expect("the record is written");
}

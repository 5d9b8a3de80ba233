//! Every figure that a bench takes: printed beside its bar, and appended as a line of JSON to the file that
//! `DLO_BENCH_RECORD` names. Without that file it is printed only.
//!
//! `bench/run` names a new file for each run; the bench book is made of them. A line is written whole, so that a bench that
//! stops in the middle leaves what it had taken.

use std::io::Write;

use serde_json::{Value, json};

use super::bars;
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
    let Median { middle, low, high, rounds } = median;
    write(&json!({
        "kind": "figure", "id": id, "workload": entry.map(|entry| entry.workload.as_str()), "words": words,
        "unit": unit, "median": number(middle), "low": number(low), "high": number(high), "rounds": rounds,
    }));
}

/// One point of a growth curve: the value `y` at size `x`.
pub fn point(curve: &str, x: f64, y: f64) {
    println!("  {curve} at {x}: {y:.3}");
    write(&json!({ "kind": "point", "curve": curve, "x": number(x), "y": number(y) }));
}

/// How one runner of a contest did: `workload` is `W4`, `contest` where it was held ("RabbitMQ, 10 % poison").
pub fn runner(workload: &str, contest: &str, name: &str, took: &Took) {
    let part = |median: Option<Median>| {
        median.map(|Median { middle, low, high, rounds }| {
            json!({ "median": number(middle), "low": number(low), "high": number(high), "rounds": rounds })
        })
    };
    write(&json!({
        "kind": "runner", "workload": workload, "contest": contest, "name": name, "rate": part(Some(took.rate)),
        "client_us": part(took.client_us), "server_us": part(took.server_us), "peak_mb": part(took.peak_mb),
    }));
}

/// What a runner took, over its rounds; nothing where it was not taken.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Messages a second.
    pub rate: Median,
    /// Microseconds of processor for each message.
    pub client_us: Option<Median>,
    pub server_us: Option<Median>,
    pub peak_mb: Option<Median>,
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
        write(
            &json!({ "kind": "part", "id": self.id, "part": what, "unit": self.unit, "value": number(value) }),
        );
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

/// JSON has no word for a figure that could not be taken.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

fn write(line: &Value) {
    let Some(path) = std::env::var_os(RECORD) else { return };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|why| panic!("{RECORD}={}: {why}", path.display()));
    file.write_all(format!("{line}\n").as_bytes()).expect("the record is written");
}

//! Repeated log lines are written once, with a count: trouble that lasts does not hide what else the log says.
//!
//! A line is written if its like was not written by the same place in the code within [`QUIET`]. Every other one is counted,
//! and a summary follows each [`WINDOW`]. Lines are alike if they differ only in words with digits: ports, times, numbers.
//! One place writes at most [`SHOWN`] lines and a summary in a window, for all of its callers. A line with
//! the field `recovered` lets the trouble of its subject be written again. The line of a dead letter is never counted.
//! A client library is one place as a whole, and so are all lines with an error of the store: one failure is met by many.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Between two summaries of one place.
const WINDOW: Duration = Duration::from_secs(60);
/// A line that was not repeated for so long is written again. Longer than the longest pause between two tries of anything.
const QUIET: Duration = Duration::from_secs(45);
/// Lines of one place in a window; they differ in more than numbers.
const SHOWN: u32 = 2;
/// How errors of the store begin. All that runs meets them, so their lines are one place.
const OF_STORE: [&str; 3] = ["the database did not answer", "the disk of", "the file system of"];
/// The beginning of the targets of our own crates.
const OURS: &str = "dlo";
/// Kinds of lines that are remembered of one place. Past that the oldest is forgotten.
const KINDS: usize = 32;
/// Places that are remembered. There are fewer in the program.
const PLACES: usize = 1_024;
/// Bytes of a line that are compared and shown in a summary.
const LONGEST: usize = 1_000;
/// One line for each letter is what log-based alerts count.
const NEVER_COUNTED: &str = "message.dead_lettered";
/// Fields that say what a line is about. Their numbers distinguish lines.
const SUBJECTS: [&str; 4] = ["source", "consumer", "replay", "queue"];
/// The target of summaries, which pass.
const SUMMARY: &str = "dlo_cli::logs::summary";

/// The table, shared by the layer and the thread that writes summaries.
#[derive(Debug, Clone, Default)]
pub(super) struct Repeats(Arc<Mutex<HashMap<Key, Place>>>);

/// What is one place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Ours(Identifier),
    Library(&'static str, Level),
    Store(Level),
}

impl Key {
    fn of(metadata: &'static Metadata<'static>) -> Self {
        let root = metadata.target().split("::").next().unwrap_or_default();
        if metadata.module_path().is_some_and(|path| path.starts_with(OURS)) {
            Self::Ours(metadata.callsite())
        } else {
            Self::Library(root, *metadata.level())
        }
    }
}

/// One place in the code that writes to the log.
#[derive(Debug)]
struct Place {
    level: Level,
    never_counted: bool,
    /// When the window began.
    since: Instant,
    shown: u32,
    hidden: u64,
    kinds: Vec<Kind>,
    /// The last line that was not written.
    last: Line,
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    hash: u64,
    subject: Option<u64>,
    at: Instant,
}

/// What an event says.
#[derive(Debug, Default)]
struct Line {
    message: String,
    fields: String,
    subject: Option<u64>,
    recovered: bool,
    is_of_store: bool,
}

/// How often a line was repeated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    level: Level,
    message: String,
    last: String,
    repeated: u64,
    seconds: u64,
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // Who asks for debug wants all of it.
        if *metadata.level() > Level::INFO || metadata.target() == SUMMARY {
            return true;
        }
        self.admits(metadata, Instant::now(), || {
            let mut line = Line::default();
            event.record(&mut line);
            line
        })
    }
}

impl Repeats {
    /// Whether a line is written now; it is counted otherwise.
    fn admits(
        &self,
        metadata: &'static Metadata<'static>,
        now: Instant,
        read: impl FnOnce() -> Line,
    ) -> bool {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut id = Key::of(metadata);
        if places.get(&id).is_some_and(|place| place.never_counted) {
            return true;
        }
        let line = read();
        if line.is_of_store {
            id = Key::Store(*metadata.level());
        }
        if places.len() >= PLACES && !places.contains_key(&id) {
            return true;
        }
        let place = places.entry(id.clone()).or_insert_with(|| Place::new(*metadata.level(), &line, now));
        if place.never_counted {
            return true;
        }
        let (recovered, subject) = (line.recovered, line.subject);
        let admitted = place.admits(line, now);
        if admitted && recovered {
            // Not the recovery itself: what flaps is not written each time.
            for (_, place) in places.iter_mut().filter(|(other, _)| **other != id) {
                place.kinds.retain(|kind| kind.subject != subject);
            }
        }
        admitted
    }

    /// The summaries that are due, or all.
    pub(super) fn summaries(&self, now: Instant, all: bool) -> Vec<Summary> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.values_mut().filter_map(|place| place.summary(now, all)).collect()
    }
}

impl Place {
    fn new(level: Level, first: &Line, now: Instant) -> Self {
        Self {
            level,
            never_counted: first.message == NEVER_COUNTED,
            since: now,
            shown: 0,
            hidden: 0,
            kinds: Vec::new(),
            last: Line::default(),
        }
    }

    fn admits(&mut self, line: Line, now: Instant) -> bool {
        if self.hidden == 0 && now.duration_since(self.since) >= WINDOW {
            (self.since, self.shown) = (now, 0);
        }
        let is_repeated = !self.is_new(&line, now);
        if !is_repeated && self.shown < SHOWN {
            self.shown += 1;
            return true;
        }
        self.hidden += 1;
        self.last = line;
        false
    }

    /// Whether a line like this was not written lately. Remembers this one.
    fn is_new(&mut self, line: &Line, now: Instant) -> bool {
        let hash = line.kind();
        if let Some(known) = self.kinds.iter_mut().find(|kind| kind.hash == hash) {
            let before = std::mem::replace(&mut known.at, now);
            return now.duration_since(before) >= QUIET;
        }
        if self.kinds.len() >= KINDS
            && let Some(oldest) = (0..self.kinds.len()).min_by_key(|at| self.kinds[*at].at)
        {
            self.kinds.swap_remove(oldest);
        }
        self.kinds.push(Kind { hash, subject: line.subject, at: now });
        true
    }

    fn summary(&mut self, now: Instant, all: bool) -> Option<Summary> {
        let passed = now.duration_since(self.since);
        if self.hidden == 0 || !(all || passed >= WINDOW) {
            return None;
        }
        let Line { message, fields: last, .. } = std::mem::take(&mut self.last);
        let repeated = std::mem::take(&mut self.hidden);
        (self.since, self.shown) = (now, 1);
        Some(Summary { level: self.level, message, last, repeated, seconds: passed.as_secs() })
    }
}

impl Line {
    /// The same for lines that differ in numbers only.
    fn kind(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.subject.hash(&mut hasher);
        without_numbers(&self.message).hash(&mut hasher);
        without_numbers(&self.fields).hash(&mut hasher);
        hasher.finish()
    }

    fn add(&mut self, field: &Field, value: std::fmt::Arguments<'_>) {
        let name = field.name();
        if name == "error" {
            let text = value.to_string();
            self.is_of_store = OF_STORE.iter().any(|begin| text.starts_with(begin));
        }
        if name == "message" {
            let _ = self.message.write_fmt(value);
        } else if SUBJECTS.contains(&name) && self.subject.is_none() {
            let mut hasher = DefaultHasher::new();
            value.to_string().hash(&mut hasher);
            self.subject = Some(hasher.finish());
            let _ = write!(self.fields, "{name}={value} ");
        } else if self.fields.len() < LONGEST {
            let _ = write!(self.fields, "{name}={value} ");
        }
    }
}

impl Visit for Line {
    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "recovered" {
            self.recovered = value;
        } else {
            self.add(field, format_args!("{value}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

/// The text with `#` for every word that has a digit.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for word in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        if out.len() >= LONGEST {
            break;
        }
        if word.contains(|c: char| c.is_ascii_digit()) {
            out.push('#');
            out.extend(word.chars().last().filter(|last| !last.is_alphanumeric()));
        } else {
            out.push_str(word);
        }
    }
    out
}

impl Summary {
    /// Writes it at the level of the lines that it counts.
    pub(super) fn write(&self) {
        macro_rules! write_at {
            ($level:ident) => {
                tracing::$level!(
                    target: SUMMARY,
                    repeated = self.repeated,
                    seconds = self.seconds,
                    last = %self.last.trim_end(),
                    "{} (repeated {} times in {} s)",
                    self.message,
                    self.repeated,
                    self.seconds
                )
            };
        }
        match self.level {
            Level::ERROR => write_at!(error),
            Level::WARN => write_at!(warn),
            _ => write_at!(info),
        }
    }
}

#[cfg(test)]
mod tests;

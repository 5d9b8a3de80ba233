//! The lines of a record: what a bench writes, and what the bench book reads. One JSON object each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::measure::Median;

/// A line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// The first line: when, of what, on which machine.
    Run(Run),
    Figure {
        id: String,
        workload: Option<String>,
        words: String,
        unit: String,
        #[serde(flatten)]
        taken: Median,
    },
    /// One of many, the worst of which is the figure `id`.
    Part {
        id: String,
        part: String,
        unit: String,
        #[serde(with = "number")]
        value: f64,
    },
    /// A point of a growth curve.
    Point {
        curve: String,
        #[serde(with = "number")]
        x: f64,
        #[serde(with = "number")]
        y: f64,
    },
    Runner {
        workload: String,
        contest: String,
        name: String,
        #[serde(flatten)]
        took: Took,
    },
}

/// A run and the machine that it ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its beginning, in UTC.
    pub at: String,
    /// What `bench/run` was told.
    pub asked: String,
    pub commit: String,
    pub cores: usize,
    pub memory_mb: u64,
    pub kernel: String,
    /// What else the machine did at the beginning.
    pub load: String,
    /// Of compiler, servers and languages, as they say themselves.
    pub versions: BTreeMap<String, String>,
}

/// What a runner took, over its rounds; nothing where it was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Messages a second.
    pub rate: Median,
    /// Microseconds of processor for each message.
    pub client_us: Option<Median>,
    pub server_us: Option<Median>,
    pub peak_mb: Option<Median>,
}

/// JSON has no word for a number that could not be taken: it is `null` there.
pub(super) mod number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(to)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
    }
}

/// Numbers by name, of which some could not be taken.
pub(super) fn numbers<'a, D: serde::Deserializer<'a>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let read: BTreeMap<String, Option<f64>> = Deserialize::deserialize(from)?;
    Ok(read.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}

//! Bars and goals: `bench/bars.toml`, the one place where they stand.
//!
//! Each figure that a bench takes has an entry by its id: its workload, what it is in words, what is demanded of it (the
//! bar), what it should become (the goal). Without a bar it is shown beside the others and judged by nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// An entry of `bench/bars.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub id: String,
    /// `W4`.
    pub workload: String,
    /// What the figure is, for people.
    pub words: String,
    pub unit: String,
    /// In which direction bar and goal lie, and which of many is the worst.
    better: Option<Better>,
    bar: Option<f64>,
    goal: Option<f64>,
    /// Where the bar comes from.
    pub from: String,
    /// How it is taken from a growth curve, if no bench takes it itself.
    pub curve: Option<Curve>,
    /// Who measures it where no bench does: a test, say.
    pub instead: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Better {
    More,
    Less,
}

impl Better {
    fn than(self, value: f64) -> Bar {
        match self {
            Self::More => Bar::AtLeast(value),
            Self::Less => Bar::AtMost(value),
        }
    }
}

/// A figure of a whole curve.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    pub name: String,
    pub take: Take,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// The value at the largest size to that at the smallest.
    Ends,
    /// The largest value.
    Most,
    /// The value at the largest size.
    Last,
}

/// What is demanded of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Bar {
    pub fn value(self) -> f64 {
        match self {
            Self::AtLeast(value) | Self::AtMost(value) => value,
        }
    }

    pub fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bar) => figure >= bar,
            Self::AtMost(bar) => figure <= bar,
        }
    }

    /// How many times as good as demanded: one is the bar itself, in either direction.
    pub fn ratio(self, figure: f64) -> f64 {
        match self {
            Self::AtLeast(bar) => figure / bar,
            Self::AtMost(bar) => bar / figure,
        }
    }

    /// `bar at least 0.9: met`.
    pub fn judge(self, figure: f64) -> String {
        format!("bar {self}: {}", if self.holds(figure) { "met" } else { "NOT MET" })
    }
}

impl std::fmt::Display for Bar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bar) => write!(f, "at least {bar}"),
            Self::AtMost(bar) => write!(f, "at most {bar}"),
        }
    }
}

impl Entry {
    /// What must hold.
    pub fn bar(&self) -> Option<Bar> {
        Some(self.better?.than(self.bar?))
    }

    /// What should come to hold.
    pub fn goal(&self) -> Option<Bar> {
        Some(self.better?.than(self.goal?))
    }

    /// The worst of some figures, which is what a demand on all of them is held against.
    pub fn worst(&self, figures: &[f64]) -> Option<f64> {
        let figures = figures.iter().copied();
        match self.better {
            Some(Better::More) => figures.reduce(f64::min),
            Some(Better::Less) | None => figures.reduce(f64::max),
        }
    }
}

/// All entries, in the order of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bars {
    pub figure: Vec<Entry>,
    /// What the growth curves are called.
    #[serde(default)]
    pub curve: Vec<Drawn>,
}

/// A growth curve and its unit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    pub name: String,
    pub words: String,
    pub unit: String,
}

impl Bars {
    pub fn read(text: &str) -> Result<Self, String> {
        let bars: Self = toml::from_str(text).map_err(|why| why.to_string())?;
        let mut seen = BTreeMap::new();
        for entry in &bars.figure {
            let Entry { id, better, bar, goal, .. } = entry;
            if seen.insert(id, ()).is_some() {
                return Err(format!("`{id}` stands there twice; a figure has one bar"));
            }
            if better.is_none() && (bar.is_some() || goal.is_some()) {
                return Err(format!("`{id}`: say by `better` in which direction its bar or goal lies"));
            }
        }
        Ok(bars)
    }

    pub fn of(&self, id: &str) -> Option<&Entry> {
        self.figure.iter().find(|entry| entry.id == id)
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The file as it is.
pub fn all() -> &'static Bars {
    static ALL: LazyLock<Bars> = LazyLock::new(|| {
        let path = root().join("bench/bars.toml");
        let text = std::fs::read_to_string(&path).expect("bench/bars.toml is there");
        Bars::read(&text).unwrap_or_else(|why| panic!("bench/bars.toml: {why}"))
    });
    &ALL
}

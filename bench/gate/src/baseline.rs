//! What was recorded: instructions of one operation of each loop, on which ground, when and why.
//!
//! The file changes by `gate --write` only, which asks for a reason, and stands in the repository: every change of it is a
//! commit. A count is comparable only on the ground it was counted on, so the ground is part of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use dlo_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::callgrind;

/// From the root of the repository.
pub(crate) const FILE: &str = "bench/baseline.toml";

const OPENING: &str = "\
# Instructions of one operation of each hot loop, as `./test bench-gate` counts them.
# Written by `DLO_GATE_WHY=\"one sentence\" ./test bench-gate --write`, and by nothing else.

";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// The day.
    recorded: String,
    why: String,
    pub(crate) instructions: BTreeMap<String, u64>,
    pub(crate) ground: Ground,
}

/// What moves counts without a line of ours being changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ground {
    rustc: String,
    target: String,
    /// SQLite and zstd are C.
    cc: String,
    /// Allocation and copying.
    libc: String,
    /// What the processor can do, as valgrind shows it: hashing and searching choose by it.
    cpu: String,
}

impl Baseline {
    pub(crate) fn new(why: &str, ground: Ground) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0)).to_string();
        let recorded = now.split('T').next().unwrap_or_default().to_owned();
        Self { recorded, why: why.into(), instructions: BTreeMap::new(), ground }
    }

    pub(crate) fn read() -> Result<Self, String> {
        let text =
            std::fs::read_to_string(path()).map_err(|error| format!("{FILE} cannot be read: {error}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| format!("{FILE}: {error}"))?;
        if read.why.trim().is_empty() {
            return Err(format!("{FILE}: `why` is empty; a baseline says why it was recorded"));
        }
        Ok(read)
    }

    pub(crate) fn write(&self) -> Result<(), String> {
        std::fs::write(path(), self.text()?).map_err(|error| format!("{FILE} cannot be written: {error}"))
    }

    fn text(&self) -> Result<String, String> {
        toml::to_string(self).map(|fields| format!("{OPENING}{fields}")).map_err(|error| error.to_string())
    }

    /// Where the recorded counts come from, for those who read the table.
    pub(crate) fn about(&self) -> String {
        format!("recorded {} with rustc {}: {}", self.recorded, self.ground.rustc, self.why)
    }
}

/// The repository is where this was built.
fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FILE)
}

impl Ground {
    pub(crate) fn here() -> Result<Self, String> {
        let rustc = said("rustc", "-vV")?;
        let field = |name: &str| rustc.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        Ok(Self {
            rustc: field("release: ").into(),
            target: field("host: ").into(),
            cc: first_line(&said("cc", "--version")?),
            libc: first_line(&said("ldd", "--version")?),
            cpu: callgrind::answer("cpu")?,
        })
    }

    /// In which points `here` is another ground than this one, said in words.
    pub(crate) fn differences(&self, here: &Self) -> Vec<String> {
        let points = [
            ("rustc", &self.rustc, &here.rustc),
            ("target", &self.target, &here.target),
            ("cc", &self.cc, &here.cc),
            ("libc", &self.libc, &here.libc),
            ("cpu", &self.cpu, &here.cpu),
        ];
        let other = points.into_iter().filter(|(_, recorded, here)| recorded != here);
        other
            .map(|(point, recorded, here)| format!("{point} is `{here}`, recorded was `{recorded}`"))
            .collect()
    }
}

fn said(program: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(program)
        .arg(argument)
        .output()
        .map_err(|error| format!("`{program} {argument}` cannot be run: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// What the code under measurement asks the processor for.
pub(crate) fn cpu() -> String {
    #[cfg(target_arch = "x86_64")]
    let able = [
        ("ssse3", std::arch::is_x86_feature_detected!("ssse3")),
        ("sse4.2", std::arch::is_x86_feature_detected!("sse4.2")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("bmi2", std::arch::is_x86_feature_detected!("bmi2")),
        ("sha", std::arch::is_x86_feature_detected!("sha")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let able: [(&str, bool); 0] = [];
    let words: Vec<&str> = able.into_iter().filter_map(|(word, is)| is.then_some(word)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::ALL;

    #[test]
    fn the_recorded_baseline_has_every_loop_and_says_why() {
        let recorded = Baseline::read().unwrap();
        let mut names: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        names.sort_unstable();
        assert_eq!(recorded.instructions.keys().map(String::as_str).collect::<Vec<_>>(), names);
        assert!(recorded.instructions.values().all(|count| *count > 0));
        assert_eq!(recorded.recorded.len(), "2026-11-16".len());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let ground = Ground { rustc: "1.95.0".into(), ..Ground::default() };
        let mut written = Baseline::new("a \"reason\"", ground);
        written.instructions.insert("decide".into(), 120);
        assert_eq!(Baseline::parse(&written.text().unwrap()).unwrap(), written);
    }

    #[test]
    fn a_baseline_without_a_reason_or_with_a_field_nobody_knows_is_refused() {
        let silent = Baseline::new("  ", Ground::default()).text().unwrap();
        assert!(Baseline::parse(&silent).unwrap_err().contains("why"));
        let said = Baseline::new("a reason", Ground::default()).text().unwrap();
        assert!(Baseline::parse(&said).is_ok());
        assert!(Baseline::parse(&said.replace("[ground]", "[ground]\nmood = \"fine\"")).is_err());
    }

    #[test]
    fn another_ground_is_said_point_by_point() {
        let recorded = Ground { rustc: "1.95.0".into(), cc: "gcc 12".into(), ..Ground::default() };
        let here = Ground { rustc: "1.96.0".into(), ..recorded.clone() };
        assert_eq!(recorded.differences(&recorded), Vec::<String>::new());
        assert_eq!(recorded.differences(&here), ["rustc is `1.96.0`, recorded was `1.95.0`"]);
    }
}

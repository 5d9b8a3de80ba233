//! `[teams.<name>]`, and the file of owners that `rules.owners_file` names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dlo_core::owners::{OwnerRule, file};
use dlo_core::teams::{Team, Teams};

use super::Problem;
use super::reader::Section;

/// Teams by name: how to reach them, and how long their letters may lie.
pub(super) fn read(root: &Section<'_>) -> Teams {
    let mut teams = Teams::default();
    for (name, section) in root.named("teams") {
        let contact = section.name("contact");
        let sla = section.duration("sla", Duration::from_secs(60)..=Duration::from_secs(366 * 24 * 3600));
        section.check();
        teams.0.insert(name, Team { contact, sla });
    }
    teams
}

/// The rules of an owners file beside the config. Every line that cannot be used is told.
pub(super) fn owners_file(directory: Option<&Path>, file: &Path) -> Result<Vec<OwnerRule>, Vec<Problem>> {
    let path = directory.map_or_else(|| PathBuf::from(file), |directory| directory.join(file));
    let problem = |what: String| Problem {
        line: None,
        what: format!("`rules.owners_file` {}: {what}", file.display()),
    };
    let too_long =
        |length: u64| problem(format!("it has {length} bytes, and at most {} are read", file::LARGEST));
    let length = std::fs::metadata(&path).map_err(|cause| vec![problem(cause.to_string())])?.len();
    if length > file::LARGEST as u64 {
        return Err(vec![too_long(length)]);
    }
    let text = std::fs::read_to_string(&path).map_err(|cause| vec![problem(cause.to_string())])?;
    file::read(&text).map_err(|bad| bad.iter().map(|line| problem(line.to_string())).collect())
}

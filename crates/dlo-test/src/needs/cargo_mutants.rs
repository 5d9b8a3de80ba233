//! Installs cargo-mutants below `target/tools`, in the version that `crates/dlo-core/mutants.toml` is written for.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::tail;
use crate::process;
use crate::scratch::LOGS;

pub(super) const VERSION: &str = "27.1.0";
const PROGRAM: &str = "target/tools/bin/cargo-mutants";

/// The arguments of cargo that install it.
pub(super) const INSTALL: [&str; 7] =
    ["install", "--locked", "--version", VERSION, "--root", "target/tools", "cargo-mutants"];

/// Whether it is there in the version that is wanted.
pub(super) fn is_installed() -> bool {
    let version = Command::new(PROGRAM).args(["mutants", "--version"]).output();
    version.is_ok_and(|output| {
        let text = String::from_utf8_lossy(&output.stdout);
        text.split_whitespace().last() == Some(VERSION)
    })
}

pub(super) fn install() -> Result<(), String> {
    let log = Path::new(LOGS).join("install-cargo-mutants.log");
    let mut command = Command::new("cargo");
    command.args(INSTALL);
    match process::run(command, &log, Duration::from_secs(1200))? {
        process::Ended::Passed => Ok(()),
        process::Ended::Failed | process::Ended::TooLong => {
            Err(format!("cargo-mutants could not be installed:\n{}", tail(&log)))
        }
    }
}

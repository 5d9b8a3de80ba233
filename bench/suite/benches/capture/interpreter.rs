//! The interpreter of the peers in Python: an environment of its own below `target/`, with what
//! `bench/peers/requirements.txt` pins. It is made again when that list changes.
//!
//! Where the list cannot be had as a whole, its packages are installed each by itself, and a peer whose package is
//! missing is left out, which is said.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn python() -> PathBuf {
    let place = root().join("target/bench-python");
    let python = place.join("bin/python");
    let list = root().join("bench/peers/requirements.txt");
    let wanted = std::fs::read_to_string(&list).expect("the list of packages");
    let mark = place.join(".installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return python;
    }
    println!("  installing the peers' packages");
    // Where that fails, and it says why, no package is there either.
    let _ = Command::new("python3").args(["-m", "venv"]).arg(&place).status();
    if pip(&python).arg("-r").arg(list).status().is_ok_and(|status| status.success()) {
        std::fs::write(mark, wanted).expect("mark the environment");
    } else {
        // Not marked: the next run tries again.
        for package in wanted.lines().filter(|line| !line.starts_with('#')) {
            let _ = pip(&python).arg(package).status();
        }
    }
    python
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// Whether the package of a peer could be installed, by the name under which it is imported.
pub(crate) fn has(module: &str) -> bool {
    let import = Command::new(python()).args(["-c", &format!("import {module}")]).output();
    let there = import.is_ok_and(|output| output.status.success());
    if !there {
        println!("  SKIPPED: Python has no {module} (bench/peers/requirements.txt names its package)");
    }
    there
}

//! The interpreter of the peers in Python: an environment of its own below `target/`, with what
//! `bench/peers/requirements.txt` pins. It is made again when that list changes.

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
    run(Command::new("python3").args(["-m", "venv"]).arg(&place));
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(list));
    std::fs::write(mark, wanted).expect("mark the environment");
    python
}

pub(crate) fn run(command: &mut Command) {
    let status = command.status().expect("run the interpreter");
    assert!(status.success(), "{command:?} failed");
}

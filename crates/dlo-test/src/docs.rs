//! Docs of the library crates without a warning, and the examples in them.
//!
//! `cargo doc` would compile every dependency once more, only for its types. Cargo's run of the examples hands rustdoc
//! what the build has made already, so this program takes rustdoc's place there: it documents the crate first, then runs
//! its examples.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::{build, process};

/// Set when cargo is to call this program as rustdoc.
pub(crate) const AS_RUSTDOC: &str = "DLO_TEST_AS_RUSTDOC";

/// Runs both for the whole workspace.
pub(crate) fn run(log: &Path, limit: Duration) -> Result<process::Ended, String> {
    // The build has replaced this program's file by an equal one, so it is named by its place.
    let own =
        std::path::absolute("target/debug/dlo-test").map_err(|why| format!("no working directory: {why}"))?;
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--doc", "--locked"]).env("RUSTDOC", own).env(AS_RUSTDOC, "1");
    build::as_the_build_does(&mut command);
    process::run(command, log, limit)
}

/// Called by cargo in rustdoc's place.
pub(crate) fn as_rustdoc(arguments: &[String]) -> ExitCode {
    let rustdoc = |arguments: &[String]| {
        Command::new("rustdoc")
            .args(arguments)
            .env_remove(AS_RUSTDOC)
            .status()
            .is_ok_and(|status| status.success())
    };
    let documents = match documenting(arguments) {
        // Pages are read by people who read the source too, so they may link to what is private.
        Some(documenting) => rustdoc(&documenting),
        None => true,
    };
    if documents && rustdoc(arguments) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The arguments for a crate's pages, made of those for its examples.
fn documenting(arguments: &[String]) -> Option<Vec<String>> {
    if !arguments.iter().any(|argument| argument == "--test") {
        return None;
    }
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--test" => {}
            "--test-run-directory" | "--test-args" | "--test-builder" | "--test-builder-wrapper" => {
                rest.next();
            }
            other if other.starts_with("--test-") || other.starts_with("--nocapture") => {}
            other => kept.push(other.to_owned()),
        }
    }
    kept.extend(
        ["-D", "warnings", "-A", "rustdoc::private_intra_doc_links", "--out-dir", "target/doc"]
            .map(str::to_owned),
    );
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_examples_need_is_left_out_when_a_crate_is_documented() {
        let given = [
            "--edition=2024",
            "--crate-name",
            "dlo_core",
            "--test",
            "src/lib.rs",
            "--test-run-directory",
            "x",
            "--extern",
            "a=b",
        ];
        let kept = documenting(&given.map(str::to_owned)).unwrap();
        assert_eq!(
            kept[..6],
            ["--edition=2024", "--crate-name", "dlo_core", "src/lib.rs", "--extern", "a=b"]
        );
        assert!(kept.contains(&"target/doc".to_owned()));
        assert_eq!(documenting(&["--version".to_owned()]), None);
    }
}

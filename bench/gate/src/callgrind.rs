//! A gate program under valgrind: how many instructions a run of it took, over all its threads.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs `program` with these arguments and counts.
pub(crate) fn instructions(program: &Path, arguments: &[&str]) -> Result<u64, String> {
    let scratch = tempfile::tempdir().map_err(|error| format!("no scratch directory: {error}"))?;
    let written = scratch.path().join("counted");
    let status = under_valgrind(scratch.path())?
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", written.display()))
        .arg(program)
        .args(arguments)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("valgrind cannot be run ({error}); Debian: apt-get install valgrind"))?;
    if !status.success() {
        return Err(format!("`gate {}` under valgrind ended with {status}; see above", arguments.join(" ")));
    }
    let text =
        std::fs::read_to_string(&written).map_err(|error| format!("callgrind left no count: {error}"))?;
    total(&text).ok_or_else(|| "callgrind's file has no line `totals:`".into())
}

/// What this program says under valgrind, which shows another processor than the machine has.
pub(crate) fn answer(argument: &str) -> Result<String, String> {
    let scratch = tempfile::tempdir().map_err(|error| format!("no scratch directory: {error}"))?;
    let output = under_valgrind(scratch.path())?
        .args(["--tool=none", "--quiet"])
        .arg(this_program()?)
        .arg(argument)
        .output()
        .map_err(|error| format!("valgrind cannot be run ({error}); Debian: apt-get install valgrind"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether the gate program has this loop. No turn of it is made.
pub(crate) fn has_loop(program: &Path, name: &str) -> Result<bool, String> {
    let status = Command::new(program)
        .args(["run", name, "0", "0"])
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{} cannot be run: {error}", program.display()))?;
    Ok(status.success())
}

/// Nothing of the caller's environment but the path: what stands there changes how long start-up takes.
fn under_valgrind(scratch: &Path) -> Result<Command, String> {
    let path = std::env::var_os("PATH").ok_or("PATH is not set")?;
    let mut command = Command::new("valgrind");
    command.env_clear().env("PATH", path).env("TMPDIR", scratch).stdin(Stdio::null());
    Ok(command)
}

pub(crate) fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))
}

/// The whole count of a file that callgrind wrote; its parts, if it has several, each have a line of their own.
fn total(text: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("totals:"));
    let counts: Option<Vec<u64>> =
        lines.map(|rest| rest.split_whitespace().next().and_then(|count| count.parse().ok())).collect();
    counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 7\ncmd: ./gate run decide 1 2\n\
        part: 1\n\nevents: Ir\nsummary: 1000\n\nfn=(1) main\n3 400\n\ntotals: 123456\n";

    #[test]
    fn the_count_is_what_callgrind_totals() {
        assert_eq!(total(WRITTEN), Some(123_456));
    }

    #[test]
    fn the_parts_of_a_file_are_counted_together_and_further_events_left_aside() {
        assert_eq!(total("totals: 7 1 2\nfn=(1)\ntotals: 5 0 0\n"), Some(12));
    }

    #[test]
    fn a_file_without_a_count_is_no_count_of_zero() {
        for text in ["", "summary: 7\n", "totals:\n", "totals: many\n", "totals: 7\ntotals: many\n"] {
            assert_eq!(total(text), None, "{text:?}");
        }
    }
}

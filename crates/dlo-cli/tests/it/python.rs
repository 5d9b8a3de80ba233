//! Programs in Python with the clients that other teams use: pika, redis-py and confluent-kafka, of pinned versions.
//!
//! `crates/dlo-testkit/servers/python/install` brings them. A program gets its arguments as JSON in `sys.argv[1]` and
//! prints its answer as one JSON document on stdout.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use dlo_testkit::harness::installed;
use serde_json::Value;

/// The interpreter that finds the clients.
pub(crate) fn interpreter() -> PathBuf {
    installed::folder("python").join("venv/bin/python")
}

/// A program beside the tests, such as `replay/foreign.py`.
pub(crate) fn program(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(path)
}

fn command(program: &str, arguments: &Value) -> Command {
    let mut command = Command::new(interpreter());
    let arguments = arguments.to_string();
    command.args([OsStr::new("-u"), self::program(program).as_os_str(), OsStr::new(&arguments)]);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a program to its end and returns what it printed. A program that fails fails the test with its error output.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &Value) -> Value {
    let output = command(program, arguments).stdin(Stdio::null()).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments} failed: {err}{out}");
    serde_json::from_str(&out).unwrap_or_else(|bad| panic!("{program} printed no JSON ({bad}): {out}{err}"))
}

/// A program that runs until this value is dropped, such as a consumer. Its input is closed and then it is killed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
}

impl Running {
    pub(crate) fn start(program: &str, arguments: &Value) -> Self {
        let mut child = command(program, arguments).stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        Self { child, input }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Peers in Python that are given the letters in a file and answer questions over a pipe, each by its own clock: what the pipe
//! takes is not theirs.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{interpreter, letters};

/// Writes the letters without their payloads: id, type, class, status, milliseconds, error text, with tabs between.
pub(crate) fn export(to: &Path, count: u64) {
    let mut file = BufWriter::new(std::fs::File::create(to).expect("a file"));
    for n in 0..count {
        writeln!(
            file,
            "{n}\t{}\t{}\topen\t{}\t{}",
            letters::event_type(n),
            letters::class(n),
            letters::failed_at(n).as_millis(),
            letters::message(n)
        )
        .expect("write");
    }
    file.flush().expect("write");
}

pub(crate) struct Piped {
    process: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
    /// Until it was ready.
    pub(crate) loaded: Duration,
    /// Bytes that it keeps.
    pub(crate) bytes: f64,
}

impl Piped {
    /// Starts `bench/peers/<script>` with the letters in a file and a place of its own; nothing where its package is missing
    /// or it does not come to be ready, which was said.
    pub(crate) fn start(module: &str, script: &str, letters: &Path, place: &Path) -> Option<Self> {
        if !interpreter::has(module) {
            return None;
        }
        let started = Instant::now();
        let mut process = Command::new(interpreter::python())
            .arg(interpreter::root().join("bench/peers").join(script))
            .args([letters, place])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the peer");
        let asks = process.stdin.take().expect("its ear");
        let says = BufReader::new(process.stdout.take().expect("its words"));
        let mut peer = Self { process, asks, says, loaded: Duration::ZERO, bytes: 0.0 };
        let Some([bytes]) = peer.line().strip_prefix("ready").and_then(numbers::<1>) else {
            println!("  SKIPPED: {script} did not come to be ready");
            return None;
        };
        (peer.loaded, peer.bytes) = (started.elapsed(), bytes);
        Some(peer)
    }

    /// Its numbers in answer to a question.
    pub(crate) fn ask<const N: usize>(&mut self, question: &str) -> [f64; N] {
        writeln!(self.asks, "{question}").expect("the peer lives");
        let line = self.line();
        numbers(&line).unwrap_or_else(|| panic!("`{question}`: the peer said `{line}`"))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("the peer lives");
        line
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn numbers<const N: usize>(line: &str) -> Option<[f64; N]> {
    let words: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    words?.try_into().ok()
}

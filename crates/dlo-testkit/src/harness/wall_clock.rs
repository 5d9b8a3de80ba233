//! The wall clock of a process under test, set as an administrator or a broken time server would set a machine's.
//!
//! A small C library is compiled and preloaded; it adds seconds from a file to what the system tells. Steady clocks go on as
//! they are, and the machine's own clock is never touched.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

const SOURCE: &str = include_str!("wall_clock.c");

/// A wall clock for the processes that are started with it.
#[derive(Debug)]
pub struct WallClock {
    directory: TempDir,
}

impl WallClock {
    /// One that is right.
    pub fn new() -> Self {
        let clock = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        let source = clock.file("wall_clock.c");
        std::fs::write(&source, SOURCE).expect("writing the source of the library");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.file("wall_clock.so")).arg(source);
        let compiled = compiler.output().expect("running the C compiler");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        std::fs::write(clock.file("seconds"), [0; 8]).expect("writing the file of seconds");
        clock
    }

    /// Starts `command` with this clock.
    pub fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.file("wall_clock.so"));
        command.env("DLO_TEST_WALL_CLOCK", self.file("seconds"));
    }

    /// From now on it is ahead of the machine's by so many seconds, or behind.
    pub fn set_ahead(&self, seconds: i64) {
        let file = OpenOptions::new().write(true).open(self.file("seconds")).expect("the file of seconds");
        // In place: it is mapped.
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("writing the file of seconds");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_the_clock_that_it_was_given() {
        let clock = WallClock::new();
        clock.set_ahead(-86_400 * 365);
        let mut command = Command::new("date");
        clock.give_to(command.arg("+%s"));
        let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let told: u64 = told.trim().parse().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!((now - told).abs_diff(86_400 * 365) < 60, "{now} {told}");
    }
}

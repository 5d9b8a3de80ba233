//! A real `dlo serve` on a free port and a temporary directory, stopped when the test is over.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(60);

/// The `dlo` of this build, with nothing of the caller's environment that could change what it does.
pub(crate) fn dlo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlo"));
    for name in ["DLO_SERVER", "DLO_TOKEN", "DLO_CONFIG", "DLO_DATABASE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("COLUMNS", "100").current_dir(std::env::temp_dir()).stdin(Stdio::null());
    command
}

/// What a finished command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The output, of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The output as JSON, of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|bad| panic!("{bad}: {text}"))
    }
}

/// Runs `dlo` with these arguments.
pub(crate) fn run(args: &[&str]) -> Said {
    Said::new(&dlo().args(args).output().unwrap())
}

/// A running office.
#[derive(Debug)]
pub(crate) struct Office {
    child: Child,
    pub(crate) address: String,
    pub(crate) data: PathBuf,
    _dir: Option<TempDir>,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Office {
    /// An office with a data directory of its own.
    pub(crate) fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let mut office = Self::at(&dir.path().join("data"), &[]);
        office._dir = Some(dir);
        office
    }

    /// An office on that directory; ready when this returns.
    pub(crate) fn at(data: &Path, args: &[&str]) -> Self {
        let mut command = dlo();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(args);
        Self::spawn(command, data)
    }

    pub(crate) fn spawn(mut command: Command, data: &Path) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (found, address) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to the end, so that the office never waits for a reader.
            for line in stdout.lines().map_while(Result::ok) {
                let line = line.trim();
                // `dlo serve` and `dlo demo` say it each in their own words.
                let said =
                    line.strip_prefix("listening").or_else(|| line.strip_prefix("The office is open:"));
                if let Some(at) = said {
                    let _ = found.send(at.trim().to_string());
                }
            }
        });
        match address.recv_timeout(PATIENCE) {
            Ok(address) => Self { child, address, data: data.into(), _dir: None, log: Some(log) },
            Err(_) => {
                let _ = child.kill();
                panic!("the office did not start: {}", log.join().unwrap());
            }
        }
    }

    /// Runs a client command against this office.
    pub(crate) fn dlo(&self, args: &[&str]) -> Said {
        Said::new(&self.command(args).output().unwrap())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = dlo();
        command.args(args).env("DLO_SERVER", &self.address);
        command
    }

    /// `GET`, answered with JSON; null when nobody answers.
    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = ureq::get(format!("{}{path}", self.address)).call();
        answer.ok().and_then(|mut answer| answer.body_mut().read_json().ok()).unwrap_or(Value::Null)
    }

    /// The process of the office.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends letters and returns the office's answer.
    pub(crate) fn post(&self, letters: &Value) -> Value {
        // As text of our own making: payloads are kept as they are sent, and the client's JSON is laid out prettily.
        let request = ureq::post(format!("{}/api/v1/letters", self.address));
        let mut answer =
            request.header("content-type", "application/json").send(letters.to_string()).unwrap();
        answer.body_mut().read_json().unwrap()
    }

    /// Sends one letter and returns its id.
    pub(crate) fn letter(&self, letter: &Value) -> String {
        let answer = self.post(letter);
        answer["results"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it as a power cut would, and leaves its place to another.
    pub(crate) fn strike(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, waits for it, and returns its log.
    pub(crate) fn end(self) -> String {
        self.signal("-TERM");
        self.ended().1
    }

    /// Waits until it has ended by itself; its exit status and its log.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.log.take().unwrap().join().unwrap());
            }
            assert!(Instant::now() < until, "the office did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A test that failed shows what the office said.
        if std::thread::panicking()
            && let Some(log) = self.log.take()
        {
            eprintln!("the office at {} said: {}", self.address, log.join().unwrap_or_default());
        }
    }
}

//! Real servers for tests: each on a free port, in a temporary directory, gone when the tests are gone.
//!
//! Every harness keeps the same rules. It takes a running server from an environment variable if there is one, else it
//! starts its own. Ready means a real round trip, never an open port. A server that cannot be had is a failure
//! with directions, not a skipped test. A server ends with the process that started it, however that one ends:
//! [`Supervised`] sees to it. What Debian does not package is brought by `servers/<name>/install`; [`installed`] finds it.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub mod activemq;
pub mod artemis;
pub mod installed;
pub mod kafka;
pub mod nats;
pub mod postgres;
pub mod proxy;
pub mod pubsub;
pub mod rabbitmq;
pub mod redis;
pub mod sqs;
pub mod wall_clock;

/// A port that nobody listens on at this moment.
///
/// It is not of the range that the system gives to outgoing connections: one of those could take it before the server
/// does. Test programs run beside each other, so each draws from the whole range.
pub fn free_port() -> u16 {
    for _ in 0..1_000 {
        let port = rand::random_range(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port was found in 1,000 tries");
}

/// A temporary directory in which a server that runs as another user may write.
pub(crate) fn scratch(what: &str) -> TempDir {
    let directory =
        tempfile::Builder::new().prefix(&format!("dlo-{what}-")).tempdir().expect("a temporary directory");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).expect("opening the temporary directory");
    directory
}

/// Whether this process is root: some servers refuse to run so.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Tries `attempt` until it succeeds; panics with its last answer after `patience`.
pub(crate) async fn until_ready<T>(
    what: &str,
    patience: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(answer) => return answer,
            Err(why) if start.elapsed() > patience => panic!("{what} was not ready in {patience:?}: {why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A server that is stopped when this value, or the whole process, is gone.
///
/// A shell stands between: it starts the server and waits for the end of its own input, which the operating system
/// closes even if the tests are killed. Then it ends the server by its pid and removes its directory. The server's log is
/// copied to the folder that `DLO_TEST_SERVER_LOGS` names, where `./test` keeps it if a test failed.
#[derive(Debug)]
pub(crate) struct Supervised {
    shell: Child,
    /// Closed to end the server.
    leash: Option<ChildStdin>,
}

const SUPERVISOR: &str = r#"
signal=$1; directory=$2; shift 2
"$@" </dev/null & server=$!
read -r other && signal=$other
kill -s "$signal" "$server"
wait "$server"
[ -n "$directory" ] || exit 0
[ -z "$DLO_TEST_SERVER_LOGS" ] || cp "$directory/log" "$DLO_TEST_SERVER_LOGS/$(basename "$directory").log" 2>/dev/null
rm -rf "$directory"
"#;

impl Supervised {
    /// Starts `command`; `signal` ends it, and `directory` is removed afterwards.
    pub(crate) fn start(command: &[String], signal: &str, directory: TempDir, log: PathBuf) -> Self {
        Self::supervise(command, signal, Some(directory.keep()), log)
    }

    /// As [`Supervised::start`] for a server that will be started again: its directory is the caller's.
    pub(crate) fn keeping(command: &[String], signal: &str, log: PathBuf) -> Self {
        Self::supervise(command, signal, None, log)
    }

    fn supervise(command: &[String], signal: &str, directory: Option<PathBuf>, log: PathBuf) -> Self {
        let out = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let out = out.expect("a file for the server's log");
        let errors = out.try_clone().expect("a second handle of the log");
        let mut shell = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor", signal])
            .arg(directory.unwrap_or_default())
            .args(command)
            // A Ctrl-C is for the tests: a shell that it ended could not clean up behind them.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(errors)
            .spawn()
            .expect("starting a shell");
        let leash = shell.stdin.take();
        Self { shell, leash }
    }

    /// Ends the server by another signal than it was started with (`KILL`: as a crash would), and waits for its end.
    pub(crate) fn end(mut self, signal: &str) {
        use std::io::Write as _;
        if let Some(mut leash) = self.leash.take() {
            let _ = writeln!(leash, "{signal}");
        }
        let _ = self.shell.wait();
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.leash.take();
        let _ = self.shell.wait();
    }
}

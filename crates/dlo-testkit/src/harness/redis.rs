//! A real Redis or Valkey: one server for all tests of a process, or one for a test that stops it.
//!
//! `DLO_TEST_REDIS` names a running server for the shared one (`redis://host:port`). Every write is on disk before it is
//! answered, so that a killed server has lost nothing when it is started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::proxy::Proxy;
use super::{Supervised, free_port, installed, scratch};

const VARIABLE: &str = "DLO_TEST_REDIS";
const MISSING: &str = "redis-server was not found in PATH: install it (Debian: apt-get install redis-server), or set \
    DLO_TEST_REDIS to the URL of a running server";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server on which every test has streams of its own.
#[derive(Debug)]
pub struct Redis {
    pub url: String,
    _server: Option<Supervised>,
}

static SHARED: OnceCell<Redis> = OnceCell::const_new();
static SHARED_VALKEY: OnceCell<Redis> = OnceCell::const_new();

impl Redis {
    /// The server of this process, started when first asked for.
    pub async fn shared() -> &'static Self {
        SHARED
            .get_or_init(async || match std::env::var(VARIABLE) {
                Ok(url) => Self { url, _server: None },
                Err(_) => Self::started(redis(), &[]).await,
            })
            .await
    }

    /// Valkey instead, as `servers/valkey/install` brought it.
    pub async fn shared_valkey() -> &'static Self {
        SHARED_VALKEY.get_or_init(async || Self::started(valkey(), &[]).await).await
    }

    /// A server with settings of its own (`--requirepass`, `secret`, …).
    pub async fn with(settings: &[&str]) -> Self {
        Self::started(redis(), settings).await
    }

    async fn started(program: Vec<String>, settings: &[&str]) -> Self {
        let (directory, port) = (scratch("redis"), free_port());
        let log = directory.path().join("log");
        let command = command(program, settings, &directory, port);
        // The directory goes with the server, as a shared one is never dropped.
        let server = Supervised::start(&command, "TERM", directory, log.clone());
        until_up(port, &log).await;
        Self { url: format!("redis://127.0.0.1:{port}"), _server: Some(server) }
    }

    /// A server that may be stopped, started again and cut off.
    pub async fn own() -> OwnRedis {
        let running = Running::start(scratch("redis"), free_port()).await;
        let proxy = Proxy::before(([127, 0, 0, 1], running.port).into()).await;
        OwnRedis { port: running.port, running: Mutex::new(State::Up(running)), proxy }
    }
}

/// A server that one test has to itself, behind a wire that can be cut.
#[derive(Debug)]
pub struct OwnRedis {
    port: u16,
    running: Mutex<State>,
    proxy: Proxy,
}

#[derive(Debug)]
enum State {
    Up(Running),
    Down(TempDir),
    /// Between the two.
    Moving,
}

impl OwnRedis {
    pub fn url(&self) -> String {
        format!("redis://{}", self.proxy.address)
    }

    /// Ends the server as a crash would.
    pub async fn kill(&self) {
        if let State::Up(running) = self.change(State::Moving) {
            self.change(State::Down(running.kill()));
        }
    }

    /// Starts it again on the same port with the same data.
    pub async fn start(&self) {
        if let State::Down(directory) = self.change(State::Moving) {
            let running = Running::start(directory, self.port).await;
            self.change(State::Up(running));
        }
    }

    /// Cuts every connection that is open now.
    pub fn cut(&self) {
        self.proxy.cut();
    }

    fn change(&self, to: State) -> State {
        std::mem::replace(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner), to)
    }
}

#[derive(Debug)]
struct Running {
    server: Supervised,
    port: u16,
    directory: TempDir,
}

impl Running {
    async fn start(directory: TempDir, port: u16) -> Self {
        let log = directory.path().join("log");
        let server = Supervised::keeping(&command(redis(), &[], &directory, port), "TERM", log.clone());
        until_up(port, &log).await;
        Self { server, port, directory }
    }

    fn kill(self) -> TempDir {
        self.server.end("KILL");
        self.directory
    }
}

fn command(program: Vec<String>, settings: &[&str], directory: &TempDir, port: u16) -> Vec<String> {
    let (place, port) = (directory.path().display().to_string(), port.to_string());
    let usual = ["--port", &port, "--bind", "127.0.0.1", "--dir", &place, "--save", ""];
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let own = usual.iter().chain(&durable).chain(settings).map(ToString::to_string);
    program.into_iter().chain(own).collect()
}

async fn until_up(port: u16, log: &Path) {
    let began = Instant::now();
    while let Err(why) = ping(port).await {
        let said = || std::fs::read_to_string(log).unwrap_or_default();
        assert!(
            began.elapsed() < PATIENCE,
            "Redis was not ready in {PATIENCE:?}: {why}; its log: {}",
            said()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A round trip. A server that asks for a password is there as well.
async fn ping(port: u16) -> Result<(), String> {
    let trip = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; 64];
        let read = stream.read(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
    };
    match tokio::time::timeout(Duration::from_secs(1), trip).await {
        Ok(Ok(answer)) if answer.starts_with("+PONG") || answer.starts_with("-NOAUTH") => Ok(()),
        Ok(Ok(answer)) => Err(answer),
        Ok(Err(why)) => Err(why.to_string()),
        Err(_) => Err("no answer".to_owned()),
    }
}

fn redis() -> Vec<String> {
    let there =
        Command::new("redis-server").arg("--version").output().is_ok_and(|said| said.status.success());
    assert!(there, "{MISSING}");
    vec!["redis-server".to_owned()]
}

/// Valkey comes with libraries that are newer than the system's, and is run with them.
fn valkey() -> Vec<String> {
    let run: PathBuf = installed::folder("valkey").join("run");
    vec![run.display().to_string()]
}

//! A real NATS server with JetStream: one for all tests of a process, or one that a test has for itself.
//!
//! `DLO_TEST_NATS` names a running server (its URL) for the shared one. Otherwise the newest installed binary is
//! started: that of `servers/nats/install`, else `nats-server` of the system. Ready means that JetStream says so on the
//! server's monitoring port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::proxy::Proxy;
use super::{Supervised, free_port, installed, scratch};

const VARIABLE: &str = "DLO_TEST_NATS";
const MISSING: &str = "nats-server was not found: run crates/dlo-testkit/servers/nats/install, or install it (Debian: \
    apt-get install nats-server), or set DLO_TEST_NATS to the URL of a running server with JetStream";
const PATIENCE: Duration = Duration::from_secs(30);

/// Which server to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// What `servers/nats/install` brings, else the system's.
    Newest,
    /// What the system packages.
    System,
}

/// A server. Stopped with this value.
#[derive(Debug)]
pub struct Nats {
    port: u16,
    monitoring: u16,
    directory: TempDir,
    binary: PathBuf,
    server: Mutex<Option<Supervised>>,
    wire: OnceCell<Proxy>,
}

static SHARED: OnceCell<Nats> = OnceCell::const_new();

impl Nats {
    /// The URL of the server of this process, started when first asked for.
    pub async fn shared() -> String {
        match std::env::var(VARIABLE) {
            Ok(url) => url,
            Err(_) => SHARED.get_or_init(|| Self::own(Release::Newest, "")).await.url(),
        }
    }

    /// A server that the test has for itself. `more` stands in its configuration: users, TLS.
    pub async fn own(release: Release, more: &str) -> Self {
        Self::own_in(scratch("nats"), release, more).await
    }

    /// As [`Nats::own`] in a directory in which the test has put files.
    pub async fn own_in(directory: TempDir, release: Release, more: &str) -> Self {
        let (port, monitoring) = (free_port(), free_port());
        let store = directory.path().join("store").display().to_string();
        let config = format!(
            "server_name: test-{port}\nlisten: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitoring}\n\
             jetstream {{\n  store_dir: {store:?}\n  max_memory_store: 64MB\n  max_file_store: 2GB\n}}\n{more}\n"
        );
        std::fs::write(directory.path().join("nats.conf"), config).expect("writing the configuration");
        let nats = Self {
            port,
            monitoring,
            directory,
            binary: binary(release),
            server: Mutex::default(),
            wire: OnceCell::new(),
        };
        nats.start().await;
        nats
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The URL of a wire to this server that [`Nats::cut`] cuts.
    pub async fn wire(&self) -> String {
        let wire = self.wire.get_or_init(|| Proxy::before(self.address())).await;
        format!("nats://{}", wire.address)
    }

    /// Cuts every connection through the wire; new ones work.
    pub fn cut(&self) {
        if let Some(wire) = self.wire.get() {
            wire.cut();
        }
    }

    /// Starts the server on its port with the data that it has, and waits until JetStream answers.
    pub async fn start(&self) {
        let config = self.directory.path().join("nats.conf").display().to_string();
        let log = self.directory.path().join("log");
        let command = [self.binary.display().to_string(), "-c".to_owned(), config];
        let server = Supervised::keeping(&command, "TERM", log.clone());
        self.server.lock().expect("nobody panics with it").replace(server);
        // A loop of its own: the future must be `Send`, for suites that start and stop through a trait.
        let began = Instant::now();
        while let Err(why) = healthy(self.monitoring).await {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "NATS was not ready in {PATIENCE:?}: {why}; its log: {said}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the server as a crash would.
    pub fn kill(&self) {
        if let Some(server) = self.server.lock().expect("nobody panics with it").take() {
            server.end("KILL");
        }
    }
}

async fn healthy(port: u16) -> Result<(), String> {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(b"GET /healthz?js-enabled-only=true HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match ask.await {
        Ok(answer) if answer.contains(" 200 ") => Ok(()),
        Ok(answer) => Err(answer),
        Err(why) => Err(why.to_string()),
    }
}

fn binary(release: Release) -> PathBuf {
    if release == Release::Newest
        && let Some(folder) = installed::find("nats")
    {
        return folder.join("nats-server");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push("/usr/sbin".into());
    let found = places.into_iter().map(|place| place.join("nats-server")).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{MISSING}"))
}

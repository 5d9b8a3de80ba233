//! Google's Pub/Sub emulator, one for all tests of a process.
//!
//! It is a jar of the Google Cloud SDK (package `google-cloud-cli-pubsub-emulator`); `DLO_PUBSUB_EMULATOR_JAR` names one
//! that is elsewhere. It keeps everything in memory and nothing over its end, so an outage here is the wire's: the
//! emulator stays, and nobody can reach it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OnceCell};

use super::proxy::Proxy;
use super::{Supervised, free_port, scratch};

const PATIENCE: Duration = Duration::from_secs(60);
const FOLDER: &str = "/usr/lib/google-cloud-sdk/platform/pubsub-emulator/lib";

#[derive(Debug)]
pub struct Pubsub {
    pub address: SocketAddr,
    _server: Supervised,
}

static SHARED: OnceCell<Pubsub> = OnceCell::const_new();

impl Pubsub {
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let port = free_port();
        let directory = scratch("pubsub");
        let log = directory.path().join("log");
        let command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar"]
            .map(str::to_owned)
            .into_iter()
            .chain([jar().display().to_string(), "--host=127.0.0.1".to_owned(), format!("--port={port}")])
            .collect::<Vec<_>>();
        let server = Supervised::start(&command, "KILL", directory, log);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        ready(address).await;
        Self { address, _server: server }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn jar() -> PathBuf {
    if let Some(jar) = std::env::var_os("DLO_PUBSUB_EMULATOR_JAR") {
        return jar.into();
    }
    let is_emulator = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("cloud-pubsub-emulator-") && name.ends_with("-all.jar")
    };
    let found = std::fs::read_dir(Path::new(FOLDER)).ok();
    let found = found.and_then(|files| files.flatten().map(|file| file.path()).find(is_emulator));
    found.unwrap_or_else(|| {
        panic!(
            "there is no Pub/Sub emulator in {FOLDER}: install `google-cloud-cli-pubsub-emulator` of the Google Cloud SDK, \
             or name its jar in DLO_PUBSUB_EMULATOR_JAR"
        )
    })
}

/// A loop of its own, since a test must be able to wait for it on any thread.
async fn ready(address: SocketAddr) {
    let start = Instant::now();
    loop {
        let why = match list_topics(address).await {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => return,
            Ok(answer) => answer,
            Err(why) => why.to_string(),
        };
        assert!(start.elapsed() < PATIENCE, "the Pub/Sub emulator was not ready in {PATIENCE:?}: {why}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A question that only a working service answers.
async fn list_topics(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /v1/projects/ready/topics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), stream.take(64).read_to_end(&mut answer)).await??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The shared emulator behind a wire of one test, that can be cut and taken away.
#[derive(Debug)]
pub struct WiredPubsub {
    pub endpoint: String,
    server: SocketAddr,
    port: u16,
    proxy: Mutex<Option<Proxy>>,
}

impl WiredPubsub {
    pub async fn new() -> Self {
        let server = Pubsub::shared().await.address;
        let proxy = Proxy::before(server).await;
        let (port, endpoint) = (proxy.address.port(), format!("http://{}", proxy.address));
        Self { endpoint, server, port, proxy: Mutex::new(Some(proxy)) }
    }

    /// Nobody listens any more, and every connection is cut.
    pub async fn stop(&self) {
        if let Some(proxy) = self.proxy.lock().await.take() {
            proxy.close().await;
        }
    }

    pub async fn start(&self) {
        *self.proxy.lock().await = Some(Proxy::on_port(self.port, self.server).await);
    }

    pub async fn cut(&self) {
        if let Some(proxy) = &*self.proxy.lock().await {
            proxy.cut();
        }
    }
}

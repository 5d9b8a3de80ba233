//! A running office for one test, and a client that can also misbehave.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::time::{Clock, Timestamp};
use dlo_server::{ServeError, Server, ServerConfig};
use dlo_store::StoreLimits;
use dlo_store::sqlite::SqliteStore;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(WallClock)
}

/// Stopped when dropped, its data gone with it.
pub(crate) struct Office {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) running: JoinHandle<Result<(), ServeError>>,
    pub(crate) data: TempDir,
}

impl Office {
    pub(crate) async fn open() -> Self {
        Self::open_with(ServerConfig::default()).await
    }

    pub(crate) async fn open_with(config: ServerConfig) -> Self {
        Self::start(config, StoreLimits::default(), |server| server).await
    }

    pub(crate) async fn start(
        config: ServerConfig,
        limits: StoreLimits,
        finish: impl FnOnce(Server) -> Server,
    ) -> Self {
        Self::start_in(TempDir::new().unwrap(), config, limits, finish).await
    }

    /// Starts on what is in `data` already.
    pub(crate) async fn start_in(
        data: TempDir,
        mut config: ServerConfig,
        limits: StoreLimits,
        finish: impl FnOnce(Server) -> Server,
    ) -> Self {
        config.scratch = Some(data.path().to_path_buf());
        let store = SqliteStore::open(data.path(), limits).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = finish(Server::new(config, store, clock()));
        let running = tokio::spawn(server.run(listener, async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), running, data }
    }

    /// Closes the office and returns its data.
    pub(crate) async fn close(mut self) -> TempDir {
        self.stop();
        self.running.await.unwrap().unwrap();
        self.data
    }

    /// Tells the office to close.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"").await
    }

    pub(crate) async fn post_json(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], body.as_bytes()).await
    }

    pub(crate) async fn post_lines(&self, body: &[u8]) -> Reply {
        self.send("POST", "/api/v1/letters", &[("content-type", "application/x-ndjson")], body).await
    }

    /// Sends a letter and returns its id.
    pub(crate) async fn letter(&self, json: &str) -> String {
        let reply = self.post_json("/api/v1/letters", json).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["results"][0]["id"].as_str().expect("an id").to_string()
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.raw(bytes).await
    }

    /// Sends exactly these bytes and reads until the office closes.
    pub(crate) async fn raw(&self, bytes: Vec<u8>) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let writer = tokio::spawn(async move {
            // The office may close before it has read everything; what it answered is what counts.
            let _ = writing.write_all(&bytes).await;
            writing
        });
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), reading.read_to_end(&mut answer)).await;
        if let Err(error) = read.expect("an answer within a minute") {
            assert!(!answer.is_empty(), "no answer: {error}");
        }
        drop(writer);
        Reply::parse(&answer)
    }
}

/// Asks any office.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Reply {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    Reply::parse(&answer)
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
            .collect();
        let mut body = bytes[end + 4..].to_vec();
        if headers.get("transfer-encoding").is_some_and(|how| how == "chunked") {
            body = whole(&body);
        }
        Self { status, headers, body }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Status and code of a problem, whose shape is checked on the way.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{}", self.text());
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        (self.status, problem["code"].as_str().unwrap().to_string())
    }
}

fn whole(mut chunked: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunked.windows(2).position(|window| window == b"\r\n").expect("a chunk's size");
        let size = usize::from_str_radix(std::str::from_utf8(&chunked[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunked[end + 2..end + 2 + size]);
        chunked = &chunked[end + 4 + size..];
    }
}

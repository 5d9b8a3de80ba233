//! Servers that speak SQS, brought by `servers/sqs/install`.
//!
//! Amazon's own cannot be had on a test machine, and each of the two that can knows what the other does not. ElasticMQ
//! keeps queues and messages in files, so it can be stopped in the middle. LocalStack keeps everything in memory, and
//! knows retention, redrive-allow policies and receipts that outlive their lease.
//! `DLO_TEST_ELASTICMQ` and `DLO_TEST_LOCALSTACK` name running ones by URL.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OnceCell};

use super::proxy::Proxy;
use super::{Supervised, free_port, installed, scratch};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server for all tests of a process.
#[derive(Debug)]
pub struct Sqs {
    pub endpoint: String,
    _server: Option<Supervised>,
}

static ELASTICMQ: OnceCell<Sqs> = OnceCell::const_new();
static LOCALSTACK: OnceCell<Sqs> = OnceCell::const_new();

impl Sqs {
    pub async fn elasticmq() -> &'static Self {
        let start = async |port, directory: TempDir| {
            let command = elasticmq(port, directory.path(), false);
            let log = directory.path().join("log");
            Supervised::start(&command, "KILL", directory, log)
        };
        ELASTICMQ.get_or_init(|| Self::start("DLO_TEST_ELASTICMQ", start)).await
    }

    pub async fn localstack() -> &'static Self {
        let start = async |port, directory: TempDir| {
            let command = localstack(port, directory.path());
            let log = directory.path().join("log");
            Supervised::start(&command, "KILL", directory, log)
        };
        LOCALSTACK.get_or_init(|| Self::start("DLO_TEST_LOCALSTACK", start)).await
    }

    async fn start(variable: &str, start: impl AsyncFnOnce(u16, TempDir) -> Supervised) -> Self {
        if let Ok(endpoint) = std::env::var(variable) {
            return Self { endpoint, _server: None };
        }
        let port = free_port();
        let directory = scratch("sqs");
        let log = directory.path().join("log");
        let server = start(port, directory).await;
        ready(port, &log).await;
        Self { endpoint: format!("http://127.0.0.1:{port}"), _server: Some(server) }
    }
}

/// An ElasticMQ of one test, behind a wire that can be cut, that can be stopped and started with what it holds.
#[derive(Debug)]
pub struct OwnSqs {
    pub endpoint: String,
    port: u16,
    proxy: Proxy,
    server: Mutex<Option<Supervised>>,
    directory: TempDir,
}

impl OwnSqs {
    pub async fn elasticmq() -> Self {
        let port = free_port();
        let proxy = Proxy::before(SocketAddr::from(([127, 0, 0, 1], port))).await;
        let endpoint = format!("http://{}", proxy.address);
        let own = Self { endpoint, port, proxy, server: Mutex::default(), directory: scratch("sqs") };
        own.start().await;
        own
    }

    pub async fn start(&self) {
        let log = self.directory.path().join("log");
        let command = elasticmq(self.port, self.directory.path(), true);
        *self.server.lock().await = Some(Supervised::keeping(&command, "KILL", log.clone()));
        ready(self.port, &log).await;
    }

    /// As a crash would: what it confirmed is in its files. Only which queues there are it writes behind their backs, and
    /// a queue that it forgets takes along what was confirmed in it: that is waited for.
    pub async fn stop(&self) {
        let file = self.directory.path().join("messages.mv.db");
        let (queues, start) = (self.queues().await, Instant::now());
        loop {
            let written = std::fs::read(&file).unwrap_or_default();
            let stands = |queue: &String| written.windows(queue.len()).any(|part| part == queue.as_bytes());
            let missing = queues.iter().find(|queue| !stands(queue));
            let Some(missing) = missing else { break };
            assert!(start.elapsed() < PATIENCE, "{missing} is not in {}", file.display());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if let Some(server) = self.server.lock().await.take() {
            server.end("KILL");
        }
    }

    pub fn cut(&self) {
        self.proxy.cut();
    }

    /// The names of its queues, by its older protocol.
    async fn queues(&self) -> Vec<String> {
        let mut wire = TcpStream::connect(("127.0.0.1", self.port)).await.expect("the server listens");
        let request = "GET /?Action=ListQueues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        wire.write_all(request.as_bytes()).await.expect("the server reads");
        let mut answer = String::new();
        wire.read_to_string(&mut answer).await.expect("the server answers");
        let urls = answer.split("<QueueUrl>").skip(1).filter_map(|rest| rest.split('<').next());
        urls.filter_map(|url| url.rsplit('/').next()).map(str::to_owned).collect()
    }
}

fn elasticmq(port: u16, directory: &Path, keeps: bool) -> Vec<String> {
    let at = directory.display();
    // The database writes through: what is told as kept is in the file.
    let storage = format!(
        r#"messages-storage {{ enabled = {keeps}, driver-class-name = "org.h2.Driver", username = "", password = ""
            uri = "jdbc:h2:{at}/messages;WRITE_DELAY=0", prune-data-on-init = false }}
        queues-storage {{ enabled = {keeps}, path = "{at}/queues.conf" }}"#
    );
    let config = format!(
        r#"include classpath("application.conf")
        rest-sqs {{ enabled = true, bind-hostname = "127.0.0.1", bind-port = {port}, sqs-limits = strict }}
        rest-stats {{ enabled = false }}
        node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
        aws {{ region = us-east-1, accountId = 000000000000 }}
        {storage}"#
    );
    let file = directory.join("elasticmq.conf");
    std::fs::write(&file, config).expect("writing the server's settings");
    let jars = installed::folder("sqs").join("elasticmq").join("*");
    ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("-Dconfig.file={}", file.display()), "-cp".to_owned(), jars.display().to_string()])
        .chain(["org.elasticmq.server.Main".to_owned()])
        .collect()
}

fn localstack(port: u16, directory: &Path) -> Vec<String> {
    let python = installed::folder("sqs").join("localstack/bin/python");
    let at = directory.display();
    let settings = [
        format!("GATEWAY_LISTEN=127.0.0.1:{port}"),
        format!("LOCALSTACK_HOST=127.0.0.1:{port}"),
        format!("FILESYSTEM_ROOT={at}"),
        format!("HOME={at}"),
        "GATEWAY_SERVER=hypercorn".to_owned(),
        "SERVICES=sqs".to_owned(),
        "STRICT_SERVICE_LOADING=1".to_owned(),
        "DISABLE_EVENTS=1".to_owned(),
        "SKIP_SSL_CERT_DOWNLOAD=1".to_owned(),
        "DNS_ADDRESS=0".to_owned(),
    ];
    let run = [python.display().to_string(), "-m".to_owned(), "localstack.runtime.main".to_owned()];
    ["env".to_owned()].into_iter().chain(settings).chain(run).collect()
}

/// A loop of its own, since a test must be able to wait for it on any thread.
async fn ready(port: u16, log: &Path) {
    let start = Instant::now();
    loop {
        let why = match list_queues(port).await {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => return,
            Ok(answer) => answer,
            Err(why) => why.to_string(),
        };
        if start.elapsed() > PATIENCE {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            panic!("the SQS server was not ready in {PATIENCE:?}: {why}; its log: {log}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A question that only a working service answers.
async fn list_queues(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: AmazonSQS.ListQueues\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, \
         SignedHeaders=host, Signature=0\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), stream.take(4_096).read_to_end(&mut answer)).await??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

//! Apache Kafka, started for tests: one node that is broker and controller (KRaft), from Maven Central.
//!
//! `Kafka::shared` is one server for all tests of a process, `Kafka::own` one that a test may stop, start and cut off.
//! Clients of both are sent through a [`Proxy`], which the server advertises as its address. Beside the open door there is one
//! with SASL: [`USER`] with [`PASSWORD`], by PLAIN and by SCRAM. Ready means that it answers a request of its protocol.
//! `DLO_TEST_KAFKA` names a running cluster for the shared one (`host:port`, with topic creation allowed).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::proxy::Proxy;
use super::{Supervised, free_port, installed, scratch};

pub mod foreign;
mod tls;

pub use tls::Tls;

const VARIABLE: &str = "DLO_TEST_KAFKA";
/// Where the same cluster speaks SASL.
const SASL_VARIABLE: &str = "DLO_TEST_KAFKA_SASL";
const PATIENCE: Duration = Duration::from_secs(90);
/// Sixteen bytes in base64, as every cluster has.
const CLUSTER: &str = "ZGxvLXRlc3RzLWthZmthMQ";
/// For tests: small, since several may run at once, and soon up.
const QUICK: &[&str] = &["-Xmx320m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
/// For benchmarks: as its own scripts start it.
const EARNEST: &[&str] = &["-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"];

/// Who may enter by SASL.
pub const USER: &str = "office";
pub const PASSWORD: &str = "s3cret-of-the-tests";

/// A cluster of one node.
#[derive(Debug)]
pub struct Kafka {
    /// Where clients go, through the proxy.
    pub bootstrap: String,
    /// The door with SASL.
    pub sasl: String,
    tls: Option<Tls>,
    node: Option<Node>,
}

/// A node that we started.
#[derive(Debug)]
struct Node {
    directory: PathBuf,
    port: u16,
    /// How Java is started.
    flags: &'static [&'static str],
    proxy: Option<Proxy>,
    server: Mutex<Option<Supervised>>,
    /// Removes the directory behind the server, even if the tests are killed: it outlives single starts and stops.
    _janitor: Supervised,
}

static SHARED: OnceCell<Kafka> = OnceCell::const_new();

impl Kafka {
    /// The cluster of this process, started when first asked for.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start_shared).await
    }

    async fn start_shared() -> Self {
        match std::env::var(VARIABLE) {
            Ok(bootstrap) => {
                let sasl = std::env::var(SASL_VARIABLE).unwrap_or_else(|_| bootstrap.clone());
                Self { sasl, bootstrap, tls: None, node: None }
            }
            Err(_) => Self::own().await,
        }
    }

    /// A cluster that nobody else uses.
    pub async fn own() -> Self {
        Self::start_with(None, QUICK).await
    }

    /// As [`Kafka::own`], with a door that speaks TLS.
    pub async fn with_tls() -> Self {
        Self::start_with(Some(free_port()), QUICK).await
    }

    /// For benchmarks: as a server runs in earnest, with no proxy before it. It cannot be cut off.
    pub async fn in_earnest() -> Self {
        Self::start_with(None, EARNEST).await
    }

    /// The door that [`Kafka::with_tls`] opens.
    pub fn tls(&self) -> &Tls {
        self.tls.as_ref().expect("a server that was started with TLS")
    }

    async fn start_with(tls: Option<u16>, flags: &'static [&'static str]) -> Self {
        let scratch = scratch("kafka");
        let directory = scratch.path().to_owned();
        let (port, internal, controller, sasl) = (free_port(), free_port(), free_port(), free_port());
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // A runtime of its own: the one that asks first ends with its test, and the wires with it.
        let proxy = (flags == QUICK).then(|| on_own_runtime(Proxy::before(address)));
        let door = proxy.as_ref().map_or(address, |proxy| proxy.address);
        let mut settings = settings(&directory, port, door.port(), [internal, controller, sasl]);
        let tls = tls.map(|port| tls::open(&mut settings, &directory, port));
        std::fs::write(directory.join("server.properties"), settings).expect("writing the settings");
        format(&directory);
        let waiting = ["sleep", "infinity"].map(ToOwned::to_owned);
        let janitor = Supervised::start(&waiting, "TERM", scratch, "/dev/null".into());
        let node = Node { directory, port, flags, proxy, server: Mutex::new(None), _janitor: janitor };
        node.start().await;
        Self { bootstrap: door.to_string(), sasl: format!("127.0.0.1:{sasl}"), tls, node: Some(node) }
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("a server that the tests started themselves")
    }

    /// Ends the server as a crash would.
    pub fn stop(&self) {
        let server = self.node().server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            server.end("KILL");
        }
    }

    /// Starts it again on the same port with the same data.
    pub async fn start(&self) {
        self.node().start().await;
    }

    /// Cuts every connection of clients that is open now.
    pub fn cut(&self) {
        self.node().proxy.as_ref().expect("a server behind a proxy").cut();
    }
}

impl Node {
    async fn start(&self) {
        let log = self.directory.join("log");
        let settings = self.directory.join("server.properties").display().to_string();
        let mut command = java(self.flags);
        command.extend(["kafka.Kafka".to_owned(), settings]);
        let server = Supervised::keeping(&command, "KILL", log.clone());
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        let port = self.port;
        let deadline = Instant::now() + PATIENCE;
        while !tokio::task::spawn_blocking(move || answers(port)).await.unwrap_or(false) {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(Instant::now() < deadline, "Kafka was not ready in {PATIENCE:?}; its log: {}", said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn java(flags: &[&str]) -> Vec<String> {
    let folder = installed::folder("kafka");
    let path = format!("{}:{}", folder.join("lib/*").display(), folder.join("classes").display());
    [&["java"], flags, &["-cp", &path]].concat().into_iter().map(ToOwned::to_owned).collect()
}

/// A format of the data directory, once; the SCRAM user is written into it.
fn format(directory: &Path) {
    let settings = directory.join("server.properties").display().to_string();
    let command = java(QUICK);
    let formatted = Command::new(&command[0])
        .args(&command[1..])
        .args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", &settings])
        .args(["--add-scram", &format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]")])
        .args(["--add-scram", &format!("SCRAM-SHA-256=[name={USER},password={PASSWORD}]")])
        .output()
        .expect("running java");
    assert!(
        formatted.status.success(),
        "formatting Kafka's storage failed: {}{}",
        String::from_utf8_lossy(&formatted.stdout),
        String::from_utf8_lossy(&formatted.stderr)
    );
}

fn settings(directory: &Path, port: u16, proxy: u16, [internal, controller, sasl]: [u16; 3]) -> String {
    let data = directory.join("data").display().to_string();
    let plain = "org.apache.kafka.common.security.plain.PlainLoginModule";
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule";
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=INTERNAL\n\
         listener.security.protocol.map=\
         CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL\n\
         listeners=CLIENT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal},CONTROLLER://127.0.0.1:{controller},\
         SASL://127.0.0.1:{sasl}\n\
         advertised.listeners=CLIENT://127.0.0.1:{proxy},INTERNAL://127.0.0.1:{internal},SASL://127.0.0.1:{sasl}\n\
         listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.sasl.plain.sasl.jaas.config={plain} required user_{USER}=\"{PASSWORD}\";\n\
         listener.name.sasl.scram-sha-256.sasl.jaas.config={scram} required;\n\
         listener.name.sasl.scram-sha-512.sasl.jaas.config={scram} required;\n\
         log.dirs={data}\n\
         # Everything on one node.\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         transaction.state.log.num.partitions=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         # Whoever creates a topic by naming it is found out.\n\
         auto.create.topics.enable=true\n\
         num.partitions=1\n\
         # What takes minutes in earnest takes moments here.\n\
         group.initial.rebalance.delay.ms=0\n\
         broker.session.timeout.ms=6000\n\
         broker.heartbeat.interval.ms=300\n\
         log.retention.check.interval.ms=500\n\
         log.segment.delete.delay.ms=100\n\
         log.initial.task.delay.ms=500\n\
         log.cleaner.backoff.ms=300\n\
         log.cleaner.dedupe.buffer.size=4194304\n\
         num.network.threads=2\n\
         num.io.threads=3\n\
         background.threads=2\n\
         socket.request.max.bytes=209715200\n"
    )
}

/// Whether the server answers a request for the versions of its protocol.
fn answers(port: u16) -> bool {
    // Length, key 18, version 0, number 7, no client id.
    const ASK: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
    let ask = || {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut wire = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        wire.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        wire.write_all(&ASK).ok()?;
        let mut answer = [0; 10];
        wire.read_exact(&mut answer).ok()?;
        Some(answer[4..10] == [0, 0, 0, 7, 0, 0])
    };
    ask().unwrap_or(false)
}

/// Runs `future` on a runtime that lives as long as the process.
fn on_own_runtime<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("kafka-proxy".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let _ = tell.send(future.await);
                std::future::pending::<()>().await;
            });
        })
        .expect("a thread");
    told.recv().expect("the future ends")
}

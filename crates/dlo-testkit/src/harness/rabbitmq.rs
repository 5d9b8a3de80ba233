//! A real RabbitMQ: one server for all tests of a process, and a second one that a test may stop, start and cut off.
//!
//! It takes seconds to start, so both are started when first asked for, and tests that stop it take turns. The server is
//! Debian's, without its wrapper, with its own port mapper, names and cookie, so that nothing of the machine's own is
//! touched. It speaks TLS as well, under an authority made here. It ends as in a crash: its data is scratch.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{Supervised, free_port, scratch};

const VARIABLE: &str = "DLO_TEST_RABBITMQ";
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
const MISSING: &str =
    "RabbitMQ was not found in /usr/lib/rabbitmq: install it (Debian: apt-get install rabbitmq-server)";
/// Seven seconds on an idle machine, three times that on a busy one.
const PATIENCE: Duration = Duration::from_secs(120);

/// The server's own administrator, who may come from this machine only.
const AUTHORIZATION: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";

/// Starts the port mapper and the server, and ends both when told. The directory goes with them, unless it is kept for
/// the next start.
const WRAPPER: &str = r#"
directory=$1; server=$2
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" & mapper=$!
end() {
  kill -KILL "$beam" "$mapper"; wait "$beam" "$mapper"
  [ -e "$directory/keep" ] || rm -rf "$directory"
  exit 0
}
"$server" & beam=$!
trap end TERM
wait "$beam"
end
"#;

/// One server.
#[derive(Debug)]
pub struct Rabbitmq {
    directory: PathBuf,
    amqp: u16,
    amqps: u16,
    management: u16,
    mapper: u16,
    distribution: u16,
    running: Option<Supervised>,
}

static SHARED: OnceCell<Rabbitmq> = OnceCell::const_new();
static OWN: Mutex<Option<Rabbitmq>> = Mutex::const_new(None);

/// The server that may be stopped, for as long as this is held.
#[derive(Debug)]
pub struct Own(MutexGuard<'static, Option<Rabbitmq>>);

impl Rabbitmq {
    /// The server that `DLO_TEST_RABBITMQ` describes, else one of this process, started when first asked for.
    pub async fn shared() -> &'static Self {
        SHARED
            .get_or_init(|| async {
                if let Ok(description) = std::env::var(VARIABLE) {
                    return Self::described(&description);
                }
                let mut server = Self::new();
                server.start().await;
                server
            })
            .await
    }

    /// Its directory and ports, for another process of the same tests.
    pub fn description(&self) -> String {
        let Self { directory, amqp, amqps, management, mapper, distribution, .. } = self;
        format!("{amqp},{amqps},{management},{mapper},{distribution},{}", directory.display())
    }

    /// The reverse of [`Rabbitmq::description`].
    fn described(description: &str) -> Self {
        let mut parts = description.splitn(6, ',');
        let mut part = || parts.next().unwrap_or_else(|| panic!("{VARIABLE}: `{description}` is cut off"));
        let mut port = || part().parse().unwrap_or_else(|why| panic!("{VARIABLE}: `{description}`: {why}"));
        Self {
            amqp: port(),
            amqps: port(),
            management: port(),
            mapper: port(),
            distribution: port(),
            directory: part().into(),
            running: None,
        }
    }

    /// The second server, running, for whoever may stop it; the next one waits.
    pub async fn own() -> Own {
        let mut own = OWN.lock().await;
        let server = own.get_or_insert_with(Self::new);
        if server.running.is_none() {
            server.start().await;
        }
        Own(own)
    }

    fn new() -> Self {
        assert!(Path::new(SERVER).exists(), "{MISSING}");
        let server = Self {
            directory: TempDir::keep(scratch("rabbitmq")),
            amqp: free_port(),
            amqps: free_port(),
            management: free_port(),
            mapper: free_port(),
            distribution: free_port(),
            running: None,
        };
        for folder in ["mnesia", "log", "home"] {
            std::fs::create_dir(server.directory.join(folder)).expect("a folder of the server");
        }
        certificates(&server.directory);
        let write = |name: &str, text: String| {
            std::fs::write(server.directory.join(name), text).expect("a settings file of the server");
        };
        // The shovel is what the benchmarks hold a replay against.
        write("enabled_plugins", "[rabbitmq_management,rabbitmq_shovel].\n".to_owned());
        write("rabbitmq.conf", server.settings());
        server
    }

    fn settings(&self) -> String {
        let Self { amqp, amqps, management, directory, .. } = self;
        let directory = directory.display();
        format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
             listeners.ssl.1 = 127.0.0.1:{amqps}\n\
             ssl_options.cacertfile = {directory}/ca.pem\n\
             ssl_options.certfile = {directory}/server.pem\n\
             ssl_options.keyfile = {directory}/server.key\n\
             ssl_options.verify = verify_peer\n\
             ssl_options.fail_if_no_peer_cert = false\n\
             management.tcp.ip = 127.0.0.1\n\
             management.tcp.port = {management}\n\
             vm_memory_high_watermark.absolute = 1GB\n\
             disk_free_limit.absolute = 50MB\n\
             collect_statistics_interval = 1000\n"
        )
    }

    /// What the server and its control program are told of where everything lies.
    fn environment(&self) -> [String; 16] {
        let file = |name: &str| self.directory.join(name).display().to_string();
        [
            format!("HOME={}", file("home")),
            // The server's process is the one that is started, with no shell between.
            "RUNNING_UNDER_SYSTEMD=true".to_owned(),
            format!("RABBITMQ_NODENAME={}", self.node()),
            "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1".to_owned(),
            format!("RABBITMQ_NODE_PORT={}", self.amqp),
            format!("RABBITMQ_DIST_PORT={}", self.distribution),
            format!("ERL_EPMD_PORT={}", self.mapper),
            "ERL_EPMD_ADDRESS=127.0.0.1".to_owned(),
            format!("RABBITMQ_MNESIA_BASE={}", file("mnesia")),
            format!("RABBITMQ_LOG_BASE={}", file("log")),
            format!("RABBITMQ_ENABLED_PLUGINS_FILE={}", file("enabled_plugins")),
            format!("RABBITMQ_CONFIG_FILE={}", file("rabbitmq.conf")),
            format!("RABBITMQ_CONF_ENV_FILE={}", file("none")),
            format!("RABBITMQ_ADVANCED_CONFIG_FILE={}", file("none")),
            format!("RABBITMQ_PID_FILE={}", file("pid")),
            // Idle schedulers sleep instead of spinning: the machine has others to run.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none \
             -kernel inet_dist_use_interface {127,0,0,1}"
                .to_owned(),
        ]
    }

    async fn start(&mut self) {
        let _ = std::fs::remove_file(self.directory.join("keep"));
        let mut command = vec!["env".to_owned()];
        command.extend(self.environment());
        command.extend(["sh", "-c", WRAPPER, "rabbitmq"].map(str::to_owned));
        command.extend([self.directory.display().to_string(), SERVER.to_owned()]);
        let log = self.directory.join("out");
        self.running = Some(Supervised::keeping(&command, "TERM", log.clone()));
        self.until_ready(&log).await;
    }

    /// What makes it write down which queues there are. The server confirms a queue up to two seconds before it is on disk, and one
    /// that a crash made it forget takes along what was confirmed in it: tests are about what lies in queues that last.
    fn write_tables(&self) -> Command {
        let mut command = Command::new("env");
        command.args(self.environment()).args([CONTROL, "-q", "eval", "mnesia:sync_log()."]);
        command
    }

    fn node(&self) -> String {
        format!("dlo{}@localhost", self.amqp)
    }

    /// A loop of its own: the shared helper's future cannot be sent to another thread, and this one is.
    async fn until_ready(&self, log: &Path) {
        let start = Instant::now();
        loop {
            let ready = match greeted(self.amqp).await {
                Ok(()) => answers(self.management).await,
                Err(why) => Err(why),
            };
            let Err(why) = ready else { return };
            let log = || std::fs::read_to_string(log).unwrap_or_default();
            assert!(
                start.elapsed() < PATIENCE,
                "RabbitMQ was not ready in {PATIENCE:?}: {why}; its log: {}",
                log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The URL of its virtual host `/`, as its administrator.
    pub fn url(&self) -> String {
        self.url_at(self.amqp)
    }

    /// As [`Rabbitmq::url`] through another port, a proxy's.
    pub fn url_at(&self, port: u16) -> String {
        format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
    }

    /// The port that speaks TLS; its certificate names `localhost`.
    pub fn tls_port(&self) -> u16 {
        self.amqps
    }

    /// The authority that signed its certificate, and with `client.pem` and `client.key` a client's.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The URL of its management plugin.
    pub fn management(&self) -> String {
        format!("http://guest:guest@127.0.0.1:{}", self.management)
    }

    /// Puts something to its management plugin, and returns the first words of its answer.
    pub async fn put(&self, path: &str, body: &str) -> String {
        let mut wire = TcpStream::connect(("127.0.0.1", self.management)).await.expect("the plugin listens");
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{AUTHORIZATION}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        wire.write_all(request.as_bytes()).await.expect("the plugin reads");
        let mut answer = Vec::new();
        wire.read_to_end(&mut answer).await.expect("the plugin answers");
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.amqp).into()
    }
}

impl std::ops::Deref for Own {
    type Target = Rabbitmq;

    fn deref(&self) -> &Rabbitmq {
        self.0.as_ref().expect("it was made when it was asked for")
    }
}

impl Own {
    /// Ends the server as a crash would; its data stays.
    pub async fn stop(&mut self) {
        let Some(server) = self.0.as_mut() else { return };
        std::fs::write(server.directory.join("keep"), "").expect("a mark in the server's folder");
        if let Some(running) = server.running.take() {
            let mut write_tables = server.write_tables();
            let end = move || {
                let written = write_tables.output().expect("running the server's control program");
                running.end("TERM");
                assert!(
                    written.status.success(),
                    "rabbitmqctl: {}",
                    String::from_utf8_lossy(&written.stderr)
                );
            };
            // Waiting for a process blocks, and a proxy may live on this thread.
            tokio::task::spawn_blocking(end).await.expect("ending the server");
        }
    }

    /// Starts it again on the same ports with the same data.
    pub async fn start(&mut self) {
        if let Some(server) = self.0.as_mut() {
            server.start().await;
        }
    }
}

/// The server answers a client's first word.
async fn greeted(port: u16) -> Result<(), String> {
    let mut wire = TcpStream::connect(("127.0.0.1", port)).await.map_err(|why| why.to_string())?;
    wire.write_all(b"AMQP\x00\x00\x09\x01").await.map_err(|why| why.to_string())?;
    let mut first = [0];
    let read = tokio::time::timeout(Duration::from_secs(2), wire.read_exact(&mut first)).await;
    match read {
        Ok(Ok(_)) if first[0] == 1 => Ok(()),
        other => Err(format!("it did not greet: {other:?}")),
    }
}

/// The management plugin answers.
async fn answers(port: u16) -> Result<(), String> {
    let mut wire = TcpStream::connect(("127.0.0.1", port)).await.map_err(|why| why.to_string())?;
    let request = format!("GET /api/overview HTTP/1.0\r\n{AUTHORIZATION}\r\n\r\n");
    wire.write_all(request.as_bytes()).await.map_err(|why| why.to_string())?;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), wire.read_to_end(&mut answer)).await;
    let ok = answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200");
    if ok { Ok(()) } else { Err(format!("its management plugin does not answer: {read:?}")) }
}

/// An authority, and what it signed for the server and for a client.
fn certificates(directory: &Path) {
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output();
        let output = output.expect("running openssl (Debian: apt-get install openssl)");
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    std::fs::write(directory.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        .expect("a file of names");
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=dlo-test-authority",
    );
    for (who, name) in [("server", "localhost"), ("client", "dlo-test")] {
        openssl(&format!("req -newkey rsa:2048 -nodes -keyout {who}.key -out {who}.csr -subj /CN={name}"));
        openssl(&format!(
            "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {who}.pem"
        ));
    }
}

//! ActiveMQ Artemis with its AMQP 1.0 door: one server for all tests of a process, or one of its own for who stops it.
//!
//! The jars come from Maven Central by `servers/artemis/install`. Nothing is created on first use and nothing limits
//! deliveries, but below `limited.` (three) and `expiring.` (100 ms). The user `office` may do everything, `guest` nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::proxy::Proxy;
use super::{Supervised, free_port, installed, scratch};

const PATIENCE: Duration = Duration::from_secs(90);

/// The version that `servers/artemis/pom.xml` pins.
pub const VERSION: &str = "2.44.0";

/// A running broker.
#[derive(Debug)]
pub struct Artemis {
    port: u16,
    tls_port: u16,
    directory: PathBuf,
    scratch: Mutex<Scratch>,
    proxy: Proxy,
    server: Mutex<Option<Supervised>>,
}

/// Who removes the directory: a shared server is never dropped, so there its supervisor does.
#[derive(Debug)]
enum Scratch {
    Ours { _directory: TempDir },
    ForTheSupervisor(TempDir),
    Given,
}

static SHARED: OnceCell<Artemis> = OnceCell::const_new();

impl Artemis {
    /// The server of this process, started when first asked for.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::begin(Scratch::ForTheSupervisor)).await
    }

    /// A server that nobody else uses.
    pub async fn own() -> Self {
        Self::begin(|directory| Scratch::Ours { _directory: directory }).await
    }

    async fn begin(scratch_of: impl FnOnce(TempDir) -> Scratch) -> Self {
        let directory = scratch("artemis");
        let (port, tls_port) = (free_port(), free_port());
        certificate(directory.path());
        let settings = configuration(directory.path(), port, tls_port);
        std::fs::write(directory.path().join("broker.xml"), settings).expect("writing broker.xml");
        let proxy = Proxy::before(([127, 0, 0, 1], port).into()).await;
        let path = directory.path().to_owned();
        let scratch = Mutex::new(scratch_of(directory));
        let artemis = Self { port, tls_port, directory: path, scratch, proxy, server: Mutex::new(None) };
        artemis.start().await;
        artemis
    }

    /// The broker's address, past the wire that can be cut.
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.port)
    }

    /// The address through the wire that can be cut.
    pub fn cuttable_url(&self) -> String {
        format!("amqp://{}", self.proxy.address)
    }

    pub fn tls_url(&self) -> String {
        format!("amqps://localhost:{}", self.tls_port)
    }

    /// The authority that signed the certificate of [`Artemis::tls_url`], PEM.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    pub fn cut(&self) {
        self.proxy.cut();
    }

    /// Ends it by its own way: what it took is written first.
    pub fn stop(&self) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        server.expect("the broker runs").end("TERM");
    }

    /// Ends it as a crash would.
    pub fn kill(&self) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        server.expect("the broker runs").end("KILL");
    }

    /// Starts it, on the same port with the same data, and waits until it answers.
    pub async fn start(&self) {
        let home = installed::folder("artemis");
        let classes = format!("{}/lib/*:{}/classes", home.display(), home.display());
        let settings = self.directory.join("broker.xml");
        let command = [
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            &classes,
            "Server",
            &settings.display().to_string(),
        ];
        let log = self.directory.join("log");
        let server = {
            let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
            match std::mem::replace(&mut *scratch, Scratch::Given) {
                Scratch::ForTheSupervisor(directory) => {
                    Supervised::start(&command.map(str::to_owned), "KILL", directory, log.clone())
                }
                kept @ (Scratch::Ours { .. } | Scratch::Given) => {
                    *scratch = kept;
                    Supervised::keeping(&command.map(str::to_owned), "KILL", log.clone())
                }
            }
        };
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        let began = Instant::now();
        while let Err(why) = greet(self.port).await {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(
                began.elapsed() < PATIENCE,
                "Artemis was not ready in {PATIENCE:?}: {why}; its log: {told}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The opening words of AMQP's SASL layer: the server answers them and offers its mechanisms.
async fn greet(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"AMQP\x03\x01\x00\x00").await?;
    let mut answer = [0_u8; 12];
    let read = tokio::time::timeout(Duration::from_secs(2), stream.read_exact(&mut answer)).await;
    read.map_err(|_| std::io::Error::other("no answer"))?.map(drop)
}

/// A certificate for `localhost`, and the authority that signed it.
fn certificate(directory: &Path) {
    const MAKE: &str = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
            -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
            -keyout server.key -out server.csr
        printf 'subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n' > server.ext
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext \
            -out server.pem";
    let made =
        Command::new("sh").args(["-c", MAKE]).current_dir(directory).output().expect("running openssl");
    assert!(made.status.success(), "openssl failed: {}", String::from_utf8_lossy(&made.stderr));
    let at = |name: &str| directory.join(name).display().to_string();
    let store = format!("source.key={}\nsource.cert={}\n", at("server.key"), at("server.pem"));
    std::fs::write(directory.join("server.pemcfg"), store).expect("writing the key store");
}

fn configuration(directory: &Path, port: u16, tls_port: u16) -> String {
    let at = directory.display();
    let rights = [
        "createDurableQueue",
        "deleteDurableQueue",
        "createNonDurableQueue",
        "deleteNonDurableQueue",
        "createAddress",
        "deleteAddress",
        "consume",
        "browse",
        "send",
        "manage",
    ];
    let rights: String =
        rights.iter().map(|right| format!("<permission type=\"{right}\" roles=\"office\"/>\n")).collect();
    format!(
        r##"<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<persistence-enabled>true</persistence-enabled>
<journal-type>NIO</journal-type>
<journal-directory>{at}/journal</journal-directory>
<bindings-directory>{at}/bindings</bindings-directory>
<paging-directory>{at}/paging</paging-directory>
<large-messages-directory>{at}/large</large-messages-directory>
<journal-min-files>2</journal-min-files>
<journal-file-size>10M</journal-file-size>
<journal-datasync>false</journal-datasync>
<message-expiry-scan-period>200</message-expiry-scan-period>
<critical-analyzer>false</critical-analyzer>
<max-disk-usage>100</max-disk-usage>
<acceptors>
<acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP;saslMechanisms=PLAIN</acceptor>
<acceptor name="amqps">tcp://127.0.0.1:{tls_port}?protocols=AMQP;saslMechanisms=PLAIN;sslEnabled=true;keyStoreType=PEMCFG;keyStorePath={at}/server.pemcfg</acceptor>
</acceptors>
<security-settings><security-setting match="#">{rights}</security-setting></security-settings>
<address-settings><address-setting match="#">
<auto-create-queues>false</auto-create-queues>
<auto-create-addresses>false</auto-create-addresses>
<auto-delete-queues>false</auto-delete-queues>
<auto-delete-addresses>false</auto-delete-addresses>
<max-delivery-attempts>-1</max-delivery-attempts>
<redelivery-delay>0</redelivery-delay>
</address-setting>
<address-setting match="limited.#"><max-delivery-attempts>3</max-delivery-attempts></address-setting>
<address-setting match="expiring.#"><expiry-delay>100</expiry-delay></address-setting>
</address-settings>
</core></configuration>
"##
    )
}

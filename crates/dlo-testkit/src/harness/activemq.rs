//! ActiveMQ Classic with its STOMP door: one server for all tests of a process, or one of its own for who stops it.
//!
//! From Debian's `activemq`, with the scheduler and the statistics plugin (`libxstream-java`, `libjettison-java`) switched
//! on. Dead letters of a queue go to `<queue>.dlq`. The only user is `office`.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::proxy::Proxy;
use super::{Supervised, free_port, scratch};

const HOME: &str = "/usr/share/activemq";
const MISSING: &str = "ActiveMQ was not found in /usr/share/activemq: install it (Debian: apt-get install activemq \
    libxstream-java libjettison-java)";
const PATIENCE: Duration = Duration::from_secs(90);

/// A running broker.
#[derive(Debug)]
pub struct ActiveMq {
    port: u16,
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

static SHARED: OnceCell<ActiveMq> = OnceCell::const_new();

impl ActiveMq {
    /// The server of this process, started when first asked for.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::begin(Scratch::ForTheSupervisor)).await
    }

    /// A server that nobody else uses.
    pub async fn own() -> Self {
        Self::begin(|directory| Scratch::Ours { _directory: directory }).await
    }

    async fn begin(scratch_of: impl FnOnce(TempDir) -> Scratch) -> Self {
        assert!(Path::new(HOME).join("bin/activemq.jar").exists(), "{MISSING}");
        let directory = scratch("activemq");
        let port = free_port();
        lay_out(directory.path(), port);
        let proxy = Proxy::before(([127, 0, 0, 1], port).into()).await;
        let path = directory.path().to_owned();
        let scratch = Mutex::new(scratch_of(directory));
        let activemq = Self { port, directory: path, scratch, proxy, server: Mutex::new(None) };
        activemq.start().await;
        activemq
    }

    /// The broker's address, past the wire that can be cut.
    pub fn url(&self) -> String {
        format!("stomp://127.0.0.1:{}", self.port)
    }

    /// The address through the wire that can be cut.
    pub fn cuttable_url(&self) -> String {
        format!("stomp://{}", self.proxy.address)
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

    /// Starts it, on the same port with the same data, and waits until it lets us in.
    pub async fn start(&self) {
        let at = self.directory.display();
        let command = [
            "java".to_owned(),
            "-Xmx256m".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            format!("-Dlog4j.configuration=file:{at}/conf/log4j.properties"),
            format!("-Dactivemq.home={HOME}"),
            format!("-Dactivemq.base={at}"),
            format!("-Dactivemq.conf={at}/conf"),
            format!("-Dactivemq.data={at}/data"),
            "-jar".to_owned(),
            format!("{HOME}/bin/activemq.jar"),
            "start".to_owned(),
            format!("xbean:file:{at}/conf/activemq.xml"),
        ];
        let log = self.directory.join("log");
        let server = {
            let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
            match std::mem::replace(&mut *scratch, Scratch::Given) {
                Scratch::ForTheSupervisor(directory) => {
                    Supervised::start(&command, "KILL", directory, log.clone())
                }
                kept @ (Scratch::Ours { .. } | Scratch::Given) => {
                    *scratch = kept;
                    Supervised::keeping(&command, "KILL", log.clone())
                }
            }
        };
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        let began = Instant::now();
        while let Err(why) = greet(self.port).await {
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(
                began.elapsed() < PATIENCE,
                "ActiveMQ was not ready in {PATIENCE:?}: {why}; its log: {told}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Ready is who answers a greeting with `CONNECTED`.
async fn greet(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let hello = b"CONNECT\naccept-version:1.2\nhost:localhost\nlogin:office\npasscode:s3cret\n\n\0";
    stream.write_all(hello).await?;
    let mut answer = [0_u8; 9];
    let read = tokio::time::timeout(Duration::from_secs(2), stream.read_exact(&mut answer)).await;
    read.map_err(|_| std::io::Error::other("no answer"))??;
    match &answer == b"CONNECTED" {
        true => Ok(()),
        false => Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
    }
}

fn lay_out(directory: &Path, port: u16) {
    for folder in ["conf", "data", "lib"] {
        std::fs::create_dir_all(directory.join(folder)).expect("a folder of the broker");
    }
    for jar in ["xstream.jar", "jettison.jar"] {
        let from = Path::new("/usr/share/java").join(jar);
        assert!(from.exists(), "{MISSING}");
        std::os::unix::fs::symlink(from, directory.join("lib").join(jar)).expect("a link to a jar");
    }
    let log = "log4j.rootLogger=WARN, console\nlog4j.appender.console=org.apache.log4j.ConsoleAppender\n\
        log4j.appender.console.layout=org.apache.log4j.PatternLayout\n";
    std::fs::write(directory.join("conf/log4j.properties"), log).expect("writing log4j.properties");
    std::fs::write(directory.join("conf/activemq.xml"), configuration(directory, port))
        .expect("writing activemq.xml");
}

fn configuration(directory: &Path, port: u16) -> String {
    let at = directory.display();
    format!(
        r#"<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="dlo" dataDirectory="{at}/data"
  schedulerSupport="true" useShutdownHook="false">
<destinationPolicy><policyMap><policyEntries>
<policyEntry queue="&gt;" maxPageSize="2000" maxBrowsePageSize="2000" expireMessagesPeriod="300">
<deadLetterStrategy><individualDeadLetterStrategy queuePrefix="" queueSuffix=".dlq"/></deadLetterStrategy>
</policyEntry>
</policyEntries></policyMap></destinationPolicy>
<managementContext><managementContext createConnector="false"/></managementContext>
<persistenceAdapter><kahaDB directory="{at}/data/kahadb" journalMaxFileLength="8mb"/></persistenceAdapter>
<plugins>
<simpleAuthenticationPlugin anonymousAccessAllowed="false"><users>
<authenticationUser username="office" password="s3cret" groups="office"/>
</users></simpleAuthenticationPlugin>
<statisticsBrokerPlugin/>
</plugins>
<systemUsage><systemUsage>
<memoryUsage><memoryUsage limit="96 mb"/></memoryUsage>
<storeUsage><storeUsage limit="1 gb"/></storeUsage>
<tempUsage><tempUsage limit="64 mb"/></tempUsage>
<jobSchedulerUsage><jobSchedulerUsage limit="256 mb"/></jobSchedulerUsage>
</systemUsage></systemUsage>
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/></transportConnectors>
</broker>
</beans>
"#
    )
}

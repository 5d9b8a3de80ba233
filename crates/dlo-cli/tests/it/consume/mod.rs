//! `dlo consume` from outside: a real sidecar, a real Redis, real handlers in other languages.
//!
//! Each test has a stream of its own on one server. The scripted handler is Python with the standard library; which message gets
//! which answer stands in the message itself, so a test reads as what it sends and what becomes of it.

mod answers;
mod everywhere;
mod languages;
mod large;
mod life;
mod paused;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Destination, Outgoing, Settlement};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::redis::Redis;
use serde_json::Value;

use crate::office::{Office, dlo};

/// Go compiles its standard library the first time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A queue on the shared Redis, its broker, and the directory with the config.
struct House {
    dir: tempfile::TempDir,
    queue: String,
    broker: Arc<dyn Broker>,
    url: String,
    port: u16,
    /// How its handler is spoken to.
    scheme: &'static str,
}

impl House {
    async fn new(queue: &str) -> Self {
        let url = Redis::shared().await.url.clone();
        let queue = format!("{queue}-{:x}", rand::random::<u64>());
        let settings: dlo_brokers::BrokerConfig =
            toml::from_str(&format!("kind = \"redis\"\nurl = \"{url}\"")).unwrap();
        let broker = dlo_brokers::connect(&settings, Arc::new(dlo_runtime::SystemClock)).await.unwrap();
        let spec = dlo_core::broker::TopologySpec::new(&queue, format!("{queue}:dlq"), 5);
        broker.topology().apply(&spec).await.unwrap();
        let port = dlo_testkit::harness::free_port();
        Self { dir: tempfile::tempdir().unwrap(), queue, broker, url, port, scheme: "http" }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("dlo.toml")
    }

    /// Writes the config: the consumer with these settings.
    fn write(&self, more: &str) {
        let text = format!(
            "[consume]\nlisten = \"127.0.0.1:0\"\ndata = \"state\"\n[brokers.shop]\nkind = \"redis\"\nurl = \"{}\"\n\
             [[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\n\
             [[consumers]]\nsource = \"orders\"\ngroup = \"pricing\"\nhandler = \"{}://127.0.0.1:{}/\"\n\
             retry = {{ attempts = 3, base = \"10ms\", cap = \"50ms\", quick = 1 }}\n{more}\n",
            self.url, self.queue, self.scheme, self.port
        );
        std::fs::write(self.file(), text).unwrap();
    }

    /// A running sidecar with these settings.
    fn consume(&self, more: &str) -> Office {
        self.consume_with(more, &[])
    }

    /// The same with something in its environment.
    fn consume_with(&self, more: &str, environment: &[(&str, &Path)]) -> Office {
        self.write(more);
        let mut command = dlo();
        command.args(["consume", "--log-level", "info"]).current_dir(self.dir.path());
        command.envs(environment.iter().copied());
        Office::spawn(command, self.dir.path())
    }

    async fn send(&self, payloads: &[&str]) {
        let outgoing = payloads.iter().map(|payload| Outgoing {
            to: Destination::queue(&self.queue),
            message: Message { payload: Payload::from((*payload).to_owned()), ..Message::default() },
            delay: None,
        });
        for result in self.broker.publisher().publish(outgoing.collect()).await {
            result.unwrap();
        }
    }

    /// The next `count` dead letters: payload, and a look at each header.
    async fn dead(&self, count: usize) -> Vec<Message> {
        let mut source = self.broker.source(&format!("{}:dlq", self.queue), "tests").await.unwrap();
        let settler = source.settler();
        let mut found = Vec::new();
        let until = Instant::now() + PATIENCE;
        while found.len() < count {
            assert!(Instant::now() < until, "{} of {count} letters came", found.len());
            let received = source.receive(100, Duration::from_millis(200)).await.unwrap();
            let mut settled = Vec::new();
            for delivery in received {
                found.push(delivery.message.clone());
                settled.push(delivery.settle(Settlement::Done));
            }
            settler.settle(settled).await.unwrap();
        }
        source.close().await.unwrap();
        found.sort_by(|a, b| a.payload.0.cmp(&b.payload.0));
        found
    }
}

/// The one consumer's status.
fn status(sidecar: &Office) -> Value {
    sidecar.get("/status")["consumers"][0].clone()
}

/// Waits until the status is as it should be.
async fn until(sidecar: &Office, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = status(sidecar);
        if fits(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{what}: {now:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn handled(sidecar: &Office, count: u64) -> Value {
    until(sidecar, &format!("{count} handled"), |now| now["handled"] == count).await
}

/// A handler process, ended with the test.
struct Handler(Child);

impl Handler {
    fn run(program: &str, args: &[&Path], port: u16) -> Self {
        let mut command = Command::new(program);
        command.args(args).env("PORT", port.to_string());
        // In a group of its own: `go run` starts the program as a child, which must end with it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The handler that does what each message says.
    fn scripted(port: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/consume/scripted.py");
        Self::run("python3", &[&script], port)
    }

    /// The same behind TLS, with the certificate and key in this file.
    fn secure(port: u16, certificate: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/consume/scripted.py");
        Self::run("python3", &[&script, certificate], port)
    }

    /// The same, started again whenever it ends, as a supervisor does.
    fn supervised(port: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/consume/scripted.py");
        let forever = format!("while :; do python3 '{}'; done", script.display());
        Self::run("sh", &[Path::new("-c"), Path::new(&forever)], port)
    }

    fn kill(self) {
        drop(self);
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

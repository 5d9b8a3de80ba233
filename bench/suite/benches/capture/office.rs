//! A real `dlo serve` that drains one queue, from its start to the last letter.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::Broker;

use crate::runner::Round;
use crate::usage::{Usage, servers};

/// The broker that a `[brokers.x]` section describes, to fill its queues.
pub(crate) async fn broker(section: &str) -> Arc<dyn Broker> {
    let config: dlo_brokers::BrokerConfig = toml::from_str(section).expect("settings of a broker");
    dlo_brokers::connect(&config, Arc::new(dlo_testkit::clock::TokioClock::new())).await.expect("a broker")
}

/// Drains the queue of `source` (a `[brokers.x]` and a `[[sources]]` section) until `count` letters are stored.
///
/// The clock runs from the moment the office answers, which is when capture begins.
pub(crate) fn drain(scratch: &Path, source: &str, count: u64) -> Round {
    drain_with(&dlo_bench::dlo::program(), scratch, source, count)
}

/// The same with another `dlo`.
pub(crate) fn drain_with(program: &Path, scratch: &Path, source: &str, count: u64) -> Round {
    let data = scratch.join("office");
    let _ = std::fs::remove_dir_all(&data);
    let config = scratch.join("office.toml");
    std::fs::write(&config, source).expect("write the config");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let log = std::fs::File::create(scratch.join("office.log")).expect("a log");
    let office = Office(
        Command::new(program)
            .arg("--config")
            .arg(&config)
            .args(["serve", "--log-level", "warn", "--listen", &format!("127.0.0.1:{port}"), "--data"])
            .arg(&data)
            .stdout(Stdio::null())
            // One line for each letter: kept off the disk that is measured.
            .stderr(log)
            .spawn()
            .expect("start dlo serve"),
    );
    let began = Instant::now();
    let pid = office.0.id();
    let mut ready: Option<(Instant, Usage, Duration)> = None;
    loop {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "the office did not finish; see its log in {scratch:?}"
        );
        let (status, body) = get(port, "/api/v1/stats");
        if status == 200 {
            let (start, before, served) =
                *ready.get_or_insert_with(|| (Instant::now(), Usage::of(pid), servers(Some(pid))));
            let total = number_behind(&body, "\"total\":");
            assert!(total <= count, "{total} letters of {count}: some are twice");
            if total == count {
                let spent = start.elapsed();
                let client = Usage::of(pid).since(before);
                return Round {
                    messages: count,
                    spent,
                    client: Some(client.cpu),
                    server: Some(servers(Some(pid)).saturating_sub(served)),
                    peak_mb: Some(client.peak_mb),
                };
            }
        }
        std::thread::sleep(Duration::from_millis(if ready.is_some() { 20 } else { 2 }));
    }
}

struct Office(Child);

impl Drop for Office {
    fn drop(&mut self) {
        // Its own way out first: what is not settled yet would be there for the next runner.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn get(port: u16, path: &str) -> (u16, String) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return (0, String::new()) };
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let status = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    (status, text)
}

fn number_behind(text: &str, mark: &str) -> u64 {
    let digits = text.split(mark).nth(1).unwrap_or_default();
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

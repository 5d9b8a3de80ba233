//! Trouble that lasts writes at most ten lines a minute for each cause, client libraries included.
//!
//! The first line and the recovery are there. Each test makes one trouble, lets it last for `DLO_LOG_SECONDS` (12 by
//! default), and reads all that the office wrote. The first lines of a trouble are the most that a minute has: what
//! follows is one summary per place in a minute.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_testkit::harness::free_port;
use dlo_testkit::harness::postgres::OwnPostgres;
use dlo_testkit::harness::proxy::Proxy;
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use serde_json::{Value, json};

use crate::office::{Office, dlo};

/// Lines that one cause may write in a minute.
const MOST: usize = 10;

pub(crate) async fn trouble_lasts() {
    let seconds = std::env::var("DLO_LOG_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// An office with this broker and ten sources on it.
fn office(directory: &Path, section: &str, args: &[&str]) -> Office {
    let mut text = format!("[brokers.far]\n{section}\n");
    for number in 0..10 {
        text.push_str(&format!(
            "[[sources]]\nname = \"orders-{number}\"\nbroker = \"far\"\nqueue = \"log-{number}\"\ndlq = \"log-{number}.dlq\"\n"
        ));
    }
    let config = directory.join("dlo.toml");
    std::fs::write(&config, text).unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&config).args(["serve", "--listen", "127.0.0.1:0"]).args(args);
    command.current_dir(directory);
    Office::spawn(command, &directory.join("data"))
}

async fn until_ready(office: &Office) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while office.get("/readyz")["status"] != "ready" {
        assert!(Instant::now() < deadline, "the office is not ready: {}", office.get("/readyz"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The lines of a log, without those of letters and of start and end. Every line is JSON.
fn lines(log: &str) -> Vec<Value> {
    let lines = log.lines().filter(|line| line.starts_with('{') || !line.starts_with("stopping:"));
    let lines =
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|bad| panic!("{bad}: {line}")));
    let says = |line: &Value, what: &str| line["message"].as_str().is_some_and(|text| text.starts_with(what));
    lines.filter(|line| line["event"].is_null() && !says(line, "the office is ")).collect()
}

/// Few lines, the first of the trouble among them, and a count of the others.
#[track_caller]
pub(crate) fn is_readable(what: &str, log: &str, first: &str) {
    let lines = lines(log);
    let messages: Vec<&str> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    println!("{what}: {} lines", lines.len());
    assert!(lines.len() <= MOST, "{what}: {} lines: {}", lines.len(), log);
    assert!(lines.iter().any(|line| line.to_string().contains(first)), "{what}: {messages:?}");
    let repeated: u64 = lines.iter().filter_map(|line| line["repeated"].as_u64()).sum();
    assert!(repeated > 0, "{what}: nothing was counted: {messages:?}");
}

#[track_caller]
pub(crate) fn recovered(log: &str, message: &str) {
    let found = lines(log).into_iter().any(|line| line["message"] == message && line["recovered"] == true);
    assert!(found, "no recovery: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_of_rabbitmq() {
    let dir = tempfile::tempdir().unwrap();
    let url = Rabbitmq::shared().await.url().replace("guest:guest", "guest:wrong");
    let office = office(dir.path(), &format!("kind = \"rabbitmq\"\nurl = \"{url}\""), &[]);
    trouble_lasts().await;
    is_readable("wrong password", &office.end(), "capture waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_nobody_answers_for() {
    let port = free_port();
    for (kind, section) in [
        ("kafka", format!("kind = \"kafka\"\nbootstrap = \"127.0.0.1:{port}\"")),
        ("nats", format!("kind = \"nats\"\nservers = [\"nats://127.0.0.1:{port}\"]")),
        ("redis", format!("kind = \"redis\"\nurl = \"redis://127.0.0.1:{port}\"")),
        ("rabbitmq", format!("kind = \"rabbitmq\"\nurl = \"amqp://guest:guest@127.0.0.1:{port}/%2f\"")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let office = office(dir.path(), &section, &[]);
        trouble_lasts().await;
        is_readable(kind, &office.end(), "capture waits");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_again_and_again_and_then_works() {
    let dir = tempfile::tempdir().unwrap();
    let server = Rabbitmq::shared().await;
    let proxy = Proxy::before(server.address()).await;
    let section = format!("kind = \"rabbitmq\"\nurl = \"{}\"", server.url_at(proxy.address.port()));
    let office = office(dir.path(), &section, &[]);
    let cut = async {
        loop {
            proxy.cut();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    tokio::select! {
        () = cut => {}
        () = trouble_lasts() => {}
    }
    is_readable("cut connection", &office.end(), "capture waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = OwnPostgres::start_new().await;
    let office = office(dir.path(), "kind = \"memory\"", &["--database", &server.url]);
    until_ready(&office).await;
    server.stop();
    let letter = json!({"source": "orders", "payload": {"order": 1}, "error_class": "KeyError"});
    let senders = async {
        loop {
            let request = ureq::post(format!("{}/api/v1/letters", office.address));
            let request = request.header("content-type", "application/json");
            assert!(tokio::task::block_in_place(|| request.send(letter.to_string())).is_err());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = senders => {}
        () = trouble_lasts() => {}
    }
    server.start().await;
    until_ready(&office).await;
    // The next look of the replays.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let log = office.end();
    is_readable("database away", &log, "the database did not answer");
    recovered(&log, "replays can be looked at again");
}

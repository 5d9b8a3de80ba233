//! A consumer whose brake is on: seen in the office while messages wait behind it, also while it probes, and no longer.

use std::path::Path;

use super::{Handler, House, PATIENCE, status, until};
use crate::office::{Office, dlo};
use crate::trouble::{body, listed, quiet, reported, serve};

/// Answers every message with the status in the file that is named last.
const BY_FILE: &str = r#"
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self): self.end(200)
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.end(int(open(sys.argv[1]).read()))
    def end(self, status):
        self.send_response(status); self.send_header("content-length", "0"); self.end_headers()
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;
/// Messages that wait behind the brake.
const HELD: u64 = 60;

/// A sidecar that tells this office how its consumer is.
fn consume(house: &House, office: &Office, brake: &str) -> Office {
    write(house, office, brake);
    let mut command = dlo();
    command.args(["consume", "--log-level", "info"]).current_dir(house.dir.path());
    Office::spawn(command, house.dir.path())
}

fn write(house: &House, office: &Office, brake: &str) {
    house.write(&format!("brake = {brake}"));
    let text = std::fs::read_to_string(house.file()).unwrap();
    let with_office = format!("[consume]\noffice = \"{}\"\n", office.address);
    std::fs::write(house.file(), text.replacen("[consume]\n", &with_office, 1)).unwrap();
}

fn answer(house: &House, status: u16) -> std::path::PathBuf {
    let file = house.dir.path().join("answer");
    std::fs::write(&file, status.to_string()).unwrap();
    file
}

fn handler(house: &House) -> Handler {
    let file = answer(house, 404);
    Handler::run("python3", &[Path::new("-c"), Path::new(BY_FILE), &file], house.port)
}

async fn fill(house: &House) {
    house.send(&vec![r#"{"order":1}"#; usize::try_from(HELD).unwrap()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_holds_messages_behind_its_brake_is_reported_also_while_it_probes() {
    let house = House::new("braked").await;
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), "[server]\ndata = \"data\"\n");
    let _handler = handler(&house);
    let brake = "{ least = 5, grace = \"200ms\", pause = \"300ms\", longest_pause = \"300ms\" }";
    let sidecar = consume(&house, &office, brake);
    fill(&house).await;
    until(&sidecar, "the brake is on", |now| now["state"] == "paused").await;
    let trouble = reported(&office, "consumer_braked", &["pricing", &house.queue, "404"]).await;
    assert_eq!((&trouble["scope"], &trouble["name"]), (&"consumer".into(), &"pricing".into()), "{trouble:#}");
    assert_eq!(trouble["queue"], house.queue.as_str(), "{trouble:#}");
    let attempts = |now: &serde_json::Value| now["attempts"].as_u64().unwrap();
    let enough = attempts(&status(&sidecar)) + 5;
    // A probe is no recovery: nobody may read that all is well between two of them.
    while attempts(&status(&sidecar)) < enough {
        let now = listed(&office, "consumer_braked");
        assert_eq!((now.len(), &now[0]["since"]), (1, &trouble["since"]), "{now:?}");
    }
    until(&sidecar, "it is paused still", |now| now["state"] == "paused").await;
    let held =
        || listed(&office, "consumer_braked")[0]["title"].to_string().contains(&format!("{HELD} messages"));
    crate::trouble::until("all of them are counted", PATIENCE, || held().then_some(())).await;
    answer(&house, 204);
    until(&sidecar, "all are handled", |now| now["handled"] == HELD).await;
    quiet(&office, "the handler").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reload_nothing_says_paused_while_messages_flow() {
    let house = House::new("unbraked").await;
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), "[server]\ndata = \"data\"\n");
    let _handler = handler(&house);
    let brake = "{ least = 5, grace = \"200ms\", pause = \"10m\", longest_pause = \"10m\" }";
    let sidecar = consume(&house, &office, brake);
    fill(&house).await;
    until(&sidecar, "the brake is on", |now| now["state"] == "paused").await;
    reported(&office, "consumer_braked", &["pricing", "404"]).await;
    answer(&house, 204);
    write(&house, &office, "\"warn\"");
    sidecar.signal("-HUP");
    let now = until(&sidecar, "all are handled", |now| now["handled"] == HELD).await;
    assert_eq!((&now["state"], &now["paused"]), (&"running".into(), &serde_json::json!([])), "{now:#}");
    let metrics = body(&sidecar, "/metrics");
    assert!(
        !metrics.lines().any(|line| line.starts_with("dlo_consumer_paused{") && line.ends_with(" 1")),
        "{metrics}"
    );
    quiet(&office, "the reload").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_handler_was_never_there_is_reported_until_it_is() {
    let house = House::new("handlerless").await;
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), "[server]\ndata = \"data\"\n");
    let _sidecar = consume(&house, &office, "\"warn\"");
    let trouble = reported(&office, "consumer_handler_away", &["pricing", &house.queue, "refused"]).await;
    assert!(trouble["action"].as_str().unwrap().contains("Start the handler"), "{trouble:#}");
    let _handler = handler(&house);
    crate::trouble::until("the handler listens", PATIENCE, || {
        std::net::TcpStream::connect(("127.0.0.1", house.port)).ok().map(drop)
    })
    .await;
    quiet(&office, "the handler").await;
}

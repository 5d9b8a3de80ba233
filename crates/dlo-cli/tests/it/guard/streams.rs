//! Clients that stop in the middle: one that reads nothing of an export, a backup or events, one that sends a part of a body.
//! Each is disconnected after a written limit, and what it held is free again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::office::{Office, dlo};

/// What the config of these tests allows.
const LIMITS: &str = "[server.limits]\nunsent = \"2s\"\nunread = \"2s\"\n";
const PATIENCE: Duration = Duration::from_secs(60);
/// Letters of a size that no socket buffers hold together.
const LETTERS: usize = 64;
const SIZE: usize = 512 * 1024;

fn office() -> (Office, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, LIMITS).unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&file).args(["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(dir.path().join("data"));
    (Office::spawn(command, dir.path()), dir)
}

fn send(office: &Office, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(office.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Whether there is room for one more long reading.
fn has_room(office: &Office) -> bool {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    match agent.get(format!("{}/api/v1/letters/count", office.address)).call().unwrap().status().as_u16() {
        200 => true,
        429 => false,
        other => panic!("{other}"),
    }
}

fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

#[test]
fn a_client_that_reads_nothing_of_an_export_or_a_backup_is_disconnected() {
    let (office, _dir) = office();
    for offset in 0..LETTERS {
        // Bytes that do not compress, so that the backup is large as well.
        let mut state = offset as u64 + 1;
        let noise: String = (0..SIZE)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b' ' + 3 + u8::try_from((state >> 33) % 80).unwrap()).to_ascii_lowercase()
            })
            .filter(|c| *c != '\\' && *c != '"')
            .collect();
        office.post(&json!({"source": "orders", "partition": 0, "offset": offset, "payload": noise}));
    }
    let export = send(&office, "GET /api/v1/letters/export HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let backup =
        send(&office, "POST /api/v1/backup HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n");
    until("both hold a place", || !has_room(&office));
    let first = until("one is disconnected", || has_room(&office));
    for (what, mut stream) in [("export", export), ("backup", backup)] {
        let mut read = Vec::new();
        // What the buffers held arrives; then the connection ends, in the middle.
        let ended = stream.read_to_end(&mut read);
        println!("{what}: {} of {} bytes arrived, {ended:?}", read.len(), LETTERS * SIZE);
        assert!(read.len() < LETTERS * SIZE, "the whole {what} arrived");
    }
    println!("room again after {first:?}, with a limit of 2 s");
    assert!(has_room(&office));
}

#[test]
fn a_body_that_stops_arriving_is_refused_after_the_limit() {
    let (office, _dir) = office();
    let requests = [
        ("/api/v1/letters", "application/x-ndjson"),
        ("/api/v1/letters", "application/json"),
        ("/api/v1/restore?reason=drill", "application/octet-stream"),
        ("/api/v1/repairs/preview", "application/json"),
    ];
    let begun = Instant::now();
    for (path, kind) in requests {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: 100000\r\n\r\n{{\"source\""
        );
        let mut stream = send(&office, &head);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.contains("body_timeout"), "{path} {kind}: {answer}");
    }
    println!("{} bodies were given up after {:?}, with a limit of 2 s", requests.len(), begun.elapsed());
    assert!(has_room(&office));
}

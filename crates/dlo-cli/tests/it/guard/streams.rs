//! Clients that stop in the middle: one that reads nothing of an export, a backup or events, one that sends a part of a body.
//! Each is disconnected after a written limit, and what it held is free again.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::office::{Office, dlo};

/// What the config of these tests allows.
const LIMITS: &str = "[server.limits]\nunsent = \"2s\"\nunread = \"8s\"\n";
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
    let open = |method: &str, path: &str| {
        let begun = Instant::now();
        loop {
            let head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n");
            let mut stream = send(&office, &head);
            let mut status = [0; 12];
            stream.read_exact(&mut status).unwrap();
            if &status == b"HTTP/1.1 200" {
                return stream;
            }
            // A connection that the test closed may still hold its place for a moment.
            assert_eq!(&status, b"HTTP/1.1 429", "{path}");
            assert!(begun.elapsed() < PATIENCE, "no place for {path} within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let until_room = || {
        let begun = Instant::now();
        while !has_room(&office) {
            assert!(begun.elapsed() < PATIENCE, "not disconnected within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        begun.elapsed()
    };
    for (method, path) in [("POST", "/api/v1/backup"), ("GET", "/api/v1/letters/export")] {
        // The rest is not read: each keeps one of the two places for long readings.
        let stalled = [open(method, path), open(method, path)];
        assert!(!has_room(&office), "both hold a place");
        let first = until_room();
        // The freed place is taken again, so that the next free one is that of the second client.
        let _third = open(method, path);
        until_room();
        for mut stream in stalled {
            let mut read = Vec::new();
            // What the buffers held arrives; then the connection ends, in the middle.
            let ended = stream.read_to_end(&mut read);
            println!("{path}: {} bytes arrived, {ended:?}", read.len());
            assert!(read.len() < LETTERS * SIZE / 2, "the whole answer to {path} arrived");
        }
        println!("{path}: room again after {first:?}, with a limit of 8 s");
    }
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

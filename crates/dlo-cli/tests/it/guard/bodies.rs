//! A body that never ends and a body that never comes, sent to every route of the route table: a new route is tested by
//! being in the table.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::office::{Office, dlo};

/// Bytes of a body that no route needs.
const SENT: usize = 32 << 20;
/// Memory by which one request may make the office grow.
const GROWTH_KIB: u64 = 20 << 10;
/// The same for letters as NDJSON: a line may have 24 MiB.
const GROWTH_OF_LINES_KIB: u64 = 96 << 10;
const LINES: &str = "application/x-ndjson";
const PIECE: usize = 1 << 20;
/// A client may be silent for 30 s in the middle of a body.
const SILENCE: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(60);

/// Method, path and content type of every request that the office answers to. Letters are taken in two types.
fn requests() -> Vec<(&'static str, String, &'static str)> {
    let mut requests = Vec::new();
    for (method, path) in dlo_server::routes() {
        let path = path.replace("{id}", "0197f3b0-0000-7000-8000-000000000001").replace("{name}", "orders");
        let kind = if path == "/api/v1/restore" { "application/octet-stream" } else { "application/json" };
        if method == "POST" && path == "/api/v1/letters" {
            requests.push((method, path.clone(), LINES));
        }
        let query = if path == "/api/v1/restore" { "?reason=drill" } else { "" };
        requests.push((method, path + query, kind));
    }
    requests
}

fn connect(office: &Office) -> TcpStream {
    let stream = TcpStream::connect(office.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The status of the answer; `None` if the office closed the connection without one.
fn status(stream: &mut TcpStream) -> Option<u16> {
    let mut head = [0_u8; 12];
    match stream.read_exact(&mut head) {
        Ok(()) => Some(std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()),
        Err(closed)
            if matches!(
                closed.kind(),
                std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset
            ) =>
        {
            None
        }
        Err(error) => panic!("no answer: {error}"),
    }
}

/// A field of the process's status, in KiB.
fn status_kib(office: &Office, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", office.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Makes the kernel forget the peak so far. Returns the memory that the office has now.
fn reset_peak(office: &Office) -> u64 {
    std::fs::write(format!("/proc/{}/clear_refs", office.id()), "5").unwrap();
    status_kib(office, "VmHWM:")
}

#[test]
fn a_body_without_end_makes_the_office_grow_by_a_bounded_amount_on_every_route() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, "[server]\nlimits = { body = \"1mb\" }\n").unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&file).args(["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(dir.path().join("data"));
    let office = Office::spawn(command, dir.path());
    let requests = requests();
    let mut most = 0;
    for (method, path, kind) in &requests {
        let before = reset_peak(&office);
        let mut stream = connect(&office);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            let piece = vec![b' '; PIECE];
            // The office may close the connection at any time: that ends the sending, too.
            for _ in 0..SENT / PIECE {
                let size = format!("{PIECE:x}\r\n");
                if writer.write_all(size.as_bytes()).and_then(|()| writer.write_all(&piece)).is_err() {
                    return;
                }
                if writer.write_all(b"\r\n").is_err() {
                    return;
                }
            }
            let _ = writer.write_all(b"0\r\n\r\n");
        });
        let status = status(&mut stream);
        // An answer that is a stream of events never ends, and the sender would wait for a reader.
        let _ = stream.shutdown(Shutdown::Both);
        sender.join().unwrap();
        let growth = status_kib(&office, "VmHWM:").saturating_sub(before);
        let allowed = if *kind == LINES { GROWTH_OF_LINES_KIB } else { GROWTH_KIB };
        most = most.max(growth);
        assert!(growth <= allowed, "{method} {path}: {status:?}, the office grew by {growth} KiB");
    }
    println!("{} requests of {SENT} bytes, one made it grow by {most} KiB at most", requests.len());
}

#[test]
fn a_client_that_announces_a_body_and_falls_silent_is_answered_by_every_route() {
    let office = Office::start();
    let requests = requests();
    let begun = Instant::now();
    let mut waiting: Vec<_> = requests
        .iter()
        .map(|(method, path, kind)| {
            let mut stream = connect(&office);
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: 1000\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            (format!("{method} {path}"), stream)
        })
        .collect();
    for (what, stream) in &mut waiting {
        let status = status(stream);
        assert!(begun.elapsed() < SILENCE, "{what}: {status:?} after {:?}", begun.elapsed());
    }
    println!("{} requests, the last answered after {:?}", requests.len(), begun.elapsed());
}

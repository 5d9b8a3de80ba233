//! The handler of the story: a real HTTP server in the test's process, so it outlives every sidecar.
//!
//! The number of an order decides its fate. The server writes down what it handled before it answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;

/// What the handler does with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Handled,
    /// Fails at its first attempt, and is handled at the next.
    HandledLater,
    Parked,
    /// Fails at its first attempt, and is parked at the next.
    ParkedLater,
    /// The handler goes away with it, when the test says so.
    Pill,
}

/// Orders from here on are pills.
pub(super) const PILLS: u64 = 1_000_000;

pub(super) fn fate(order: u64) -> Fate {
    match order % 10 {
        _ if order >= PILLS => Fate::Pill,
        3 => Fate::Parked,
        6 | 7 => Fate::HandledLater,
        9 => Fate::ParkedLater,
        _ => Fate::Handled,
    }
}

/// What the handler did, by order: requests, and answers that said "done".
#[derive(Debug, Default, Clone)]
pub(super) struct Done {
    pub(super) requests: BTreeMap<u64, u32>,
    pub(super) handled: BTreeMap<u64, u32>,
}

#[derive(Debug, Clone)]
pub(super) struct Handler {
    pub(super) port: u16,
    done: Arc<Mutex<Done>>,
    deaths: Arc<Deaths>,
}

/// The request for a pill with which the handler goes away next, by number.
#[derive(Debug, Default)]
struct Deaths(Mutex<u32>, Condvar);

impl Deaths {
    fn wait(&self, request: u32) {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.1.wait_while(next, |next| *next != request));
    }
}

impl Handler {
    /// Serves until the test's process ends.
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let handler = Self {
            port: listener.local_addr().unwrap().port(),
            done: Arc::default(),
            deaths: Arc::default(),
        };
        let server = handler.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || server.serve(&connection));
            }
        });
        handler
    }

    pub(super) fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn requests(&self) -> u64 {
        self.done().requests.values().map(|times| u64::from(*times)).sum()
    }

    /// Goes away with the pill of this request.
    pub(super) fn die(&self, request: u32) {
        *self.deaths.0.lock().unwrap_or_else(PoisonError::into_inner) = request;
        self.deaths.1.notify_all();
    }

    /// Answers requests until the sidecar closes the connection, or is killed.
    fn serve(&self, connection: &TcpStream) {
        let _ = connection.set_nodelay(true);
        let mut reader = BufReader::new(connection);
        while let Some((attempt, order)) = request(&mut reader) {
            let asked = *self.done().requests.entry(order).and_modify(|asked| *asked += 1).or_insert(1);
            std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..6_000)));
            let (status, body) = match fate(order) {
                Fate::Handled => (204, ""),
                Fate::HandledLater if attempt > 1 => (204, ""),
                Fate::Parked => (422, r#"{"error_class":"Invalid","message":"no such article"}"#),
                Fate::ParkedLater if attempt > 1 => (422, r#"{"error_class":"Invalid"}"#),
                Fate::HandledLater | Fate::ParkedLater => {
                    (500, r#"{"verdict":"retry","error_class":"Busy"}"#)
                }
                Fate::Pill => return self.deaths.wait(asked),
            };
            if status == 204 {
                *self.done().handled.entry(order).or_default() += 1;
            }
            let answer = format!("HTTP/1.1 {status} It\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let mut writer = connection;
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// The next request: which attempt it is, and the number of the order.
fn request(reader: &mut impl BufRead) -> Option<(u32, u64)> {
    let (mut attempt, mut length) = (1, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let Some((name, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "dlo-attempt" => attempt = value.trim().parse().ok()?,
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let order: Value = serde_json::from_slice(&body).ok()?;
    Some((attempt, order["order"].as_u64()?))
}

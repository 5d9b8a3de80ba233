//! A real `dlo serve` with letters in its store, and a replay of them through its API.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::done::{self, Clock, Done};
use crate::usage::{Usage, servers};

/// Letters of one chunk on the way in.
const AT_ONCE: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(600);
/// An office is quiet that needs no more than this of a processor in so long.
const IDLE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(500);

/// An office and where it lives. Its process may end and begin again on the same data.
pub(crate) struct Office {
    process: Option<Child>,
    /// The `dlo` that is started.
    program: PathBuf,
    port: u16,
    scratch: PathBuf,
}

impl Office {
    /// A new office with one source, `orders`, whose broker is what `section` says.
    pub(crate) fn start(scratch: &Path, section: &str, queue: &str, dlq: &str) -> Self {
        Self::start_with(&dlo_bench::dlo::program(), scratch, section, queue, dlq)
    }

    /// The same with another `dlo`.
    pub(crate) fn start_with(program: &Path, scratch: &Path, section: &str, queue: &str, dlq: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let mut office =
            Self { process: None, program: program.to_owned(), port, scratch: scratch.to_owned() };
        let _ = std::fs::remove_dir_all(office.data());
        let text = format!(
            "[replay]\nlarge = 1000000000\n[brokers.shop]\n{section}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{dlq}\"\n"
        );
        std::fs::write(office.config(), text).expect("write the config");
        office.begin();
        office
    }

    fn data(&self) -> PathBuf {
        self.scratch.join("office")
    }

    fn config(&self) -> PathBuf {
        self.scratch.join("office.toml")
    }

    /// Starts its process on what is there, and returns when it is ready.
    pub(crate) fn begin(&mut self) {
        let log = self.scratch.join("office.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let process = Command::new(&self.program)
            .arg("--config")
            .arg(self.config())
            .args(["serve", "--log-level", "warn", "--listen", &format!("127.0.0.1:{}", self.port), "--data"])
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start dlo serve");
        self.process = Some(process);
        let began = Instant::now();
        while self.call("GET", "/readyz", "").0 != 200 {
            assert!(began.elapsed() < Duration::from_secs(60), "dlo serve did not become ready");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends its process as a crash would. Its data stays.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn pid(&self) -> u32 {
        self.process.as_ref().map(Child::id).expect("it runs")
    }

    /// Captures `count` letters of one class: what an outage leaves.
    pub(crate) fn fill(&self, count: u64) {
        let mut stream = self.connect();
        let head = "POST /api/v1/letters HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n\
                    Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("send the head");
        for from in (0..count).step_by(AT_ONCE as usize) {
            let lines: String = (from..(from + AT_ONCE).min(count)).map(line).collect();
            write!(stream, "{:x}\r\n{lines}\r\n", lines.len()).expect("send");
        }
        stream.write_all(b"0\r\n\r\n").expect("send the end");
        // The answer has a line for each letter; the office's own count is shorter.
        let (status, _) = read(stream);
        let stats = self.call("GET", "/api/v1/stats", "").1;
        assert_eq!((status, stats["letters"]["open"].as_u64()), (200, Some(count)), "{stats}");
        self.until_quiet();
    }

    /// What capturing left to be done behind it, the index of words above all, is no part of a replay: it begins when the
    /// office has nothing else to do.
    fn until_quiet(&self) {
        let pid = self.pid();
        let began = Instant::now();
        loop {
            let before = Usage::of_tree(pid).cpu;
            std::thread::sleep(LOOK);
            if Usage::of_tree(pid).cpu.saturating_sub(before) <= IDLE {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the office is still busy with what it captured");
        }
    }

    /// Plans a replay of everything at `pace` (a member of the request), without canary, ramp and guards of lag.
    pub(crate) fn plan(&self, pace: &str, count: u64) -> String {
        let body = format!(
            r#"{{"query":"source:orders class:TimeoutError","reason":"measured",{pace},"canary":0,"ramp":1,"guards":{{"lag":null}}}}"#
        );
        let (status, answer) = self.call("POST", "/api/v1/replays", &body);
        assert!(status < 300, "{status}: {answer}");
        assert_eq!(answer["total"].as_u64(), Some(count), "every letter is in the plan: {answer}");
        answer["id"].as_str().expect("an id").to_owned()
    }

    /// One step of a replay: `start`, `pause`, `cancel`.
    pub(crate) fn steer(&self, id: &str, what: &str) {
        let (status, answer) = self.call("POST", &format!("/api/v1/replays/{id}/{what}"), "");
        assert!(status < 300, "{what}: {status}: {answer}");
    }

    /// Another rate for a replay, whatever it is doing.
    pub(crate) fn pace(&self, id: &str, rate: u64) {
        let (status, answer) =
            self.call("POST", &format!("/api/v1/replays/{id}/pace"), &format!("{{\"rate\":{rate}}}"));
        assert!(status < 300, "{rate}/s: {status}: {answer}");
    }

    pub(crate) fn sent(&self, id: &str) -> u64 {
        self.call("GET", &format!("/api/v1/replays/{id}"), "").1["sent"].as_u64().unwrap_or(0)
    }

    /// Replays everything at full speed; done when every send is recorded.
    pub(crate) fn redrive(&self, count: u64) -> Done {
        let id = self.plan(r#""max":true"#, count);
        let pid = self.pid();
        let (before, server) = (Usage::of_tree(pid), servers(Some(pid)));
        let mut clock = Clock::asked(count);
        self.steer(&id, "start");
        let spent = loop {
            if let Some(spent) = clock.look(self.sent(&id)) {
                break spent;
            }
            std::thread::sleep(done::LOOK);
        };
        let client = Usage::of_tree(pid).since(before);
        Done { moved: count, spent, client, server: servers(Some(pid)).saturating_sub(server) }
    }

    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return (0, Value::Null) };
        let _ = write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        read(stream)
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).expect("connect")
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(self.data());
    }
}

fn read(stream: TcpStream) -> (u16, Value) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), String::new());
    let _ = reader.read_line(&mut line);
    let status = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let _ = reader.read_to_string(&mut body);
    // What stands between the empty line and the end; a chunked answer has its length before it.
    let json = body.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let json = json.find('{').map_or("", |at| &json[at..=json.rfind('}').unwrap_or(at)]);
    (status, serde_json::from_str(json).unwrap_or(Value::Null))
}

/// Letter `n`: a kilobyte of JSON, four headers, one class, eight event types.
fn line(n: u64) -> String {
    let filler: String = (0..900).map(|at| char::from(b'a' + ((n + at) % 26) as u8)).collect();
    format!(
        "{{\"source\":\"orders\",\"queue\":\"orders\",\"partition\":{},\"offset\":{},\"key\":\"C-{}\",\
         \"headers\":[[\"x-tenant\",\"acme\"],[\"x-attempt\",\"3\"],[\"x-region\",\"eu\"],[\"x-version\",\"7\"]],\
         \"payload\":{{\"id\":{n},\"order\":\"ORD-{n:09}\",\"customer\":{{\"id\":{},\"tier\":\"gold\"}},\"note\":\"{filler}\"}},\
         \"event_type\":\"shop.event-{}\",\"consumer\":\"billing\",\"attempts\":3,\"error_class\":\"TimeoutError\",\
         \"error_message\":\"the ledger did not answer within 5 s\",\"reason\":\"processing_error\",\
         \"failed_at\":\"2026-11-01T{:02}:{:02}:{:02}Z\"}}\n",
        n % 12,
        n / 12,
        n % 9_973,
        n % 9_973,
        n % 8,
        n / 3_600 % 24,
        n / 60 % 60,
        n % 60,
    )
}

//! A real `dlo serve` in a directory of its own, and the barest client that can fill it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::letters;

pub(crate) struct Office {
    process: Child,
    pub(crate) port: u16,
}

impl Office {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(&dlo_bench::dlo::program(), data)
    }

    /// The same with another `dlo`.
    pub(crate) fn start_with(program: &Path, data: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let config = data.with_extension("toml");
        let rules = letters::CONSUMERS.map(|name| {
            let team = letters::owner(name);
            format!("[[rules.owners]]\nwhen = {{ consumer = \"{name}\" }}\nowner = \"{team}\"\n")
        });
        std::fs::write(&config, rules.concat()).expect("write the config");
        let process = Command::new(program)
            .arg("--config")
            .arg(&config)
            .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start dlo serve");
        let office = Self { process, port };
        let deadline = Instant::now() + Duration::from_secs(30);
        while office.get("/readyz").0 != 200 {
            assert!(Instant::now() < deadline, "dlo serve did not become ready");
            std::thread::sleep(Duration::from_millis(2));
        }
        office
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// One GET on a connection of its own: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return (0, String::new()) };
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        answer(stream)
    }

    /// Sends NDJSON in chunks over one connection and waits for the answer. Returns how many were stored.
    pub(crate) fn send(&self, bodies: &[Vec<u8>]) -> u64 {
        let (status, text) = post(self.port, bodies).expect("send");
        assert_eq!(status, 200, "{}", &text[..text.len().min(300)]);
        number_behind(&text, "\"stored\":")
    }
}

/// Sends NDJSON in chunks to the office at `port`, which may end meanwhile: status and body of its answer.
pub(crate) fn post(port: u16, bodies: &[Vec<u8>]) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "POST /api/v1/letters HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )?;
    for body in bodies {
        write!(stream, "{:x}\r\n", body.len())?;
        stream.write_all(body)?;
        stream.write_all(b"\r\n")?;
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(answer(stream))
}

impl Drop for Office {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn answer(stream: TcpStream) -> (u16, String) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let _ = reader.read_line(&mut line);
    let status = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    (status, String::from_utf8_lossy(&rest).into_owned())
}

/// The number that follows `mark` in a JSON text; the answers here are too large to be parsed for one figure.
pub(crate) fn number_behind(text: &str, mark: &str) -> u64 {
    let digits = text.split(mark).nth(1).unwrap_or_default();
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

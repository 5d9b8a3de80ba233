//! Kafka Connect, standalone, with the file sink that comes with it: a line for each record.
//!
//! It does less than the others do: a file has no index, and nobody waits for the disk. Records stay the text that they
//! are, so that it parses nothing, and it polls a thousand at a time. Its heap is that of its own start script.

use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use dlo_testkit::harness::installed;

use crate::runner::Round;
use crate::watched;

/// Writes the `count` records of `topic` to a file. Its group is named after `round`: one that was there goes on behind
/// what it has read.
pub(crate) fn drain(scratch: &Path, bootstrap: &str, topic: &str, round: u64, count: u64) -> Round {
    let place = scratch.join("connect");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a directory");
    let sunk = place.join("letters");
    let write = |name: &str, settings: String| {
        let file = place.join(name);
        std::fs::write(&file, settings).expect("write the settings");
        file
    };
    let worker = write("worker.properties", worker(bootstrap, &place));
    let connector = write("connector.properties", connector(round, topic, &sunk));
    let mut command = Command::new("java");
    command
        .args(["-Xms256M", "-Xmx2G", "-cp"])
        .arg(installed::folder("kafka").join("lib/*"))
        .arg("org.apache.kafka.connect.cli.ConnectStandalone")
        .args([worker, connector]);
    let mut lines = Lines::of(sunk);
    watched::drain(&mut command, &place.join("log"), count, || lines.look())
}

fn worker(bootstrap: &str, place: &Path) -> String {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let text = "org.apache.kafka.connect.storage.StringConverter";
    format!(
        "bootstrap.servers={bootstrap}\n\
         listeners=http://127.0.0.1:{port}\n\
         offset.storage.file.filename={}\n\
         offset.flush.interval.ms=1000\n\
         key.converter={text}\n\
         value.converter={text}\n\
         header.converter={text}\n\
         consumer.max.poll.records=1000\n\
         plugin.discovery=service_load\n",
        place.join("offsets").display()
    )
}

fn connector(round: u64, topic: &str, sunk: &Path) -> String {
    format!(
        "name=bench-{round}\n\
         connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector\n\
         tasks.max=1\n\
         topics={topic}\n\
         file={}\n",
        sunk.display()
    )
}

/// The lines of a file that grows; each byte is read once.
struct Lines {
    path: PathBuf,
    file: Option<File>,
    count: u64,
    part: Vec<u8>,
}

impl Lines {
    fn of(path: PathBuf) -> Self {
        Self { path, file: None, count: 0, part: vec![0; 1 << 20] }
    }

    fn look(&mut self) -> u64 {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        if let Some(file) = &mut self.file {
            while let read @ 1.. = file.read(&mut self.part).expect("read what was written") {
                self.count += memchr::memchr_iter(b'\n', &self.part[..read]).count() as u64;
            }
        }
        self.count
    }
}

//! Others that write dead letters to Kafka, as their users run them: Kafka Connect with a sink, and a Spring listener.
//!
//! Each is a Java process of its own that ends with its value. Ready is no state of theirs: a test waits for the dead
//! letter itself, and shows [`Foreign::said`] if it does not come.

use std::path::{Path, PathBuf};

use super::super::{Supervised, free_port, scratch};

/// A program that consumes a topic and writes what it cannot handle to another.
#[derive(Debug)]
pub struct Foreign {
    directory: PathBuf,
    _process: Supervised,
}

impl Foreign {
    /// A standalone Kafka Connect that writes the JSON records of `topic` to a file, and what is no JSON to `dead`.
    pub fn connect(bootstrap: &str, name: &str, topic: &str, dead: &str) -> Self {
        Self::start(|directory| {
            let path = |file: &str| directory.join(file).display().to_string();
            let (worker, connector) = (path("worker.properties"), path("connector.properties"));
            let settings = [
                (&worker, worker_of(bootstrap, &path("offsets"))),
                (&connector, sink_of(name, topic, dead, &path("sunk"))),
            ];
            for (file, settings) in settings {
                std::fs::write(file, settings).expect("writing the settings of Kafka Connect");
            }
            vec!["org.apache.kafka.connect.cli.ConnectStandalone".to_owned(), worker, connector]
        })
    }

    /// A Spring listener in `group` that fails on every record of `topic`, twice; its dead letters go to `<topic>-dlt`.
    pub fn spring(bootstrap: &str, topic: &str, group: &str) -> Self {
        Self::start(|_| ["SpringListener", bootstrap, topic, group].map(ToOwned::to_owned).to_vec())
    }

    fn start(arguments: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let scratch = scratch("kafka-client");
        let directory = scratch.path().to_owned();
        let mut command = super::java(super::QUICK);
        command.extend(arguments(&directory));
        let process = Supervised::start(&command, "KILL", scratch, directory.join("log"));
        Self { directory, _process: process }
    }

    /// What Kafka Connect has written to its file so far.
    pub fn sunk(&self) -> String {
        self.read("sunk")
    }

    /// What it logged.
    pub fn said(&self) -> String {
        self.read("log")
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory.join(file)).unwrap_or_default()
    }
}

fn worker_of(bootstrap: &str, offsets: &str) -> String {
    format!(
        "bootstrap.servers={bootstrap}\n\
         listeners=http://127.0.0.1:{}\n\
         offset.storage.file.filename={offsets}\n\
         offset.flush.interval.ms=500\n\
         key.converter=org.apache.kafka.connect.storage.StringConverter\n\
         value.converter=org.apache.kafka.connect.json.JsonConverter\n\
         value.converter.schemas.enable=false\n\
         # Everything is on the class path and names itself: no scan.\n\
         plugin.discovery=service_load\n",
        free_port()
    )
}

fn sink_of(name: &str, topic: &str, dead: &str, file: &str) -> String {
    format!(
        "name={name}\n\
         connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector\n\
         tasks.max=1\n\
         topics={topic}\n\
         file={file}\n\
         errors.tolerance=all\n\
         errors.deadletterqueue.topic.name={dead}\n\
         errors.deadletterqueue.topic.replication.factor=1\n\
         errors.deadletterqueue.context.headers.enable=true\n"
    )
}

//! Bento as a sidecar: its input from RabbitMQ, its HTTP output with sixteen requests in flight, everything else as it is by
//! default. It has no setting for kept connections: Go's HTTP client keeps two of them to a host, and opens the others anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{CONNECTIONS, QUEUE};
use crate::go;

pub(crate) struct Bento {
    program: PathBuf,
    config: PathBuf,
}

impl Bento {
    /// Nothing where it could not be built, which was said.
    pub(crate) fn new(scratch: &Path) -> Option<Self> {
        Some(Self { program: go::program("bento")?, config: scratch.join("bento.yaml") })
    }

    pub(crate) fn command(&self, url: &str, port: u16) -> Command {
        let prefetch = 4 * CONNECTIONS;
        let config = format!(
            "http:\n  enabled: false\nlogger:\n  level: OFF\n\
             input:\n  amqp_0_9:\n    urls: [\"{url}\"]\n    queue: {QUEUE}\n    prefetch_count: {prefetch}\n\
             output:\n  http_client:\n    url: http://127.0.0.1:{port}/\n    verb: POST\n\
             \x20   headers: {{ Content-Type: application/json }}\n    max_in_flight: {CONNECTIONS}\n"
        );
        std::fs::write(&self.config, config).expect("write the config");
        let mut command = Command::new(&self.program);
        command.arg("run").arg(&self.config);
        command
    }
}

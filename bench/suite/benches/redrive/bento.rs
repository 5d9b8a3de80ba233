//! Bento, the general stream processor, from a dead-letter queue to its queue.
//!
//! It runs until it is stopped, so its end is seen from outside, as the shovel's is; what it takes is counted from the first look
//! that finds something moved.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::done::{Clock, Done, LOOK};
use crate::go;
use crate::place::{DEAD, QUEUE};
use crate::usage::{Usage, servers};

/// What it says of itself is kept out of the way, and it listens to nobody.
const QUIET: &str = "http: {enabled: false}\nlogger: {level: ERROR}\n";
/// Entries of one read and of one write.
const BATCH: u64 = 500;
/// The group that it reads a stream as.
pub(crate) const GROUP: &str = "bento";
/// An ack has no answer: those of the last messages are given time to be written before it is stopped.
const LAST_ACKS: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// The program, with a config.
pub(crate) struct Bento {
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
}

impl Bento {
    /// On RabbitMQ: as many unconfirmed as aio-pika has. Its writer takes one message at a time, so there are no batches to set.
    pub(crate) fn rabbitmq(scratch: &Path, url: &str) -> Option<Self> {
        let streams = format!(
            "input:\n  amqp_0_9: {{urls: [\"{url}\"], queue: {DEAD}, prefetch_count: 1000}}\n\
             output:\n  amqp_0_9: {{urls: [\"{url}\"], exchange: \"\", key: {QUEUE}, persistent: true, mandatory: true, \
             max_in_flight: 500, metadata: {{exclude_prefixes: [amqp_]}}}}\n"
        );
        Self::new(scratch, &streams)
    }

    /// On Redis: 500 in one pipeline, and several pipelines at once.
    pub(crate) fn redis(scratch: &Path, url: &str) -> Option<Self> {
        let streams = format!(
            "input:\n  redis_streams: {{url: \"{url}\", body_key: payload, streams: [{DEAD}], limit: {BATCH}, \
             client_id: bench, consumer_group: {GROUP}}}\n\
             output:\n  redis_streams: {{url: \"{url}\", body_key: payload, stream: {QUEUE}, max_in_flight: 64, \
             metadata: {{exclude_prefixes: [redis_stream]}}, batching: {{count: {BATCH}, period: 10ms}}}}\n"
        );
        Self::new(scratch, &streams)
    }

    fn new(scratch: &Path, streams: &str) -> Option<Self> {
        let program = go::program("bento")?;
        let (config, log) = (scratch.join("bento.yaml"), scratch.join("bento.log"));
        std::fs::write(&config, format!("{QUIET}{streams}")).expect("write the config");
        Some(Self { program, config, log })
    }

    /// Moves `count` messages; `moved` says how many the queue has.
    pub(crate) async fn run(&self, count: u64, mut moved: impl AsyncFnMut() -> u64) -> Done {
        let log = std::fs::File::create(&self.log).expect("a log");
        let again = log.try_clone().expect("a log");
        let mut clock = Clock::asked(count);
        let mut command = Command::new(&self.program);
        let process = command.arg("run").arg(&self.config).stdout(log).stderr(again).stdin(Stdio::null());
        let mut bento = Running(process.spawn().expect("start Bento"));
        let pid = bento.0.id();
        let mut before = None;
        let spent = loop {
            let moved = moved().await;
            if moved > 0 && before.is_none() {
                before = Some((Usage::of_tree(pid), servers(Some(pid))));
            }
            if let Some(spent) = clock.look(moved) {
                break spent;
            }
            assert!(matches!(bento.0.try_wait(), Ok(None)), "Bento ended: {}", self.said());
            tokio::time::sleep(LOOK).await;
        };
        let (usage, server) = before.unwrap_or_default();
        let client = Usage::of_tree(pid).since(usage);
        let server = servers(Some(pid)).saturating_sub(server);
        tokio::time::sleep(LAST_ACKS).await;
        drop(bento);
        Done { moved: count, spent, client, server }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// Its process, which is asked to end, and ended if it does not.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

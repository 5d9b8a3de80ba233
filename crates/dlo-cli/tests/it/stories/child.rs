//! A consumer in a process of its own, so that it can be killed: this test binary, started once more with a job.
//!
//! What its handler finishes it writes as one line to a file that all children share. A line is one write to the end of
//! the file, so the order of lines is the order in which things happened, over all processes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::verdict::VerdictKind;
use dlo_runtime::{Behind, Consumer, OrderBy};
use serde::{Deserialize, Serialize};

use super::{GROUP, broker, number};

const JOB: &str = "DLO_STORY_JOB";

/// What a child does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) section: String,
    pub(super) queue: String,
    pub(super) dlq: String,
    pub(super) log: PathBuf,
    pub(super) state: PathBuf,
    /// The order that kills the process.
    pub(super) pill: Option<u64>,
    /// One try in so many fails, and is tried again.
    pub(super) fails: Option<u64>,
    pub(super) ordered: bool,
    pub(super) concurrency: usize,
}

impl Job {
    /// Starts the child.
    pub(super) fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stories::child::a_child_does_its_job", "--nocapture"])
            .env(JOB, serde_json::to_string(self).unwrap())
            .stdout(Stdio::null())
            .stderr(open(&self.log.with_extension("told")))
            .spawn()
            .unwrap()
    }

    /// What the children told, for a story that went wrong.
    pub(super) fn told(&self) -> String {
        let told = std::fs::read_to_string(self.log.with_extension("told")).unwrap_or_default();
        let lines: Vec<&str> = told.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// What was finished so far: key and number of each line.
    pub(super) fn finished(&self) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let line = |line: &str| {
            let (key, number) = line.split_once(' ')?;
            Some((key.to_owned(), number.parse().ok()?))
        };
        text.lines().filter_map(line).collect()
    }
}

fn open(log: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log).unwrap()
}

/// Not a test of its own: without a job there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_does_its_job() {
    let Ok(job) = std::env::var(JOB) else { return };
    let job: Job = serde_json::from_str(&job).unwrap();
    let level = std::env::var("DLO_STORY_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = tracing_subscriber::EnvFilter::new(level);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let broker = broker(&job.section).await;
    let source = broker.source(&job.queue, GROUP).await.unwrap();
    let (log, tries) = (Arc::new(open(&job.log)), Arc::new(AtomicU64::new(u64::from(std::process::id()))));
    let (pill, fails) = (job.pill, job.fails);
    let order = if job.ordered { OrderBy::Key } else { OrderBy::None };
    let consumer = Consumer::builder(source, broker.publisher())
        .group(GROUP)
        .dead_letters(&job.dlq)
        .state(&job.state)
        .concurrency(job.concurrency)
        .order(order, Behind::Wait)
        .handler(move |order: Message| {
            let (log, tries) = (log.clone(), tries.clone());
            async move {
                let number = number(&order);
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                if pill == Some(number) {
                    std::process::abort();
                }
                let tried = tries.fetch_add(1, Ordering::Relaxed);
                if fails.is_some_and(|one_in| tried.is_multiple_of(one_in)) {
                    return Err(Failure { says: Some(VerdictKind::Retry), ..Failure::new("Busy", "busy") });
                }
                let key =
                    order.key.map(|key| String::from_utf8_lossy(&key.0).into_owned()).unwrap_or_default();
                (&*log).write_all(format!("{key} {number}\n").as_bytes()).unwrap();
                Ok(())
            }
        })
        .build()
        .unwrap();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    let stop = async move {
        terminate.recv().await;
    };
    consumer.run(stop).await.unwrap();
}

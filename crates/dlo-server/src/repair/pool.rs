//! The office's end of the repair workers: a few processes, used again, killed when they go too far.
//!
//! Letters go out in batches. A worker that dies in the middle has answered some of them; which of the others ended it is
//! not known, so they are sent again to a new worker that answers one by one. jq has no effects, so running a letter twice
//! is no harm. The one it dies on is refused, and its neighbours go on.

use std::ops::Range;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::wire::{self, ANSWER, Answer, Letter, Request};
use super::{BadExpression, EXPRESSION, Limits, MEMORY, OUT_OF_TIME, TIME};
use super::{RepairError, Repaired, Subject, WorkerCommand};

/// Letters of one batch.
const BATCH: usize = 256;
/// Bytes after which a batch is full; one letter may be larger.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Runs expressions over messages. Shared by everybody who repairs.
#[derive(Debug)]
pub struct Repairer {
    command: WorkerCommand,
    limits: Limits,
    idle: Mutex<Vec<Worker>>,
    places: Semaphore,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// How a batch ended, besides with all of its answers.
enum Broken {
    /// The worker is gone; why, as far as its end tells.
    Died(String),
    /// The time of the batch is over.
    Late,
    Expression(BadExpression),
}

impl Repairer {
    pub fn new(command: WorkerCommand, limits: Limits) -> Self {
        let places = Semaphore::new(limits.workers.max(1));
        Self { command, limits, idle: Mutex::new(Vec::new()), places }
    }

    /// Whether an expression is understood.
    pub async fn check(&self, expression: &str) -> Result<(), RepairError> {
        self.batch(expression, &[]).await.map(drop)
    }

    /// Runs the expression over each message: one answer each, in their order. A refusal says why, without any value of
    /// the message. Fails as a whole only where the expression is not understood or no worker can be started.
    pub async fn apply(
        &self,
        expression: &str,
        subjects: &[Subject<'_>],
    ) -> Result<Vec<Result<Repaired, String>>, RepairError> {
        let batches = stream::iter(batches(subjects))
            .map(|batch| self.batch(expression, &subjects[batch]))
            .buffered(self.limits.workers.max(1));
        let answers: Vec<Vec<_>> = batches.try_collect().await?;
        Ok(answers.into_iter().flatten().collect())
    }

    async fn batch(
        &self,
        expression: &str,
        subjects: &[Subject<'_>],
    ) -> Result<Vec<Result<Repaired, String>>, RepairError> {
        if expression.len() > EXPRESSION {
            let what = format!("an expression has at most {EXPRESSION} bytes");
            return Err(BadExpression { at: EXPRESSION, what }.into());
        }
        let closed = |_| RepairError::Worker(std::io::Error::other("the office is closing"));
        let _place = self.places.acquire().await.map_err(closed)?;
        let deadline = Instant::now() + self.limits.batch_time;
        let mut done = Vec::with_capacity(subjects.len());
        let mut careful = false;
        loop {
            let rest = &subjects[done.len()..];
            let mut worker = self.worker()?;
            match worker.run(careful, expression, rest, deadline, &mut done).await {
                Ok(()) => {
                    self.keep(worker, subjects);
                    return Ok(done);
                }
                Err(Broken::Expression(bad)) => {
                    self.keep(worker, subjects);
                    return Err(bad.into());
                }
                Err(Broken::Late) => {
                    worker.end().await;
                    let time = self.limits.batch_time.as_secs();
                    let late = format!("not repaired: it and its neighbours took more than {time} s");
                    done.resize(subjects.len(), Err(late));
                    return Ok(done);
                }
                // Nothing was asked but whether the expression is understood.
                Err(Broken::Died(why)) if subjects.is_empty() => {
                    return Err(BadExpression { at: 0, what: format!("cannot be read: {why}") }.into());
                }
                Err(Broken::Died(why)) => {
                    // Alone, or one by one: then it is the first that has no answer.
                    if (careful || subjects.len() == 1) && done.len() < subjects.len() {
                        done.push(Err(why));
                    }
                    careful = true;
                }
            }
            if done.len() == subjects.len() {
                return Ok(done);
            }
        }
    }

    fn worker(&self) -> Result<Worker, RepairError> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut worker) = idle else {
                return Worker::start(&self.command).map_err(RepairError::Worker);
            };
            // One that ended while nobody asked it anything is no letter's fault.
            if worker.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                return Ok(worker);
            }
        }
    }

    /// Keeps a worker for the next batch, unless large letters made it grow.
    fn keep(&self, worker: Worker, subjects: &[Subject<'_>]) {
        let bytes: usize = subjects.iter().map(|subject| subject.message.payload.0.len()).sum();
        if bytes <= BATCH_BYTES {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
    }
}

/// Neighbours that travel together.
fn batches(subjects: &[Subject<'_>]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, subject) in subjects.iter().enumerate() {
        bytes += subject.message.payload.0.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes <= BATCH_BYTES => batch.end = at + 1,
            _ => {
                bytes = subject.message.payload.0.len();
                batches.push(at..at + 1);
            }
        }
    }
    batches
}

impl Worker {
    fn start(command: &WorkerCommand) -> std::io::Result<Self> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the office: what it has in hand is finished or given up by it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("the worker has no pipe");
        let to = child.stdin.take().ok_or_else(missing)?;
        let from = BufReader::with_capacity(64 * 1024, child.stdout.take().ok_or_else(missing)?);
        Ok(Self { child, to, from })
    }

    /// Sends the batch and reads its answers side by side: either pipe may be full.
    async fn run(
        &mut self,
        careful: bool,
        expression: &str,
        subjects: &[Subject<'_>],
        deadline: Instant,
        done: &mut Vec<Result<Repaired, String>>,
    ) -> Result<(), Broken> {
        let letters = subjects.iter().map(|subject| letter(subject, expression)).collect();
        let request = Request { careful, expression, letters }.encode();
        let Self { child, to, from } = self;
        let write = async {
            // A worker that is gone is noticed by the reader.
            let _ = to.write_all(&request).await;
            let _ = to.flush().await;
        };
        let read = async {
            let ready = wire::decode_ready(&frame(from).await?)?;
            if ready.is_ok() {
                for subject in subjects {
                    done.push(answered(Answer::decode(&frame(from).await?)?, subject));
                }
            }
            Ok::<_, std::io::Error>(ready)
        };
        let both = async { tokio::join!(write, read).1 };
        match timeout_at(deadline, both).await {
            Err(_) => Err(Broken::Late),
            Ok(Ok(ready)) => ready.map_err(Broken::Expression),
            Ok(Err(_)) => Err(Broken::Died(end(child).await)),
        }
    }

    async fn end(mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::warn!(%error, "a repair worker could not be killed");
        }
    }
}

/// Only what the expression asks for travels.
fn letter<'a>(subject: &Subject<'a>, expression: &str) -> Letter<'a> {
    let Subject { message, facts } = subject;
    let text = |text: Option<&'a str>| text.map(str::as_bytes);
    let headers = message.headers.0.iter();
    let headers = headers.map(|header| (header.name.as_str(), header.value.as_deref()));
    Letter {
        payload: &message.payload.0,
        key: message.key.as_ref().filter(|_| expression.contains("$key")).map(|key| &key.0[..]),
        headers: if expression.contains("$headers") { headers.collect() } else { Vec::new() },
        facts: if expression.contains("$letter") {
            vec![
                ("id", text(Some(facts.id))),
                ("source", text(Some(facts.source))),
                ("type", text(facts.event_type)),
                ("error_class", text(facts.error_class)),
                ("consumer", text(facts.consumer)),
            ]
        } else {
            Vec::new()
        },
    }
}

fn answered(answer: Answer, subject: &Subject<'_>) -> Result<Repaired, String> {
    match answer {
        Answer::Same => Ok(Repaired::Same),
        Answer::Changed(change) => change.apply(subject.message),
        Answer::Failed(why) => Err(why),
    }
}

async fn frame(from: &mut BufReader<ChildStdout>) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let mut body = vec![0; wire::frame_length(length, ANSWER)?];
    from.read_exact(&mut body).await?;
    Ok(body)
}

/// Why a worker is gone. One that is still there, but not understood, is killed.
async fn end(child: &mut Child) -> String {
    let _ = child.start_kill();
    let code = child.wait().await.ok().and_then(|status| status.code());
    match code {
        Some(OUT_OF_TIME) => {
            format!("the expression took more than {} s on this letter", TIME.as_secs())
        }
        _ => format!(
            "the expression ended its worker on this letter: most likely it needed more than {} MiB",
            MEMORY / (1024 * 1024)
        ),
    }
}

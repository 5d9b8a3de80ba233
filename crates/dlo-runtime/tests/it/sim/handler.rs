//! The handler of a run: it does with each message what the plan says, and writes down that it did.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::verdict::VerdictKind;
use dlo_runtime::{Context, Handler, Unhandled};
use dlo_testkit::sim::{End, Fact, Life, Log, Number, Window, number};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::plan::{Plan, Script, Stumble, Then};

/// What outlives the processes of a run.
pub(super) struct Stage {
    pub(super) log: Arc<Log>,
    began: Instant,
    database_down: Option<Window>,
    broken: Option<Window>,
    scripts: Vec<Script>,
    /// How often each message has gone wrong.
    stumbled: Mutex<Vec<u32>>,
}

impl Stage {
    pub(super) fn new(plan: &Plan, log: Arc<Log>) -> Self {
        Self {
            log,
            began: Instant::now(),
            database_down: plan.database_down,
            broken: plan.broken,
            scripts: plan.messages.clone(),
            stumbled: Mutex::new(vec![0; plan.messages.len()]),
        }
    }

    /// True, and one time fewer, if the message is still to go wrong.
    fn stumbles(&self, message: Number, script: &Script) -> bool {
        let mut stumbled = self.stumbled.lock().unwrap();
        let times = &mut stumbled[message as usize];
        let still = *times < script.times;
        *times += u32::from(still);
        still
    }

    fn is_in(&self, window: Option<Window>) -> bool {
        window.is_some_and(|window| window.holds(self.began.elapsed()))
    }
}

/// The handler of one process.
pub(super) struct Hand {
    pub(super) stage: Arc<Stage>,
    pub(super) life: Arc<Life>,
    pub(super) stop: CancellationToken,
}

/// Notes the end of a handler's work, however it comes; a dead process notes nothing.
struct Work<'a> {
    hand: &'a Hand,
    message: Number,
    began: Instant,
    timeout: Duration,
    ended: bool,
}

impl Work<'_> {
    fn end(&mut self, how: End) {
        self.ended = true;
        self.hand.stage.log.note(Fact::Ended { by: self.hand.life.id, message: self.message, how });
    }

    fn fail(&mut self, failure: Failure) -> Result<(), Unhandled> {
        self.end(End::Failed);
        Err(failure.into())
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if self.ended || self.hand.life.is_over() {
            return;
        }
        self.end(if self.began.elapsed() >= self.timeout { End::TimedOut } else { End::Dropped });
    }
}

#[async_trait]
impl Handler for Hand {
    async fn handle(&self, message: Message, context: &Context) -> Result<(), Unhandled> {
        let Some(message) = number(&message) else {
            return Err(Failure::new("sim.Garbled", "the payload is not what was sent").into());
        };
        let script = &self.stage.scripts[message as usize];
        let attempt = context.attempt.number();
        if self.life.is_over() {
            return std::future::pending().await;
        }
        // Before anything else can go wrong: the journal knows by now that it is here, and a crash is counted from it.
        self.stage.log.note(Fact::Began { by: self.life.id, message, attempt });
        self.life.step().await;
        let timeout = context.timeout;
        let mut work = Work { hand: self, message, began: Instant::now(), timeout, ended: false };
        if self.is_told_to_stop_during(script).await {
            self.life.step().await;
            work.end(End::FailedByShutdown);
            return Err(Failure::new("ValidationError", "we are shutting down").into());
        }
        self.life.step().await;
        if self.stage.is_in(self.stage.broken) {
            work.end(End::Broken);
            return Err(Failure::new("", "Internal Server Error").into());
        }
        if self.stage.stumbles(message, script) {
            return self.stumble(script, work).await;
        }
        match script.then {
            Then::HandledByDatabase if self.stage.is_in(self.stage.database_down) => {
                let dependency = Some("database".to_owned());
                work.fail(Failure {
                    dependency,
                    says: Some(VerdictKind::Retry),
                    ..Failure::new("Down", "down")
                })
            }
            Then::Handled | Then::HandledByDatabase => {
                work.end(End::Handled);
                Ok(())
            }
            Then::Invalid => work.fail(Failure::new("ValidationError", "no such order")),
            Then::Useless => work.fail(Failure {
                says: Some(VerdictKind::Discard),
                ..Failure::new("Useless", "nobody cares")
            }),
            Then::Panics => {
                work.end(End::Panicked);
                // As a panic, without its line on the terminal.
                std::panic::resume_unwind(Box::new("scripted"))
            }
        }
    }
}

impl Hand {
    /// Works on the message. True when a message that sulks was told to stop meanwhile.
    async fn is_told_to_stop_during(&self, script: &Script) -> bool {
        if script.work.is_zero() {
            return false;
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled(), if script.sulks => {
                // The runtime has heard it by now as well.
                sleep(Duration::from_millis(1)).await;
                true
            }
            () = sleep(script.work) => false,
        }
    }

    async fn stumble(&self, script: &Script, mut work: Work<'_>) -> Result<(), Unhandled> {
        match script.stumble {
            Stumble::Busy => {
                work.fail(Failure { says: Some(VerdictKind::Retry), ..Failure::new("BusyError", "busy") })
            }
            Stumble::Hangs => std::future::pending().await,
            Stumble::Kills => {
                self.life.end();
                std::future::pending().await
            }
        }
    }
}

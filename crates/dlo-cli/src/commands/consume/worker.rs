//! One consumer of the sidecar, from the first look for its handler to its last settlement.
//!
//! Nothing is taken from the broker before the handler is there. What waiting may mend (a handler that starts later, a
//! broker that restarts, a queue that somebody creates) is waited for, with growing pauses; settings that can
//! never work end the sidecar.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{Broker, BrokerError};
use dlo_core::classify::Ruleset;
use dlo_core::trouble::TroubleKind;
use dlo_runtime::push::{LargeStore, OfficeReceipts, PushHandler};
use dlo_runtime::{Pause, Receipts};
use tokio_util::sync::CancellationToken;

use super::standing::{Phase, Standing};
use crate::clock::OfficeClock;
use crate::config::Consumer;

/// Pauses between two looks: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// What one worker needs.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) consumer: Consumer,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) rules: Ruleset,
    pub(super) standing: Arc<Standing>,
    pub(super) receipts: Option<OfficeReceipts>,
    pub(super) stop: CancellationToken,
}

/// How one life of a consumer ended.
enum Ended {
    /// It was told to.
    Stopped,
    /// The broker, the queue or a right is missing: begin again after a pause.
    Broker(BrokerError),
    /// No time will mend this.
    Never(String),
}

impl Worker {
    /// Works until it is told to stop. An error is a setting that cannot work.
    pub(super) async fn work(self) -> Result<(), String> {
        let mut pause = FIRST_PAUSE;
        loop {
            let ended = self.live(&mut pause).await;
            match ended {
                Ended::Stopped => break,
                Ended::Never(why) => return Err(format!("consumer `{}`: {why}", self.consumer.name)),
                Ended::Broker(problem) => {
                    tracing::warn!(consumer = %self.consumer.name, %problem, "consumer.broker_away");
                    self.standing.now(Phase::WaitingForBroker(problem.to_string()));
                }
            }
            if self.rest(&mut pause).await.is_none() {
                break;
            }
        }
        self.standing.now(Phase::Stopping);
        Ok(())
    }

    async fn live(&self, pause: &mut Duration) -> Ended {
        let handler = match PushHandler::new(&self.consumer.push, Arc::new(OfficeClock)) {
            Ok(handler) => handler,
            Err(bad) => return Ended::Never(bad.to_string()),
        };
        if self.until_there(&handler).await.is_none() {
            return Ended::Stopped;
        }
        let group = &self.consumer.settings.group;
        let joined = self.stop.run_until_cancelled(self.broker.source(&self.consumer.queue, group)).await;
        let source = match joined {
            None => return Ended::Stopped,
            Some(Err(problem)) => return Ended::Broker(problem),
            Some(Ok(source)) => source,
        };
        let built = dlo_runtime::Consumer::builder(source, self.broker.publisher());
        let consumer = match self.told(built).handler(self.standing.tally.timed(handler)).build() {
            Ok(consumer) => consumer,
            Err(refused) => return Ended::Never(refused.to_string()),
        };
        tracing::info!(consumer = %self.consumer.name, queue = %self.consumer.queue, group = %group, "consumer.started");
        self.standing.tally.follow(consumer.controls());
        self.standing.now(Phase::Running);
        *pause = FIRST_PAUSE;
        let stopping = async {
            self.stop.cancelled().await;
            self.standing.now(Phase::Stopping);
        };
        let large = self.large();
        let ended = tokio::select! {
            ended = consumer.run(stopping) => ended,
            () = async { match &large { Some(large) => large.post_files().await, None => std::future::pending().await } } => Ok(()),
        };
        self.standing.tally.unfollow();
        match ended {
            Ok(()) => Ended::Stopped,
            Err(problem) => Ended::Broker(problem),
        }
    }

    fn told(&self, builder: dlo_runtime::ConsumerBuilder) -> dlo_runtime::ConsumerBuilder {
        let builder = match &self.receipts {
            Some(office) => builder.receipts(Arc::new(office.clone())),
            None => builder,
        };
        let builder = match self.large() {
            Some(large) => builder.large_letters(Arc::new(large)),
            None => builder,
        };
        builder
            .config(self.consumer.settings.clone())
            .dead_letters(&self.consumer.dlq)
            .rules(self.rules.clone())
            .watch(Arc::clone(&self.standing.tally) as Arc<dyn dlo_runtime::Watch>)
    }

    /// Where letters are kept that are too large for their dead-letter queue.
    fn large(&self) -> Option<LargeStore> {
        let Consumer { name, settings, .. } = &self.consumer;
        let directory = settings.state.as_ref()?.join("large");
        Some(LargeStore::new(name, self.receipts.clone(), directory, settings.spool))
    }

    /// Waits for the handler. `None`: told to stop.
    async fn until_there(&self, handler: &PushHandler) -> Option<()> {
        let mut report = AwayReport::new(self);
        let mut pause = FIRST_PAUSE;
        let mut waited = false;
        loop {
            let Err(problem) = self.stop.run_until_cancelled(handler.is_there()).await? else {
                if waited {
                    tracing::info!(consumer = %self.consumer.name, "consumer.handler_there");
                }
                return Some(());
            };
            // Said once: whoever wants to know how it stands asks /status.
            if !std::mem::replace(&mut waited, true) {
                tracing::warn!(consumer = %self.consumer.name, handler = %self.consumer.push.handler, problem,
                    "consumer.waits_for_handler");
            }
            report.say(Some(&problem));
            self.standing.now(Phase::WaitingForHandler(problem));
            self.rest(&mut pause).await?;
        }
    }

    /// Rests, and longer the next time. `None`: told to stop.
    async fn rest(&self, pause: &mut Duration) -> Option<()> {
        self.stop.run_until_cancelled(tokio::time::sleep(*pause)).await?;
        *pause = (*pause * 2).min(LAST_PAUSE);
        Some(())
    }
}

/// Tells the office that the handler is away before there is a consumer that could tell it. Taken back when it is dropped.
struct AwayReport<'a> {
    worker: &'a Worker,
    instance: String,
    said: bool,
}

impl<'a> AwayReport<'a> {
    fn new(worker: &'a Worker) -> Self {
        Self { worker, instance: format!("{:016x}", rand::random::<u64>()), said: false }
    }

    fn say(&mut self, problem: Option<&str>) {
        let Some(office) = &self.worker.receipts else { return };
        let paused =
            problem.map(|why| Pause { kind: TroubleKind::ConsumerHandlerAway, why: why.to_owned(), held: 0 });
        self.said = problem.is_some();
        let Consumer { queue, settings, .. } = &self.worker.consumer;
        let (queue, consumer, instance) = (queue.clone(), settings.group.clone(), self.instance.clone());
        // Replays need not wait: what they send waits in the queue, like everything else.
        office.hear(dlo_runtime::Standing { queue, consumer, instance, halted: None, paused });
    }
}

impl Drop for AwayReport<'_> {
    fn drop(&mut self) {
        if self.said {
            self.say(None);
        }
    }
}

/// Where the journal and the spool of a consumer are kept: a directory of its own, by a name that any file system takes.
pub(super) fn state(data: &Path, consumer: &Consumer) -> PathBuf {
    let Consumer { broker, queue, settings, .. } = consumer;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let readable: String = format!("{queue}-{}", settings.group).chars().map(plain).take(64).collect();
    // Two names may look alike when they are made plain, so a hash of all is part of it, the same in every version.
    let exact = format!("{broker}\n{queue}\n{}", settings.group);
    let hash = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, exact.as_bytes());
    data.join(format!("{readable}-{}", hash.simple()))
}

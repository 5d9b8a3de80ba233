//! Who is at work: one worker for each consumer of the config, begun anew when what it was told has changed.
//!
//! A worker that is replaced drains first, as in a deployment: nothing in flight is charged. Those whose settings are
//! the same go on undisturbed.

use std::collections::BTreeMap;
use std::sync::Arc;

use dlo_brokers::BrokerConfig;
use dlo_core::broker::Broker;
use dlo_core::classify::{Rule, Ruleset};
use dlo_core::time::Clock;
use dlo_runtime::Metrics;
use dlo_runtime::push::OfficeReceipts;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::standing::{Board, Phase, Standing};
use super::worker::{Worker, state};
use crate::clock::OfficeClock;
use crate::config::{Config, Consumer};
use crate::exit::{Exit, Failure, Outcome};

/// Everything that a worker was told. Another one of these is another worker.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    consumer: Consumer,
    broker: BrokerConfig,
    rules: Vec<Rule>,
}

/// Broker, queue and group: what makes a consumer the same over a change of its settings.
type Name = (String, String, String);

#[derive(Debug)]
struct AtWork {
    told: Told,
    standing: Arc<Standing>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Debug)]
pub(super) struct Crew {
    board: Board,
    receipts: Option<OfficeReceipts>,
    at_work: BTreeMap<Name, AtWork>,
    brokers: BTreeMap<String, (BrokerConfig, Arc<dyn Broker>)>,
    failures: (mpsc::Sender<String>, mpsc::Receiver<String>),
    /// Nobody was begun yet: whoever cannot work ends the sidecar, so that a wrong start is seen at once.
    is_new: bool,
}

impl Crew {
    pub(super) fn new(metrics: Metrics, receipts: Option<OfficeReceipts>) -> Self {
        // One failure ends the sidecar; more need no room.
        Self {
            board: Board::new(metrics, receipts.clone()),
            receipts,
            at_work: BTreeMap::new(),
            brokers: BTreeMap::new(),
            failures: mpsc::channel(1),
            is_new: true,
        }
    }

    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.at_work.len()
    }

    /// The first worker whose settings cannot work. Cancel-safe.
    pub(super) async fn failed(&mut self) -> Failure {
        // The crew holds a sender of its own, so there is always somebody to wait for.
        let why = self.failures.1.recv().await.unwrap_or_default();
        Failure::new(Exit::Usage, why)
    }

    /// Makes the crew what the config says. When anything of it cannot be made, nothing changes.
    pub(super) async fn take_up(&mut self, config: &Config, consumers: Vec<Consumer>) -> Outcome {
        let rules = config.rules.classify.clone();
        let compiled = Ruleset::compile(rules.clone()).map_err(|bad| Failure::usage(bad.to_string()))?;
        let mut wanted = BTreeMap::new();
        for mut consumer in consumers {
            let settings = config.brokers.iter().find(|broker| broker.name == consumer.broker);
            let Some(broker) = settings.and_then(|broker| broker.settings.clone()) else { continue };
            let of_its_own = state(&config.consume.data, &consumer);
            consumer.settings.state.get_or_insert(of_its_own);
            let made = self.broker(&consumer.broker, &broker).await?;
            let name = (consumer.broker.clone(), consumer.queue.clone(), consumer.settings.group.clone());
            wanted.insert(name, (Told { consumer, broker, rules: rules.clone() }, made));
        }
        self.release(|name, told| wanted.get(name).is_none_or(|(wanted, _)| wanted != told)).await;
        for (name, (told, broker)) in wanted {
            if !self.at_work.contains_key(&name) {
                let begun = self.begin(told, broker, compiled.clone());
                self.at_work.insert(name, begun);
            }
        }
        self.is_new = false;
        self.board.show(self.at_work.values().map(|one| Arc::clone(&one.standing)).collect());
        Ok(())
    }

    /// The broker under that name, connected once for as long as its settings stay the same.
    async fn broker(&mut self, name: &str, settings: &BrokerConfig) -> Outcome<Arc<dyn Broker>> {
        if let Some((_, broker)) = self.brokers.get(name).filter(|(known, _)| known == settings) {
            return Ok(Arc::clone(broker));
        }
        let clock: Arc<dyn Clock> = Arc::new(OfficeClock);
        let made = dlo_brokers::connect(settings, clock).await;
        let made = made.map_err(|cause| Failure::failed(format!("broker `{name}`: {cause}")))?;
        self.brokers.insert(name.to_owned(), (settings.clone(), Arc::clone(&made)));
        Ok(made)
    }

    fn begin(&self, told: Told, broker: Arc<dyn Broker>, rules: Ruleset) -> AtWork {
        let standing = Standing::new(&told.consumer, &self.board.metrics);
        let stop = CancellationToken::new();
        let worker = Worker {
            consumer: told.consumer.clone(),
            broker,
            rules,
            standing: Arc::clone(&standing),
            receipts: self.receipts.clone(),
            stop: stop.clone(),
        };
        let (failures, first, seen) = (self.failures.0.clone(), self.is_new, Arc::clone(&standing));
        let task = tokio::spawn(async move {
            let Err(why) = worker.work().await else { return };
            if first {
                // Full: another one failed before, and the sidecar is ending.
                let _ = failures.try_send(why);
            } else {
                // A change of the config must not end those that work.
                tracing::error!("{why}");
                seen.now(Phase::Refused(why));
            }
        });
        AtWork { told, standing, stop, task }
    }

    /// Lets those go for whom `leaves` holds, and waits until they have drained.
    async fn release(&mut self, leaves: impl Fn(&Name, &Told) -> bool) {
        let gone: Vec<AtWork> =
            self.at_work.extract_if(.., |name, one| leaves(name, &one.told)).map(|(_, one)| one).collect();
        for one in &gone {
            one.stop.cancel();
        }
        for one in gone {
            if let Err(cause) = one.task.await {
                tracing::error!(%cause, "a consumer did not end as it should");
            }
        }
    }

    /// Everybody drains and goes.
    pub(super) async fn dismiss(mut self) {
        self.release(|_, _| true).await;
    }
}

//! How each consumer stands, for everybody who asks: the worker writes it, the port reads it.

use std::sync::{Arc, Mutex, PoisonError};

use dlo_runtime::push::OfficeReceipts;
use dlo_runtime::{Metrics, Tally};
use serde_json::{Value, json};

use crate::config::Consumer;

/// What a worker is doing, beside what its consumer tells by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handler is not there yet; nothing is taken from the broker.
    WaitingForHandler(String),
    /// The broker is not there, or does not have the queue.
    WaitingForBroker(String),
    Running,
    /// What it was told cannot work.
    Refused(String),
    /// It drains, or has ended.
    Stopping,
}

/// One consumer, as it is seen from outside.
#[derive(Debug)]
pub(super) struct Standing {
    name: String,
    queue: String,
    group: String,
    handler: String,
    pub(super) tally: Arc<Tally>,
    phase: Mutex<Phase>,
}

impl Standing {
    pub(super) fn new(consumer: &Consumer, metrics: &Metrics) -> Arc<Self> {
        let group = consumer.settings.group.clone();
        Arc::new(Self {
            name: consumer.name.clone(),
            queue: consumer.queue.clone(),
            handler: consumer.push.handler.clone(),
            tally: metrics.consumer(&consumer.queue, &group),
            group,
            phase: Mutex::new(Phase::WaitingForHandler("it was not asked yet".to_owned())),
        })
    }

    pub(super) fn now(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(super) fn is_ready(&self) -> bool {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) == Phase::Running
    }

    fn as_json(&self) -> Value {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seen = self.tally.snapshot();
        let paused: Vec<Value> = seen.paused.iter().map(|(cause, wait)| {
            json!({ "cause": cause, "probe_in_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) })
        }).collect();
        let breakers: Vec<Value> = seen
            .breakers
            .iter()
            .map(|(dependency, state)| json!({ "dependency": dependency, "state": state.as_str() }))
            .collect();
        let (state, problem) = match phase {
            Phase::WaitingForHandler(cause) => ("waiting_for_handler", Some(cause)),
            Phase::WaitingForBroker(cause) => ("broker_away", Some(cause)),
            Phase::Stopping => ("stopping", None),
            Phase::Refused(why) => ("refused", Some(why)),
            Phase::Running => match seen.broker_away {
                Some(cause) => ("broker_away", Some(cause)),
                None if seen.handler_away.is_some() => ("waiting_for_handler", seen.handler_away.clone()),
                None if !paused.is_empty() => ("paused", None),
                None => ("running", None),
            },
        };
        json!({
            "name": self.name, "queue": self.queue, "group": self.group, "handler": self.handler,
            "state": state, "problem": problem, "paused": paused,
            "in_flight": seen.in_flight, "attempts": seen.attempts, "handled": seen.handled,
            "retried": seen.retried, "parked": seen.parked, "spooled": seen.spooled, "in_lanes": seen.in_lanes, "breakers": breakers, "last_error_class": seen.last_error_class,
        })
    }
}

/// All of them. Cheap to clone: everybody sees the same.
#[derive(Debug, Clone)]
pub(super) struct Board {
    standings: Arc<Mutex<Vec<Arc<Standing>>>>,
    pub(super) metrics: Metrics,
    receipts: Option<OfficeReceipts>,
}

impl Board {
    pub(super) fn new(metrics: Metrics, receipts: Option<OfficeReceipts>) -> Self {
        Self { standings: Arc::default(), metrics, receipts }
    }

    pub(super) fn show(&self, standings: Vec<Arc<Standing>>) {
        *self.standings.lock().unwrap_or_else(PoisonError::into_inner) = standings;
    }

    fn all(&self) -> Vec<Arc<Standing>> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn status(&self) -> Value {
        let consumers: Vec<Value> = self.all().iter().map(|standing| standing.as_json()).collect();
        let receipts = self.receipts.as_ref().map(|office| {
            let counts = office.counts();
            json!({ "taken": counts.taken, "dropped": counts.dropped })
        });
        json!({ "version": env!("CARGO_PKG_VERSION"), "consumers": consumers, "receipts": receipts })
    }

    /// Those that are not at work, by name.
    pub(super) fn not_ready(&self) -> Vec<String> {
        let all = self.all();
        all.iter().filter(|standing| !standing.is_ready()).map(|standing| standing.name.clone()).collect()
    }
}

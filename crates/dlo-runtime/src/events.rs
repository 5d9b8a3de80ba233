//! Everything this crate tells of itself, as types, on one page.
//!
//! Each event is written as one structured log line by `tracing`, and passed to a [`Watch`] if there is one. No payload
//! byte is part of any, and no error text either: it may quote the payload.

use std::time::Duration;

use dlo_core::envelope::ReplayMark;
use dlo_core::id::DeathId;
use dlo_core::origin::Origin;
use dlo_core::reason::Reason;
use dlo_core::verdict::{Stage, VerdictKind};

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A message was handled. `waited`: from its arrival here to its handler; `took`: in the handler, the last time.
    Handled {
        origin: &'a Origin,
        attempts: u32,
        waited: Duration,
        took: Duration,
        replay: Option<&'a ReplayMark>,
    },
    /// It failed and will be tried again.
    Retried {
        origin: &'a Origin,
        attempts: u32,
        error_class: &'a str,
        after: Duration,
        stage: Stage,
    },
    /// It is in the dead-letter queue, confirmed (C5). Discarded ones as well: their record is there.
    DeadLettered(DeadLettered<'a>),
    /// It was meant for another consumer group.
    Skipped {
        origin: &'a Origin,
    },
    /// A dependency is down: messages wait.
    Paused {
        dependency: &'a str,
        wait: Duration,
    },
    /// It is back.
    Resumed {
        dependency: &'a str,
    },
    /// A retry waits because the budget is spent.
    OverBudget,
    /// Most of what ended lately failed for one cause: messages wait, and nothing is parked.
    Braked {
        cause: &'a str,
        wait: Duration,
    },
    /// The brake is off again.
    Released {
        cause: &'a str,
    },
    /// Most of what ended lately was parked for one cause, and the policy only warns.
    MassDeath {
        cause: &'a str,
    },
    /// Nobody takes messages: they wait.
    HandlerAway {
        problem: &'a str,
    },
    HandlerBack,
    /// The handler went away with a message in its hands. It is run again alone.
    HandlerLost {
        origin: &'a Origin,
        problem: &'a str,
    },
    /// So many letters wait on disk, because their queue cannot be written.
    Spooled {
        letters: usize,
        bytes: u64,
    },
    /// Everything that waited on disk is where it belongs.
    SpoolEmpty,
    /// A dead letter or a retry could not be written; it is tried again, and nothing is acknowledged meanwhile.
    NotWritten {
        queue: &'a str,
        problem: &'a str,
    },
    /// The broker did not take settlements, or did not answer; what is unsettled is delivered again.
    BrokerAway {
        problem: &'a str,
    },
    /// The shutdown is over; so many messages go back unharmed.
    Drained {
        handed_back: usize,
    },
}

/// One death.
#[derive(Debug, Clone)]
pub struct DeadLettered<'a> {
    pub death: DeathId,
    pub origin: &'a Origin,
    pub queue: &'a str,
    pub consumer: &'a str,
    pub event_type: Option<&'a str>,
    pub error_class: &'a str,
    pub reason: Reason,
    pub verdict: VerdictKind,
    pub rule: &'a str,
    pub attempts: u32,
    /// Set when the message was a replay that died again.
    pub replay: Option<&'a ReplayMark>,
}

/// Somebody who is told of every event, at once and in the middle of things: return quickly.
pub trait Watch: Send + Sync {
    fn saw(&self, event: &Event<'_>);
}

/// Writes the log line of an event.
pub(crate) fn log(event: &Event<'_>) {
    match event {
        Event::Handled { origin, attempts, waited, took, .. } => {
            tracing::trace!(queue = %origin.queue, partition = origin.partition, offset = origin.offset, attempts,
                waited_us = waited.as_micros() as u64, took_us = took.as_micros() as u64, "message.handled");
        }
        Event::Retried { origin, attempts, error_class, after, stage } => {
            tracing::debug!(queue = %origin.queue, partition = origin.partition, offset = origin.offset, attempts,
                error_class, after_ms = after.as_millis() as u64, stage = ?stage, "message.retried");
        }
        Event::DeadLettered(death) => dead_lettered(death),
        Event::Skipped { origin } => {
            tracing::debug!(queue = %origin.queue, partition = origin.partition, offset = origin.offset, "message.skipped");
        }
        Event::Paused { dependency, wait } => {
            tracing::warn!(dependency, wait_ms = wait.as_millis() as u64, "consumer.paused");
        }
        Event::Resumed { dependency } => tracing::info!(dependency, recovered = true, "consumer.resumed"),
        Event::OverBudget => tracing::debug!("message.over_budget"),
        Event::Braked { cause, wait } => {
            tracing::error!(cause, wait_ms = wait.as_millis() as u64, "consumer.braked");
        }
        Event::Released { cause } => tracing::info!(cause, recovered = true, "consumer.released"),
        Event::MassDeath { cause } => tracing::error!(cause, "consumer.mass_death"),
        Event::HandlerAway { problem } => tracing::warn!(problem, "consumer.handler_away"),
        Event::HandlerBack => tracing::info!(recovered = true, "consumer.handler_back"),
        Event::HandlerLost { origin, problem } => {
            tracing::warn!(queue = %origin.queue, partition = origin.partition, offset = origin.offset, problem,
                "message.handler_lost");
        }
        Event::Spooled { letters, bytes } => tracing::error!(letters, bytes, "consumer.spooled"),
        Event::SpoolEmpty => tracing::info!(recovered = true, "consumer.spool_empty"),
        Event::NotWritten { queue, problem } => {
            tracing::error!(queue, problem, "consumer.not_written");
        }
        Event::BrokerAway { problem } => tracing::warn!(problem, "consumer.broker_away"),
        Event::Drained { handed_back } => tracing::info!(handed_back, "consumer.drained"),
    }
}

/// The line that log-based alerts and audits look for. Its fields are a promise: added to, never changed.
fn dead_lettered(death: &DeadLettered<'_>) {
    tracing::warn!(
        death_id = %death.death,
        broker = death.origin.broker.as_str(),
        queue = %death.origin.queue,
        partition = death.origin.partition,
        offset = death.origin.offset,
        message_id = death.origin.message_id.as_deref(),
        dlq = death.queue,
        consumer = death.consumer,
        event_type = death.event_type,
        error_class = death.error_class,
        reason = death.reason.as_str(),
        verdict = death.verdict.as_str(),
        rule = death.rule,
        attempts = death.attempts,
        "message.dead_lettered"
    );
}

//! How a replay is to be run: pace, canary, guards, target, what to do with doubts. Every value has a default that is safe.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::HumanDuration;

/// The settings of one replay, stored with it. Changing the pace of a running replay changes these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub pace: Pace,
    /// How many are sent first, before their outcome is waited for. Zero: no canary.
    pub canary: u32,
    /// How long the outcome of what was sent is waited for at least.
    pub window: HumanDuration,
    /// The rate climbs to its limit in this many steps of five seconds after the canary. One: at once.
    pub ramp: u32,
    pub guards: Guards,
    pub target: Target,
    pub doubts: DoubtPolicy,
    /// Letters of one key go in their order, a later one only when the outcome of the earlier is known.
    pub order: bool,
    pub repair: Option<Repairing>,
    /// Times that a letter may be replayed (F5).
    pub limit: u32,
    /// RabbitMQ: how a letter gets to the queue that it came from. A setting of the source, as the next two are; absent
    /// where it is the default, which servers of an earlier version understand.
    #[serde(skip_serializing_if = "is_default")]
    pub via: Via,
    /// RabbitMQ: the copies that the producer asked for with `CC` are sent again.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_cc: bool,
    /// RabbitMQ: the time to live that the producer gave a message begins again.
    #[serde(skip_serializing_if = "is_default")]
    pub keep_expiration: bool,
}

/// Whether a value is the default one, which is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a letter gets to the queue that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Straight to the queue: no other queue gets it again.
    #[default]
    Queue,
    /// Through the exchange to which its producer sent it, with that routing key.
    Exchange,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            canary: 5,
            window: HumanDuration(Duration::from_secs(30)),
            ramp: 5,
            guards: Guards::default(),
            target: Target::default(),
            doubts: DoubtPolicy::default(),
            order: false,
            repair: None,
            limit: 3,
            via: Via::Queue,
            keep_cc: false,
            keep_expiration: false,
        }
    }
}

/// How fast (F3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Messages a second.
    Rate(f64),
    /// A share of what the consumer normally gets, 0 to 1, and at least one a second.
    Share(f64),
    /// As fast as it can be recorded and confirmed.
    Max,
}

impl Default for Pace {
    fn default() -> Self {
        Self::Rate(50.0)
    }
}

/// When a replay stops, pauses or slows down by itself (F4). `None` switches a guard off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    /// Stops when a letter of this replay comes back with the class it had, within this time of its send; zero switches it off.
    pub recurrence: Option<HumanDuration>,
    /// Stops when more letters came back than were sent, over the last ten seconds.
    pub refill: bool,
    /// Pauses when this share of what has an outcome failed, once twenty have one.
    pub failures: Option<f64>,
    /// Slows down while the consumer is this many messages behind.
    pub lag: Option<u64>,
    /// Waits while the consumer says that it is paused (breaker, brake).
    pub breaker: bool,
    /// Stops when the broker refused this many messages one after the other. Until it took one, no more are under way.
    pub refusals: Option<u64>,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            recurrence: Some(HumanDuration(Duration::from_secs(30))),
            refill: true,
            failures: Some(0.2),
            lag: Some(10_000),
            breaker: true,
            refusals: Some(10),
        }
    }
}

/// Where letters are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Where they came from.
    #[default]
    Original,
    /// Another queue of the source's broker.
    Queue(String),
    /// The queue they came from, for the consumer group that failed only.
    FailedGroup,
    /// Another queue of the source's broker, for good: a letter ends there as routed.
    Route(String),
}

impl Target {
    /// The queue that is named; `None`: that of the source.
    pub fn named(&self) -> Option<&str> {
        match self {
            Self::Queue(queue) | Self::Route(queue) => Some(queue),
            Self::Original | Self::FailedGroup => None,
        }
    }
}

/// What becomes of an item in doubt where the broker can be asked nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtPolicy {
    /// A person decides.
    #[default]
    Hold,
    /// It is sent again: the consumer copes with duplicates.
    SendAgain,
}

/// How letters are changed on their way (F9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repairing {
    /// A jq expression over the payload.
    pub expression: String,
}

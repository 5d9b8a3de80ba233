//! A consumer before it runs: what it is told, and what is refused at the door.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::breaker::BreakerConfig;
use dlo_core::broker::{Publisher, Source};
use dlo_core::budget::BudgetConfig;
use dlo_core::classify::{Ruleset, Unknown};
use dlo_core::limits;
use dlo_core::pattern::RuleError;
use dlo_core::policy::RetryPolicy;
use dlo_core::time::Clock;

use crate::clock::SystemClock;
use crate::consumer::Consumer;
use crate::events::Watch;
use crate::handler::Handler;

/// How failures of one queue are met.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub retry: RetryPolicy,
    /// What becomes of an error that no rule knows (A1).
    pub unknown: Unknown,
    /// How long one attempt may take (B8).
    pub timeout: Duration,
    pub breaker: BreakerConfig,
    pub when_open: WhenOpen,
    pub budget: BudgetConfig,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            unknown: Unknown::default(),
            timeout: Duration::from_secs(30),
            breaker: BreakerConfig::default(),
            when_open: WhenOpen::Pause,
            budget: BudgetConfig::default(),
        }
    }
}

/// What messages do while a dependency is down (B7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenOpen {
    /// They wait, at no charge, and one probe at a time goes through.
    Pause,
    /// They are parked with the reason `circuit_open`; a probe still goes through when it is time.
    Park,
}

/// A consumer that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("a consumer needs a handler: call `.handler(…)`")]
    NoHandler,
    #[error("a consumer needs the name of its group, 1 to {max} characters: call `.group(…)`", max = limits::NAME)]
    Group,
    #[error("`{field}`: expected {expected}")]
    Setting { field: &'static str, expected: &'static str },
    #[error(transparent)]
    Rules(#[from] RuleError),
}

/// Messages in the hands of handlers at once.
const MOST_CONCURRENCY: usize = 65_536;

/// What a consumer is told. Everything but group and handler has a default.
#[must_use = "a builder does nothing until it is built"]
pub struct ConsumerBuilder {
    pub(crate) source: Box<dyn Source>,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) group: String,
    pub(crate) consumer_id: Option<String>,
    pub(crate) consumer_version: Option<String>,
    pub(crate) policy: Policy,
    pub(crate) rules: Option<Ruleset>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    pub(crate) dead_letters: Option<String>,
    pub(crate) concurrency: usize,
    pub(crate) drain: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: u64,
    pub(crate) watch: Option<Arc<dyn Watch>>,
}

impl std::fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerBuilder").field("group", &self.group).field("policy", &self.policy).finish()
    }
}

impl ConsumerBuilder {
    pub(crate) fn new(source: Box<dyn Source>, publisher: Arc<dyn Publisher>) -> Self {
        Self {
            source,
            publisher,
            group: String::new(),
            consumer_id: None,
            consumer_version: None,
            policy: Policy::default(),
            rules: None,
            handler: None,
            dead_letters: None,
            concurrency: 64,
            drain: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
            seed: rand::random(),
            watch: None,
        }
    }

    /// The consumer group, as it stands on every death.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = group.into();
        self
    }

    /// Which instance this is, for the record.
    pub fn consumer_id(mut self, id: impl Into<String>) -> Self {
        self.consumer_id = Some(id.into());
        self
    }

    /// Which version of the service this is, for the record.
    pub fn consumer_version(mut self, version: impl Into<String>) -> Self {
        self.consumer_version = Some(version.into());
        self
    }

    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The team's rules with the built-in ones behind them; without this, the built-in ones alone.
    pub fn rules(mut self, rules: Ruleset) -> Self {
        self.rules = Some(rules);
        self
    }

    pub fn handler(mut self, handler: impl Handler + 'static) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Where dead letters go. Default: the queue's name with `.dlq` behind it.
    pub fn dead_letters(mut self, queue: impl Into<String>) -> Self {
        self.dead_letters = Some(queue.into());
        self
    }

    /// Messages handled at once; 64 by default.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long handlers may finish after the shutdown; 30 s by default.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The seed of the jitter, for a run that is to be repeated.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Told of everything that happens.
    pub fn watch(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    pub fn build(self) -> Result<Consumer, BuildError> {
        if self.group.is_empty() || self.group.len() > limits::NAME {
            return Err(BuildError::Group);
        }
        if !(1..=MOST_CONCURRENCY).contains(&self.concurrency) {
            return Err(BuildError::Setting { field: "concurrency", expected: "1 to 65536" });
        }
        if self.policy.timeout.is_zero() {
            return Err(BuildError::Setting { field: "policy.timeout", expected: "more than 0s" });
        }
        let handler = self.handler.clone().ok_or(BuildError::NoHandler)?;
        let rules = match self.rules.clone() {
            Some(rules) => rules,
            None => Ruleset::compile(Vec::new())?,
        };
        Ok(Consumer::new(self, handler, rules))
    }
}

//! A consumer before it runs: what it is told, and what is refused at the door.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::brake::BrakeConfig;
use dlo_core::breaker::BreakerConfig;
use dlo_core::broker::{Order, Publisher, Source};
use dlo_core::budget::BudgetConfig;
use dlo_core::classify::{Ruleset, Unknown};
use dlo_core::limits;
use dlo_core::pattern::RuleError;
use dlo_core::poison::PoisonConfig;
use dlo_core::policy::RetryPolicy;
use dlo_core::time::Clock;
use dlo_core::units::HumanDuration;

use crate::clock::SystemClock;
use crate::config::{Behind, ConsumerConfig, OrderBy};
use crate::consumer::Consumer;
use crate::events::Watch;
use crate::handler::Handler;
use crate::large::LargeLetters;
use crate::receipts::Receipts;

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
    pub brake: BrakeConfig,
    pub poison: PoisonConfig,
}

impl Default for Policy {
    fn default() -> Self {
        Self::of(&ConsumerConfig::default())
    }
}

impl Policy {
    fn of(config: &ConsumerConfig) -> Self {
        Self {
            retry: config.retry.clone(),
            unknown: config.unknown,
            timeout: config.timeout.0,
            breaker: config.breaker,
            when_open: config.when_open,
            budget: config.budget,
            brake: config.brake,
            poison: config.poison,
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
    #[error("`order`: {0}")]
    Order(&'static str),
    #[error(transparent)]
    Rules(#[from] RuleError),
}

/// Messages in the hands of handlers at once, and received and not settled.
const MOST_CONCURRENCY: usize = 65_536;
const MOST_PREFETCH: usize = 1_048_576;
/// Received and not settled, unless that is set: so many times `concurrency`, and at least this, so that batches are
/// worth their round trip.
const PREFETCH: (usize, usize) = (4, 512);
/// The same for a log, where one word to the group says any number of messages and takes longer than to handle them: there
/// must be something to do meanwhile.
const PREFETCH_OF_LOG: (usize, usize) = (16, 4_096);

/// What a consumer is told. Everything but group and handler has a default.
#[must_use = "a builder does nothing until it is built"]
pub struct ConsumerBuilder {
    pub(crate) source: Box<dyn Source>,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) config: ConsumerConfig,
    pub(crate) policy: Policy,
    pub(crate) rules: Option<Ruleset>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: u64,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) receipts: Option<Arc<dyn Receipts>>,
    pub(crate) large: Option<Arc<dyn LargeLetters>>,
    /// Where the journal is kept; `None`: nowhere.
    pub(crate) journal: Option<PathBuf>,
    stateless: bool,
}

impl std::fmt::Debug for ConsumerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl ConsumerBuilder {
    pub(crate) fn new(source: Box<dyn Source>, publisher: Arc<dyn Publisher>) -> Self {
        Self {
            source,
            publisher,
            config: ConsumerConfig::default(),
            policy: Policy::default(),
            rules: None,
            handler: None,
            clock: Arc::new(SystemClock),
            seed: rand::random(),
            watch: None,
            receipts: None,
            large: None,
            journal: None,
            stateless: false,
        }
    }

    /// Everything that a file says. What was set before is replaced; what is set after comes on top.
    pub fn config(mut self, config: ConsumerConfig) -> Self {
        self.policy = Policy::of(&config);
        self.config = config;
        self
    }

    /// The consumer group, as it stands on every death.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.config.group = group.into();
        self
    }

    /// Which instance this is, for the record.
    pub fn consumer_id(mut self, id: impl Into<String>) -> Self {
        self.config.consumer_id = Some(id.into());
        self
    }

    /// Which version of the service this is, for the record.
    pub fn consumer_version(mut self, version: impl Into<String>) -> Self {
        self.config.consumer_version = Some(version.into());
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
        self.config.dlq = Some(queue.into());
        self
    }

    /// Messages handled at once; 64 by default.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.config.concurrency = concurrency;
        self
    }

    /// Messages received and not settled; by default four times the concurrency, and 1,024 at least.
    pub fn prefetch(mut self, prefetch: usize) -> Self {
        self.config.prefetch = Some(prefetch);
        self
    }

    /// Which messages are handled one after the other, and what becomes of those behind one that waits (B10).
    pub fn order(mut self, order: OrderBy, behind: Behind) -> Self {
        self.config.order = order;
        self.config.behind = behind;
        self
    }

    /// How long handlers may finish after the shutdown; 30 s by default.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.config.drain = HumanDuration(drain);
        self
    }

    /// Where the journal is kept, and letters while their queue cannot be written. Default: the journal below the
    /// system's temporary directory, and no letters on disk.
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.config.state = Some(directory.into());
        self
    }

    /// Keeps nothing on disk: what kills the process is found by the broker's count alone.
    pub fn stateless(mut self) -> Self {
        self.stateless = true;
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

    /// Told which replayed messages were handled; without it nobody is.
    pub fn receipts(mut self, receipts: Arc<dyn Receipts>) -> Self {
        self.receipts = Some(receipts);
        self
    }

    /// Keeps dead letters that are too large for their queue; without it they wait in memory.
    pub fn large_letters(mut self, large: Arc<dyn LargeLetters>) -> Self {
        self.large = Some(large);
        self
    }

    pub fn build(mut self) -> Result<Consumer, BuildError> {
        self.check()?;
        let handler = self.handler.clone().ok_or(BuildError::NoHandler)?;
        let rules = match self.rules.clone() {
            Some(rules) => rules,
            None => Ruleset::compile(Vec::new())?,
        };
        let config = &mut self.config;
        let broker = self.source.capabilities();
        let is_log = broker.cumulative_ack && broker.offsets;
        config.prefetch.get_or_insert(prefetch(config.concurrency, is_log));
        if !self.stateless {
            let unless_told = || std::env::temp_dir().join("dlo-runtime").join(plain(&config.group));
            self.journal = Some(config.state.clone().unwrap_or_else(unless_told));
        }
        Ok(Consumer::new(self, handler, rules))
    }

    fn check(&self) -> Result<(), BuildError> {
        let config = &self.config;
        if config.group.is_empty() || config.group.len() > limits::NAME {
            return Err(BuildError::Group);
        }
        if !(1..=MOST_CONCURRENCY).contains(&config.concurrency) {
            return Err(BuildError::Setting { field: "concurrency", expected: "1 to 65536" });
        }
        if config.prefetch.is_some_and(|most| !(config.concurrency..=MOST_PREFETCH).contains(&most)) {
            return Err(BuildError::Setting { field: "prefetch", expected: "`concurrency` to 1048576" });
        }
        if self.policy.timeout.is_zero() {
            return Err(BuildError::Setting { field: "policy.timeout", expected: "more than 0s" });
        }
        let order = self.source.capabilities().order;
        order_is_kept(config.order, order, config.alone).map_err(BuildError::Order)
    }
}

/// What may be unsettled where nobody said it.
fn prefetch(concurrency: usize, is_log: bool) -> usize {
    let (times, least) = if is_log { PREFETCH_OF_LOG } else { PREFETCH };
    (times * concurrency).max(least)
}

/// Whether the broker keeps an order that lanes can follow, over restarts and several instances.
fn order_is_kept(asked: OrderBy, broker: Order, alone: bool) -> Result<(), &'static str> {
    match (asked, broker) {
        (OrderBy::None, _) | (_, Order::PerPartition) => Ok(()),
        (OrderBy::Key | OrderBy::Partition, Order::WholeQueue) if alone => Ok(()),
        (OrderBy::Key | OrderBy::Partition, Order::WholeQueue) => {
            Err("all instances share this queue, so two of them could have messages of one key at once; \
             if only one instance runs, say so with `alone = true`")
        }
        (OrderBy::Key | OrderBy::Partition, Order::None) => Err(
            "this broker promises no order; use one with partitions (Kafka, SQS FIFO) or leave `order` out",
        ),
    }
}

/// A group's name as that of a directory.
fn plain(group: &str) -> String {
    group.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST_CONCURRENCY, MOST_PREFETCH, prefetch};

    #[test]
    fn a_log_has_more_in_hand_than_a_queue_and_nothing_more_than_is_allowed() {
        assert_eq!([1, 500].map(|concurrency| prefetch(concurrency, false)), [512, 2_000]);
        assert_eq!([1, 500].map(|concurrency| prefetch(concurrency, true)), [4_096, 8_000]);
        assert!(prefetch(MOST_CONCURRENCY, true) <= MOST_PREFETCH);
    }
}

//! A consumer's settings as config writes them: what stands under `[[consumers]]` in `dlo.toml`, or in a service's own file.
//!
//! Each has a default that is safe. What a value means stands beside it; what is refused, and why, in `builder.rs`.

use std::path::PathBuf;

use dlo_core::brake::BrakeConfig;
use dlo_core::breaker::BreakerConfig;
use dlo_core::budget::BudgetConfig;
use dlo_core::classify::Unknown;
use dlo_core::conventions::emit::Compatibility;
use dlo_core::poison::PoisonConfig;
use dlo_core::policy::RetryPolicy;
use dlo_core::reason::Reason;
use dlo_core::units::{ByteSize, HumanDuration};
use serde::Deserialize;

use crate::builder::WhenOpen;

/// Everything that one consumer may be told by a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsumerConfig {
    /// The consumer group, as it stands on every death.
    pub group: String,
    /// Messages in handlers at once.
    pub concurrency: usize,
    /// Messages received and not settled; at least `concurrency`. Unset: four times that, and 512 at least; on Kafka
    /// sixteen times, and 4,096 at least.
    pub prefetch: Option<usize>,
    pub order: OrderBy,
    pub behind: Behind,
    /// The promise that this is the only instance, for `order` on brokers where all instances share one queue. With it,
    /// a key whose letter waits on disk goes on.
    pub alone: bool,
    /// How long one attempt may take (B8).
    pub timeout: HumanDuration,
    /// How long handlers may finish after a shutdown.
    pub drain: HumanDuration,
    pub retry: RetryPolicy,
    pub unknown: Unknown,
    pub breaker: BreakerConfig,
    pub when_open: WhenOpen,
    pub budget: BudgetConfig,
    pub brake: BrakeConfig,
    pub poison: PoisonConfig,
    /// Where dead letters go. Unset: the queue's name with `.dlq` behind it.
    pub dlq: Option<String>,
    /// Where messages go that the consumer did not survive. Unset: `dlq`.
    pub crash_dlq: Option<String>,
    /// Dead-letter queues by class of error (C7), the first that fits.
    pub dlqs: Vec<DlqRule>,
    /// The story once more in the words of other tools.
    pub compatibility: Vec<Compatibility>,
    /// Where journal and spool are kept. Unset: below the system's temporary directory.
    pub state: Option<PathBuf>,
    /// Bytes of letters that may wait on disk while the dead-letter queue cannot be written.
    pub spool: ByteSize,
    /// Which instance and which version of the service this is, for the record.
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            group: String::new(),
            concurrency: 64,
            prefetch: None,
            order: OrderBy::None,
            behind: Behind::Wait,
            alone: false,
            timeout: HumanDuration(std::time::Duration::from_secs(30)),
            drain: HumanDuration(std::time::Duration::from_secs(30)),
            retry: RetryPolicy::default(),
            unknown: Unknown::default(),
            breaker: BreakerConfig::default(),
            when_open: WhenOpen::Pause,
            budget: BudgetConfig::default(),
            brake: BrakeConfig::default(),
            poison: PoisonConfig::default(),
            dlq: None,
            crash_dlq: None,
            dlqs: Vec::new(),
            compatibility: Vec::new(),
            state: None,
            spool: ByteSize(256 * 1024 * 1024),
            consumer_id: None,
            consumer_version: None,
        }
    }
}

impl ConsumerConfig {
    /// Every queue that a letter of a message of `queue` may go to: what must be there.
    pub fn dead_letter_queues(&self, queue: &str) -> Vec<String> {
        let own = self.dlq.clone().unwrap_or_else(|| format!("{queue}.dlq"));
        let by_rule = self.dlqs.iter().map(|rule| rule.queue.clone());
        let mut all: Vec<String> =
            std::iter::once(own).chain(self.crash_dlq.clone()).chain(by_rule).collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Which messages are handled one after the other (B10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderBy {
    #[default]
    None,
    /// Those of one key. A message without a key waits for nobody.
    Key,
    /// Those of one partition.
    Partition,
}

/// What becomes of messages behind one that waits for its retry, where there is an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behind {
    /// They wait too.
    #[default]
    Wait,
    /// They are parked, to be replayed after it.
    Park,
}

/// One dead-letter queue for some of the letters. What is not said fits everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DlqRule {
    pub queue: String,
    #[serde(default)]
    pub class: Option<String>,
    #[serde(default)]
    pub reason: Option<Reason>,
    /// The rule of classification that decided.
    #[serde(default)]
    pub rule: Option<String>,
}

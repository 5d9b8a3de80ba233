//! What Prometheus reads of consumers, and the counters behind it: for the sidecar, and for any service that embeds us.
//!
//! [`Metrics::consumer`] gives the [`Tally`] of one consumer: hand it to the builder as its watch, wrap the handler by [`Tally::timed`],
//! and let it [`Tally::follow`] the consumer. Every metric has the labels `queue` and `group`.
//!
//! | metric | labels | meaning |
//! |---|---|---|
//! | `dlo_consumer_attempts_total` | | messages given to the handler, retries included |
//! | `dlo_consumer_handled_total` | | messages that were handled |
//! | `dlo_consumer_verdicts_total` | `verdict`, `rule`, `class` | failures by what was decided, by whom, and for which error class |
//! | `dlo_consumer_retries_total` | `stage` | retries, quick ones in place and delayed ones |
//! | `dlo_consumer_retries_refused_total` | | retries that waited because the budget was spent |
//! | `dlo_consumer_lost_total` | | messages with which the handler went away |
//! | `dlo_consumer_spooled` | | letters that wait on disk, because their queue cannot be written |
//! | `dlo_consumer_parked_total` | `reason` | messages in a dead-letter queue, confirmed; discarded ones have a record there too |
//! | `dlo_consumer_skipped_total` | | replayed messages that were meant for another group |
//! | `dlo_consumer_paused` | `cause` | 1 while messages wait for this dependency, or by the brake (`brake: …`); 0 when that is over |
//! | `dlo_consumer_unsettled` | | messages received, and the broker not told |
//! | `dlo_consumer_held` | | of those, waiting here for a retry or for judgement |
//! | `dlo_consumer_lane_depth` | | of those, waiting for the one before them in their lane |
//! | `dlo_consumer_breaker_open` | `dependency` | 1 while the breaker of this dependency is not closed |
//! | `dlo_consumer_in_flight` | | messages in the handler now |
//! | `dlo_consumer_not_written_total` | | letters and retries that the broker did not take at once |
//! | `dlo_consumer_broker_away_total` | | times the broker did not answer |
//! | `dlo_consumer_handler_seconds` | | time that the handler took, as a histogram |
//! | `dlo_consumer_wait_seconds` | | time from a message's arrival to its handler, as a histogram: the latency that is added |
//! | `dlo_build_info` | `version` | 1 |
//!
//! Labels are bounded: classes and causes come from outside, and beyond [`MOST_SERIES`] of a consumer they are counted
//! under `other`.

mod histogram;
mod page;
mod tally;

use std::sync::{Arc, Mutex, PoisonError};

use page::Page;
pub use tally::{Snapshot, Tally, Timed};

/// Series of one metric of one consumer whose labels come from outside.
pub(crate) const MOST_SERIES: usize = 100;

/// The counters of all consumers of a process.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    consumers: Arc<Mutex<Vec<Arc<Tally>>>>,
}

impl Metrics {
    pub fn new() -> Self {
        Self::default()
    }

    /// The counters of the consumer of that queue and group. Asked for again, they go on.
    pub fn consumer(&self, queue: &str, group: &str) -> Arc<Tally> {
        let mut consumers = self.consumers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = consumers.iter().find(|tally| tally.is_of(queue, group)) {
            return Arc::clone(known);
        }
        let tally = Arc::new(Tally::new(queue, group));
        consumers.push(Arc::clone(&tally));
        tally
    }

    /// The page that Prometheus reads.
    pub fn render(&self) -> String {
        let consumers = self.consumers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Page::of(&consumers)
    }
}

//! What our runtime is told wherever it is measured: as many messages in handlers at once as the bare loops have in their
//! window, everything else as it is by default. A poisoned message is tried three times, twice more in place, then it is
//! a dead letter.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use dlo_core::brake::{BrakeConfig, BrakeMode};
use dlo_core::budget::BudgetConfig;
use dlo_core::failure::Failure;
use dlo_core::policy::{Backoff, RetryPolicy};
use dlo_core::verdict::VerdictKind;
use dlo_runtime::ConsumerConfig;

/// Messages in handlers at once: the window of the bare loops.
const CONCURRENCY: usize = 500;
/// How often a poisoned message is given to the handler.
pub(crate) const ATTEMPTS: u32 = 3;

/// A tenth of the messages tried twice more is a fifth of the traffic, which is where the default begins to hold back.
pub(crate) fn budget() -> BudgetConfig {
    BudgetConfig { share: 1.0, ..BudgetConfig::default() }
}

/// A consumer of `group` that keeps its journal in `state`.
pub(crate) fn config(group: &str, budget: BudgetConfig, state: &Path) -> ConsumerConfig {
    let retry = RetryPolicy {
        attempts: NonZeroU32::MIN.saturating_add(ATTEMPTS - 1),
        backoff: Backoff::Fixed,
        base: Duration::from_millis(1),
        quick: ATTEMPTS - 1,
        ..RetryPolicy::default()
    };
    ConsumerConfig {
        group: group.to_owned(),
        concurrency: CONCURRENCY,
        retry,
        budget,
        // The queue ends, and of its last messages nearly all are poison, which is what the brake would stop for.
        brake: BrakeConfig { mode: BrakeMode::Warn, ..BrakeConfig::default() },
        state: Some(state.to_owned()),
        ..ConsumerConfig::default()
    }
}

/// What the handler says of a poisoned message. As the peers have it: tried twice more, then parked.
pub(crate) fn bad() -> Failure {
    Failure { says: Some(VerdictKind::Retry), ..Failure::new("NoJson", "the body is no JSON") }
}

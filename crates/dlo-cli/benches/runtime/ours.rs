//! Our runtime as a service embeds it: the real adapter, a handler that does nothing, everything else as it is by
//! default. A poisoned message is tried three times, twice more in place, then it is a dead letter.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use dlo_core::brake::{BrakeConfig, BrakeMode};
use dlo_core::budget::BudgetConfig;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::policy::{Backoff, RetryPolicy};
use dlo_core::verdict::VerdictKind;
use dlo_runtime::{Consumer, ConsumerConfig, Event, Watch};
use tokio::sync::Notify;

use crate::child::Done;
use crate::order;

/// Messages in handlers at once: the window of the bare loops.
const CONCURRENCY: usize = 500;
/// How often a poisoned message is given to the handler.
pub(crate) const ATTEMPTS: u32 = 3;

#[derive(Default)]
struct Count {
    /// Deliveries to the handler.
    tried: AtomicU64,
    handled: AtomicU64,
    parked: AtomicU64,
    wanted: u64,
    all: Notify,
}

impl Count {
    fn both(&self) -> (u64, u64) {
        (self.handled.load(Ordering::SeqCst), self.parked.load(Ordering::SeqCst))
    }
}

impl Watch for Count {
    fn saw(&self, event: &Event<'_>) {
        match event {
            Event::Handled { .. } => self.handled.fetch_add(1, Ordering::SeqCst),
            Event::DeadLettered(_) => self.parked.fetch_add(1, Ordering::SeqCst),
            _ => return,
        };
        let (handled, parked) = self.both();
        if handled + parked >= self.wanted {
            self.all.notify_one();
        }
    }
}

/// A tenth of the messages tried twice more is a fifth of the traffic, which is where the default begins to hold back.
pub(crate) fn budget() -> BudgetConfig {
    BudgetConfig { share: 1.0, ..BudgetConfig::default() }
}

/// Holds nothing back: where half of the messages are tried twice more, any share would.
pub(crate) fn boundless() -> BudgetConfig {
    BudgetConfig { floor: u32::MAX, ..BudgetConfig::default() }
}

/// Consumes `wanted` messages of `queue`; done when the source is drained and closed behind them.
pub(crate) async fn consume(
    section: &str,
    queue: &str,
    group: &str,
    wanted: u64,
    budget: BudgetConfig,
) -> Done {
    let broker = order::broker(section).await;
    let source = broker.source(queue, group).await.expect("join the queue");
    let count = Arc::new(Count { wanted, ..Count::default() });
    let began = Arc::new(OnceLock::new());
    let retry = RetryPolicy {
        attempts: NonZeroU32::MIN.saturating_add(ATTEMPTS - 1),
        backoff: Backoff::Fixed,
        base: Duration::from_millis(1),
        quick: ATTEMPTS - 1,
        ..RetryPolicy::default()
    };
    let state = tempfile::tempdir().expect("a directory for the journal");
    let config = ConsumerConfig {
        group: group.to_owned(),
        concurrency: CONCURRENCY,
        retry,
        budget,
        // The queue ends, and of its last messages nearly all are poison, which is what the brake would stop for.
        brake: BrakeConfig { mode: BrakeMode::Warn, ..BrakeConfig::default() },
        state: Some(state.path().to_owned()),
        ..ConsumerConfig::default()
    };
    let (clock, tally) = (Arc::clone(&began), Arc::clone(&count));
    let consumer = Consumer::builder(source, broker.publisher())
        .config(config)
        .watch(Arc::clone(&count) as Arc<dyn Watch>)
        .handler(move |message: Message| {
            clock.get_or_init(Instant::now);
            tally.tried.fetch_add(1, Ordering::Relaxed);
            let poison = order::is_poison(&message.payload.0);
            // As the peers have it: tried twice more, then parked.
            let bad = || Failure {
                says: Some(VerdictKind::Retry),
                ..Failure::new("NoJson", "the body is no JSON")
            };
            async move { if poison { Err(bad()) } else { Ok(()) } }
        })
        .build()
        .expect("a consumer");
    consumer.run(count.all.notified()).await.expect("the broker is up");
    let (handled, parked) = count.both();
    let tried = count.tried.load(Ordering::SeqCst);
    assert_eq!(
        tried,
        handled + u64::from(ATTEMPTS) * parked,
        "the handler was asked another number of times"
    );
    Done::now(handled, parked, *began.get().expect("there was a message"))
}

//! Our runtime as a service embeds it: the real adapter, a handler that does nothing, and the settings of
//! `settings.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use dlo_core::budget::BudgetConfig;
use dlo_core::message::Message;
use dlo_runtime::{Consumer, Event, Watch};
use tokio::sync::Notify;

use crate::child::Done;
use crate::order;
use crate::settings::{self, ATTEMPTS};

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
    let state = tempfile::tempdir().expect("a directory for the journal");
    let (clock, tally) = (Arc::clone(&began), Arc::clone(&count));
    let consumer = Consumer::builder(source, broker.publisher())
        .config(settings::config(group, budget, state.path()))
        .watch(Arc::clone(&count) as Arc<dyn Watch>)
        .handler(move |message: Message| {
            clock.get_or_init(Instant::now);
            tally.tried.fetch_add(1, Ordering::Relaxed);
            let poison = order::is_poison(&message.payload.0);
            async move { if poison { Err(settings::bad()) } else { Ok(()) } }
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

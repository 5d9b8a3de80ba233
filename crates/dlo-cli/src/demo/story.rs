//! The story: a day in the shop, on the real loop.
//!
//! The shop publishes, pricing consumes through the runtime, what cannot be priced is parked in `orders.dlq`, and the
//! office captures it from there. Four tenths into the day the tax service goes away for a while. Nothing is staged:
//! every letter has gone the way that letters go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_brokers::memory::{MemoryBroker, MemoryConfig, QueueOptions};
use dlo_core::broker::{Broker, BrokerError, Destination, Inspect, OFFICE, Outgoing, Publisher};
use dlo_core::time::Clock;
use dlo_runtime::push::OfficeReceipts;
use dlo_runtime::{Consumer, Policy};
use dlo_server::{CaptureSpec, ReplayTarget};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::handler::Pricing;
use super::shop::{INCARNATION, Shop};
use super::show::{Board, Live};
use crate::exit::{Failure, Outcome};

pub(super) const QUEUE: &str = "orders";
pub(super) const DLQ: &str = "orders.dlq";
pub(super) const GROUP: &str = "pricing";

/// The pricing service that was deployed in the morning.
pub(super) const VERSION: &str = "2.3.0";

/// Orders a second, so that there is something to see.
const PACE: u64 = 15_000;
const BATCH: u64 = 500;
/// How long the tax service is away.
const OUTAGE: Duration = Duration::from_millis(2_500);
const TICK: Duration = Duration::from_millis(50);
/// How many messages may be in a queue: more makes the shop wait.
const CAPACITY: usize = 50_000;

/// The shop's broker with its two queues. A fixed incarnation: the same order has the same place at every start.
pub(super) fn broker(clock: Arc<dyn Clock>) -> MemoryBroker {
    let config = MemoryConfig {
        incarnation: Some(INCARNATION.to_owned()),
        capacity: CAPACITY,
        ..MemoryConfig::default()
    };
    let broker = MemoryBroker::new(config, clock);
    for queue in [QUEUE, DLQ] {
        broker.declare(queue, QueueOptions { capacity: CAPACITY, ..QueueOptions::default() });
    }
    broker
}

/// The dead-letter queue that the office captures from.
pub(super) fn dead_letters(broker: &MemoryBroker) -> CaptureSpec {
    CaptureSpec::new(QUEUE, Arc::new(broker.clone()), QUEUE, DLQ)
}

/// Where letters are sent back to.
pub(super) fn target(broker: &MemoryBroker) -> ReplayTarget {
    let (source, queue) = (QUEUE.to_owned(), QUEUE.to_owned());
    ReplayTarget {
        source,
        broker: Arc::new(broker.clone()),
        queue,
        dlq: DLQ.to_owned(),
        mapper: Default::default(),
        group: Some(GROUP.to_owned()),
    }
}

/// What is left of the day when it is over.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) board: Arc<Board>,
    pub(super) revenue_cents: u64,
    pub(super) took: Duration,
}

/// The pricing service at work, for as long as the demo runs: letters that are sent on find it.
#[derive(Debug)]
pub(super) struct Staff {
    board: Arc<Board>,
    pub(super) pricing: Arc<Pricing>,
    work: JoinHandle<Result<(), BrokerError>>,
}

impl Staff {
    pub(super) fn at_work(
        broker: &MemoryBroker,
        clock: Arc<dyn Clock>,
        office: SocketAddr,
        stop: &CancellationToken,
    ) -> Outcome<Self> {
        let (board, pricing) = (Arc::new(Board::default()), Arc::new(Pricing::new()));
        let consumer = consumer(broker, &board, &pricing, clock, office)?;
        let work = tokio::spawn(consumer.run(stop.clone().cancelled_owned()));
        Ok(Self { board, pricing, work })
    }

    /// Waits until it has gone home, which it does when the demo stops.
    pub(super) async fn gone(self) -> Outcome {
        self.work.await.map_err(defect)?.map_err(broken)
    }
}

/// Tells the story. `None`: it was interrupted, and what was captured stays.
pub(super) async fn tell(
    broker: &MemoryBroker,
    shop: Shop,
    staff: &Staff,
    stop: &CancellationToken,
) -> Outcome<Option<Told>> {
    let (board, began) = (Arc::clone(&staff.board), Instant::now());
    let publishing = tokio::spawn(publish(broker.clone(), shop, stop.clone()));
    let whole = watch(shop, &board, &staff.pricing, stop).await;
    publishing.await.map_err(defect)?;
    if !whole {
        return Ok(None);
    }
    captured(broker, stop).await?;
    Ok(Some(Told { board, revenue_cents: staff.pricing.revenue_cents(), took: began.elapsed() }))
}

fn consumer(
    broker: &MemoryBroker,
    board: &Arc<Board>,
    pricing: &Arc<Pricing>,
    clock: Arc<dyn Clock>,
    office: SocketAddr,
) -> Outcome<Consumer> {
    let receipts = OfficeReceipts::new(&format!("http://{office}"), None)
        .map_err(|bad| Failure::failed(bad.to_string()))?;
    let mut policy = Policy::default();
    // A short first pause, as befits a short outage.
    policy.breaker.pause = Duration::from_secs(1);
    let source = broker.join(QUEUE, GROUP).map_err(broken)?;
    Consumer::builder(Box::new(source), Broker::publisher(broker))
        .group(GROUP)
        // The shop's handler is part of this process: nothing to find out about after a crash.
        .stateless()
        .consumer_id("demo")
        .consumer_version(VERSION)
        .receipts(Arc::new(receipts))
        .policy(policy)
        .concurrency(256)
        .clock(clock)
        .watch(Arc::clone(board) as Arc<dyn dlo_runtime::Watch>)
        .handler(Shared(Arc::clone(pricing)))
        .build()
        .map_err(|error| Failure::failed(error.to_string()))
}

/// The handler, while the story keeps a hand on it.
#[derive(Debug)]
struct Shared(Arc<Pricing>);

#[async_trait::async_trait]
impl dlo_runtime::Handler for Shared {
    async fn handle(
        &self,
        message: dlo_core::message::Message,
        context: &dlo_runtime::Context,
    ) -> Result<(), dlo_runtime::Unhandled> {
        self.0.handle(message, context).await
    }
}

/// Publishes the day's orders in their order, from one hand, so that each has its place.
async fn publish(broker: MemoryBroker, shop: Shop, closing: CancellationToken) {
    let began = tokio::time::Instant::now();
    let mut next = 0;
    while next < shop.orders {
        let until = (next + BATCH).min(shop.orders);
        let batch = (next..until).map(|number| Outgoing {
            to: Destination::queue(QUEUE),
            message: shop.order(number),
            delay: None,
        });
        let sending = broker.publish(batch.collect());
        if closing.run_until_cancelled(sending).await.is_none() {
            return;
        }
        next = until;
        let due = began + Duration::from_micros(next * 1_000_000 / PACE);
        if closing.run_until_cancelled(tokio::time::sleep_until(due)).await.is_none() {
            return;
        }
    }
}

/// Shows the day until every order is over, and has the tax service go away in the middle. False: interrupted.
async fn watch(shop: Shop, board: &Board, pricing: &Pricing, closing: &CancellationToken) -> bool {
    let mut live = Live::new(shop.orders);
    let mut outage: Option<Instant> = None;
    while board.over() < shop.orders {
        if outage.is_none() && board.over() * 10 >= shop.orders * 4 {
            pricing.cut_off(true);
            outage = Some(Instant::now());
        }
        if outage.is_some_and(|since| since.elapsed() >= OUTAGE) {
            pricing.cut_off(false);
        }
        live.tick(board);
        if closing.run_until_cancelled(tokio::time::sleep(TICK)).await.is_none() {
            live.end(board);
            return false;
        }
    }
    live.end(board);
    true
}

/// Waits until the office has taken every letter.
async fn captured(broker: &MemoryBroker, stop: &CancellationToken) -> Outcome {
    loop {
        let state = broker.inspect(DLQ, Some(OFFICE)).await.map_err(broken)?;
        if state.depth == Some(0) && state.in_flight == Some(0) {
            return Ok(());
        }
        if stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_none() {
            return Ok(());
        }
    }
}

fn broken(error: BrokerError) -> Failure {
    Failure::failed(error.to_string())
}

fn defect(error: tokio::task::JoinError) -> Failure {
    Failure::failed(format!("a part of the demo broke off: {error}"))
}

//! A shop whose orders die: its queue, its consumer, and an office that keeps the dead and sends them back.

use std::sync::Arc;
use std::time::Duration;

use dlo_brokers::memory::{MemoryBroker, MemoryConfig};
use dlo_core::broker::{Broker, Destination, Outgoing, Settlement, Source};
use dlo_core::envelope::{Envelope, OriginHeaders, encode};
use dlo_core::id::ReplayId;
use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::reason::Reason;
use dlo_core::replay::{ItemState, PlanPolicy, Replay, ReplayState, Settings, SourcePolicy};
use dlo_core::units::HumanDuration;
use dlo_server::{CaptureSpec, ReplayTarget, ServeError, Server, ServerConfig};
use dlo_store::replays::{Members, NewReplay, Turn};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Deed, DynStore, StoreLimits};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::office::clock;

pub(super) const QUEUE: &str = "orders";
pub(super) const DLQ: &str = "orders.dlq";
pub(super) const GROUP: &str = "shop";

/// The queues of the shop; they outlive every office.
pub(super) fn broker() -> MemoryBroker {
    let broker = MemoryBroker::new(MemoryConfig::default(), clock());
    broker.declare(QUEUE, broker.defaults());
    broker.declare(DLQ, broker.defaults());
    // The group is there before the first message, so that what is sent is kept for it.
    drop(broker.join(QUEUE, GROUP).unwrap());
    broker
}

/// An office that runs.
pub(super) struct Shop {
    pub(super) broker: MemoryBroker,
    pub(super) store: DynStore,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ServeError>>,
}

impl Shop {
    pub(super) async fn open(data: &TempDir, broker: &MemoryBroker) -> Self {
        let store: DynStore = SqliteStore::open(data.path(), StoreLimits::default()).unwrap();
        let config = ServerConfig { scratch: Some(data.path().to_path_buf()), ..ServerConfig::default() };
        let shared: Arc<dyn Broker> = Arc::new(broker.clone());
        let target = ReplayTarget {
            source: QUEUE.to_owned(),
            broker: Arc::clone(&shared),
            queue: QUEUE.to_owned(),
            dlq: DLQ.to_owned(),
            mapper: Default::default(),
            group: Some(GROUP.to_owned()),
        };
        let server = Server::new(config, Arc::clone(&store), clock())
            .capture(CaptureSpec::new(QUEUE, shared, QUEUE, DLQ))
            .target(target);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(listener, stop.clone().cancelled_owned()));
        Self { broker: broker.clone(), store, stop, running }
    }

    pub(super) async fn close(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }

    /// Letters die, and the office has them.
    pub(super) async fn die(&self, count: i64) {
        self.die_as(count, parked).await;
    }

    /// Letters of this shape die.
    pub(super) async fn die_as(&self, count: i64, letter: impl Fn(i64) -> Message) {
        let to = || Destination::queue(DLQ);
        let dead = (0..count).map(|n| Outgoing { to: to(), message: letter(n), delay: None }).collect();
        for confirmed in self.broker.publisher().publish(dead).await {
            confirmed.unwrap();
        }
        let all = Query { terms: vec![term()] };
        until("all letters are captured", || async {
            self.store.count(&all, 1_000_000).await.unwrap() == count as u64
        })
        .await;
    }

    pub(super) async fn plan(&self, settings: Settings) -> ReplayId {
        let query = Query { terms: vec![term()] };
        let now = clock().now();
        let plan = NewReplay {
            id: ReplayId::new(now, rand::random()),
            members: Members::Query { query, text: "source:orders".to_owned() },
            settings,
            cause: None,
            author: "ada".to_owned(),
            reason: "the table was restored".to_owned(),
            expires_at: now.plus(Duration::from_secs(3_600)),
            policy: PlanPolicy {
                sources: [(QUEUE.to_owned(), SourcePolicy::default())].into(),
                ..PlanPolicy::default()
            },
        };
        self.store.plan(plan, now).await.unwrap().id
    }

    pub(super) async fn turn(&self, id: ReplayId, to: ReplayState) -> Replay {
        let from = self.store.replay(id).await.unwrap().state;
        let turn = Turn { from, to, stop_reason: None, stop_letters: Vec::new() };
        let deed = Deed { author: "ada".to_owned(), reason: None, reference: None };
        self.store.turn(id, turn, &deed, clock().now()).await.unwrap()
    }

    pub(super) async fn until_state(&self, id: ReplayId, state: ReplayState) -> Replay {
        until(state.as_str(), || async { self.store.replay(id).await.unwrap().state == state }).await;
        self.store.replay(id).await.unwrap()
    }

    pub(super) async fn until_sent(&self, id: ReplayId, count: u64) {
        until("enough is sent", || async { self.store.replay(id).await.unwrap().counts.sent() >= count })
            .await;
    }

    pub(super) async fn conserved(&self) {
        assert_eq!(self.store.verify().await.unwrap().problems, Vec::<String>::new());
    }
}

fn term() -> Term {
    Term { matcher: Matcher::Source(QUEUE.to_owned()), negated: false }
}

/// Quick, for tests: the pace is a setting like any other.
pub(super) fn settings() -> Settings {
    Settings {
        pace: dlo_core::replay::Pace::Max,
        canary: 0,
        ramp: 1,
        window: HumanDuration(Duration::from_secs(1)),
        ..Settings::default()
    }
}

pub(super) fn count(replay: &Replay, state: ItemState) -> u64 {
    replay.counts.get(state)
}

/// Bytes that no text encoding leaves alone.
pub(super) fn payload(n: i64) -> Vec<u8> {
    [format!("{{\"n\":{n}}}").as_bytes(), &[0, 159, 255]].concat()
}

/// A dead letter as the runtime parks it.
pub(super) fn parked(n: i64) -> Message {
    let mut message = Message { payload: Payload::from(payload(n)), ..Message::default() };
    message.key = Some(Payload::from(format!("C-{}", n % 7)));
    message.headers.push_text("event-type", "order.placed");
    let origin = Origin::log(BrokerKind::Memory, QUEUE, 3, n);
    let envelope = Envelope {
        reason: Some(Reason::MaxRetriesExceeded),
        error_class: Some("KeyError".into()),
        error_message: Some("pin not in tax table".into()),
        attempts: Some(5),
        origin: OriginHeaders::new(&origin, None),
        consumer_group: Some(GROUP.into()),
        ..Envelope::default()
    };
    encode(&message, &envelope, 1_000_000).unwrap()
}

/// Takes so many messages, and is done with them.
pub(super) async fn consume(broker: &MemoryBroker, count: usize) -> Vec<(Message, Origin)> {
    let got = take(broker, count, Duration::from_secs(20)).await;
    assert_eq!(got.len(), count, "messages came");
    got
}

/// Takes what is there.
pub(super) async fn take_all(broker: &MemoryBroker) -> Vec<(Message, Origin)> {
    take(broker, usize::MAX, Duration::from_millis(500)).await
}

async fn take(broker: &MemoryBroker, most: usize, patience: Duration) -> Vec<(Message, Origin)> {
    let mut source = broker.source(QUEUE, GROUP).await.unwrap();
    let mut got = Vec::new();
    while got.len() < most {
        let deliveries = source.receive((most - got.len()).min(500), patience).await.unwrap();
        if deliveries.is_empty() {
            break;
        }
        settle(source.as_mut(), deliveries, &mut got).await;
    }
    source.close().await.unwrap();
    got
}

async fn settle(
    source: &mut dyn Source,
    deliveries: Vec<dlo_core::broker::Delivery>,
    got: &mut Vec<(Message, Origin)>,
) {
    let mut settled = Vec::new();
    for delivery in deliveries {
        let (message, origin, unsettled) = delivery.split();
        got.push((message, origin));
        settled.push(unsettled.settle(Settlement::Done));
    }
    source.settler().settle(settled).await.unwrap();
}

/// Waits for a fact, half a minute at most.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, fact: impl Fn() -> F) {
    for _ in 0..600 {
        if fact().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came to this: {what}");
}

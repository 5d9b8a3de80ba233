//! The memory broker: the whole suite under paused time, then what only it has.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::memory::{DeadLetters, MemoryBroker, MemoryConfig, MemorySource, Overflow, QueueOptions};
use dlo_core::broker::{
    Broker, Delivery, Destination, Inspect, Outgoing, PublishError, Publisher, Settlement, Source, Topology,
    TopologySpec,
};
use dlo_core::envelope::decode;
use dlo_core::message::{Message, Payload};
use dlo_core::reason::Reason;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Patience};

struct MemoryLab {
    broker: MemoryBroker,
    names: AtomicU32,
}

async fn lab() -> MemoryLab {
    MemoryLab { broker: broker(), names: AtomicU32::new(0) }
}

fn broker() -> MemoryBroker {
    MemoryBroker::new(MemoryConfig::default(), Arc::new(TokioClock::new()))
}

#[async_trait]
impl Lab for MemoryLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.broker.clone())
    }

    async fn fresh_queue(&self) -> String {
        let name = self.fresh_name();
        self.broker.declare(&name, QueueOptions::default());
        name
    }

    fn fresh_name(&self) -> String {
        format!("q{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    async fn recreate(&self, queue: &str) {
        self.broker.delete(queue);
        self.broker.declare(queue, QueueOptions::default());
    }

    fn patience(&self) -> Patience {
        Patience {
            arrival: Duration::from_secs(3_600),
            silence: Duration::from_secs(60),
            delay: Duration::from_secs(30),
        }
    }
}

dlo_testkit::broker_conformance! { #[tokio::test(start_paused = true)] lab }

fn message(key: &str, body: &str) -> Message {
    Message {
        key: Some(Payload::from(key.to_owned())),
        payload: Payload::from(body.to_owned()),
        ..Message::default()
    }
}

fn to(queue: &str, message: Message) -> Outgoing {
    Outgoing { to: Destination::queue(queue), message, delay: None }
}

fn with_dlq(limit: Option<u32>) -> MemoryBroker {
    let broker = broker();
    broker.declare("orders.dlq", QueueOptions::default());
    let dead_letters = Some(DeadLetters { queue: "orders.dlq".to_owned(), delivery_limit: limit });
    broker.declare("orders", QueueOptions { dead_letters, ..QueueOptions::default() });
    broker
}

async fn one(source: &mut MemorySource) -> Delivery {
    let mut came = source.receive(1, Duration::from_secs(60)).await.unwrap();
    assert_eq!(came.len(), 1, "nothing came");
    came.remove(0)
}

async fn settle(source: &MemorySource, delivery: Delivery, how: Settlement) {
    source.settler().settle(vec![delivery.settle(how)]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_goes_to_the_dead_letter_queue_with_its_story() {
    let broker = with_dlq(None);
    let mut source = broker.join("orders", "pricing").unwrap();
    let mut dead = broker.join("orders.dlq", "office").unwrap();
    broker.publish(vec![to("orders", message("C-441", "a"))]).await.remove(0).unwrap();
    let delivery = one(&mut source).await;
    let origin = delivery.origin.clone();
    settle(&source, delivery, Settlement::Refuse).await;
    let letter = one(&mut dead).await.message;
    assert_eq!((&*letter.payload.0, letter.key), (&b"a"[..], Some(Payload::from("C-441"))));
    let story = decode(&letter.headers).unwrap();
    assert_eq!((story.reason, story.attempts), (Some(Reason::Rejected), Some(1)));
    assert_eq!(story.consumer_group.as_deref(), Some("pricing"));
    assert_eq!(story.death_id, Some(origin.death_id(Some("pricing"), 0)));
    assert_eq!(story.origin.origin(), Some(origin), "the incarnation included");
}

#[tokio::test(start_paused = true)]
async fn a_message_delivered_too_often_is_dead_lettered_and_the_rest_flows_on() {
    let broker = with_dlq(Some(3));
    let mut source = broker.join("orders", "pricing").unwrap();
    let mut dead = broker.join("orders.dlq", "office").unwrap();
    broker.publish(vec![to("orders", message("k", "poison"))]).await.remove(0).unwrap();
    for _ in 0..3 {
        let delivery = one(&mut source).await;
        settle(&source, delivery, Settlement::Again { after: Duration::ZERO }).await;
    }
    broker.publish(vec![to("orders", message("k", "good"))]).await.remove(0).unwrap();
    assert_eq!(&*one(&mut source).await.message.payload.0, b"good");
    let letter = one(&mut dead).await.message;
    assert_eq!(letter.headers.text("dlo-reason"), Some("delivery_limit"));
    assert_eq!(letter.headers.text("dlo-attempts"), Some("3"));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_received_in_time_expires_into_the_dead_letter_queue_once_per_group() {
    let broker = with_dlq(None);
    let dead_letters = Some(DeadLetters { queue: "orders.dlq".to_owned(), delivery_limit: None });
    let retention = Some(Duration::from_secs(10));
    broker.declare("orders", QueueOptions { retention, dead_letters, ..QueueOptions::default() });
    let mut pricing = broker.join("orders", "pricing").unwrap();
    let mut mail = broker.join("orders", "mail").unwrap();
    broker.publish(vec![to("orders", message("k", "late"))]).await.remove(0).unwrap();
    let delivery = one(&mut mail).await;
    settle(&mail, delivery, Settlement::Done).await;
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(pricing.receive(1, Duration::from_secs(1)).await.unwrap().is_empty());
    let mut dead = broker.join("orders.dlq", "office").unwrap();
    let letter = one(&mut dead).await.message;
    assert_eq!(letter.headers.text("dlo-reason"), Some("expired"));
    assert_eq!(letter.headers.text("dlo-consumer-group"), Some("pricing"));
    assert!(dead.receive(1, Duration::from_secs(1)).await.unwrap().is_empty(), "mail had got it");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_publishers_wait_until_consumers_made_room() {
    let broker = broker();
    broker.declare("orders", QueueOptions { capacity: 2, ..QueueOptions::default() });
    let mut source = broker.join("orders", "g").unwrap();
    let sender = broker.clone();
    let five = (0..5).map(|n| to("orders", message("k", &n.to_string()))).collect();
    let sending = tokio::spawn(async move { sender.publish(five).await });
    tokio::task::yield_now().await;
    assert_eq!(broker.inspect("orders", Some("g")).await.unwrap().depth, Some(2));
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let delivery = one(&mut source).await;
        seen.push(String::from_utf8_lossy(&delivery.message.payload.0).into_owned());
        settle(&source, delivery, Settlement::Done).await;
    }
    assert_eq!(seen, ["0", "1", "2", "3", "4"]);
    assert!(sending.await.unwrap().iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_that_refuses_says_so_and_takes_messages_again_when_there_is_room() {
    let broker = broker();
    broker.declare(
        "orders",
        QueueOptions { capacity: 1, overflow: Overflow::Refuse, ..QueueOptions::default() },
    );
    let mut source = broker.join("orders", "g").unwrap();
    let results =
        broker.publish(vec![to("orders", message("k", "a")), to("orders", message("k", "b"))]).await;
    assert!(results[0].is_ok());
    assert!(matches!(&results[1], Err(PublishError::Refused(why)) if why.contains("full")));
    let delivery = one(&mut source).await;
    settle(&source, delivery, Settlement::Done).await;
    assert!(broker.publish(vec![to("orders", message("k", "c"))]).await[0].is_ok());
}

#[tokio::test(start_paused = true)]
async fn refusing_waits_while_the_dead_letter_queue_is_full() {
    let broker = with_dlq(None);
    broker.declare("orders.dlq", QueueOptions { capacity: 1, ..QueueOptions::default() });
    let mut source = broker.join("orders", "g").unwrap();
    let mut dead = broker.join("orders.dlq", "office").unwrap();
    let two = vec![to("orders", message("k", "a")), to("orders", message("k", "b"))];
    assert!(broker.publish(two).await.iter().all(Result::is_ok));
    let refused = source.receive(2, Duration::ZERO).await.unwrap();
    let settler = source.settler();
    let refusing = tokio::spawn(async move {
        settler
            .settle(refused.into_iter().map(|delivery| delivery.settle(Settlement::Refuse)).collect())
            .await
    });
    let first = one(&mut dead).await;
    assert!(!refusing.is_finished(), "nothing is settled that is not safe");
    settle(&dead, first, Settlement::Done).await;
    refusing.await.unwrap().unwrap();
    assert_eq!(&*one(&mut dead).await.message.payload.0, b"b");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_long_does_not_fill_the_queue_with_what_passed_it() {
    let broker = broker();
    broker.declare(
        "orders",
        QueueOptions { capacity: 10, overflow: Overflow::Refuse, ..QueueOptions::default() },
    );
    let mut source = broker.join("orders", "g").unwrap();
    broker.publish(vec![to("orders", message("k", "slow"))]).await.remove(0).unwrap();
    let slow = one(&mut source).await;
    settle(&source, slow, Settlement::Again { after: Duration::from_secs(600) }).await;
    for n in 0..100 {
        broker.publish(vec![to("orders", message("k", &n.to_string()))]).await.remove(0).unwrap();
        let delivery = one(&mut source).await;
        settle(&source, delivery, Settlement::Done).await;
    }
    assert_eq!(broker.inspect("orders", Some("g")).await.unwrap().depth, Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_same_messages_in_a_set_incarnation_have_the_same_origins_at_every_start() {
    let mut starts = Vec::new();
    for _ in 0..2 {
        let config = MemoryConfig { incarnation: Some("demo-1".to_owned()), ..MemoryConfig::default() };
        let broker = MemoryBroker::new(config, Arc::new(TokioClock::new()));
        broker.declare("orders", QueueOptions::default());
        let mut source = broker.join("orders", "g").unwrap();
        let all = (0..50).map(|n| to("orders", message(&format!("C-{n}"), "x"))).collect();
        broker.publish(all).await;
        let came = source.receive(50, Duration::ZERO).await.unwrap();
        starts.push(came.into_iter().map(|delivery| delivery.origin).collect::<Vec<_>>());
    }
    assert_eq!(starts[0].len(), 50);
    assert_eq!(starts[0], starts[1]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_created_again_is_another_incarnation() {
    let broker = broker();
    let mut seen = Vec::new();
    for _ in 0..2 {
        broker.declare("orders", QueueOptions::default());
        let mut source = broker.join("orders", "g").unwrap();
        broker.publish(vec![to("orders", message("k", "x"))]).await.remove(0).unwrap();
        seen.push(one(&mut source).await.origin.incarnation);
        broker.delete("orders");
    }
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_changes_hands_only_when_nothing_of_it_is_in_flight() {
    let broker = broker();
    let partitions = NonZeroU16::MIN.saturating_add(1);
    broker.declare("orders", QueueOptions { partitions, ..QueueOptions::default() });
    let mut first = broker.join("orders", "g").unwrap();
    let told = |partition: i32, body: &str| Outgoing {
        to: Destination { partition: Some(partition), ..Destination::queue("orders") },
        message: message("k", body),
        delay: None,
    };
    broker.publish(vec![told(1, "a"), told(1, "b")]).await;
    let held = one(&mut first).await;
    let mut second = broker.join("orders", "g").unwrap();
    assert!(second.receive(1, Duration::from_secs(1)).await.unwrap().is_empty(), "`a` is still in flight");
    settle(&first, held, Settlement::Done).await;
    assert_eq!(&*one(&mut second).await.message.payload.0, b"b");
}

#[tokio::test(start_paused = true)]
async fn topology_says_what_is_weaker_and_makes_nothing_weaker() {
    let broker = broker();
    let forever = QueueOptions { capacity: 7, ..QueueOptions::default() };
    broker.declare("orders", forever);
    let spec = TopologySpec {
        partitions: Some(16),
        retention: Some(Duration::from_secs(60)),
        ..TopologySpec::new("orders", "orders.dlq", 5)
    };
    let plan = broker.plan(&spec).await.unwrap();
    let said: Vec<(bool, &str)> = plan.iter().map(|change| (change.appliable, &*change.what)).collect();
    assert!(said.iter().any(|(appliable, what)| !appliable && what.contains("8 partitions, 16")), "{said:?}");
    assert!(said.iter().any(|(appliable, what)| *appliable && what.contains("dead letters")), "{said:?}");
    broker.apply(&spec).await.unwrap();
    let left = broker.plan(&spec).await.unwrap();
    assert!(left.iter().all(|change| !change.appliable), "{left:?}");
    // It was kept for ever before, and still is.
    let mut source = broker.join("orders", "g").unwrap();
    broker.publish(vec![to("orders", message("k", "old"))]).await.remove(0).unwrap();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!(&*one(&mut source).await.message.payload.0, b"old");
}

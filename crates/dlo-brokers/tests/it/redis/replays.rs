//! Sends of a replay on Redis: what their marks are, how long they stay, and what a call that failed leaves behind.

use dlo_brokers::redis::RedisConfig;
use dlo_core::broker::{LostConfirm, PublishError};
use dlo_core::envelope::{ReplayMark, mark_replayed};
use dlo_core::message::Message;
use dlo_testkit::conformance::Lab;
use dlo_testkit::harness::redis::Redis;

use super::{Raw, broker, fresh_name, lab, message, to};

/// A message with the id of a send.
pub(super) fn send(id: &str, body: &str) -> Message {
    let mut message = message(body);
    let mark = ReplayMark { letter: None, replay_id: id.to_owned(), count: 1, target_group: None };
    mark_replayed(&mut message.headers, &mark);
    message
}

#[tokio::test]
async fn the_mark_of_a_send_stays_for_a_week_beside_its_stream() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let publisher = lab.broker.fenced_publisher("r").await.unwrap();
    assert_eq!(lab.broker.capabilities().lost_confirm, LostConfirm::SendAgain);
    publisher.publish(vec![to(&queue, send("r/1", "a"))]).await.remove(0).unwrap();
    let mut raw = Raw::to(&lab.url).await;
    let left: u64 = raw.ask(&["TTL", &format!("{queue}:sent:r/1")]).await;
    assert!((604_700..=604_800).contains(&left), "{left}");
}

#[tokio::test]
async fn a_send_that_was_refused_is_made_when_it_is_tried_again() {
    let lab = lab().await;
    let queue = fresh_name();
    let publisher = lab.broker.fenced_publisher("r").await.unwrap();
    let refused = publisher.publish(vec![to(&queue, send("r/1", "a"))]).await.remove(0);
    assert!(matches!(&refused, Err(PublishError::Refused(why)) if why.contains("no stream")), "{refused:?}");
    let mut raw = Raw::to(&lab.url).await;
    raw.create(&queue).await;
    publisher.publish(vec![to(&queue, send("r/1", "a"))]).await.remove(0).unwrap();
    assert_eq!(raw.ask::<u64>(&["XLEN", &queue]).await, 1);
}

#[tokio::test]
async fn without_memory_a_send_is_not_made_and_is_made_once_when_there_is_some() {
    let server = Redis::with(&["--maxmemory-policy", "noeviction"]).await;
    let mut raw = Raw::to(&server.url).await;
    raw.create("orders").await;
    let broker = broker(RedisConfig::default(), &server.url).await;
    let publisher = broker.fenced_publisher("r").await.unwrap();
    let () = raw.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let full = publisher.publish(vec![to("orders", send("r/1", "a"))]).await.remove(0);
    assert!(matches!(&full, Err(PublishError::Unconfirmed(_))), "{full:?}");
    let () = raw.ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
    for _ in 0..2 {
        publisher.publish(vec![to("orders", send("r/1", "a"))]).await.remove(0).unwrap();
    }
    assert_eq!(raw.ask::<u64>(&["XLEN", "orders"]).await, 1);
}

#[tokio::test]
async fn a_send_that_is_put_off_is_put_off_once() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let publisher = lab.broker.fenced_publisher("r").await.unwrap();
    let mut later = to(&queue, send("r/1", "a"));
    later.delay = Some(std::time::Duration::from_secs(3_600));
    for _ in 0..2 {
        publisher.publish(vec![later.clone()]).await.remove(0).unwrap();
    }
    let mut raw = Raw::to(&lab.url).await;
    assert_eq!(raw.ask::<u64>(&["ZCARD", &format!("{queue}:due")]).await, 1);
}

#[tokio::test]
async fn a_message_without_the_mark_of_a_replay_is_added_each_time() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let publisher = lab.broker.fenced_publisher("r").await.unwrap();
    for _ in 0..2 {
        publisher.publish(vec![to(&queue, message("a"))]).await.remove(0).unwrap();
    }
    let mut raw = Raw::to(&lab.url).await;
    assert_eq!(raw.ask::<u64>(&["XLEN", &queue]).await, 2);
}

#[tokio::test]
async fn a_replay_of_twenty_thousand_takes_seconds() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let publisher = lab.broker.fenced_publisher("r").await.unwrap();
    let body = "x".repeat(1_000);
    let batches: Vec<Vec<_>> = (0..20)
        .map(|batch| (0..1_000).map(|n| to(&queue, send(&format!("{queue}/{batch}/{n}"), &body))).collect())
        .collect();
    let began = std::time::Instant::now();
    for batch in batches {
        for result in publisher.publish(batch).await {
            result.unwrap();
        }
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(120), "{:?}", began.elapsed());
}

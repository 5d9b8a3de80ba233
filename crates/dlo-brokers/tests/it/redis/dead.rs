//! Dead-lettering that Redis does not have: refused entries, spent ones, and those that others left behind.

use std::num::NonZeroU32;
use std::time::Duration;

use dlo_brokers::redis::{RedisConfig, Sweep};
use dlo_core::broker::Settlement;
use dlo_core::envelope::decode;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::units::HumanDuration;
use dlo_testkit::conformance::Lab as _;

use super::{LONG, Raw, body, broker, lab, message, one, publish, settle, to};

fn limited(limit: u32) -> RedisConfig {
    RedisConfig {
        claim_after: HumanDuration(Duration::from_millis(200)),
        max_deliveries: NonZeroU32::new(limit),
        ..RedisConfig::default()
    }
}

#[tokio::test]
async fn a_refused_entry_goes_to_the_stream_of_dead_letters_with_its_story() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let dlq = format!("{queue}:dlq");
    Raw::to(&lab.url).await.create(&dlq).await;
    let mut source = lab.broker.source(&queue, "pricing").await.unwrap();
    let mut sent = Message { key: Some("C-441".into()), ..message("a") };
    sent.headers.push("x-tenant", Some(vec![0, 255].into()));
    lab.broker.publisher().publish(vec![to(&queue, sent.clone())]).await.remove(0).unwrap();
    let delivery = one(&mut source).await;
    let origin = delivery.origin.clone();
    settle(&*source, delivery, Settlement::Refuse).await;
    let mut drain = lab.broker.drain(&dlq).await.unwrap();
    let letter = one(&mut drain).await.message;
    assert_eq!((&letter.payload, &letter.key), (&sent.payload, &sent.key));
    assert_eq!(letter.headers.0[0], sent.headers.0[0]);
    let story = decode(&letter.headers).unwrap();
    assert_eq!((story.reason, story.attempts), (Some(Reason::Rejected), Some(1)));
    assert_eq!(story.consumer_group.as_deref(), Some("pricing"));
    assert_eq!(story.death_id, Some(origin.death_id(Some("pricing"), 0)));
    assert_eq!(story.origin.origin(), Some(origin.clone()));
    assert_eq!(letter.headers.text("redis:id"), origin.message_id.as_deref());
    assert!(source.receive(1, Duration::from_millis(300)).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_entry_delivered_too_often_is_moved_and_the_rest_flows_on() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let dlq = format!("{queue}:dlq");
    Raw::to(&lab.url).await.create(&dlq).await;
    let broker = broker(limited(3), &lab.url).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    publish(&broker, &queue, &["poison"]).await;
    for expected in 1..=3 {
        let delivery = one(&mut source).await;
        assert_eq!(delivery.delivery_count, Some(expected));
        settle(&*source, delivery, Settlement::Again { after: Duration::ZERO }).await;
    }
    publish(&broker, &queue, &["good"]).await;
    assert_eq!(body(&one(&mut source).await.message), "good");
    let mut drain = broker.drain(&dlq).await.unwrap();
    let letter = one(&mut drain).await.message;
    assert_eq!(body(&letter), "poison");
    assert_eq!(letter.headers.text("dlo-reason"), Some("delivery_limit"));
    assert_eq!(letter.headers.text("redis:deliveries"), Some("3"));
}

#[tokio::test]
async fn without_a_stream_of_dead_letters_nothing_is_given_up_by_its_count() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let broker = broker(limited(2), &lab.url).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    publish(&broker, &queue, &["a"]).await;
    for expected in 1..=4 {
        let delivery = one(&mut source).await;
        assert_eq!(delivery.delivery_count, Some(expected));
        settle(&*source, delivery, Settlement::Again { after: Duration::ZERO }).await;
    }
}

/// Interop: a consumer that is not ours takes entries again and again and acknowledges none of them.
#[tokio::test]
async fn what_a_foreign_group_left_pending_beyond_its_count_is_swept_into_the_drain() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let dlq = format!("{queue}:dlq");
    let mut raw = Raw::to(&lab.url).await;
    raw.create(&dlq).await;
    let () = raw.ask(&["XGROUP", "CREATE", &queue, "workers", "0"]).await;
    for n in 0..3 {
        let order = format!("{{\"order\":{n}}}");
        let _: String = raw.ask(&["XADD", &queue, "*", "tenant", "acme", "payload", &order]).await;
    }
    let group = ["XREADGROUP", "GROUP", "workers", "w1", "STREAMS", &queue];
    let _: ::redis::Value = raw.ask(&[&group[..], &[">"]].concat()).await;
    for _ in 0..2 {
        let _: ::redis::Value = raw.ask(&[&group[..], &["0"]].concat()).await;
    }
    // Two more, delivered once only: they are not swept.
    let _: String = raw.ask(&["XADD", &queue, "*", "payload", "young"]).await;
    let _: ::redis::Value = raw.ask(&[&group[..], &[">"]].concat()).await;

    let sweep = vec![Sweep { stream: queue.clone(), group: "workers".to_owned() }];
    let broker = broker(RedisConfig { sweep, ..limited(3) }, &lab.url).await;
    let mut drain = broker.drain(&dlq).await.unwrap();
    for n in 0..3 {
        let letter = one(&mut drain).await;
        assert_eq!(body(&letter.message), format!("{{\"order\":{n}}}"));
        assert_eq!(letter.message.headers.text("tenant"), Some("acme"));
        let story = decode(&letter.message.headers).unwrap();
        assert_eq!((story.reason, story.attempts), (Some(Reason::DeliveryLimit), Some(3)));
        assert_eq!(story.consumer_group.as_deref(), Some("workers"));
        assert_eq!(story.consumer_id.as_deref(), Some("w1"));
        assert_eq!(story.origin.queue.as_deref(), Some(queue.as_str()));
        settle(&*drain, letter, Settlement::Done).await;
    }
    assert!(drain.receive(1, Duration::from_millis(500)).await.unwrap().is_empty());
    let (left, length): (Vec<::redis::Value>, i64) =
        (raw.ask(&["XPENDING", &queue, "workers", "-", "+", "10"]).await, raw.ask(&["XLEN", &queue]).await);
    assert_eq!((left.len(), length), (1, 4), "the young one is still pending, and nothing was deleted");
}

#[tokio::test]
async fn a_count_that_means_fatal_is_not_taken_for_a_count() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let dlq = format!("{queue}:dlq");
    let mut raw = Raw::to(&lab.url).await;
    raw.create(&dlq).await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    publish(&lab.broker, &queue, &["a"]).await;
    let held = one(&mut source).await;
    let id = held.origin.message_id.clone().unwrap();
    source.close().await.unwrap();
    let fatal = i64::MAX.to_string();
    let _: ::redis::Value =
        raw.ask(&["XCLAIM", &queue, "g", "dlo:returned", "0", &id, "RETRYCOUNT", &fatal, "JUSTID"]).await;
    let mut next = lab.broker.source(&queue, "g").await.unwrap();
    assert!(next.receive(1, Duration::from_millis(500)).await.unwrap().is_empty());
    let mut drain = lab.broker.drain(&dlq).await.unwrap();
    let letter = drain.receive(1, LONG).await.unwrap().remove(0).message;
    assert_eq!(letter.headers.text("dlo-reason"), Some("rejected"));
    assert_eq!(letter.headers.text("dlo-attempts"), None);
    assert_eq!(letter.headers.text("redis:deliveries"), Some(fatal.as_str()));
}

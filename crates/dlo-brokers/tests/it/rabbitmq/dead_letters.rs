//! RabbitMQ's own dead-lettering, and our delays that go through it.

use std::time::Duration;

use dlo_core::broker::{PublishError, Settlement};
use dlo_core::message::Message;
use dlo_core::origin::BrokerKind;
use lapin::types::AMQPValue;
use serde_json::Value as Json;

use super::{QueueType, RabbitmqLab, declare, fresh, lab_of, message, one, publish, settle, take, text};

const AT_ONCE: Settlement = Settlement::Again { after: Duration::ZERO };
const IN_A_SECOND: Settlement = Settlement::Again { after: Duration::from_secs(1) };

/// A queue whose dead letters go to `<queue>.dlq`, and whatever else it should be.
async fn queue_with_dlq(lab: &RabbitmqLab, more: &[(&str, AMQPValue)]) -> String {
    let queue = fresh("dying");
    let dlq = format!("{queue}.dlq");
    declare(&lab.channel, &dlq, &[]).await;
    let mut entries = vec![("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&dlq))];
    entries.extend_from_slice(more);
    declare(&lab.channel, &queue, &entries).await;
    queue
}

fn deaths(letter: &Message) -> Vec<Json> {
    serde_json::from_str(letter.headers.text("x-death").unwrap()).unwrap()
}

/// Queue, reason and count of every death, newest first.
fn told(letter: &Message) -> Vec<(String, String, u64)> {
    let text = |death: &Json, name: &str| death[name].as_str().unwrap().to_owned();
    deaths(letter)
        .iter()
        .map(|d| (text(d, "queue"), text(d, "reason"), d["count"].as_u64().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_refused_message_arrives_at_the_dead_letter_queue_with_its_death_as_json() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue_with_dlq(&lab, &[]).await;
    publish(&lab.broker, &queue, message("m")).await.unwrap();
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let delivery = one(&mut source).await;
    settle(&*source, delivery, Settlement::Refuse).await;
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    assert_eq!(&*letter.payload.0, b"m");
    let death = &deaths(&letter)[0];
    let mut keys: Vec<&str> = death.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["count", "exchange", "queue", "reason", "routing-keys", "time"]);
    assert_eq!(told(&letter), [(queue.clone(), "rejected".to_owned(), 1)]);
    assert_eq!(death["routing-keys"], serde_json::json!([queue]));
    assert!(death["time"].as_u64().unwrap() > 1_700_000_000, "seconds, as on the wire");
    assert_eq!(letter.headers.text("x-first-death-reason"), Some("rejected"));
    let types: Json =
        serde_json::from_str(letter.headers.transport(BrokerKind::Rabbitmq, "types").unwrap()).unwrap();
    assert_eq!((&types["x-death"][0]["count"], &types["x-death"][0]["time"]), (&"l".into(), &"T".into()));
}

#[tokio::test]
async fn what_nobody_took_in_time_arrives_as_expired() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue_with_dlq(&lab, &[("x-message-ttl", AMQPValue::LongInt(50))]).await;
    publish(&lab.broker, &queue, message("of the queue")).await.unwrap();
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    assert_eq!(told(&letter), [(queue, "expired".to_owned(), 1)]);
    let queue = queue_with_dlq(&lab, &[]).await;
    let mut own = message("of its own");
    own.headers.push_transport(BrokerKind::Rabbitmq, "expiration", "60");
    publish(&lab.broker, &queue, own).await.unwrap();
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    assert_eq!(deaths(&letter)[0]["original-expiration"], "60");
    assert_eq!(letter.headers.transport(BrokerKind::Rabbitmq, "expiration"), None);
}

#[tokio::test]
async fn what_had_no_room_arrives_as_maxlen() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue_with_dlq(&lab, &[("x-max-length", AMQPValue::LongInt(1))]).await;
    for body in ["first", "second"] {
        publish(&lab.broker, &queue, message(body)).await.unwrap();
    }
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    assert_eq!((&*letter.payload.0, told(&letter)), (&b"first"[..], vec![(queue, "maxlen".to_owned(), 1)]));
}

#[tokio::test]
async fn a_full_queue_that_rejects_is_a_refusal() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = fresh("full");
    let one = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    declare(&lab.channel, &queue, &one).await;
    publish(&lab.broker, &queue, message("fits")).await.unwrap();
    let refusal = publish(&lab.broker, &queue, message("does not")).await;
    assert!(matches!(&refusal, Err(PublishError::Refused(why)) if why.contains("full")), "{refusal:?}");
    assert_eq!(lab.broker.inspector().inspect(&queue, None).await.unwrap().depth, Some(1));
}

#[tokio::test]
async fn what_is_delivered_too_often_arrives_as_delivery_limit() {
    let lab = lab_of(QueueType::Quorum).await;
    let limited = [("x-queue-type", text("quorum")), ("x-delivery-limit", AMQPValue::LongInt(2))];
    let queue = queue_with_dlq(&lab, &limited).await;
    publish(&lab.broker, &queue, message("poison")).await.unwrap();
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    for count in 1..=3 {
        let delivery = one(&mut source).await;
        assert_eq!(delivery.delivery_count, Some(count));
        settle(&*source, delivery, AT_ONCE).await;
    }
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    assert_eq!(told(&letter), [(queue, "delivery_limit".to_owned(), 1)]);
    assert_eq!(letter.headers.last("x-delivery-count"), None, "it is the server's, not the message's");
}

/// The retry loop that people build by hand: rejected into a queue that gives it back when its time is over.
#[tokio::test]
async fn deaths_of_a_hand_made_retry_loop_are_counted() {
    let lab = lab_of(QueueType::Classic).await;
    let (work, wait) = (fresh("work"), fresh("wait"));
    let back = [
        ("x-message-ttl", AMQPValue::LongInt(50)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(&work)),
    ];
    declare(&lab.channel, &wait, &back).await;
    let away = [("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(&wait))];
    declare(&lab.channel, &work, &away).await;
    publish(&lab.broker, &work, message("m")).await.unwrap();
    let mut source = lab.broker.source(&work, "g").await.unwrap();
    for _ in 0..2 {
        let delivery = one(&mut source).await;
        settle(&*source, delivery, Settlement::Refuse).await;
    }
    let third = one(&mut source).await;
    assert_eq!(told(&third.message), [(wait, "expired".to_owned(), 2), (work, "rejected".to_owned(), 2)]);
}

#[tokio::test]
async fn a_delayed_retry_leaves_no_trace_but_its_count() {
    let lab = lab_of(QueueType::Quorum).await;
    let queue = queue_with_dlq(&lab, &[("x-queue-type", text("quorum"))]).await;
    publish(&lab.broker, &queue, message("m")).await.unwrap();
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let first = one(&mut source).await;
    let sent = first.message.clone();
    settle(&*source, first, AT_ONCE).await;
    let second = one(&mut source).await;
    settle(&*source, second, IN_A_SECOND).await;
    let third = one(&mut source).await;
    assert_eq!(third.message, sent, "headers, route and all");
    assert_eq!(third.delivery_count, Some(3), "the server began anew, we did not");
    settle(&*source, third, Settlement::Refuse).await;
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    assert_eq!(told(&letter), [(queue.clone(), "rejected".to_owned(), 1)]);
    assert_eq!(letter.headers.text("x-first-death-queue"), Some(queue.as_str()));
}

/// The server drops a message that died of time in the queue it is given back to, as a cycle.
#[tokio::test]
async fn a_retry_of_what_once_expired_in_the_same_queue_is_not_lost() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue_with_dlq(&lab, &[("x-message-ttl", AMQPValue::LongInt(200))]).await;
    publish(&lab.broker, &queue, message("m")).await.unwrap();
    let letter = take(&lab.broker, &format!("{queue}.dlq")).await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    publish(&lab.broker, &queue, letter.clone()).await.unwrap();
    let again = one(&mut source).await;
    settle(&*source, again, IN_A_SECOND).await;
    let after = one(&mut source).await;
    assert_eq!(told(&after.message), told(&letter), "its old death is still known");
}

#[tokio::test]
async fn a_retry_queue_that_somebody_deleted_is_made_again() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = fresh("retried");
    declare(&lab.channel, &queue, &[]).await;
    publish(&lab.broker, &queue, message("m")).await.unwrap();
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let delivery = one(&mut source).await;
    settle(&*source, delivery, IN_A_SECOND).await;
    let delivery = one(&mut source).await;
    lab.channel.queue_delete(format!("{queue}.retry.1s").into(), Default::default()).await.unwrap();
    let settled = vec![delivery.settle(IN_A_SECOND)];
    assert!(source.settler().settle(settled).await.unwrap_err().is_transient(), "the copy was not taken");
    let delivery = one(&mut source).await;
    settle(&*source, delivery, IN_A_SECOND).await;
    assert_eq!(&*one(&mut source).await.message.payload.0, b"m");
}

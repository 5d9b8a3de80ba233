//! What other clients see of our messages and we of theirs, and messages that no queue takes.

use dlo_core::broker::{BrokerError, PublishError, Settlement};
use dlo_core::message::Payload;
use dlo_core::origin::BrokerKind;
use lapin::BasicProperties;
use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::types::{AMQPValue, FieldArray};

use super::{
    QueueType, RabbitmqLab, arguments, declare, fresh, lab_of, message, one, publish, settle, take, text, to,
};

async fn queue(lab: &RabbitmqLab) -> String {
    let queue = fresh("wire");
    declare(&lab.channel, &queue, &[]).await;
    queue
}

async fn get(lab: &RabbitmqLab, queue: &str) -> BasicGetMessage {
    lab.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap().unwrap()
}

#[tokio::test]
async fn typed_headers_and_properties_survive_being_parked_and_published() {
    let lab = lab_of(QueueType::Classic).await;
    let (from, parked) = (queue(&lab).await, queue(&lab).await);
    let nested =
        arguments(&[("n", AMQPValue::LongLongInt(1)), ("raw", AMQPValue::LongString(vec![0xff].into()))]);
    let headers = arguments(&[
        ("tenant", text("acme")),
        ("attempt", AMQPValue::LongInt(1)),
        ("small", AMQPValue::ShortShortInt(-3)),
        ("flag", AMQPValue::Boolean(true)),
        ("at", AMQPValue::Timestamp(1_700_000_000)),
        ("ratio", AMQPValue::Double(0.1)),
        ("bytes", AMQPValue::ByteArray(vec![0, 255].into())),
        ("nothing", AMQPValue::Void),
        ("list", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(nested), text("x")]))),
    ]);
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_content_type("application/json".into())
        .with_correlation_id("c-1".into())
        .with_message_id("m-1".into())
        .with_type("order.created".into())
        .with_app_id("orders-api".into())
        .with_reply_to("answers".into())
        .with_user_id("guest".into())
        .with_timestamp(1_700_000_000)
        .with_priority(4)
        .with_delivery_mode(2);
    let sending = lab.channel.basic_publish(
        "".into(),
        from.as_str().into(),
        BasicPublishOptions::default(),
        b"{}",
        properties.clone(),
    );
    sending.await.unwrap().await.unwrap();
    let came = take(&lab.broker, &from).await;
    assert_eq!(came.headers.transport(BrokerKind::Rabbitmq, "type"), Some("order.created"));
    publish(&lab.broker, &parked, came).await.unwrap();
    assert_eq!(get(&lab, &parked).await.properties, properties);
}

#[tokio::test]
async fn a_key_travels_in_a_header_that_others_can_read() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue(&lab).await;
    let mut keyed = message("m");
    keyed.key = Some(Payload::from("C-441"));
    publish(&lab.broker, &queue, keyed).await.unwrap();
    let seen = get(&lab, &queue).await;
    let headers = seen.properties.headers().clone().unwrap();
    assert_eq!(headers.inner().get("dlo-key"), Some(&text("C-441")));
    assert_eq!(seen.properties.delivery_mode(), &Some(2), "always persistent");
}

#[tokio::test]
async fn the_route_of_a_message_is_told() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue(&lab).await;
    lab.channel
        .queue_bind(
            queue.as_str().into(),
            "amq.topic".into(),
            format!("{queue}.#").into(),
            Default::default(),
            Default::default(),
        )
        .await
        .unwrap();
    let key = format!("{queue}.created");
    let sending = lab.channel.basic_publish(
        "amq.topic".into(),
        key.as_str().into(),
        BasicPublishOptions::default(),
        b"m",
        BasicProperties::default(),
    );
    sending.await.unwrap().await.unwrap();
    let came = take(&lab.broker, &queue).await;
    assert_eq!(came.headers.transport(BrokerKind::Rabbitmq, "exchange"), Some("amq.topic"));
    assert_eq!(came.headers.transport(BrokerKind::Rabbitmq, "routing-key"), Some(key.as_str()));
}

/// A returned message and its confirm are two things, and confirms come in bundles.
#[tokio::test]
async fn each_unroutable_message_is_refused_and_none_of_its_neighbours() {
    const COUNT: usize = 300;
    let lab = lab_of(QueueType::Classic).await;
    let (there, nowhere) = (queue(&lab).await, fresh("nowhere"));
    let outgoing = (0..COUNT).map(|n| {
        let body = message(&format!("m{}", n / 3));
        to(if n % 3 == 1 { &nowhere } else { &there }, body)
    });
    let results = lab.broker.publisher().publish(outgoing.collect()).await;
    for (n, result) in results.iter().enumerate() {
        match n % 3 {
            1 => assert!(
                matches!(result, Err(PublishError::Refused(why)) if why.contains(&nowhere) && why.contains("topology")),
                "{n}: {result:?}"
            ),
            _ => assert!(result.is_ok(), "{n}: {result:?}"),
        }
    }
    let depth = lab.broker.inspector().inspect(&there, None).await.unwrap().depth;
    assert_eq!(depth, Some(200));
}

#[tokio::test]
async fn a_queue_that_is_deleted_under_its_consumer_is_missing() {
    let lab = lab_of(QueueType::Classic).await;
    let queue = queue(&lab).await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    publish(&lab.broker, &queue, message("m")).await.unwrap();
    let delivery = one(&mut source).await;
    settle(&*source, delivery, Settlement::Done).await;
    lab.channel.queue_delete(queue.as_str().into(), Default::default()).await.unwrap();
    let gone = source.receive(1, std::time::Duration::from_secs(10)).await;
    assert!(matches!(&gone, Err(BrokerError::Missing(name)) if *name == queue), "{gone:?}");
}

/// A quorum queue's channel keeps answers to itself when they come too fast, and forgets them when it ends.
#[tokio::test]
async fn scattered_answers_on_a_quorum_queue_are_not_forgotten() {
    let lab = lab_of(QueueType::Quorum).await;
    let queue = fresh("scattered");
    declare(&lab.channel, &queue, &[("x-queue-type", text("quorum"))]).await;
    let all = (0..400).map(|n| to(&queue, message(&format!("m{n}")))).collect();
    assert!(lab.broker.publisher().publish(all).await.iter().all(Result::is_ok));
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut held = Vec::new();
    while held.len() < 400 {
        held.extend(source.receive(400, std::time::Duration::from_secs(20)).await.unwrap());
    }
    let odd = held.into_iter().enumerate().filter(|(n, _)| n % 2 == 1);
    let settled = odd.map(|(_, delivery)| delivery.settle(Settlement::Done)).collect();
    source.settler().settle(settled).await.unwrap();
    source.close().await.unwrap();
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut left = 0;
    loop {
        let came = source.receive(400, std::time::Duration::from_secs(1)).await.unwrap();
        if came.is_empty() {
            break;
        }
        left += came.len();
    }
    assert_eq!(left, 200);
}

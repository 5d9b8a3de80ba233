//! What others and the service itself write: redrive by receive count, attributes of every type, more headers than fit.

use std::time::Duration;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName as Name};
use dlo_core::broker::Settlement;
use dlo_core::message::{Headers, Payload};
use dlo_core::origin::BrokerKind;

use super::*;

/// A queue whose dead letters go to another after two receives; their names.
async fn with_dlq(client: &Client, suffix: &str) -> (String, String) {
    let (queue, dead) = (name() + suffix, name() + suffix);
    let url = create(client, &dead, &[]).await;
    let said =
        client.get_queue_attributes().queue_url(url).attribute_names(Name::QueueArn).send().await.unwrap();
    let arn = said.attributes.unwrap().remove(&Name::QueueArn).unwrap();
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":2}}"#);
    create(client, &queue, &[(Name::RedrivePolicy, &policy)]).await;
    (queue, dead)
}

async fn the_service_dead_letters(endpoint: &str) {
    let (client, broker) = (client(endpoint), broker(config(endpoint, 30)).await);
    let (queue, dead) = with_dlq(&client, "").await;
    publish(&*broker, &queue, vec![keyed("C-441", "poison")]).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    let mut id = None;
    for count in 1..=2 {
        let came = receive(&mut source, 1).await;
        assert_eq!(came[0].delivery_count, Some(count));
        id.clone_from(&came[0].origin.message_id);
        settle(&*source, came, Settlement::Again { after: Duration::ZERO }).await;
    }
    // The service looks at the count when somebody asks again.
    assert!(source.receive(1, Duration::from_secs(2)).await.unwrap().is_empty());
    let mut letters = broker.drain(&dead).await.unwrap();
    let letter = receive(&mut letters, 1).await.remove(0);
    assert_eq!((body(&letter), &letter.message.key), ("poison".to_owned(), &Some(Payload::from("C-441"))));
    assert_eq!(letter.origin.message_id, id, "the service keeps the id");
    assert!(letter.delivery_count > Some(1) && letter.redelivered && letter.published_at.is_some());
    let from = letter.message.headers.transport(BrokerKind::Sqs, "DeadLetterQueueSourceArn");
    assert!(from.is_some_and(|arn| arn.ends_with(&format!(":{queue}"))), "{from:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_received_too_often_is_dead_lettered_by_localstack_with_its_source() {
    the_service_dead_letters(&Sqs::localstack().await.endpoint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_received_too_often_is_dead_lettered_by_elasticmq_with_its_source() {
    the_service_dead_letters(&Sqs::elasticmq().await.endpoint).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_is_in_the_dead_letter_queue_as_it_came_and_gone_from_its_own() {
    for suffix in ["", ".fifo"] {
        let endpoint = &Sqs::elasticmq().await.endpoint;
        let (client, broker) = (client(endpoint), broker(config(endpoint, 30)).await);
        let (queue, dead) = with_dlq(&client, suffix).await;
        let mut sent = keyed("C-441", "refused");
        sent.headers.push_text("x-tenant", "acme");
        publish(&*broker, &queue, vec![sent]).await;
        let mut source = broker.source(&queue, "g").await.unwrap();
        let came = receive(&mut source, 1).await;
        settle(&*source, came, Settlement::Refuse).await;
        let mut letters = broker.drain(&dead).await.unwrap();
        let letter = receive(&mut letters, 1).await.remove(0);
        assert_eq!(
            (body(&letter), &letter.message.key),
            ("refused".to_owned(), &Some(Payload::from("C-441")))
        );
        assert_eq!(letter.message.headers.text("x-tenant"), Some("acme"));
        let left = broker.inspector().inspect(&queue, None).await.unwrap();
        assert_eq!((left.depth, left.in_flight), (Some(0), Some(0)));
    }
}

fn attribute(kind: &str, value: &[u8]) -> MessageAttributeValue {
    let built = MessageAttributeValue::builder().data_type(kind);
    let built = match kind.starts_with("Binary") {
        true => built.binary_value(Blob::new(value)),
        false => built.string_value(String::from_utf8(value.to_vec()).unwrap()),
    };
    built.build().unwrap()
}

/// Captured, published again: the consumer of before finds what its producer wrote.
#[tokio::test(flavor = "multi_thread")]
async fn types_of_attributes_survive_capture_and_redrive() {
    for endpoint in [&Sqs::elasticmq().await.endpoint, &Sqs::localstack().await.endpoint] {
        let (client, broker, queue) = (client(endpoint), broker(config(endpoint, 30)).await, name());
        let url = create(&client, &queue, &[]).await;
        let attributes = [
            ("tenant", attribute("String", b"acme")),
            ("attempt", attribute("Number", b"1")),
            ("money", attribute("Number.euro", b"12.50")),
            ("shape", attribute("String.json", b"{}")),
            ("raw", attribute("Binary", b"\x00\xff")),
            ("text-as-bytes", attribute("Binary.gz", b"plain")),
        ];
        let mut call = client.send_message().queue_url(&url).message_body("m");
        for (name, value) in attributes.clone() {
            call = call.message_attributes(name, value);
        }
        call.send().await.unwrap();
        let mut drain = broker.drain(&queue).await.unwrap();
        let came = receive(&mut drain, 1).await;
        let mut message = came[0].message.clone();
        assert_eq!(message.headers.text("attempt"), Some("1"));
        settle(&*drain, came, Settlement::Done).await;
        drain.close().await.unwrap();
        message.headers.push_text("dlo-replay-id", "r-1");
        publish(&*broker, &queue, vec![message]).await;
        let asked =
            client.receive_message().queue_url(&url).message_attribute_names("All").wait_time_seconds(5);
        let again = asked.send().await.unwrap().messages.unwrap().remove(0);
        let found = again.message_attributes.unwrap();
        for (name, value) in attributes {
            assert_eq!(found.get(name), Some(&value), "{name}");
        }
        assert_eq!(found["dlo-replay-id"].string_value(), Some("r-1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_with_thirty_headers_arrives_whole_and_the_applications_stand_as_attributes() {
    for endpoint in [&Sqs::elasticmq().await.endpoint, &Sqs::localstack().await.endpoint] {
        let (client, broker, queue) = (client(endpoint), broker(config(endpoint, 30)).await, name());
        let url = create(&client, &queue, &[]).await;
        let mut sent = text("a\u{1}b");
        for n in 0..22 {
            sent.headers.push_text(format!("dlo-story-{n}"), format!("Zürich {n}"));
        }
        for n in 0..5 {
            sent.headers.push_text(format!("app-{n}"), n.to_string());
        }
        sent.headers.push_text("forbidden: name", "v");
        sent.headers.push("absent", None);
        sent.headers.push("bytes", Some(vec![0, 255].into()));
        publish(&*broker, &queue, vec![sent.clone()]).await;
        let mut source = broker.source(&queue, "g").await.unwrap();
        let came = receive(&mut source, 1).await;
        let wire = Headers(came[0].message.headers.on_wire().cloned().collect());
        assert_eq!((wire, &came[0].message.payload), (sent.headers, &sent.payload));
        source.close().await.unwrap();
        let asked =
            client.receive_message().queue_url(&url).message_attribute_names("All").wait_time_seconds(5);
        let raw = asked.send().await.unwrap().messages.unwrap().remove(0).message_attributes.unwrap();
        assert!(raw.len() <= 10 && (0..5).all(|n| raw.contains_key(&format!("app-{n}"))), "{:?}", raw.keys());
    }
}

//! What a letter says, and what makes two deaths the same one.

use std::collections::BTreeMap;

use dlo_core::message::{Message, Payload};
use dlo_core::origin::BrokerKind;
use serde_json::json;

use super::lab::{Weak, Weakness, office, plain, until_letters};

#[tokio::test]
async fn what_carries_no_story_is_kept_all_the_same() {
    let broker = Weak::new(Weakness::default());
    let mut odd = Message { payload: Payload::from(vec![0, 159, 146, 150]), ..Message::default() };
    odd.headers.push_text("event-type", "x".repeat(5_000));
    odd.headers.push_text("dlo-version", "not a number");
    broker.publish([odd, Message::default()]).await;
    let office = office(broker.spec()).await;
    until_letters(&office, 2).await;
    let found = office.get("/api/v1/letters?q=size:%3E0").await.json();
    assert_eq!(found["letters"][0]["queue"], "orders.dlq");
    let id = found["letters"][0]["id"].as_str().unwrap();
    assert_eq!(office.get(&format!("/api/v1/letters/{id}/payload")).await.body, [0, 159, 146, 150]);
}

/// A record that died in Spring, with the place it had before.
fn spring(n: i64) -> Message {
    let mut message = plain(n);
    let number = |value: i32| Some(bytes::Bytes::copy_from_slice(&value.to_be_bytes()));
    message.headers.push_text("kafka_dlt-original-topic", "orders");
    message.headers.push("kafka_dlt-original-partition", number(3));
    message
        .headers
        .push("kafka_dlt-original-offset", Some(bytes::Bytes::copy_from_slice(&42_i64.to_be_bytes())));
    message.headers.push_text("kafka_dlt-exception-fqcn", "java.lang.IllegalStateException");
    message.headers.push_text("kafka_dlt-exception-message", "no such pin");
    message
}

/// Two groups without a name, or one record that died twice, carry the same origin: they are two deaths.
#[tokio::test]
async fn deaths_with_the_same_foreign_origin_are_never_merged() {
    for broker in [Weak::new(Weakness::default()), Weak::log(), Weak::bare(Default::default())] {
        broker.publish([spring(1), spring(1), spring(2)]).await;
        let office = office(broker.spec()).await;
        until_letters(&office, 3).await;
        let found = office.get("/api/v1/letters?q=class:java.lang.IllegalStateException").await.json();
        assert_eq!(found["letters"].as_array().unwrap().len(), 3, "{found:#}");
        assert_eq!(
            (&found["letters"][0]["queue"], &found["letters"][0]["offset"]),
            (&"orders".into(), &42.into())
        );
    }
}

fn advisory(sequence: i64) -> Message {
    let body = json!({
        "type": "io.nats.jetstream.advisory.v1.max_deliver", "id": "a", "timestamp": "2026-11-01T12:00:00Z",
        "stream": "ORDERS", "consumer": "pricing", "stream_seq": sequence, "deliveries": 5,
    });
    Message { payload: Payload::from(body.to_string()), ..Message::default() }
}

#[tokio::test]
async fn a_letter_that_only_points_holds_its_record_and_says_when_it_is_gone() {
    let mut record = Message { payload: Payload::from("the order itself"), ..Message::default() };
    record.headers.push_text("x-tenant", "acme");
    let broker = Weak::new(Weakness {
        bare: Some(BrokerKind::Nats),
        records: BTreeMap::from([("ORDERS/7".to_string(), record)]),
        ..Weakness::default()
    });
    broker.publish([advisory(7), advisory(8)]).await;
    let office = office(broker.spec()).await;
    until_letters(&office, 2).await;
    let found = office.get("/api/v1/letters?q=header.dlo-record:fetched").await.json();
    let letter = &found["letters"][0];
    assert_eq!((&letter["consumer"], &letter["attempts"]), (&"pricing".into(), &5.into()), "{found:#}");
    let id = letter["id"].as_str().unwrap();
    assert_eq!(office.get(&format!("/api/v1/letters/{id}/payload")).await.body, b"the order itself");
    let gone = office.get("/api/v1/letters?q=header.dlo-record:gone").await.json();
    assert_eq!(gone["letters"].as_array().unwrap().len(), 1, "{gone:#}");
    let tenant = office.get("/api/v1/letters?q=header.x-tenant:acme").await.json();
    assert_eq!(tenant["letters"][0]["id"], letter["id"]);
}

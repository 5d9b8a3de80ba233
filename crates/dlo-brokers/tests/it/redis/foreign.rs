//! Entries that others wrote: how they are read, and that a replay gives them back as they were.

use dlo_core::broker::{Broker, Settlement};
use dlo_core::message::Message;
use dlo_testkit::conformance::Lab as _;
use std::sync::Arc;

use super::{Raw, body, lab, one, settle, to};

/// What is written by hand, read by us, published by us, and read by hand again.
async fn there_and_back(
    broker: &Arc<dyn Broker>,
    url: &str,
    queue: &str,
    fields: &[&[u8]],
) -> (Message, Vec<Vec<u8>>) {
    let mut raw = Raw::to(url).await;
    let mut add = ::redis::cmd("XADD");
    add.arg(queue).arg("*");
    for field in fields {
        add.arg(*field);
    }
    let _: String = add.query_async(&mut raw.0).await.unwrap();
    let mut source = broker.source(queue, "g").await.unwrap();
    let delivery = one(&mut source).await;
    let message = delivery.message.clone();
    broker.publisher().publish(vec![to(queue, message.clone())]).await.remove(0).unwrap();
    settle(&*source, delivery, Settlement::Done).await;
    let mut last = ::redis::cmd("XREVRANGE");
    last.arg(queue).arg("+").arg("-").arg("COUNT").arg(1);
    let found: Vec<(String, Vec<Vec<u8>>)> = last.query_async(&mut raw.0).await.unwrap();
    (message, found.into_iter().next().unwrap().1)
}

#[tokio::test]
async fn a_foreign_entry_is_read_by_its_payload_field_and_published_with_the_same_fields() {
    let lab = lab().await;
    let cases: [&[&[u8]]; 6] = [
        &[b"payload", b"{}"],
        &[b"tenant", b"acme", b"payload", b"{\"order\":1}", b"id", b"7"],
        &[b"type", b"order", b"data", b"\x00\xff", b"type", b"again", b"", b""],
        &[b"\xff\xfe", b"binary name", b"body", b"", b"redis:id", b"x", b"kafka:topic", b"y"],
        &[b"value", b"1", b"message", b"2", b"dlo:other", b"3"],
        &[b"a", b"1", b"a", b"2"],
    ];
    for fields in cases {
        let queue = lab.fresh_queue().await;
        let (_, again) = there_and_back(&lab.broker, &lab.url, &queue, fields).await;
        let expected: Vec<Vec<u8>> = fields.iter().map(|field| field.to_vec()).collect();
        // `redis:id` is a name of ours for a fact of an earlier life; it is not carried on.
        let expected: Vec<_> =
            expected.chunks(2).filter(|pair| pair[0] != b"redis:id").flatten().cloned().collect();
        assert_eq!(again, expected);
    }
}

#[tokio::test]
async fn an_entry_without_a_payload_field_is_a_json_object_and_goes_back_as_fields() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let fields: [&[u8]; 6] = [b"order", b"88812", b"total", b"12.50", b"note", b"\"quoted\" \xc3\xbc"];
    let (message, again) = there_and_back(&lab.broker, &lab.url, &queue, &fields).await;
    assert_eq!(body(&message), r#"{"order":"88812","total":"12.50","note":"\"quoted\" ü"}"#);
    assert_eq!(again, fields);
}

#[tokio::test]
async fn headers_added_on_replay_stand_behind_the_fields_and_are_headers_again() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let (mut message, _) = there_and_back(&lab.broker, &lab.url, &queue, &[b"order", b"88812"]).await;
    message.headers.push_text("x-replayed-from-dlq", "true");
    let second = lab.fresh_queue().await;
    lab.broker.publisher().publish(vec![to(&second, message.clone())]).await.remove(0).unwrap();
    let mut source = lab.broker.source(&second, "g").await.unwrap();
    assert_eq!(one(&mut source).await.message, message);
}

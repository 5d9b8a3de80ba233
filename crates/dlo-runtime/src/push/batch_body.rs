//! The words of a batch: messages as one JSON body, and the answer's result for each. Pure.
//!
//! A payload that is JSON stands in the body as it is, number for number; any other as base64. Keys likewise: text, else
//! base64. Unlike in a request for one message, headers keep their names and none is left out.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dlo_core::failure::Failure;
use dlo_core::message::{Header, Message};
use dlo_core::time::Timestamp;
use hyper::{HeaderMap, StatusCode};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::request::{content_type, is_the_producers};
use super::said::{Said, Word};
use super::{answer, request};
use crate::handler::Context;

/// One message on its way.
#[derive(Debug)]
pub(super) struct Item {
    /// Its id inside this batch.
    pub(super) id: String,
    pub(super) message: Message,
    pub(super) context: Context,
}

/// Gives every item the id of its message, made different where two are alike.
pub(super) fn name(items: &mut [Item]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in items.iter_mut() {
        let id = request::message_id(&item.context.origin);
        let times = seen.entry(id.clone()).or_default();
        *times += 1;
        item.id = if *times == 1 && !id.is_empty() { id } else { format!("{id}#{times}") };
    }
}

/// `{"messages":[…]}`.
pub(super) fn write(items: &[Item], now: Timestamp) -> Vec<u8> {
    let size: usize = items.iter().map(|item| item.message.payload.0.len() + 512).sum();
    let mut body = Vec::with_capacity(size);
    body.extend_from_slice(b"{\"messages\":[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        // Writing to memory does not fail, and neither does any of these values.
        let _ = serde_json::to_writer(&mut body, &Written { item, now });
    }
    body.extend_from_slice(b"]}");
    body
}

struct Written<'a> {
    item: &'a Item,
    now: Timestamp,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Item { id, message, context } = self.item;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", id)?;
        map.serialize_entry("queue", &context.origin.queue)?;
        if let Some(key) = &message.key {
            entry(&mut map, "key", "key_base64", &key.0)?;
        }
        map.serialize_entry("attempt", &context.attempt)?;
        map.serialize_entry("deadline", &self.now.plus(context.timeout))?;
        if let Some(mark) = &context.replay {
            map.serialize_entry("replayed_from", &mark.letter.map(|letter| letter.to_string()))?;
            map.serialize_entry("replay_id", &mark.replay_id)?;
        }
        map.serialize_entry("headers", &WrittenHeaders(message))?;
        map.serialize_entry("content_type", content_type(message))?;
        match serde_json::from_slice::<&RawValue>(&message.payload.0) {
            Ok(json) => map.serialize_entry("payload", json)?,
            Err(_) => map.serialize_entry("payload_base64", &STANDARD.encode(&message.payload.0))?,
        }
        map.end()
    }
}

fn entry<M: SerializeMap>(map: &mut M, text: &str, encoded: &str, bytes: &[u8]) -> Result<(), M::Error> {
    match std::str::from_utf8(bytes) {
        Ok(value) => map.serialize_entry(text, value),
        Err(_) => map.serialize_entry(encoded, &STANDARD.encode(bytes)),
    }
}

struct WrittenHeaders<'a>(&'a Message);

impl Serialize for WrittenHeaders<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let tracing = |header: &Header| header.name.to_ascii_lowercase().starts_with("trace");
        for header in self.0.headers.on_wire().filter(|header| is_the_producers(header) || tracing(header)) {
            match (&header.value, header.text()) {
                (None, _) => list.serialize_element(&(&header.name, None::<&str>))?,
                (Some(_), Some(text)) => list.serialize_element(&(&header.name, text))?,
                (Some(bytes), None) => {
                    let value =
                        serde_json::json!({ "name": header.name, "value_base64": STANDARD.encode(bytes) });
                    list.serialize_element(&value)?;
                }
            }
        }
        list.end()
    }
}

/// What went wrong with each item, in their order; `None`: it is done.
///
/// With a list of results each item has its own; one without a result, or with one that is no verdict, has failed in a
/// way nobody knows. Without such a list the answer as a whole is for all of them.
pub(super) fn read(
    items: &[Item],
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Vec<Option<Failure>> {
    let mut object = answer::object(body);
    let Some(Value::Array(results)) = object.as_mut().and_then(|object| object.remove("results")) else {
        let whole = answer::read(status, headers, body, now);
        return items.iter().map(|_| whole.clone()).collect();
    };
    let mut by_id: HashMap<&str, &Value> = HashMap::new();
    for result in &results {
        if let Some(id) = result.get("id").and_then(Value::as_str) {
            by_id.entry(id).or_insert(result);
        }
    }
    items.iter().map(|item| one(by_id.get(item.id.as_str()).copied())).collect()
}

fn one(result: Option<&Value>) -> Option<Failure> {
    let Some(object) = result.and_then(Value::as_object) else {
        return Some(Failure::new("dlo.NoResult", "the handler's answer has no result for this message"));
    };
    let said = Said::of(object);
    match said.verdict {
        Some(Word::Done) => None,
        Some(Word::Failed(_)) => Some(said.failure(Failure::new("", "the handler gave no word on why"))),
        None => {
            Some(said.failure(Failure::new(
                "dlo.NoResult",
                "the handler's result for this message has no verdict",
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlo_core::attempt::Attempt;
    use dlo_core::message::Payload;
    use dlo_core::origin::{BrokerKind, Origin};
    use dlo_core::verdict::VerdictKind;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn items(payloads: &[&[u8]]) -> Vec<Item> {
        let item = |(n, payload): (usize, &&[u8])| Item {
            id: String::new(),
            message: Message { payload: Payload::from(payload.to_vec()), ..Message::default() },
            context: Context {
                origin: Origin::log(BrokerKind::Kafka, "orders", 0, n as i64),
                published_at: None,
                attempt: Attempt::FIRST,
                timeout: Duration::from_secs(1),
                replay: None,
            },
        };
        let mut items: Vec<Item> = payloads.iter().enumerate().map(item).collect();
        name(&mut items);
        items
    }

    fn answered(items: &[Item], status: u16, body: &str) -> Vec<Option<Failure>> {
        let status = StatusCode::from_u16(status).unwrap();
        read(items, status, &HeaderMap::new(), body.as_bytes(), Timestamp::EPOCH)
    }

    #[test]
    fn a_batch_carries_json_as_it_is_and_other_bytes_as_base64() {
        let mut items = items(&[b"{\"total\": 1.10}", b"\xff\x00"]);
        items[0].message.key = Some(Payload::from("C-441"));
        items[0].message.headers.push_text("X-Tenant", "acme");
        items[0].message.headers.push("empty", None);
        let text = String::from_utf8(write(&items, Timestamp::EPOCH)).unwrap();
        assert!(text.contains("\"payload\":{\"total\": 1.10}"), "number for number: {text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            body["messages"][0],
            json!({"id": "0-0", "queue": "orders", "key": "C-441", "attempt": 1, "deadline": "1970-01-01T00:00:01Z",
                "headers": [["X-Tenant", "acme"], ["empty", null]], "content_type": "application/json",
                "payload": {"total": 1.10}})
        );
        assert_eq!(body["messages"][1]["payload_base64"], "/wA=");
    }

    #[test]
    fn every_item_has_its_own_result() {
        let items = items(&[b"1", b"2", b"3", b"4"]);
        let body = r#"{"results":[{"id":"0-1","verdict":"dead_letter","error_class":"KeyError"},{"id":"0-0","verdict":"done"},
            {"id":"0-2","verdict":"perhaps"},{"id":"stranger","verdict":"done"},7]}"#;
        let results = answered(&items, 200, body);
        assert_eq!(results[0], None);
        let refused = results[1].as_ref().unwrap();
        assert_eq!((refused.class.as_str(), refused.says), ("KeyError", Some(VerdictKind::DeadLetter)));
        assert_eq!(results[2].as_ref().unwrap().class, "dlo.NoResult");
        assert_eq!(results[3].as_ref().unwrap().class, "dlo.NoResult");
    }

    #[test]
    fn without_a_list_of_results_the_answer_is_for_all() {
        let items = items(&[b"1", b"2"]);
        assert_eq!(answered(&items, 204, ""), [None, None]);
        assert!(answered(&items, 503, "").iter().all(|one| one.as_ref().unwrap().http_status == Some(503)));
        let said = answered(&items, 200, r#"{"verdict":"retry"}"#);
        assert!(said.iter().all(|one| one.as_ref().unwrap().says == Some(VerdictKind::Retry)));
    }

    #[test]
    fn messages_without_ids_of_their_own_are_told_apart() {
        let mut items = items(&[b"1", b"2", b"3"]);
        for item in &mut items {
            item.context.origin = Origin::queue(BrokerKind::Stomp, "orders");
        }
        name(&mut items);
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["#1", "#2", "#3"]);
    }

    proptest! {
        #[test]
        fn any_payload_makes_a_body_that_is_json_and_any_answer_has_a_result_for_each(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..5),
            body in prop_oneof![".{0,80}", "\\{\"results\":\\[.{0,60}\\]\\}"],
        ) {
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            let items = items(&payloads);
            let written: Value = serde_json::from_slice(&write(&items, Timestamp::EPOCH)).unwrap();
            prop_assert_eq!(written["messages"].as_array().unwrap().len(), items.len());
            prop_assert_eq!(answered(&items, 200, &body).len(), items.len());
        }
    }
}

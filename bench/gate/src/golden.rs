//! Golden letters of the core as inputs: messages as they were really found, which are added to and never edited.
//!
//! The format is told in `crates/dlo-core/tests/it/conventions.rs`. Of each file the first letter is taken, so that one
//! that is added changes no count.

use bytes::Bytes;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use serde_json::Value;

/// A message and where it was found.
#[derive(Debug, Clone)]
pub(crate) struct Golden {
    pub(crate) broker: BrokerKind,
    pub(crate) queue: String,
    pub(crate) message: Message,
}

macro_rules! golden {
    ($($id:literal),+ $(,)?) => {
        [$(include_str!(concat!("../../../crates/dlo-core/tests/golden/conventions/", $id, ".json"))),+]
    };
}

/// What the frameworks that people use most write in headers.
const IN_HEADERS: [&str; 6] =
    golden!["spring.dlt", "connect", "rabbitmq", "spring.amqp", "masstransit", "sqs"];
/// A story that is told in the payload, and a letter that only points.
const IN_BODY: [&str; 2] = golden!["sidekiq", "jetstream"];
const OWN: &str = include_str!("../../../crates/dlo-core/tests/golden/envelope/v1/full.json");

/// Letters that others wrote.
pub(crate) fn foreign() -> Vec<Golden> {
    IN_HEADERS.iter().chain(&IN_BODY).map(|file| first(file)).collect()
}

/// Those of them that may have any payload.
pub(crate) fn foreign_headers() -> Vec<Golden> {
    IN_HEADERS.iter().map(|file| first(file)).collect()
}

/// Headers that we wrote, version 1, with everything in them.
pub(crate) fn own() -> Headers {
    headers(&serde_json::from_str(OWN).expect("a golden letter is JSON"))
}

fn first(file: &str) -> Golden {
    let cases: Value = serde_json::from_str(file).expect("a golden letter is JSON");
    let (found, message) = (&cases[0]["found"], &cases[0]["message"]);
    let part = |name: &str| (!message[name].is_null()).then(|| Payload(bytes(&message[name])));
    Golden {
        broker: text(&found["broker"]).parse().expect("a golden letter names its broker"),
        queue: text(&found["queue"]).to_owned(),
        message: Message {
            key: part("key"),
            headers: headers(&message["headers"]),
            payload: part("payload").unwrap_or_default(),
        },
    }
}

fn headers(pairs: &Value) -> Headers {
    let mut headers = Headers::new();
    for pair in pairs.as_array().into_iter().flatten() {
        headers.push(text(&pair[0]), (!pair[1].is_null()).then(|| bytes(&pair[1])));
    }
    headers
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn bytes(value: &Value) -> Bytes {
    if let Some(digits) = value["hex"].as_str() {
        let digits: Vec<u8> = digits.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
        let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
        return pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect();
    }
    match value {
        Value::String(text) => Bytes::from(text.clone()),
        other => Bytes::from(other["json"].to_string()),
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::conventions::{Found, read};

    use super::*;

    #[test]
    fn every_golden_letter_that_is_counted_is_recognised() {
        for golden in foreign() {
            let reading = read(&golden.message, Found { broker: golden.broker, queue: &golden.queue });
            assert!(!reading.conventions.is_empty(), "{golden:?}");
        }
        assert!(dlo_core::envelope::decode(&own()).is_some_and(|story| story.attempts == Some(2)));
    }
}

//! Our message as an AMQP message: the way back of `decode`, with everything typed again as it was.
//!
//! What a broker wrote on a message (sequence numbers, where it died, when it was due) is not sent again, and neither
//! are time to live and expiry: what is parked or replayed must not expire by the clock of its first life.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use dlo_core::broker::PublishError;
use dlo_core::message::{Header as OurHeader, Message};
use dlo_core::time::Timestamp;
use fe2o3_amqp::types::messaging::annotations::{Annotations, OwnedKey};
use fe2o3_amqp::types::messaging::{
    AmqpSequence, AmqpValue, ApplicationProperties, Batch, Body, Data, Header, Message as AmqpMessage,
    MessageAnnotations, MessageId, Properties,
};
use fe2o3_amqp::types::primitives::{OrderedMap, SimpleValue, Symbol, Timestamp as AmqpTime, Value};

use super::config::Flavour;
use super::decode::{ANNOTATION, KEY, KIND, Wire};
use super::value::from_plain;

/// Annotations that brokers write. Each is a name or the beginning of one.
const BROKERS_OWN: [&str; 14] = [
    "x-opt-ORIG-",
    "x-opt-ACTUAL-EXPIRY",
    "x-opt-delivery-time",
    "x-opt-delivery-delay",
    "x-opt-ingress-time",
    "x-opt-scheduled-enqueue-time",
    "x-opt-enqueue",
    "x-opt-sequence-number",
    "x-opt-locked-until",
    "x-opt-lock-token",
    "x-opt-deadletter-source",
    "x-opt-message-state",
    "x-opt-offset",
    "x-opt-publisher",
];

/// The wire form of `message`, visible after `delay`.
pub(super) fn encode(
    message: &Message,
    delay: Option<Duration>,
    flavour: Flavour,
) -> Result<Wire, PublishError> {
    let types: BTreeMap<String, String> = message
        .headers
        .transport(KIND, "types")
        .and_then(|json| serde_json::from_str(json).ok())
        .unwrap_or_default();
    let mut properties = properties(message, &types);
    let mut application = application(message, &types)?;
    if let Some(key) = &message.key {
        match std::str::from_utf8(&key.0) {
            Ok(text) => properties.group_id = Some(text.to_owned()),
            Err(_) => {
                application.insert(KEY.to_owned(), SimpleValue::Binary(key.0.to_vec().into()));
            }
        }
    }
    let mut annotations = annotations(message, &types);
    if let Some(delay) = delay {
        let (name, value) = due(delay, flavour)?;
        annotations.insert(OwnedKey::from(name), value);
    }
    let priority = message.headers.transport(KIND, "priority").and_then(|text| text.parse::<u8>().ok());
    Ok(AmqpMessage {
        header: Some(Header {
            durable: true,
            priority: priority.map_or_else(Default::default, Into::into),
            ..Header::default()
        }),
        delivery_annotations: None,
        message_annotations: (!annotations.is_empty()).then_some(MessageAnnotations(annotations)),
        properties: (properties != Properties::default()).then_some(properties),
        application_properties: (!application.is_empty()).then_some(ApplicationProperties(application)),
        body: body(message),
        footer: None,
    })
}

fn application(
    message: &Message,
    types: &BTreeMap<String, String>,
) -> Result<OrderedMap<String, SimpleValue>, PublishError> {
    let mut map = OrderedMap::new();
    for OurHeader { name, value } in message.headers.on_wire() {
        let value = from_plain(value.as_ref(), types.get(name).map(String::as_str));
        let simple = SimpleValue::try_from(value).unwrap_or(SimpleValue::Null);
        if map.insert(name.clone(), simple).is_some() {
            return Err(PublishError::Refused(format!(
                "AMQP 1.0 has no repeated headers, and `{name}` is there twice"
            )));
        }
    }
    Ok(map)
}

fn properties(message: &Message, types: &BTreeMap<String, String>) -> Properties {
    let text = |name: &str| message.headers.transport(KIND, name).map(str::to_owned);
    let millis = |name: &str| text(name).and_then(|text| text.parse().ok()).map(AmqpTime::from_milliseconds);
    let id = |name: &str| {
        let name = format!("{KIND}:{name}");
        let value = message.headers.last(&name)?.value.as_ref()?;
        message_id(from_plain(Some(value), types.get(&name).map(String::as_str)))
    };
    let user = message.headers.last(&format!("{KIND}:user-id")).and_then(|header| header.value.as_ref());
    Properties {
        message_id: id("message-id"),
        user_id: user.map(|user| user.to_vec().into()),
        to: text("to"),
        subject: text("subject"),
        reply_to: text("reply-to"),
        correlation_id: id("correlation-id"),
        content_type: text("content-type").map(Symbol::new),
        content_encoding: text("content-encoding").map(Symbol::new),
        absolute_expiry_time: None,
        creation_time: millis("creation-time"),
        group_id: None,
        group_sequence: text("group-sequence").and_then(|text| text.parse().ok()),
        reply_to_group_id: text("reply-to-group-id"),
    }
}

fn message_id(value: Value) -> Option<MessageId> {
    match value {
        Value::String(text) => Some(MessageId::String(text)),
        Value::Ulong(number) => Some(MessageId::Ulong(number)),
        Value::Uuid(uuid) => Some(MessageId::Uuid(uuid)),
        Value::Binary(bytes) => Some(MessageId::Binary(bytes)),
        _ => None,
    }
}

fn annotations(message: &Message, types: &BTreeMap<String, String>) -> Annotations {
    let prefix = format!("{KIND}:{ANNOTATION}");
    let mut map = Annotations::new();
    for OurHeader { name, value } in message.headers.iter() {
        let Some(annotation) = name.strip_prefix(&prefix) else { continue };
        if BROKERS_OWN.iter().any(|own| annotation.starts_with(own)) {
            continue;
        }
        let value = from_plain(value.as_ref(), types.get(name).map(String::as_str));
        map.insert(OwnedKey::from(annotation), value);
    }
    map
}

/// How each broker is told to hold a message back.
fn due(delay: Duration, flavour: Flavour) -> Result<(&'static str, Value), PublishError> {
    let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    match flavour {
        // Counted by the broker from its own clock: ours does not matter.
        Flavour::Artemis | Flavour::Activemq => Ok(("x-opt-delivery-delay", Value::Long(millis))),
        Flavour::ServiceBus => {
            let at = now().plus(delay).as_millis();
            Ok(("x-opt-scheduled-enqueue-time", Value::Timestamp(AmqpTime::from_milliseconds(at))))
        }
        Flavour::Generic => Err(PublishError::Refused(
            "AMQP 1.0 itself has no delays: say which broker this is by `flavour`".to_owned(),
        )),
    }
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::EPOCH.plus(since)
}

/// The body in the shape it had. A payload that was edited out of that shape is one data section.
fn body(message: &Message) -> Body<Value> {
    let bytes = &message.payload.0;
    let value = |value: Value| Body::Value(AmqpValue(value));
    let shaped = match message.headers.transport(KIND, "body") {
        Some("value:string") => String::from_utf8(bytes.to_vec()).ok().map(|text| value(Value::String(text))),
        Some("value:binary") => Some(value(Value::Binary(bytes.to_vec().into()))),
        Some("value:null") if bytes.is_empty() => Some(value(Value::Null)),
        Some("empty") if bytes.is_empty() => Some(Body::Empty),
        Some("value") => serde_amqp::from_slice(bytes).ok().map(value),
        Some("sequence") => sequence(bytes),
        Some(shape) => shape.strip_prefix("data:").and_then(|lengths| sections(bytes, lengths)),
        None => None,
    };
    shaped.unwrap_or_else(|| Body::Data(Batch::new(vec![Data(bytes.to_vec().into())])))
}

fn sequence(bytes: &Bytes) -> Option<Body<Value>> {
    let Ok(Value::List(lists)) = serde_amqp::from_slice(bytes) else { return None };
    let mut sections = Vec::with_capacity(lists.len());
    for list in lists {
        let Value::List(items) = list else { return None };
        sections.push(AmqpSequence(items));
    }
    Some(Body::Sequence(Batch::new(sections)))
}

/// Several data sections of the lengths `3+5`.
fn sections(bytes: &Bytes, lengths: &str) -> Option<Body<Value>> {
    let mut rest = bytes.clone();
    let mut parts = Vec::new();
    for length in lengths.split('+') {
        let length: usize = length.parse().ok()?;
        if length > rest.len() {
            return None;
        }
        parts.push(Data(rest.split_to(length).to_vec().into()));
    }
    rest.is_empty().then(|| Body::Data(Batch::new(parts)))
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;

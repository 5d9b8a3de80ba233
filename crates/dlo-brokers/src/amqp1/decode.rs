//! An AMQP message as ours: application properties are headers, every other section becomes facts of the transport.
//!
//! `amqp1:<property>` for properties and header fields, `amqp1:annotation:<name>` for message annotations, `amqp1:types`
//! (JSON: header name to AMQP type) for what was no string, `amqp1:body` for a body that was not one data section.
//! The group id is the key. Delivery annotations and footers belong to one hop and are not kept.

use std::collections::BTreeMap;

use bytes::Bytes;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::time::Timestamp;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{Body, Header, Message as AmqpMessage, MessageId, Properties};
use fe2o3_amqp::types::primitives::Value;

use super::value::to_plain;

pub(super) type Wire = AmqpMessage<Body<Value>>;

pub(super) const KIND: BrokerKind = BrokerKind::Amqp1;
/// A key that is no text travels as this binary application property: a group id is a string.
pub(super) const KEY: &str = "dlo-key";
pub(super) const ANNOTATION: &str = "annotation:";
const SEQUENCE_NUMBER: &str = "x-opt-sequence-number";
const ENQUEUED_TIME: &str = "x-opt-enqueued-time";

/// What a message says besides its content.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) message: Message,
    /// Deliveries before this one.
    pub(super) earlier: u32,
    pub(super) published_at: Option<Timestamp>,
    /// Service Bus only: number and time together are never given twice, not even by a queue created anew.
    pub(super) sequence: Option<String>,
}

/// Headers under construction, with the types of what is no string.
#[derive(Debug, Default)]
struct Writer {
    headers: Headers,
    types: BTreeMap<String, &'static str>,
}

impl Writer {
    fn value(&mut self, name: String, value: Value) {
        let plain = to_plain(value);
        if let Some(kind) = plain.kind {
            self.types.insert(name.clone(), kind);
        }
        self.headers.push(name, plain.value);
    }

    fn fact(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.value(format!("{KIND}:{name}"), value.into());
        }
    }

    /// A fact whose type is fixed by the standard.
    fn text(&mut self, name: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.headers.push_transport(KIND, name, value);
        }
    }
}

pub(super) fn decode(wire: Wire) -> Decoded {
    let mut writer = Writer::default();
    let header = wire.header.unwrap_or_default();
    let mut key = None;
    for (name, value) in wire.application_properties.map(|properties| properties.0).into_iter().flatten() {
        match Value::from(value) {
            Value::Binary(bytes) if name == KEY => key = Some(Payload(Bytes::from(bytes.into_vec()))),
            value => writer.value(name, value),
        }
    }
    let mut published_at = None;
    if let Some(properties) = wire.properties {
        published_at =
            properties.creation_time.as_ref().map(|time| Timestamp::from_millis(time.milliseconds()));
        let group = write_properties(&mut writer, properties);
        key = key.or(group.map(Payload::from));
    }
    write_header(&mut writer, &header);
    let (mut number, mut enqueued) = (None, None);
    for (name, value) in wire.message_annotations.map(|annotations| annotations.0).into_iter().flatten() {
        let name = match name {
            OwnedKey::Symbol(symbol) => symbol.0,
            OwnedKey::Ulong(number) => number.to_string(),
        };
        match (&*name, &value) {
            (SEQUENCE_NUMBER, Value::Long(sequence)) => number = Some(*sequence),
            (ENQUEUED_TIME, Value::Timestamp(time)) => enqueued = Some(time.milliseconds()),
            _ => {}
        }
        writer.value(format!("{KIND}:{ANNOTATION}{name}"), value);
    }
    let payload = write_body(&mut writer, wire.body);
    if !writer.types.is_empty() {
        let types = serde_json::to_string(&writer.types).unwrap_or_default();
        writer.headers.push_transport(KIND, "types", types);
    }
    Decoded {
        message: Message { key, headers: writer.headers, payload },
        earlier: header.delivery_count,
        published_at: enqueued.map(Timestamp::from_millis).or(published_at),
        sequence: number.zip(enqueued).map(|(number, enqueued)| format!("{number}@{enqueued}")),
    }
}

/// Everything but the group id, which is handed back.
fn write_properties(writer: &mut Writer, properties: Properties) -> Option<String> {
    write_id(writer, "message-id", properties.message_id);
    if let Some(user) = properties.user_id {
        writer.headers.push(format!("{KIND}:user-id"), Some(Bytes::from(user.into_vec())));
    }
    writer.text("to", properties.to);
    writer.text("subject", properties.subject);
    writer.text("reply-to", properties.reply_to);
    write_id(writer, "correlation-id", properties.correlation_id);
    writer.text("content-type", properties.content_type.map(|symbol| symbol.0));
    writer.text("content-encoding", properties.content_encoding.map(|symbol| symbol.0));
    let millis = |time: fe2o3_amqp::types::primitives::Timestamp| time.milliseconds().to_string();
    writer.text("absolute-expiry-time", properties.absolute_expiry_time.map(millis));
    writer.text("creation-time", properties.creation_time.map(millis));
    writer.text("group-sequence", properties.group_sequence.map(|number| number.to_string()));
    writer.text("reply-to-group-id", properties.reply_to_group_id);
    properties.group_id
}

fn write_id(writer: &mut Writer, name: &str, id: Option<MessageId>) {
    let value = id.map(|id| match id {
        MessageId::String(text) => Value::String(text),
        MessageId::Ulong(number) => Value::Ulong(number),
        MessageId::Uuid(uuid) => Value::Uuid(uuid),
        MessageId::Binary(bytes) => Value::Binary(bytes),
    });
    writer.fact(name, value);
}

/// What differs from the standard's defaults.
fn write_header(writer: &mut Writer, header: &Header) {
    if header.priority.0 != 4 {
        writer.text("priority", Some(header.priority.0.to_string()));
    }
    writer.text("ttl", header.ttl.map(|millis| millis.to_string()));
}

fn write_body(writer: &mut Writer, body: Body<Value>) -> Payload {
    let (shape, bytes) = match body {
        Body::Data(sections) => {
            let parts: Vec<Vec<u8>> = sections.into_iter().map(|data| data.0.into_vec()).collect();
            if parts.len() == 1 {
                return Payload(Bytes::from(parts.into_iter().next().unwrap_or_default()));
            }
            let lengths: Vec<String> = parts.iter().map(|part| part.len().to_string()).collect();
            (format!("data:{}", lengths.join("+")), parts.concat())
        }
        Body::Value(value) => match value.0 {
            Value::String(text) => ("value:string".to_owned(), text.into_bytes()),
            Value::Binary(bytes) => ("value:binary".to_owned(), bytes.into_vec()),
            Value::Null => ("value:null".to_owned(), Vec::new()),
            other => ("value".to_owned(), serde_amqp::to_vec(&other).unwrap_or_default()),
        },
        Body::Sequence(sections) => {
            let lists = sections.into_iter().map(|sequence| Value::List(sequence.0)).collect();
            ("sequence".to_owned(), serde_amqp::to_vec(&Value::List(lists)).unwrap_or_default())
        }
        Body::Empty => ("empty".to_owned(), Vec::new()),
    };
    writer.text("body", Some(shape));
    Payload(Bytes::from(bytes))
}

//! A [`Message`] as SQS carries it, and back, byte for byte.
//!
//! The body is the payload where that is text that SQS takes; else the payload is the binary attribute `dlo-payload`,
//! which costs no more than its bytes, and the body says so. The key is the message group on FIFO queues and
//! the attribute `dlo-key` elsewhere. Headers are attributes (see [`super::pack`]). Types of attributes that our bytes
//! would not show (`Number`, `String.x`, `Binary` that is text) travel in the header `sqs:types`.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{self, MessageAttributeValue, MessageSystemAttributeName as System};
use bytes::Bytes;
use dlo_core::message::{Header, Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use sha2::{Digest as _, Sha256};

use super::pack::{HEADERS, KEY, PAYLOAD, pack, unpack};
use super::text::{fits, is_group, legal};

/// The type under which an empty key or payload is told: SQS has no empty values.
const EMPTY: &str = "String.dlo-empty";
const TYPES: &str = "types";
const GROUP: &str = "MessageGroupId";
const TRACE: &str = "AWSTraceHeader";
/// The group of a message without a key on a FIFO queue, followed by something unique.
const UNGROUPED: &str = "dlo-no-key-";

/// A message on its way to the service.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    pub(super) body: String,
    pub(super) attributes: HashMap<String, MessageAttributeValue>,
    pub(super) trace: Option<String>,
    pub(super) group: Option<String>,
    pub(super) dedupe: Option<String>,
    /// Seconds.
    pub(super) delay: Option<i32>,
    /// As the service counts it.
    pub(super) size: usize,
}

/// Why a value cannot be built: a type without a name. It cannot happen, and is an error and not a panic.
pub(super) type Unbuildable = aws_sdk_sqs::error::BuildError;

impl Encoded {
    pub(super) fn of(message: &Message, fifo: bool) -> Result<Self, Unbuildable> {
        let mut encoded = Self { trace: transport(message, TRACE), ..Self::default() };
        match legal(&message.payload.0) {
            Some(text) => text.clone_into(&mut encoded.body),
            None => {
                format!("[{} bytes in attribute {PAYLOAD}]", message.payload.0.len())
                    .clone_into(&mut encoded.body);
                encoded.put(PAYLOAD, &message.payload.0, Some("Binary"))?;
            }
        }
        match fifo {
            true => encoded.group_by(message)?,
            false => {
                encoded.group = transport(message, GROUP).filter(|group| is_group(group));
                if let Some(Payload(key)) = &message.key {
                    encoded.put(KEY, key, None)?;
                }
            }
        }
        let types: BTreeMap<String, String> =
            transport(message, TYPES).and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        let headers: Vec<&Header> = message.headers.on_wire().collect();
        let packed = pack(&headers, encoded.attributes.len());
        for (name, value) in packed.plain {
            encoded.put(name, value, types.get(name).map(String::as_str))?;
        }
        if let Some(list) = packed.packed {
            encoded.put(HEADERS, list.as_bytes(), None)?;
        }
        encoded.measure();
        Ok(encoded)
    }

    /// A received message as it was, for another queue. Its id makes it one message there, however often it is sent.
    pub(super) fn copy_of(message: types::Message, fifo: bool) -> Self {
        let mut system = message.attributes.unwrap_or_default();
        let group = system.remove(&System::MessageGroupId);
        let mut copy = Self {
            body: message.body.unwrap_or_default(),
            attributes: message.message_attributes.unwrap_or_default(),
            trace: system.remove(&System::AwsTraceHeader),
            dedupe: message.message_id.clone().filter(|_| fifo),
            group: group.or_else(|| message.message_id.filter(|_| fifo)),
            delay: None,
            size: 0,
        };
        copy.measure();
        copy
    }

    fn group_by(&mut self, message: &Message) -> Result<(), Unbuildable> {
        self.dedupe = Some(dedupe_id(&message.headers));
        self.group = Some(match message.key.as_ref().map(|Payload(key)| key) {
            None => format!("{UNGROUPED}{:032x}", rand::random::<u128>()),
            Some(key) => match legal(key).filter(|key| is_group(key) && !key.starts_with(UNGROUPED)) {
                Some(group) => group.to_owned(),
                None => {
                    self.put(KEY, key, None)?;
                    hex(&Sha256::digest(key))
                }
            },
        });
        Ok(())
    }

    fn put(&mut self, name: &str, value: &[u8], kind: Option<&str>) -> Result<(), Unbuildable> {
        let text = legal(value);
        let kind = kind.filter(|kind| fits(kind, value));
        let attribute = match (kind, text) {
            _ if value.is_empty() => MessageAttributeValue::builder().data_type(EMPTY).string_value("-"),
            (Some(kind), Some(text)) if !kind.starts_with("Binary") => {
                MessageAttributeValue::builder().data_type(kind).string_value(text)
            }
            (None, Some(text)) => MessageAttributeValue::builder().data_type("String").string_value(text),
            (kind, _) => MessageAttributeValue::builder()
                .data_type(kind.unwrap_or("Binary"))
                .binary_value(Blob::new(value)),
        };
        self.attributes.insert(name.to_owned(), attribute.build()?);
        Ok(())
    }

    fn measure(&mut self) {
        let attributes = self.attributes.iter().map(|(name, attribute)| {
            let text = attribute.string_value().map_or(0, str::len);
            let binary = attribute.binary_value().map_or(0, |blob| blob.as_ref().len());
            name.len() + attribute.data_type().len() + text + binary
        });
        self.size = self.body.len() + attributes.sum::<usize>();
    }
}

fn transport(message: &Message, name: &str) -> Option<String> {
    message.headers.transport(BrokerKind::Sqs, name).map(str::to_owned)
}

/// What makes two sends one message inside the deduplication window: the same death, or the same send of a replay.
/// Anything else is a message of its own. The id under which a captured message was first sent is never used again:
/// a redrive inside the window would be confirmed and thrown away.
fn dedupe_id(headers: &Headers) -> String {
    let story = ["dlo-death-id", "dlo-replay-id", "x-replayed-from-dlq"].map(|name| headers.text(name));
    match story {
        [None, None, _] => format!("{:032x}", rand::random::<u128>()),
        _ => {
            let mut hash = Sha256::new();
            for part in story.map(Option::unwrap_or_default) {
                hash.update(part.len().to_be_bytes());
                hash.update(part.as_bytes());
            }
            hex(&hash.finalize())
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A received message. What is not in our own shape is taken as it came.
pub(super) fn decode(message: types::Message, fifo: bool) -> Message {
    let mut attributes: BTreeMap<String, MessageAttributeValue> =
        message.message_attributes.unwrap_or_default().into_iter().collect();
    let ours = attributes.get(PAYLOAD).is_some_and(|it| ["Binary", EMPTY].contains(&it.data_type()));
    let payload =
        if ours { attributes.remove(PAYLOAD).and_then(value) } else { message.body.map(Bytes::from) };
    let system: BTreeMap<String, String> = message
        .attributes
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), value))
        .collect();
    let group = system.get(GROUP).filter(|group| fifo && !group.starts_with(UNGROUPED));
    let key = attributes.remove(KEY).and_then(value).or_else(|| group.cloned().map(Bytes::from));
    let mut headers = Headers(headers(attributes));
    for (name, value) in system {
        headers.push_transport(BrokerKind::Sqs, &name, value);
    }
    Message { key: key.map(Payload), headers, payload: Payload(payload.unwrap_or_default()) }
}

fn headers(mut attributes: BTreeMap<String, MessageAttributeValue>) -> Vec<Header> {
    let list = attributes.remove(HEADERS);
    let types: BTreeMap<&str, &str> = attributes
        .iter()
        .filter(|(_, attribute)| attribute.data_type() != usual_type(attribute))
        .map(|(name, attribute)| (name.as_str(), attribute.data_type()))
        .collect();
    let types = (!types.is_empty()).then(|| serde_json::to_string(&types).unwrap_or_default());
    let plain: BTreeMap<String, Option<Bytes>> =
        attributes.into_iter().map(|(name, attribute)| (name, value(attribute))).collect();
    let packed = list.as_ref().and_then(MessageAttributeValue::string_value).map(str::to_owned);
    let unpacked = match (&list, &packed) {
        (Some(_), None) => None,
        _ => unpack(plain.clone(), packed.as_deref()),
    };
    let mut headers = unpacked.unwrap_or_else(|| {
        // Somebody else's attribute under our name.
        let mut all = plain;
        all.extend(list.map(|list| (HEADERS.to_owned(), value(list))));
        all.into_iter().map(|(name, value)| Header { name, value }).collect()
    });
    if let Some(types) = types {
        let name = format!("{}:{TYPES}", BrokerKind::Sqs);
        headers.push(Header { name, value: Some(Bytes::from(types)) });
    }
    headers
}

/// The type that `put` would give to the same bytes.
fn usual_type(attribute: &MessageAttributeValue) -> &'static str {
    let bytes = attribute.string_value().map(str::as_bytes);
    let bytes = bytes.or_else(|| attribute.binary_value().map(AsRef::as_ref)).unwrap_or_default();
    if legal(bytes).is_some() { "String" } else { "Binary" }
}

fn value(attribute: MessageAttributeValue) -> Option<Bytes> {
    if attribute.data_type == EMPTY {
        return Some(Bytes::new());
    }
    let text = attribute.string_value.map(Bytes::from);
    text.or_else(|| attribute.binary_value.map(|blob| Bytes::from(blob.into_inner())))
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;

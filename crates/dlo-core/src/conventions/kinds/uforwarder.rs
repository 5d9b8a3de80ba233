//! uForwarder: no headers. The record's key is a protobuf message with the origin and, inside it, the original key. Only
//! asked where the queue's name says that it is a dead-letter queue, and believed only if every byte fits.
//! Its field `timestamp_ns` holds milliseconds.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::super::{number, time};
use crate::message::{Message, Payload};
use crate::origin::BrokerKind;

pub(in super::super) const CONVENTION: Convention =
    Convention { id: "uforwarder", writer: Writer::Client, marks: &[Mark::Queue("dlq")], strip: &[], read };

#[derive(Default)]
struct Metadata<'k> {
    retries: i64,
    topic: &'k [u8],
    partition: i64,
    offset: i64,
    timestamp: i64,
    key: Option<&'k [u8]>,
    timeouts: i64,
}

fn read(view: &View<'_>) -> Option<Reading> {
    if view.found.broker != BrokerKind::Kafka && view.found.broker != BrokerKind::Memory {
        return None;
    }
    let metadata = parse(&view.message.key.as_ref()?.0)?;
    // proto3 leaves zeros out, so an empty key would be a whole record of nothing: without a topic it tells nothing.
    let topic = std::str::from_utf8(metadata.topic).ok()?;
    let is_topic = !topic.is_empty()
        && topic.len() <= crate::limits::NAME
        && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if !is_topic {
        return None;
    }
    let failures = metadata.retries.saturating_add(metadata.timeouts).saturating_add(1);
    Some(Reading {
        origin: view.kafka(
            Some(topic.to_owned()),
            number::partition(metadata.partition),
            Some(metadata.offset),
        ),
        unwrapped: Some(Message {
            key: metadata.key.map(|key| Payload::from(key.to_vec())),
            ..view.message.clone()
        }),
        attempts: u32::try_from(failures).ok(),
        published_at: (metadata.timestamp > 0).then(|| time::millis(metadata.timestamp)).flatten(),
        ..Reading::default()
    })
}

fn parse(mut bytes: &[u8]) -> Option<Metadata<'_>> {
    let mut metadata = Metadata::default();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        match tag {
            0x08 => metadata.retries = varint(&mut bytes)?,
            0x12 => metadata.topic = slice(&mut bytes)?,
            0x18 => metadata.partition = varint(&mut bytes)?,
            0x20 => metadata.offset = varint(&mut bytes)?,
            0x28 => metadata.timestamp = varint(&mut bytes)?,
            0x32 => metadata.key = Some(slice(&mut bytes)?),
            0x38 => metadata.timeouts = varint(&mut bytes)?,
            _ => return None,
        }
    }
    Some(metadata)
}

fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value: u64 = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value.cast_signed());
        }
    }
    None
}

fn slice<'k>(bytes: &mut &'k [u8]) -> Option<&'k [u8]> {
    let length = usize::try_from(varint(bytes)?).ok()?;
    let (head, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(head)
}

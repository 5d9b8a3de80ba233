//! Confluent's framing: a zero, the number of a schema in the registry, for Protobuf the way to the message, then the payload.

use super::formats::Kind;
use super::reading::{Reading, Step, Stop};
use super::{Hint, Shown, decoded, wire};

/// Messages inside messages that the framing may lead through.
const DEEPEST: usize = 32;

/// The number of the schema, if it begins like that.
pub(super) fn schema_id(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [0, id @ ..] => id.first_chunk().map(|id| u32::from_be_bytes(*id)),
        _ => None,
    }
}

/// By the schema that is at hand, with the framing or without.
pub(super) fn read(bytes: &[u8], hint: &Hint, format: &Kind) -> Option<Shown> {
    let framed = schema_id(bytes).and_then(|id| Some((id, bytes.get(5..)?)));
    match format {
        Kind::Avro(avro) => framed
            .and_then(|(id, rest)| {
                decoded(format!("Avro by its schema, framed as schema {id}"), |to| avro.read(rest, to))
            })
            .or_else(|| decoded("Avro by its schema", |to| avro.read(bytes, to))),
        Kind::Proto(proto) => {
            let by_frame = framed.and_then(|(id, rest)| {
                let (path, rest) = path(rest).ok()?;
                let name = proto.indexed(&path)?;
                let how = format!("Protocol Buffers, {name} by its schema, framed as schema {id}");
                decoded(how, |to| proto.read(name, rest, to))
            });
            by_frame.or_else(|| {
                let name = proto.named(hint.event_type.as_deref())?;
                decoded(format!("Protocol Buffers, {name} by its schema"), |to| proto.read(name, bytes, to))
            })
        }
    }
}

/// Protobuf without a schema: what the wire alone tells, framed or not.
pub(super) fn fields(bytes: &[u8]) -> Option<Shown> {
    let framed = schema_id(bytes).and_then(|id| {
        let (_, rest) = path(bytes.get(5..)?).ok()?;
        let how = format!("Protocol Buffers by field numbers, guessed from its bytes; framed as schema {id}, which is not at hand");
        wire::is_message(rest).then(|| decoded(how, |to| wire::message(rest, to)))?
    });
    framed.or_else(|| {
        let how = "Protocol Buffers by field numbers, guessed from its bytes; no schema is at hand";
        wire::is_message(bytes).then(|| decoded(how, |to| wire::message(bytes, to)))?
    })
}

/// The way to the message, and what is behind it. A single zero is short for the first message.
fn path(bytes: &[u8]) -> Step<(Vec<usize>, &[u8])> {
    let mut from = Reading(bytes);
    let count = usize::try_from(from.zigzag()?).map_err(|_| Stop::Wrong)?;
    if count > DEEPEST {
        return Err(Stop::Wrong);
    }
    let mut path = Vec::with_capacity(count.max(1));
    for _ in 0..count {
        path.push(usize::try_from(from.zigzag()?).map_err(|_| Stop::Wrong)?);
    }
    if path.is_empty() {
        path.push(0);
    }
    Ok((path, from.0))
}

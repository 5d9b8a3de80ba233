//! One item of a request: its JSON text becomes the parts of a letter.
//!
//! The text is walked once, which checks its syntax and splits it into raw values; then each known field is read with
//! an error that names it. Unknown fields are refused by name, because a misspelled `ofset` that is silently dropped
//! costs the very thing that makes letters unique. `payload` is kept exactly as it was sent.

use std::ops::Range;

use bytes::Bytes;
use dlo_core::attempt::{AttemptRecord, History};
use dlo_core::id::LetterId;
use dlo_core::letter::Status;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{headers, text};
use crate::admit::{Draft, Refusal};

/// Attempts that may be sent; what is remembered of them is bounded further.
const ATTEMPTS_SENT: usize = 1_000;

macro_rules! fields {
    ($($name:ident),+ $(,)?) => {
        /// The fields of an item as they stand in the text.
        #[derive(Default)]
        struct Fields<'a> { $( $name: Option<&'a RawValue> ),+ }

        /// Every field that is known.
        pub(crate) const KNOWN: &[&str] = &[ $( stringify!($name) ),+ ];

        impl<'a> Fields<'a> {
            fn slot(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
                match name {
                    $( stringify!($name) => Some(&mut self.$name), )+
                    _ => None,
                }
            }
        }
    };
}

fields! {
    source, broker, queue, incarnation, partition, offset, message_id, key, key_base64, headers, content_type, payload,
    payload_base64, event_type, event_version, correlation_id, trace_id, consumer, consumer_id, consumer_version,
    attempts, attempt_history, error_class, error_message, error_code, error_stack, reason, verdict, rule,
    published_at, received_at, first_failed_at, failed_at, replay_id, replay_of, id, status,
}

/// Reads the item that stands at `at` in `slab`. The payload shares the slab's memory.
pub(crate) fn parse(slab: &Bytes, at: Range<usize>) -> Result<Draft, Refusal> {
    let line = slab.get(at).unwrap_or_default();
    let text = std::str::from_utf8(line).map_err(|error| {
        Refusal::new("invalid_utf8", format!("the item is not UTF-8 from byte {}", error.valid_up_to()))
    })?;
    let fields = split(text)?;
    let source = match some(fields.source) {
        Some(raw) => text::string("source", raw)?.into_owned(),
        None => return Err(Refusal::new("missing_field", "`source` is required").field("source")),
    };
    let (payload, is_json) = payload(slab, &fields)?;
    let message = Message { key: key(&fields)?, headers: headers_of(&fields)?, payload };
    let mut draft = Draft::new(source, Origin::queue(BrokerKind::Http, ""), message);
    origin(&mut draft, &fields)?;
    story(&mut draft, &fields)?;
    if draft.content_type.is_none() && is_json {
        draft.content_type = Some("application/json".to_string());
    }
    Ok(draft)
}

/// `null` says the same as leaving a field out.
fn some(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| !text::is_null(raw))
}

fn owned(field: &str, raw: Option<&RawValue>) -> Result<Option<String>, Refusal> {
    some(raw).map(|raw| text::string(field, raw).map(|text| text.into_owned())).transpose()
}

/// The payload, and whether it came as JSON.
fn payload(slab: &Bytes, fields: &Fields<'_>) -> Result<(Payload, bool), Refusal> {
    match (fields.payload, some(fields.payload_base64)) {
        (Some(json), Some(_)) if !text::is_null(json) => {
            let detail = "send either `payload` (any JSON) or `payload_base64` (exact bytes), not both";
            Err(Refusal::new("conflicting_fields", detail).field("payload"))
        }
        (_, Some(encoded)) => Ok((Payload::from(text::base64("payload_base64", encoded)?), false)),
        (Some(json), None) => Ok((Payload(slab.slice_ref(json.get().as_bytes())), true)),
        (None, None) => {
            let detail = "a letter needs its `payload` (any JSON) or `payload_base64` (exact bytes)";
            Err(Refusal::new("missing_field", detail).field("payload"))
        }
    }
}

fn key(fields: &Fields<'_>) -> Result<Option<Payload>, Refusal> {
    match (some(fields.key), some(fields.key_base64)) {
        (Some(_), Some(_)) => {
            Err(Refusal::new("conflicting_fields", "send either `key` or `key_base64`, not both")
                .field("key"))
        }
        (Some(key), None) => Ok(Some(Payload::from(text::string("key", key)?.into_owned()))),
        (None, Some(encoded)) => Ok(Some(Payload::from(text::base64("key_base64", encoded)?))),
        (None, None) => Ok(None),
    }
}

fn headers_of(fields: &Fields<'_>) -> Result<Headers, Refusal> {
    some(fields.headers).map_or_else(|| Ok(Headers::new()), headers::parse)
}

fn origin(draft: &mut Draft, fields: &Fields<'_>) -> Result<(), Refusal> {
    let origin = &mut draft.origin;
    if let Some(raw) = some(fields.broker) {
        origin.broker = text::word("broker", raw)?;
    }
    origin.queue = owned("queue", fields.queue)?
        .filter(|queue| !queue.is_empty())
        .unwrap_or_else(|| draft.source.clone());
    origin.incarnation = owned("incarnation", fields.incarnation)?;
    origin.message_id = owned("message_id", fields.message_id)?.filter(|id| !id.is_empty());
    origin.partition = match some(fields.partition) {
        Some(raw) => Some(at_least_zero("partition", text::number("partition", raw, "0 to 2147483647")?)?),
        None => None,
    };
    origin.offset = match some(fields.offset) {
        Some(raw) => Some(at_least_zero("offset", text::number("offset", raw, "0 to 9223372036854775807")?)?),
        None => None,
    };
    Ok(())
}

fn at_least_zero<T: PartialOrd + Default>(field: &'static str, number: T) -> Result<T, Refusal> {
    if number < T::default() {
        return Err(Refusal::new("out_of_range", format!("`{field}` must not be negative")).field(field));
    }
    Ok(number)
}

/// Who failed, why, and when.
fn story(draft: &mut Draft, fields: &Fields<'_>) -> Result<(), Refusal> {
    draft.content_type = owned("content_type", fields.content_type)?;
    draft.event_type = owned("event_type", fields.event_type)?;
    draft.event_version =
        some(fields.event_version).map(|raw| text::version("event_version", raw)).transpose()?;
    draft.correlation_id = owned("correlation_id", fields.correlation_id)?;
    draft.trace_id = owned("trace_id", fields.trace_id)?;
    draft.consumer = owned("consumer", fields.consumer)?;
    draft.consumer_id = owned("consumer_id", fields.consumer_id)?;
    draft.consumer_version =
        some(fields.consumer_version).map(|raw| text::version("consumer_version", raw)).transpose()?;
    draft.attempts =
        some(fields.attempts).map(|raw| text::number("attempts", raw, "0 to 4294967295")).transpose()?;
    draft.history = history(fields)?;
    draft.error_class = owned("error_class", fields.error_class)?;
    draft.error_message = owned("error_message", fields.error_message)?.unwrap_or_default();
    draft.error_code = some(fields.error_code).map(|raw| text::version("error_code", raw)).transpose()?;
    draft.error_stack = owned("error_stack", fields.error_stack)?;
    draft.reason = some(fields.reason).map(|raw| text::word("reason", raw)).transpose()?;
    draft.verdict = some(fields.verdict).map(|raw| text::word("verdict", raw)).transpose()?;
    draft.rule = owned("rule", fields.rule)?;
    draft.published_at = some(fields.published_at).map(|raw| text::time("published_at", raw)).transpose()?;
    draft.received_at = some(fields.received_at).map(|raw| text::time("received_at", raw)).transpose()?;
    draft.first_failed_at =
        some(fields.first_failed_at).map(|raw| text::time("first_failed_at", raw)).transpose()?;
    draft.failed_at = some(fields.failed_at).map(|raw| text::time("failed_at", raw)).transpose()?;
    draft.replay_id = owned("replay_id", fields.replay_id)?;
    draft.replay_of = letter_id("replay_of", fields.replay_of)?;
    // An exported letter carries its old id. It is checked, so that a mistake is seen, and given anew.
    letter_id("id", fields.id)?;
    draft.status = status(fields)?;
    Ok(())
}

fn letter_id(field: &'static str, raw: Option<&RawValue>) -> Result<Option<LetterId>, Refusal> {
    let Some(text) = owned(field, raw)? else { return Ok(None) };
    let wrong = |_| Refusal::new("bad_id", format!("`{field}` must be a letter's id, a UUID")).field(field);
    text.parse().map(Some).map_err(wrong)
}

/// A letter can come in open, or as discarded by the consumer; every other status is reached here.
fn status(fields: &Fields<'_>) -> Result<Option<Status>, Refusal> {
    let Some(raw) = some(fields.status) else { return Ok(None) };
    match text::word("status", raw)? {
        status @ (Status::Open | Status::Discarded) => Ok(Some(status)),
        other => {
            let detail =
                format!("a letter can be sent in as open or discarded, not as {other}; leave `status` out");
            Err(Refusal::new("bad_status", detail).field("status"))
        }
    }
}

fn history(fields: &Fields<'_>) -> Result<History, Refusal> {
    let Some(raw) = some(fields.attempt_history) else { return Ok(History::default()) };
    let records: Vec<AttemptRecord> = serde_json::from_str(raw.get()).map_err(|error| {
        let detail = format!("`attempt_history` must be a list of {{number, at, error_class, message, verdict, delay_ms}}: {error}");
        Refusal::new("wrong_type", detail).field("attempt_history")
    })?;
    if records.len() > ATTEMPTS_SENT {
        let detail = format!("at most {ATTEMPTS_SENT} attempts are read, found {}", records.len());
        return Err(Refusal::new("too_large", detail).field("attempt_history"));
    }
    let nul = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains('\0'));
    if records.iter().any(|record| nul(&record.message) || nul(&record.error_class)) {
        return Err(Refusal::new("nul_character", "`attempt_history` contains a NUL character")
            .field("attempt_history"));
    }
    Ok(History::from_records(records))
}

/// Splits the text of an object into the raw values of its fields.
fn split(text: &str) -> Result<Fields<'_>, Refusal> {
    if !text.trim_start().starts_with('{') {
        return Err(Refusal::new("malformed_json", "an item must be a JSON object"));
    }
    match serde_json::from_str::<Split<'_>>(text) {
        Ok(Split(fields)) => fields,
        Err(error) => {
            // The parser's own words may quote what it found; the place is enough to find it.
            let place = format!("line {} column {}", error.line(), error.column());
            Err(Refusal::new("malformed_json", format!("the item is not valid JSON at {place}")))
        }
    }
}

/// The fields, or why an object that is valid JSON is no item.
struct Split<'a>(Result<Fields<'a>, Refusal>);

impl<'de> Deserialize<'de> for Split<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Split<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::default();
                let mut refusal = None;
                while let Some(Name(name)) = map.next_key()? {
                    let value: &RawValue = map.next_value()?;
                    match fields.slot(&name) {
                        Some(slot @ None) => *slot = Some(value),
                        Some(Some(_)) => {
                            refusal.get_or_insert_with(|| duplicate(&name));
                        }
                        None => {
                            refusal.get_or_insert_with(|| unknown(&name));
                        }
                    }
                }
                Ok(Split(refusal.map_or(Ok(fields), Err)))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A field's name, borrowed where it has no escapes.
struct Name<'a>(std::borrow::Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a field's name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(name.into()))
            }
            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(name.to_string().into()))
            }
        }
        deserializer.deserialize_str(Read)
    }
}

fn duplicate(name: &str) -> Refusal {
    Refusal::new("duplicate_field", format!("`{name}` stands there twice")).field(name.to_string())
}

fn unknown(name: &str) -> Refusal {
    let shown: String = name.chars().take(64).collect();
    let detail = match near(&shown, KNOWN) {
        Some(known) => format!("unknown field `{shown}`; did you mean `{known}`?"),
        None => format!("unknown field `{shown}`; known are {}", KNOWN.join(", ")),
    };
    Refusal::new("unknown_field", detail).field(shown)
}

/// The known name that was probably meant.
pub(crate) fn near<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    known.iter().copied().filter(|known| distance(known) <= 1 + known.len() / 5).min_by_key(distance)
}

#[cfg(test)]
mod tests;

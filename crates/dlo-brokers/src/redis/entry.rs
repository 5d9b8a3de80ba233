//! Fields of an entry ↔ a message, byte for byte both ways.
//!
//! A Redis entry is a list of names and values; it knows no payload, key or header. What others write is read so: one
//! field is the payload (configured, else the first that is there of [`GUESSES`]), every other field is a header. An
//! entry without such a field becomes a JSON object of its fields, or, where that would change it (repeated names,
//! bytes that are not text), headers and no payload. Facts of the transport remember which it was, so that an entry that
//! is published again has the same fields in the same order; headers that were added stand behind them.
//!
//! What Redis has no place for is written under names that begin with `dlo:`: the key, headers without a value, and, only
//! where headers of others follow an object, the place where headers begin. Fields whose names are ours alone (`dlo-…`,
//! the marks of a replay) are headers in every entry.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dlo_core::envelope::is_reserved;
use dlo_core::message::{Message, Payload, is_transport};
use dlo_core::origin::BrokerKind;

use super::object;

pub(super) type Field = (Bytes, Bytes);

/// Where a payload is looked for, in this order, unless `payload_field` says it.
pub(super) const GUESSES: [&str; 5] = ["payload", "data", "body", "message", "value"];

const KEY: &[u8] = b"dlo:key";
/// A header without a value; the field's value is its name.
const ABSENT: &[u8] = b"dlo:absent";
/// Everything behind it is headers, in an entry without a payload field. Written only before headers of others.
const HEADERS: &[u8] = b"dlo:headers";
const MARK: &[u8] = b"1";
/// Before a header's name that would be read as one of these.
const ESCAPE: &str = "dlo:";

/// The name of a field that cannot be the name of a header, encoded behind this.
const RAW: &str = "redis:field:";
/// What the move to a stream of dead letters adds: facts, not headers. They are not published again.
const FACTS: [&str; 5] = ["redis:stream", "redis:id", "redis:group", "redis:consumer", "redis:deliveries"];

const PAYLOAD_FIELD: &str = "payload-field";
const PAYLOAD_AT: &str = "payload-at";
const LAYOUT: &str = "layout";
const OBJECT: &str = "object";
const BARE: &str = "bare";

/// Reads an entry.
pub(super) fn read(fields: Vec<Field>, configured: Option<&str>) -> Message {
    let mut message = Message::default();
    let Some(at) = payload_at(&fields, configured) else {
        read_without_payload(fields, &mut message);
        return message;
    };
    for (place, (name, value)) in fields.into_iter().enumerate() {
        if place != at {
            read_header(name, value, &mut message);
            continue;
        }
        message.payload = Payload(value);
        if name != configured.unwrap_or(GUESSES[0]).as_bytes() {
            let name = String::from_utf8_lossy(&name).into_owned();
            message.headers.push_transport(BrokerKind::Redis, PAYLOAD_FIELD, name);
        }
        if place != 0 {
            message.headers.push_transport(BrokerKind::Redis, PAYLOAD_AT, place.to_string());
        }
    }
    message
}

fn payload_at(fields: &[Field], configured: Option<&str>) -> Option<usize> {
    let find = |wanted: &str| fields.iter().position(|(name, _)| name == wanted.as_bytes());
    match configured {
        Some(wanted) => find(wanted),
        None => GUESSES.iter().find_map(|wanted| find(wanted)),
    }
}

fn read_without_payload(mut fields: Vec<Field>, message: &mut Message) {
    let end = fields.iter().position(|(name, value)| name == HEADERS && value == MARK);
    let end = end.filter(|end| end + 1 < fields.len()).unwrap_or(fields.len());
    let (added, own): (Vec<&Field>, Vec<&Field>) =
        fields[..end].iter().partition(|(name, _)| is_reserved_field(name));
    let own: Vec<Field> = own.into_iter().cloned().collect();
    let headers = match object::from_fields(&own) {
        Some(json) => {
            message.payload = Payload::from(json);
            message.headers.push_transport(BrokerKind::Redis, LAYOUT, OBJECT);
            let added: Vec<Field> = added.into_iter().cloned().collect();
            added.into_iter().chain(fields.drain(end..).skip(1)).collect()
        }
        None => {
            message.headers.push_transport(BrokerKind::Redis, LAYOUT, BARE);
            fields
        }
    };
    for (name, value) in headers {
        read_header(name, value, message);
    }
}

/// Whether a field can only be ours: a mark of a replay, a story of our runtime, or what Redis has no place for. No field
/// of an application has such a name.
fn is_reserved_field(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let is_escaped = name.starts_with(ESCAPE) && name.as_bytes() != HEADERS;
    is_escaped || is_reserved(name) || FACTS.contains(&name)
}

fn read_header(name: Bytes, value: Bytes, message: &mut Message) {
    // The first key is the key; another one is somebody else's field.
    if name == KEY && message.key.is_none() {
        message.key = Some(Payload(value));
        return;
    }
    if name == ABSENT
        && let Ok(absent) = std::str::from_utf8(&value)
        && !is_transport(absent)
    {
        message.headers.push(absent, None);
        return;
    }
    match std::str::from_utf8(&name) {
        Ok(text) if FACTS.contains(&text) => message.headers.push(text, Some(value)),
        Ok(text) if !is_transport(text) && !text.starts_with(ESCAPE) => {
            message.headers.push(text, Some(value))
        }
        Ok(text) if text.starts_with("dlo:dlo:") => message.headers.push(&text[ESCAPE.len()..], Some(value)),
        Ok(_) | Err(_) => {
            message.headers.push(format!("{RAW}{}", URL_SAFE_NO_PAD.encode(&name)), Some(value));
        }
    }
}

/// Writes an entry. There is always at least one field, as Redis demands.
pub(super) fn write(message: &Message, configured: Option<&str>) -> Vec<Field> {
    let headers = &message.headers;
    let mut fields = Vec::with_capacity(headers.len() + 2);
    match headers.transport(BrokerKind::Redis, LAYOUT) {
        Some(OBJECT) => {
            if let Some(mut fields) = object::to_fields(&message.payload.0) {
                // A repair may have brought a field that is read as something else: then it is written as any message.
                let is_plain = !fields.iter().any(|(name, _)| is_reserved_field(name) || name == HEADERS);
                let mut behind = Vec::new();
                write_headers(message, &mut behind);
                if !behind.iter().all(|(name, _)| is_reserved_field(name)) {
                    fields.push((Bytes::from_static(HEADERS), Bytes::from_static(MARK)));
                }
                fields.append(&mut behind);
                if !fields.is_empty() && is_plain && payload_at(&fields, configured).is_none() {
                    return fields;
                }
            }
        }
        Some(BARE) if message.payload.0.is_empty() => {
            write_headers(message, &mut fields);
            if !fields.is_empty() && payload_at(&fields, configured).is_none() {
                return fields;
            }
            fields.clear();
        }
        Some(_) | None => {}
    }
    write_headers(message, &mut fields);
    insert_payload(message, configured, &mut fields);
    fields
}

fn insert_payload(message: &Message, configured: Option<&str>, fields: &mut Vec<Field>) {
    let headers = &message.headers;
    let usual = configured.unwrap_or(GUESSES[0]);
    let name = headers.transport(BrokerKind::Redis, PAYLOAD_FIELD).unwrap_or(usual);
    let at = headers.transport(BrokerKind::Redis, PAYLOAD_AT).and_then(|at| at.parse::<usize>().ok());
    let field = |name: &str| (Bytes::copy_from_slice(name.as_bytes()), message.payload.0.clone());
    let at = at.unwrap_or(0).min(fields.len());
    fields.insert(at, field(name));
    // A header that came to be since may be read as the payload: then the usual name, in front, is the safe place.
    if payload_at(fields, configured) != Some(at) {
        fields.remove(at);
        fields.insert(0, field(usual));
    }
}

fn write_headers(message: &Message, fields: &mut Vec<Field>) {
    if let Some(key) = &message.key {
        fields.push((Bytes::from_static(KEY), key.0.clone()));
    }
    for header in message.headers.iter() {
        let name = match header.name.strip_prefix(RAW).map(|name| URL_SAFE_NO_PAD.decode(name)) {
            Some(Ok(name)) => Bytes::from(name),
            Some(Err(_)) => continue,
            None if is_transport(&header.name) => continue,
            None if header.value.is_none() => {
                fields.push((Bytes::from_static(ABSENT), Bytes::from(header.name.clone())));
                continue;
            }
            None if header.name.starts_with(ESCAPE) => Bytes::from(format!("{ESCAPE}{}", header.name)),
            None => Bytes::from(header.name.clone()),
        };
        fields.push((name, header.value.clone().unwrap_or_default()));
    }
}

/// Bytes of all names and values.
pub(super) fn size(fields: &[Field]) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use dlo_core::message::Headers;
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            3 => "[a-z]{0,3}".prop_map(String::into_bytes),
            2 => proptest::sample::select(GUESSES.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
            2 => proptest::sample::select(vec![
                "dlo:key", "dlo:absent", "dlo:headers", "dlo:dlo:key", "dlo:x", "kafka:topic", "redis:field:!",
                "redis:layout", "redis:payload-at", "redis:payload-field", "redis:other", "redis:id",
                "dlo-replay-id", "dlo-x", "x-replayed-from-dlq",
            ])
            .prop_map(|name| name.as_bytes().to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..5),
        ]
    }

    fn fields() -> impl Strategy<Value = Vec<Field>> {
        let value = prop_oneof![
            "[a-z\"]{0,4}".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..5)
        ];
        proptest::collection::vec((name(), value).prop_map(|(name, value)| (name.into(), value.into())), 1..7)
    }

    fn messages() -> impl Strategy<Value = Message> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..6);
        let header = (
            prop_oneof![
                "[a-z:-]{0,8}",
                Just("dlo:key".to_owned()),
                Just("payload".to_owned()),
                Just("data".to_owned())
            ],
            proptest::option::of(bytes()),
        );
        (proptest::option::of(bytes()), proptest::collection::vec(header, 0..6), bytes()).prop_map(
            |(key, headers, payload)| {
                let mut message = Message { key: key.map(Payload::from), ..Message::default() };
                message.payload = Payload::from(payload);
                for (name, value) in headers.into_iter().filter(|(name, _)| !is_transport(name)) {
                    message.headers.push(name, value.map(Bytes::from));
                }
                message
            },
        )
    }

    proptest! {
        #[test]
        fn a_message_comes_back_as_it_was(
            message in messages(),
            configured in proptest::option::of(Just("data")),
        ) {
            prop_assert_eq!(read(write(&message, configured), configured), message);
        }

        #[test]
        fn an_entry_of_anybody_is_written_again_with_the_same_fields(
            fields in fields(),
            configured in proptest::option::of(Just("data")),
        ) {
            let mut again = write(&read(fields.clone(), configured), configured);
            let mut fields = fields;
            // The office's own names may move: the key goes to the front of the headers. Nothing may change or get lost.
            // Facts of a move are not carried on, so what is behind them moves to the front.
            let is_fact = |name: &Bytes| FACTS.iter().any(|fact| fact.as_bytes() == name);
            prop_assume!(!fields.iter().any(|(name, _)| is_fact(name)));
            if fields.iter().any(|(name, _)| is_reserved_field(name) || name == HEADERS) {
                fields.sort();
                again.sort();
            }
            prop_assert_eq!(again, fields);
        }

        #[test]
        fn a_message_that_was_read_is_read_the_same_after_headers_were_added(fields in fields()) {
            let mut message = read(fields, None);
            message.headers.push_text("x-replayed-from-dlq", "true");
            let again = read(write(&message, None), None);
            prop_assert_eq!((&again.payload, &again.key), (&message.payload, &message.key));
            prop_assert_eq!(again.headers.last("x-replayed-from-dlq"), message.headers.last("x-replayed-from-dlq"));
        }
    }

    #[test]
    fn marks_of_a_replay_stand_behind_flat_fields_without_a_sign_and_never_pile_up() {
        let flat = || vec![(Bytes::from("order"), Bytes::from("7")), ("sku".into(), "A-1".into())];
        let mut message = read(flat(), None);
        for _ in 0..3 {
            message.headers.remove_where(is_reserved);
            message.headers.push_text("x-replayed-from-dlq", "letter");
            message.headers.push_text("dlo-replay-id", "send");
            let fields = write(&message, None);
            let names: Vec<&[u8]> = fields.iter().map(|(name, _)| &name[..]).collect();
            assert_eq!(names, [&b"order"[..], b"sku", b"x-replayed-from-dlq", b"dlo-replay-id"]);
            message = read(fields, None);
        }
        message.headers.push_text("tenant", "acme");
        let fields = write(&message, None);
        assert!(fields.iter().any(|(name, _)| name == HEADERS), "a header of others needs the sign");
        assert_eq!(read(fields, None), message);
    }

    #[test]
    fn facts_of_a_move_are_not_carried_on() {
        let mut message = Message { payload: "m".into(), ..Message::default() };
        for name in FACTS {
            message.headers.push_text(name, "1");
        }
        assert_eq!(write(&message, None).len(), 1);
        let moved = vec![("payload".into(), "m".into()), ("redis:id".into(), "1-0".into())];
        assert_eq!(read(moved, None).headers.text("redis:id"), Some("1-0"));
    }

    #[test]
    fn a_message_without_anything_still_has_a_field() {
        assert_eq!(write(&Message { headers: Headers::new(), ..Message::default() }, None).len(), 1);
    }
}

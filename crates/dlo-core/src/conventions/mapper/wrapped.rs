//! The message inside a home-made JSON envelope: payload, key and headers, under the names that envelopes use.
//!
//! A text comes out without its quotes, an object as it was written. Base64 is decoded where the envelope says so, where
//! the name of the field says so, and where it decodes to a JSON object or array: Go writes bytes so without a word.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::value::RawValue;

use super::super::added;
use super::super::body::{inside, list, plain};
use super::super::view::View;
use super::builtin;
use super::nested::{Role, Scope, text_of};
use crate::message::{Headers, Message, Payload, is_transport};

const PAYLOADS: &[&str] = &[
    "originalmessage",
    "originalpayload",
    "originalbody",
    "originalvalue",
    "originalevent",
    "originaldata",
    "originalfields",
    "originalentry",
    "messagepayload",
    "messagebody",
    "payload",
    "data",
    "body",
    "value",
    "event",
    "record",
];
/// Only where it is no sentence: `message` may be that of the error.
const MESSAGES: &[&str] = &["message", "content", "original"];
/// Names that say what their text is.
const IN_BASE64: &[&str] = &[
    "payloadbase64",
    "payloadb64",
    "base64payload",
    "valuebase64",
    "valueb64",
    "bodybase64",
    "bodyb64",
    "database64",
    "datab64",
    "messagebase64",
    "originalmessagebase64",
    "originalpayloadbase64",
    "originalvaluebase64",
    "rawbase64",
];
const ENCODINGS: &[&str] = &[
    "payloadencoding",
    "encoding",
    "valueencoding",
    "bodyencoding",
    "dataencoding",
    "messageencoding",
    "originalpayloadencoding",
    "contentencoding",
    "contenttransferencoding",
];
const ENCODED: &[&str] = &[
    "isbase64encoded",
    "isbase64",
    "base64encoded",
    "base64",
    "payloadisbase64",
    "payloadbase64",
    "isbinary",
];
const KEYS: &[&str] = &["originalkey", "messagekey", "recordkey", "key"];
const HEADERS: &[&str] = &["originalheaders", "messageheaders", "recordheaders", "headers"];

/// Either alphabet, with or without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const SAFE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// All names under which envelopes keep the message, folded.
pub(super) fn payload_words() -> impl Iterator<Item = &'static str> {
    PAYLOADS.iter().chain(MESSAGES).chain(IN_BASE64).copied()
}

/// Whether a folded name is one of those under which envelopes keep the message.
pub(super) fn is_payload(word: &str) -> bool {
    PAYLOADS.contains(&word) || MESSAGES.contains(&word) || IN_BASE64.contains(&word)
}

/// Whether a field of the envelope or of an object inside could be the message.
pub(super) fn has_payload(scopes: &[Scope<'_>]) -> bool {
    scopes.iter().any(|scope| payload(scope).is_some())
}

fn payload<'a>(scope: &Scope<'a>) -> Option<(&'a RawValue, bool)> {
    let named = scope.any(IN_BASE64).filter(|raw| raw.get().starts_with('"')).map(|raw| (raw, true));
    let plain = || match scope.role {
        Role::Top | Role::Story | Role::Origin => scope.any(PAYLOADS).map(|raw| (raw, false)),
        Role::Error => None,
    };
    let message = || {
        let found = scope.any(MESSAGES).filter(|_| scope.role != Role::Error)?;
        let is_json = found.get().starts_with(['{', '['])
            || text_of(found).is_some_and(|text| text.trim_ascii_start().starts_with(b"{"));
        is_json.then_some((found, false))
    };
    named.or_else(plain).or_else(message)
}

/// The message in the envelope.
pub(super) fn message(view: &View<'_>, scopes: &[Scope<'_>]) -> Option<Message> {
    let said = |words: &[&str], what: &[u8]| {
        let values = scopes.iter().filter_map(|scope| scope.any(words));
        values.into_iter().any(|raw| plain(raw).eq_ignore_ascii_case(what))
    };
    let in_base64 = said(ENCODINGS, b"base64") || said(ENCODED, b"true");
    let (holder, (raw, named)) = scopes.iter().find_map(|scope| Some((scope, payload(scope)?)))?;
    // A record inside the envelope: its value is the message.
    let record = record(raw);
    let (raw, named, holder) = match &record {
        Some(inner) => {
            let (raw, named) = payload(inner)?;
            (raw, named, inner)
        }
        None => (raw, named, holder),
    };
    let others = || std::iter::once(holder).chain(scopes).filter(|scope| scope.role != Role::Error);
    let find = |words: &[&str]| others().find_map(|scope| scope.any(words));
    let headers = find(HEADERS).and_then(original_headers).filter(is_of_the_message);
    Some(Message {
        payload: if named || in_base64 { bytes(raw, true)? } else { guessed(raw) },
        key: key(find(KEYS), view.message.key.as_ref()),
        headers: match headers {
            Some(headers) => with_facts(headers, &view.message.headers),
            None => view.message.headers.clone(),
        },
    })
}

/// The key of the envelope, unless it is no text or lost bytes on its way into JSON and the record has them.
fn key(told: Option<&RawValue>, carried: Option<&Payload>) -> Option<Payload> {
    let told = told.filter(|raw| !raw.get().starts_with(['{', '['])).map(text);
    let is_whole = |key: &Payload| std::str::from_utf8(&key.0).is_ok_and(|text| !text.contains('\u{fffd}'));
    match carried {
        Some(carried) => told.filter(is_whole).or_else(|| Some(carried.clone())),
        None => told,
    }
}

/// Whether headers of an envelope are those of the message, and not one more place for the story of its failure.
fn is_of_the_message(headers: &Headers) -> bool {
    headers.iter().any(|header| !builtin::tells_of_a_failure(&header.name) && !added::is_word(&header.name))
}

/// Headers of the message inside, with the facts of the transport: those of the dead letter are the best that is known.
fn with_facts(inside: Headers, outside: &Headers) -> Headers {
    let mut headers = Headers(outside.iter().filter(|header| is_transport(&header.name)).cloned().collect());
    headers.0.extend(inside.0);
    headers
}

/// The object that a value is, if it is a record of a broker with a value of its own.
fn record(raw: &RawValue) -> Option<Scope<'_>> {
    const PLACES: &[&str] =
        &["topic", "partition", "offset", "headers", "queue", "stream", "exchange", "routingkey", "subject"];
    const OTHERS: &[&str] = &[
        "key",
        "value",
        "payload",
        "body",
        "data",
        "timestamp",
        "timestamptype",
        "id",
        "messageid",
        "properties",
        "valueencoding",
        "encoding",
        "payloadencoding",
        "isbase64",
        "valuebase64",
        "payloadbase64",
        "keyencoding",
    ];
    let body = inside(raw)?;
    let scope = Scope::new(Role::Origin, &body);
    let is_record = scope.any(PLACES).is_some()
        && scope.any(&["value", "payload", "body", "data", "valuebase64", "payloadbase64"]).is_some()
        && scope.names().all(|name| PLACES.contains(&name) || OTHERS.contains(&name));
    is_record.then_some(scope)
}

pub(super) fn text(raw: &RawValue) -> Payload {
    Payload::from(plain(raw).into_owned())
}

/// A payload as bytes. `None`: it is said to be Base64 and is none.
pub(super) fn bytes(raw: &RawValue, in_base64: bool) -> Option<Payload> {
    match text_of(raw) {
        Some(written) if in_base64 => decoded(&written).map(Payload::from),
        Some(_) | None => Some(text(raw)),
    }
}

/// As [`bytes`] where nothing says that it is Base64: it is, if JSON comes out.
fn guessed(raw: &RawValue) -> Payload {
    let hidden = text_of(raw).and_then(|written| decoded(&written)).filter(|bytes| is_json(bytes));
    hidden.map_or_else(|| text(raw), Payload::from)
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    PLAIN.decode(text).or_else(|_| SAFE.decode(text)).ok()
}

/// Whether bytes are a JSON object or array.
fn is_json(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    matches!(start.first(), Some(b'{' | b'[')) && serde_json::from_slice::<&RawValue>(bytes).is_ok()
}

/// Headers that an envelope keeps: an object of texts, a list of pairs, or a list of objects with name and value.
pub(super) fn original_headers(raw: &RawValue) -> Option<Headers> {
    let mut headers = Headers::new();
    let value = |raw: &RawValue| (raw.get() != "null").then(|| plain(raw).into_owned().into());
    if let Some(object) = inside(raw) {
        for (name, written) in object.fields() {
            headers.push(name, value(written));
        }
        return Some(headers);
    }
    for item in list(raw, MOST_HEADERS)? {
        if let Some(pair) = list(item, 2) {
            let [name, written] = pair[..] else { return None };
            headers.push(name_of(name)?, value(written));
            continue;
        }
        let object = inside(item)?;
        let name = object.field("key").or_else(|| object.field("name"));
        match name {
            Some(name) => headers.push(name_of(name)?, object.field("value").and_then(value)),
            None => object.fields().for_each(|(name, written)| headers.push(name, value(written))),
        }
    }
    Some(headers)
}

/// Headers of a list that are read.
const MOST_HEADERS: usize = 1_000;

fn name_of(raw: &RawValue) -> Option<String> {
    String::from_utf8(text_of(raw)?.into_owned()).ok()
}

//! Headers as message attributes: ten at most, unordered, unique, never empty.
//!
//! What fits stands as plain attributes, for consumers that know nothing of us. What does not (the eleventh, a repeated
//! name, an absent or empty value, a name that SQS forbids) and the order of all stand in one attribute, `dlo-headers`:
//! a JSON list with one item per header, `["name"]` for a value that is the attribute of that name, else
//! `["name","text"]`, `["name",null]` for an absent value, `["name",null,"base64"]` for bytes that are no text.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use dlo_core::message::Header;
use serde_json::Value;

use super::text::{is_attribute_name, is_legal};
pub(super) use crate::folded::KEY;

/// Attributes of one message: the service takes no more.
pub(super) const MOST: usize = 10;
pub(super) const HEADERS: &str = "dlo-headers";
pub(super) const PAYLOAD: &str = "dlo-payload";

/// Headers divided between plain attributes and the packed one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Packed<'a> {
    pub(super) plain: Vec<(&'a str, &'a Bytes)>,
    pub(super) packed: Option<String>,
}

/// Divides `headers`, given how many attributes are taken already.
pub(super) fn pack<'a>(headers: &[&'a Header], taken: usize) -> Packed<'a> {
    let mut plain: Vec<usize> = (0..headers.len()).filter(|&at| can_be_plain(headers, at)).collect();
    let names = || headers.iter().map(|header| header.name.as_str());
    // A reader without the list sees attributes by name: then the list would say nothing.
    if plain.len() == headers.len() && plain.len() + taken <= MOST && names().is_sorted() {
        return Packed {
            plain: plain.into_iter().filter_map(|at| plain_of(headers[at])).collect(),
            packed: None,
        };
    }
    // The application's own come first: our story is ours to unpack.
    plain.sort_by_key(|&at| headers[at].name.starts_with("dlo-"));
    plain.truncate(MOST.saturating_sub(taken + 1));
    let items = headers.iter().enumerate().map(|(at, header)| item(header, plain.contains(&at)));
    let packed = Value::Array(items.collect()).to_string();
    Packed {
        plain: plain.into_iter().filter_map(|at| plain_of(headers[at])).collect(),
        packed: Some(escaped(packed)),
    }
}

fn plain_of(header: &Header) -> Option<(&str, &Bytes)> {
    header.value.as_ref().map(|value| (header.name.as_str(), value))
}

/// Of repeated names the last one may: it is the one that speaks.
fn can_be_plain(headers: &[&Header], at: usize) -> bool {
    let header = headers[at];
    let ours = [HEADERS, KEY, PAYLOAD].contains(&header.name.as_str());
    !ours
        && is_attribute_name(&header.name)
        && header.value.as_ref().is_some_and(|value| !value.is_empty())
        && !headers[at + 1..].iter().any(|later| later.name == header.name)
}

fn item(header: &Header, plain: bool) -> Value {
    let name = Value::from(header.name.as_str());
    let mut item = vec![name];
    match (&header.value, header.text()) {
        _ if plain => {}
        (None, _) => item.push(Value::Null),
        (Some(_), Some(text)) => item.push(Value::from(text)),
        (Some(bytes), None) => item.extend([Value::Null, Value::from(BASE64.encode(bytes))]),
    }
    Value::Array(item)
}

/// JSON may say any character by its number, and must where SQS forbids the character itself.
fn escaped(json: String) -> String {
    if is_legal(&json) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        match character {
            '\u{FFFE}' => escaped.push_str("\\ufffe"),
            '\u{FFFF}' => escaped.push_str("\\uffff"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Puts headers together again. `None` if `packed` is not one of our lists: then it is somebody else's header.
/// Attributes that the list does not name were added on the way; they follow by name.
pub(super) fn unpack(
    mut plain: BTreeMap<String, Option<Bytes>>,
    packed: Option<&str>,
) -> Option<Vec<Header>> {
    let mut headers = Vec::with_capacity(plain.len());
    if let Some(packed) = packed {
        let Ok(Value::Array(items)) = serde_json::from_str::<Value>(packed) else { return None };
        for item in items {
            let Value::Array(parts) = item else { return None };
            let (name, value) = match &parts[..] {
                [Value::String(name)] => match plain.remove(name) {
                    Some(value) => (name, value),
                    None => continue, // taken off on the way
                },
                [Value::String(name), Value::Null] => (name, None),
                [Value::String(name), Value::String(text)] => (name, Some(Bytes::from(text.clone()))),
                [Value::String(name), Value::Null, Value::String(base64)] => {
                    (name, Some(Bytes::from(BASE64.decode(base64).ok()?)))
                }
                _ => return None,
            };
            headers.push(Header { name: name.clone(), value });
        }
    }
    headers.extend(plain.into_iter().map(|(name, value)| Header { name, value }));
    Some(headers)
}

//! Headers as attributes: text by name, unordered, at most a hundred of them, names up to 256 bytes, values up to 1024.
//!
//! What does not fit (bytes, an absent value, a repeated name, a stack trace, a name that is Google's own) travels in
//! further attributes, `dlo-encoded-00` and on: pieces of one JSON list of `[name, value]`, where a value is text,
//! `[base64]` or `null`. All values of a name go the same way, so repeated ones stay in their order. The key is the
//! attribute `dlo-key`. A message of nothing at all gets `dlo-empty`, since the service takes none.

use std::collections::BTreeMap;

use bytes::Bytes;
use dlo_core::broker::PublishError;
use dlo_core::message::{Header, Headers, Payload};

use crate::folded::{KEY, fold, unfold};

const ENCODED: &str = "dlo-encoded-";
const EMPTY: &str = "dlo-empty";
/// Names that begin so are the service's.
const RESERVED: &str = "goog";
/// The service's own bounds.
const MOST: usize = 100;
const LONGEST_NAME: usize = 256;
const LONGEST_VALUE: usize = 1_024;

/// The attributes of a message; `bare` says that it has no payload.
pub(super) fn write(
    headers: &Headers,
    key: Option<&Payload>,
    bare: bool,
) -> Result<BTreeMap<String, String>, PublishError> {
    let key = key.map(|key| Header { name: KEY.to_owned(), value: Some(key.0.clone()) });
    let all: Vec<&Header> = headers.on_wire().filter(|header| !is_ours(&header.name)).chain(&key).collect();
    let mut attributes = lay_out(&all, false);
    if attributes.len() > MOST {
        attributes = lay_out(&all, true);
    }
    if attributes.len() > MOST {
        return Err(PublishError::Refused(format!(
            "its headers have {} bytes: more than the {MOST} attributes of {LONGEST_VALUE} bytes that Pub/Sub takes; make \
             them shorter",
            headers.size()
        )));
    }
    if bare && attributes.is_empty() {
        attributes.insert(EMPTY.to_owned(), "1".to_owned());
    }
    Ok(attributes)
}

fn lay_out(all: &[&Header], all_encoded: bool) -> BTreeMap<String, String> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for header in all {
        *names.entry(&header.name).or_default() += 1;
    }
    let mut attributes = BTreeMap::new();
    let mut folded: Vec<&Header> = Vec::new();
    for header in all {
        match plain(header) {
            Some(text) if !all_encoded && names.get(header.name.as_str()) == Some(&1) => {
                attributes.insert(header.name.clone(), text.to_owned());
            }
            Some(_) | None => folded.push(header),
        }
    }
    if !folded.is_empty() {
        let list = fold(folded);
        let pieces = pieces(&list).into_iter().enumerate();
        attributes.extend(pieces.map(|(at, piece)| (format!("{ENCODED}{at:02}"), piece.to_owned())));
    }
    attributes
}

/// The value, if name and value may stand as they are.
fn plain(header: &Header) -> Option<&str> {
    let named = (1..=LONGEST_NAME).contains(&header.name.len()) && !header.name.starts_with(RESERVED);
    header.text().filter(|text| named && text.len() <= LONGEST_VALUE)
}

/// Cuts text between characters into pieces of legal length.
fn pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(LONGEST_VALUE));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn is_ours(name: &str) -> bool {
    name == KEY || name == EMPTY || is_piece(name)
}

fn is_piece(name: &str) -> bool {
    name.strip_prefix(ENCODED)
        .is_some_and(|at| (2..=3).contains(&at.len()) && at.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Headers, by name, and key. Somebody else's attributes under our names are taken as they came.
pub(super) fn read(mut attributes: BTreeMap<String, String>) -> (Headers, Option<Payload>) {
    attributes.remove(EMPTY);
    let list: String =
        attributes.iter().filter(|(name, _)| is_piece(name)).map(|(_, piece)| piece.as_str()).collect();
    let hidden = unfold(&list);
    if hidden.is_some() {
        attributes.retain(|name, _| !is_piece(name));
    }
    let mut headers: Vec<Header> = attributes
        .into_iter()
        .map(|(name, value)| Header { name, value: Some(Bytes::from(value)) })
        .chain(hidden.unwrap_or_default())
        .collect();
    headers.sort_by(|one, other| one.name.cmp(&other.name));
    let key = headers.iter().position(|header| header.name == KEY);
    let key = key.and_then(|at| headers.remove(at).value).map(Payload);
    (Headers(headers), key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(headers: &Headers) -> Headers {
        let mut headers = headers.clone();
        headers.0.sort_by(|one, other| one.name.cmp(&other.name));
        headers
    }

    #[test]
    fn a_long_stack_trace_travels_whole_and_what_fits_stays_plain() {
        let mut headers = Headers::new();
        headers.push_text("tenant", "acme");
        headers.push_text("dlo-error-stack", "at Ünicode\n".repeat(700));
        headers.push_text("google-thing", "x");
        let wire = write(&headers, None, false).unwrap();
        assert_eq!(wire.get("tenant").map(String::as_str), Some("acme"));
        assert!(wire.values().all(|value| value.len() <= LONGEST_VALUE) && wire.len() > 5);
        assert!(wire.keys().all(|name| !name.starts_with(RESERVED)));
        assert_eq!(read(wire), (sorted(&headers), None));
    }

    #[test]
    fn many_headers_are_folded_and_too_much_is_refused() {
        let mut headers = Headers::new();
        for n in 0..300 {
            headers.push_text(format!("h{n}"), "value");
        }
        assert_eq!(read(write(&headers, None, false).unwrap()).0, sorted(&headers));
        headers.push_text("huge", "x".repeat(MOST * LONGEST_VALUE));
        assert!(matches!(write(&headers, None, false), Err(PublishError::Refused(_))));
    }

    proptest! {
        #[test]
        fn every_header_and_key_comes_back(
            headers in prop::collection::vec(("[ -~]{0,12}|goog[a-z]|\\PC{0,4}", prop::option::of(prop::collection::vec(any::<u8>(), 0..20))), 0..8),
            key in prop::option::of(prop::collection::vec(any::<u8>(), 0..2_000)),
        ) {
            let mut all = Headers::new();
            for (name, value) in headers {
                if !is_ours(&name) && !dlo_core::message::is_transport(&name) {
                    all.push(name, value.map(Bytes::from));
                }
            }
            let key = key.map(|key| Payload(key.into()));
            let wire = write(&all, key.as_ref(), true).unwrap();
            prop_assert!(!wire.is_empty());
            prop_assert_eq!(read(wire), (sorted(&all), key));
        }

        #[test]
        fn no_attributes_stop_a_reader(pieces in prop::collection::btree_map("dlo-encoded-0[0-3]|dlo-key|dlo-empty|a", "[\\[\\]\",a-z]{0,20}", 0..6)) {
            let _ = read(pieces);
        }
    }
}

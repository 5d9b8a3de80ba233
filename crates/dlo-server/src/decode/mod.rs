//! Payloads for reading: JSON, text, MessagePack, CBOR, Avro and Protocol Buffers, each by a decoder that is bounded.
//!
//! What a payload is, its producer may have said; otherwise its bytes are asked, most certain first, and the answer says that
//! it was guessed. Nothing here fails: what is not understood is shown as hex.

mod avro;
mod cbor;
mod formats;
mod framing;
mod msgpack;
mod proto;
mod reading;
#[cfg(test)]
mod tests;
mod wire;
mod writing;

pub use formats::{BadFormat, Format, Formats};

use crate::ui::show::Shown as Plain;
use formats::Kind;
use reading::{Reading, Step, Stop};
use writing::Writing;

/// Bytes of a payload that are laid out; more is behind the download.
const MOST: usize = 64 * 1024;
/// Bytes of text that come of it.
const TEXT: usize = 256 * 1024;

/// What is known of a payload beside its bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hint {
    pub(crate) content_type: Option<String>,
    pub(crate) source: String,
    pub(crate) event_type: Option<String>,
}

/// A payload as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) how: String,
    pub(crate) text: String,
    /// Not everything is shown.
    pub(crate) cut: bool,
    /// A decoder wrote it, with numbers that no text in the bytes spells.
    pub(crate) decoded: bool,
}

pub(crate) fn show(bytes: &[u8], hint: &Hint, formats: &Formats) -> Shown {
    let format = formats.get(&hint.source, hint.event_type.as_deref());
    said(bytes, hint)
        .or_else(|| format.and_then(|format| framing::read(bytes, hint, format)))
        .or_else(|| guessed(bytes, format))
        .unwrap_or_else(|| plain(bytes))
}

fn plain(bytes: &[u8]) -> Shown {
    let Plain { how, text, cut } = Plain::of(bytes, MOST);
    let how = match framing::schema_id(bytes) {
        Some(id) => format!(
            "{how}; it begins as Confluent frames Avro and Protobuf, with schema {id}: name that schema under `schema` of its source to have it read"
        ),
        None => how.to_string(),
    };
    Shown { how, text, cut, decoded: false }
}

/// What the producer says that it is, if it is so.
fn said(bytes: &[u8], hint: &Hint) -> Option<Shown> {
    let kind = hint.content_type.as_deref()?.to_ascii_lowercase();
    if kind.contains("msgpack") || kind.contains("messagepack") {
        return decoded("MessagePack", |to| whole(bytes, to, msgpack::value));
    }
    if kind.contains("cbor") {
        return decoded("CBOR", |to| whole(bytes, to, cbor::value));
    }
    None
}

/// By its bytes alone. What is text is never guessed to be anything else.
fn guessed(bytes: &[u8], format: Option<&Kind>) -> Option<Shown> {
    if bytes.is_empty() || std::str::from_utf8(bytes).is_ok_and(is_plain) {
        return None;
    }
    if msgpack::begins(bytes)
        && let Some(shown) =
            decoded("MessagePack, guessed from its bytes", |to| whole(bytes, to, msgpack::value))
    {
        return Some(shown);
    }
    if cbor::begins(bytes)
        && let Some(shown) = decoded("CBOR, guessed from its bytes", |to| whole(bytes, to, cbor::value))
    {
        return Some(shown);
    }
    // A schema that is at hand and did not fit says that it is something else.
    if format.is_some() {
        return None;
    }
    framing::fields(bytes)
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// One value, and nothing behind it.
fn whole(bytes: &[u8], to: &mut Writing, value: impl Fn(&mut Reading<'_>, &mut Writing) -> Step) -> Step {
    let mut from = Reading(bytes);
    value(&mut from, to)?;
    if from.is_empty() { Ok(()) } else { Err(Stop::Wrong) }
}

/// What a decoder makes of it; `None`: it is not of that format.
fn decoded(how: impl Into<String>, read: impl FnOnce(&mut Writing) -> Step) -> Option<Shown> {
    let mut to = Writing::new(TEXT);
    let cut = match read(&mut to) {
        Ok(()) => false,
        Err(Stop::Full) => true,
        Err(Stop::Wrong) => return None,
    };
    Some(Shown { how: how.into(), text: to.into_text(), cut, decoded: true })
}

//! The payload for reading: decoded, raw or hex, a part at a time. Looking at it is audited before it is shown.
//!
//! What is sensitive is hidden first, over the whole payload, so that no part shows what the whole would not.

use std::sync::Arc;

use axum::http::StatusCode;
use bytes::Bytes;
use dlo_core::letter::Letter;
use dlo_store::StoredPayload;
use serde::Deserialize;

use crate::api::error::{Answer, Problem};
use crate::decode::{self, Formats, Hint};
use crate::mask::Mask;
use crate::office::Office;
use crate::query_text::Author;
use crate::ui::words::number;
use crate::ui::{indent, show};

/// Bytes of a part that is shown raw, and of one that is shown as hex.
const RAW: usize = 64 * 1024;
const HEX: usize = 16 * 1024;
/// Bytes of text that can be edited in the browser.
const EDITED: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum View {
    #[default]
    Pretty,
    Raw,
    Hex,
}

impl View {
    const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::Pretty, "pretty", "Pretty"), (Self::Raw, "raw", "Raw"), (Self::Hex, "hex", "Hex")];
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) view: View,
    /// The first byte.
    pub(super) from: u64,
}

/// The payload that a replay sends instead of the captured one.
pub(super) struct Active {
    pub(super) payload: Bytes,
    pub(super) may_hold_masked: bool,
}

pub(super) struct Body {
    /// Code, title, and whether it is the one that is shown.
    pub(super) views: Vec<(&'static str, &'static str, bool)>,
    pub(super) view: &'static str,
    pub(super) how: String,
    pub(super) text: String,
    /// Not everything is shown.
    pub(super) cut: bool,
    /// Which bytes these are, of how many.
    pub(super) part: Option<String>,
    pub(super) next: Option<usize>,
    pub(super) before: Option<usize>,
    /// Something in it is hidden.
    pub(super) masked: bool,
    /// Behind the download are the bytes as they were captured.
    pub(super) exact: bool,
    /// The whole text where it can be edited here, or why it cannot.
    pub(super) editable: Result<String, &'static str>,
}

pub(super) async fn read(
    office: &Arc<Office>,
    letter: &Letter,
    author: &Author,
    wanted: Wanted,
    repaired: Option<Active>,
) -> Answer<Body> {
    let looks = author.clone().looks();
    let mut payload = office.store.payload(letter.id, Some((&looks, office.now()))).await?;
    let whole = payload.bytes.clone();
    let office = Arc::clone(office);
    let hint = Hint {
        content_type: letter.content_type.clone(),
        source: letter.source.clone(),
        event_type: letter.event_type.clone(),
    };
    // Payloads may be large: laying them out has a thread of its own.
    let read = tokio::task::spawn_blocking(move || {
        office.mask.payload(&mut payload);
        let masked = payload.bytes != whole;
        let mut body = lay_out(&payload.bytes, masked, &office.mask, &hint, &office.config.formats, wanted);
        if let Some(repaired) = repaired {
            let Active { payload: repaired, may_hold_masked } = repaired;
            let mut shown = StoredPayload { bytes: repaired.clone(), content_type: payload.content_type };
            office.mask.payload(&mut shown);
            body.editable = editable(&repaired, body.masked || may_hold_masked || shown.bytes != repaired);
        }
        body
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    read.await.map_err(failed)
}

/// Some bytes as text.
struct Part {
    how: String,
    text: String,
    cut: bool,
    /// Bytes of a part; `None`: this view has no parts.
    size: Option<usize>,
}

fn lay_out(
    bytes: &[u8],
    mut masked: bool,
    mask: &Mask,
    hint: &Hint,
    formats: &Formats,
    wanted: Wanted,
) -> Body {
    let from = usize::try_from(wanted.from).unwrap_or(usize::MAX).min(bytes.len());
    let exact = !masked;
    let until = |size: usize| bytes.len().min(from.saturating_add(size));
    let Part { how, text, cut, size } = match wanted.view {
        View::Pretty => {
            let mut shown = decode::show(bytes, hint, formats);
            // The bytes were masked as text; what a decoder makes of the rest, such as the number of a card, was none.
            masked |= shown.decoded && mask.text(&mut shown.text);
            Part { how: shown.how, text: shown.text, cut: shown.cut, size: None }
        }
        View::Raw => raw(bytes, &bytes[from..until(RAW)]),
        View::Hex => {
            let part = &bytes[from..until(HEX)];
            let cut = part.len() < bytes.len();
            Part { how: "bytes, as hex".to_string(), text: show::hex(part, from), cut, size: Some(HEX) }
        }
    };
    let told = |size| format!("bytes {} to {} of {}", at(from), at(until(size)), at(bytes.len()));
    let view = View::ALL.iter().find(|(view, ..)| *view == wanted.view);
    Body {
        views: View::ALL.iter().map(|(view, code, title)| (*code, *title, *view == wanted.view)).collect(),
        view: view.map_or("pretty", |(_, code, _)| code),
        how,
        text,
        cut,
        part: size.filter(|_| cut).map(told),
        next: size.map(until).filter(|next| *next < bytes.len()),
        before: size.filter(|_| from > 0).map(|size| from.saturating_sub(size)),
        masked,
        exact,
        editable: editable(bytes, masked),
    }
}

fn at(byte: usize) -> String {
    number(byte as u64)
}

fn raw(bytes: &[u8], part: &[u8]) -> Part {
    let how = if std::str::from_utf8(bytes).is_ok() {
        "text, as it is"
    } else {
        "bytes read as text; what is no text stands as \u{fffd}"
    };
    let text = String::from_utf8_lossy(part).into_owned();
    Part { how: how.to_string(), text, cut: part.len() < bytes.len(), size: Some(RAW) }
}

/// JSON is edited as it is read, one field a line; white space is all that changes by it.
fn laid_out(text: &str) -> String {
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(json) => indent::json(json.get()),
        Err(_) => text.to_string(),
    }
}

/// A payload of which the browser has less than all must not be sent back as the whole.
fn editable(bytes: &[u8], masked: bool) -> Result<String, &'static str> {
    if masked {
        return Err(
            "Some of it is hidden from you, and would be lost if it were sent back. Use an expression: it works on the original.",
        );
    }
    if bytes.len() > EDITED {
        return Err(
            "It is too large to be edited here. Download it, edit it, and use dlo repair apply --payload.",
        );
    }
    match std::str::from_utf8(bytes) {
        // A browser makes one character of every end of a line.
        Ok(text) if !text.contains(['\r', '\0']) => Ok(laid_out(text)),
        _ => Err(
            "It is not plain text, so a browser would change bytes that nobody edited. Use dlo repair apply --payload.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], view: View, from: u64) -> Body {
        let (mask, hint, formats) = (Mask::default(), Hint::default(), Formats::default());
        lay_out(bytes, false, &mask, &hint, &formats, Wanted { view, from })
    }

    #[test]
    fn a_large_payload_is_read_part_by_part_and_no_byte_is_left_out() {
        let bytes: Vec<u8> = (0..RAW * 2 + 10).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
        let (mut whole, mut from) = (String::new(), Some(0));
        while let Some(at) = from {
            let body = shown(&bytes, View::Raw, at as u64);
            assert!(body.cut);
            whole.push_str(&body.text);
            from = body.next;
        }
        assert_eq!(whole.as_bytes(), bytes);
        let body = shown(&bytes, View::Hex, 32);
        assert!(body.text.starts_with("00000020 ") && body.before == Some(0), "{}", &body.text[..40]);
        let past = shown(b"abc", View::Hex, u64::MAX);
        assert_eq!((past.text.as_str(), past.next), ("", None));
    }

    #[test]
    fn only_what_comes_back_unchanged_can_be_edited() {
        assert_eq!(editable(b"{\"a\":1.10}", false), Ok("{\n  \"a\": 1.10\n}".to_string()));
        assert_eq!(editable(b"{\"a\":", false), Ok("{\"a\":".to_string()));
        for (bytes, masked) in
            [(&b"{}"[..], true), (b"a\r\nb", false), (b"\xff", false), (&[b'a'; EDITED + 1], false)]
        {
            assert!(editable(bytes, masked).is_err());
        }
    }
}

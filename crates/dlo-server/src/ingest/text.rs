//! Single JSON values of an item, read with an error that names the field.
//!
//! An item is split into raw values first, which checks its syntax; here each becomes a typed value. Most texts
//! have no escapes and are taken as they stand.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dlo_core::time::Timestamp;
use serde_json::value::RawValue;

use crate::admit::Refusal;

pub(crate) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// What kind of value stands there, for error texts.
fn kind(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'"') => "a string",
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

pub(crate) fn wrong_type(field: &str, expected: &str, raw: &RawValue) -> Refusal {
    let detail = format!("`{field}` must be {expected}, found {}", kind(raw));
    Refusal::new("wrong_type", detail).field(field.to_string())
}

/// A JSON string.
pub(crate) fn string<'a>(field: &str, raw: &'a RawValue) -> Result<Cow<'a, str>, Refusal> {
    let text = raw.get();
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Err(wrong_type(field, "a string", raw));
    };
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(text).map(Cow::Owned).map_err(|_| {
        let detail = format!("`{field}` has an escape that is no character (half of a surrogate pair)");
        Refusal::new("bad_escape", detail).field(field.to_string())
    })
}

/// A number that fits `T`, whose range the error text names.
pub(crate) fn number<T: std::str::FromStr>(field: &str, raw: &RawValue, range: &str) -> Result<T, Refusal> {
    if kind(raw) != "a number" {
        return Err(wrong_type(field, "a number", raw));
    }
    raw.get().parse().map_err(|_| {
        let detail = format!("`{field}` must be a whole number, {range}");
        Refusal::new("out_of_range", detail).field(field.to_string())
    })
}

/// An RFC 3339 time.
pub(crate) fn time(field: &str, raw: &RawValue) -> Result<Timestamp, Refusal> {
    let text = match kind(raw) {
        "a string" => string(field, raw)?,
        _ => return Err(wrong_type(field, "a time as text, such as \"2026-11-01T12:30:00Z\"", raw)),
    };
    Timestamp::parse(&text)
        .map_err(|bad| Refusal::new("bad_time", format!("`{field}`: {bad}")).field(field.to_string()))
}

/// A word of a closed vocabulary.
pub(crate) fn word<T>(field: &str, raw: &RawValue) -> Result<T, Refusal>
where
    T: std::str::FromStr<Err = dlo_core::UnknownCode>,
{
    string(field, raw)?.parse().map_err(|unknown: dlo_core::UnknownCode| {
        Refusal::new("unknown_word", format!("`{field}`: {unknown}")).field(field.to_string())
    })
}

/// Standard base64 with padding.
pub(crate) fn base64(field: &str, raw: &RawValue) -> Result<Vec<u8>, Refusal> {
    let text = string(field, raw)?;
    STANDARD.decode(text.as_bytes()).map_err(|_| {
        let detail = format!("`{field}` is not standard base64 with padding");
        Refusal::new("bad_base64", detail).field(field.to_string())
    })
}

/// A version: a text, or a number as people write it.
pub(crate) fn version(field: &str, raw: &RawValue) -> Result<String, Refusal> {
    match kind(raw) {
        "a number" => Ok(raw.get().to_string()),
        "a string" => string(field, raw).map(Cow::into_owned),
        _ => Err(wrong_type(field, "a number or a string", raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn text_without_escapes_is_not_copied() {
        assert!(matches!(string("x", raw(r#""plain""#)), Ok(Cow::Borrowed("plain"))));
        assert_eq!(string("x", raw(r#""a\n\u00e9""#)).unwrap(), "a\né");
        assert_eq!(string("x", raw(r#""\ud800""#)).unwrap_err().code, "bad_escape");
    }

    #[test]
    fn a_wrong_type_says_what_was_expected_and_found() {
        let refusal = string("source", raw("17")).unwrap_err();
        assert_eq!(refusal.detail, "`source` must be a string, found a number");
        assert_eq!(number::<u32>("attempts", raw("-1"), "zero or more").unwrap_err().code, "out_of_range");
        assert_eq!(number::<u32>("attempts", raw("1.5"), "zero or more").unwrap_err().code, "out_of_range");
        assert_eq!(number::<u32>("attempts", raw("\"3\""), "zero or more").unwrap_err().code, "wrong_type");
        assert_eq!(time("failed_at", raw("1700000000")).unwrap_err().code, "wrong_type");
        assert_eq!(time("failed_at", raw("\"yesterday\"")).unwrap_err().code, "bad_time");
    }
}

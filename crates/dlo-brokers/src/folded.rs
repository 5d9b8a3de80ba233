//! Headers that a transport cannot carry as they are, folded into JSON: a list of `[name, value]`, where a value is text,
//! `[base64]` for bytes that are no text, or `null` where it is absent. Which headers are folded, and where the
//! list travels, each adapter decides.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dlo_core::message::Header;
use serde_json::Value;

/// The header in which the key of a message travels where the transport knows no keys.
pub(crate) const KEY: &str = "dlo-key";

/// The list.
pub(crate) fn fold<'a>(headers: impl IntoIterator<Item = &'a Header>) -> String {
    Value::Array(headers.into_iter().map(encode).collect()).to_string()
}

/// What a list holds; `None` if it is not one of ours.
pub(crate) fn unfold(list: &str) -> Option<Vec<Header>> {
    let list: Vec<Value> = serde_json::from_str(list).ok()?;
    list.iter().map(decode).collect()
}

fn encode(header: &Header) -> Value {
    let value = match (&header.value, header.text()) {
        (None, _) => Value::Null,
        (Some(_), Some(text)) => Value::from(text),
        (Some(bytes), None) => Value::from(vec![STANDARD.encode(bytes)]),
    };
    Value::from(vec![Value::from(header.name.as_str()), value])
}

fn decode(entry: &Value) -> Option<Header> {
    let [Value::String(name), value] = entry.as_array()?.as_slice() else { return None };
    let value = match value {
        Value::Null => None,
        Value::String(text) => Some(Bytes::from(text.clone())),
        Value::Array(one) => match one.as_slice() {
            [Value::String(bytes)] => Some(STANDARD.decode(bytes).ok()?.into()),
            _ => return None,
        },
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    Some(Header { name: name.clone(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_comes_back_and_other_json_is_not_ours() {
        let values = [None, Some(&b""[..]), Some(b"text"), Some(b"\x00\xff")];
        let header = |value: Option<&'static [u8]>| Header {
            name: "h".to_owned(),
            value: value.map(Bytes::from_static),
        };
        let headers: Vec<Header> = values.into_iter().map(header).collect();
        assert_eq!(unfold(&fold(&headers)), Some(headers));
        for other in ["", "{}", "[1]", r#"[["h",1]]"#, r#"[["h",["no base64!"]]]"#, r#"[["h"]]"#] {
            assert_eq!(unfold(other), None, "{other}");
        }
    }
}

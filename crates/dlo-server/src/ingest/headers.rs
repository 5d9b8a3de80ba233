//! Headers of an item in the shapes that are taken: a list of pairs, a list of objects, or one object.
//!
//! A list keeps order and repetition. An absent value is `null`; bytes that are no text come as `value_base64`.

use bytes::Bytes;
use dlo_core::limits;
use dlo_core::message::Headers;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::text;
use crate::admit::Refusal;

/// The headers of an item, bounded while they are read.
pub(crate) fn parse(raw: &RawValue) -> Result<Headers, Refusal> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'[') => list(text),
        Some(b'{') => object(text),
        _ => Err(text::wrong_type("headers", "a list of [name, value] pairs, or an object", raw)),
    }
}

fn list(text: &str) -> Result<Headers, Refusal> {
    let List(items) = serde_json::from_str(text).map_err(|_| too_many())?;
    let mut headers = Headers(Vec::with_capacity(items.len()));
    for (at, item) in items.into_iter().enumerate() {
        let field = format!("headers[{at}]");
        match item.get().as_bytes().first() {
            Some(b'[') => pair(&field, item, &mut headers)?,
            Some(b'{') => named(&field, item, &mut headers)?,
            _ => return Err(text::wrong_type(&field, "a [name, value] pair", item)),
        }
    }
    Ok(headers)
}

/// `["name", "value"]` or `["name", null]`.
fn pair(field: &str, item: &RawValue, headers: &mut Headers) -> Result<(), Refusal> {
    let List(parts) = serde_json::from_str(item.get()).map_err(|_| too_many())?;
    let [name, value] = parts[..] else {
        return Err(text::wrong_type(field, "a pair of name and value", item));
    };
    let name = text::string(field, name)?;
    push(field, &name, text_value(field, value)?, headers)
}

/// `{"name": "…", "value": "…"}` or `{"name": "…", "value_base64": "…"}`.
fn named(field: &str, item: &RawValue, headers: &mut Headers) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named<'a> {
        #[serde(borrow)]
        name: &'a RawValue,
        #[serde(borrow)]
        value: Option<&'a RawValue>,
        #[serde(borrow)]
        value_base64: Option<&'a RawValue>,
    }
    let wrong = || text::wrong_type(field, "{\"name\", \"value\" or \"value_base64\"}", item);
    let named: Named<'_> = serde_json::from_str(item.get()).map_err(|_| wrong())?;
    let name = text::string(field, named.name)?;
    let value = match (named.value, named.value_base64) {
        (Some(_), Some(_)) => return Err(wrong()),
        (Some(value), None) => text_value(field, value)?,
        (None, Some(value)) => Some(Bytes::from(text::base64(field, value)?)),
        (None, None) => None,
    };
    push(field, &name, value, headers)
}

fn object(text: &str) -> Result<Headers, Refusal> {
    let Entries(entries) = serde_json::from_str(text).map_err(|_| too_many())?;
    let mut headers = Headers(Vec::with_capacity(entries.len()));
    for (name, value) in entries {
        let field = "headers";
        let value = text_value(field, value)?;
        push(field, &name, value, &mut headers)?;
    }
    Ok(headers)
}

fn text_value(field: &str, value: &RawValue) -> Result<Option<Bytes>, Refusal> {
    if text::is_null(value) {
        return Ok(None);
    }
    Ok(Some(Bytes::from(text::string(field, value)?.into_owned())))
}

fn push(field: &str, name: &str, value: Option<Bytes>, headers: &mut Headers) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > limits::ID || name.contains('\0') {
        let detail = format!("a header's name has 1 to {} bytes and no NUL character", limits::ID);
        return Err(Refusal::new("bad_header_name", detail).field(field.to_string()));
    }
    headers.push(name, value);
    Ok(())
}

fn too_many() -> Refusal {
    let detail = format!("at most {} headers are kept, each a name and a value", limits::HEADERS);
    Refusal::new("too_large", detail).field("headers")
}

/// A list that stops being read when it is longer than headers may be: a bomb costs nothing but its bytes.
struct List<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for List<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = List<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() == limits::HEADERS {
                        return Err(serde::de::Error::custom("too many"));
                    }
                    items.push(item);
                }
                Ok(List(items))
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if entries.len() == limits::HEADERS {
                        return Err(serde::de::Error::custom("too many"));
                    }
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> Result<Headers, Refusal> {
        parse(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn everything_a_broker_can_carry_can_be_sent() {
        let headers = parsed(
            r#"[["x-tenant","acme"],["x-tenant","again"],["absent",null],{"name":"raw","value_base64":"AP8="},{"name":"t","value":"v"}]"#,
        )
        .unwrap();
        let got: Vec<_> = headers.iter().map(|h| (h.name.as_str(), h.value.as_deref())).collect();
        let expected: Vec<(&str, Option<&[u8]>)> = vec![
            ("x-tenant", Some(b"acme")),
            ("x-tenant", Some(b"again")),
            ("absent", None),
            ("raw", Some(&[0, 255])),
            ("t", Some(b"v")),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn an_object_is_taken_too() {
        let headers = parsed(r#"{"x-tenant":"acme","absent":null}"#).unwrap();
        assert_eq!((headers.len(), headers.text("x-tenant")), (2, Some("acme")));
    }

    #[test]
    fn what_is_no_header_is_refused_by_its_place() {
        for (json, field) in [
            (r#"[["a","b"],["only"]]"#, "headers[1]"),
            (r#"[["a",1]]"#, "headers[0]"),
            (r#"[["","b"]]"#, "headers[0]"),
            (r#"["a"]"#, "headers[0]"),
            (r#"[{"name":"a","value":"b","value_base64":"AA=="}]"#, "headers[0]"),
            (r#"[{"nam":"a"}]"#, "headers[0]"),
            (r#"{"a":1}"#, "headers"),
            (r#""text""#, "headers"),
        ] {
            assert_eq!(parsed(json).unwrap_err().field.as_deref(), Some(field), "{json}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_read_whole() {
        let bomb = format!("[{}[\"a\",\"b\"]]", "[\"a\",\"b\"],".repeat(100_000));
        assert_eq!(parsed(&bomb).unwrap_err().code, "too_large");
        let names: String = (0..10_000).map(|n| format!("\"h{n}\":\"x\",")).collect();
        assert_eq!(parsed(&format!("{{{names}\"z\":\"x\"}}")).unwrap_err().code, "too_large");
    }
}

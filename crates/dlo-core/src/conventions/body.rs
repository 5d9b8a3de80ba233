//! A payload that is a JSON object, opened one level at a time: names are read, values stay as they stand until asked for.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Payloads longer than this are not opened: what wraps a letter is far smaller, and time is bounded.
pub(super) const SIZE: usize = 1024 * 1024;
/// Fields of one object; what has more is no envelope.
const FIELDS: usize = 256;
/// Steps of a dotted path.
const STEPS: usize = 8;

/// The fields of one JSON object, in their order.
#[derive(Debug)]
pub(super) struct Body<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Body<'a> {
    /// Opens a JSON object; anything else is `None`.
    pub(super) fn open(bytes: &'a [u8]) -> Option<Self> {
        let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace())?;
        (bytes[start] == b'{' && bytes.len() <= SIZE).then(|| serde_json::from_slice(bytes).ok())?
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// A field, if it is there and not `null`.
    pub(super) fn field(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().find(|(field, _)| field == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// The value at a dotted path. A name that has dots itself is found as it is.
    pub(super) fn at(&self, path: &str) -> Option<&'a RawValue> {
        self.walk(path, STEPS)
    }

    fn walk(&self, path: &str, steps: usize) -> Option<&'a RawValue> {
        if let Some(value) = self.field(path) {
            return Some(value);
        }
        let (head, rest) = path.split_once('.')?;
        inside(self.field(head)?)?.walk(rest, steps.checked_sub(1)?)
    }
}

/// The object that a value is.
pub(super) fn inside(value: &RawValue) -> Option<Body<'_>> {
    Body::open(value.get().as_bytes())
}

/// The list that a value is, at most `max` of it.
pub(super) fn list(value: &RawValue, max: usize) -> Option<Vec<&RawValue>> {
    let mut items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    items.truncate(max);
    Some(items)
}

/// A value as bytes to be read: a text without its quotes and escapes, anything else as it stands.
pub(super) fn plain(value: &RawValue) -> Cow<'_, [u8]> {
    let raw = value.get();
    if !raw.starts_with('"') {
        return Cow::Borrowed(raw.as_bytes());
    }
    let inner = raw.get(1..raw.len() - 1).unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner.as_bytes());
    }
    match serde_json::from_str::<String>(raw) {
        Ok(text) => Cow::Owned(text.into_bytes()),
        Err(_) => Cow::Borrowed(raw.as_bytes()),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Body<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(Name(name)) = map.next_key()? {
                    if fields.len() == FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(Body(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A name that is borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_path_and_stay_as_they_were_written() {
        let body = Body::open(br#" {"a":{"b":[1, 2.50]},"c.d":"x\ny","e":null}"#).unwrap();
        assert_eq!(body.at("a.b").unwrap().get(), "[1, 2.50]");
        assert_eq!(plain(body.at("c.d").unwrap()).as_ref(), b"x\ny");
        assert!(body.at("e").is_none() && body.at("a.x").is_none() && body.at("").is_none());
        let names: Vec<&str> = body.fields().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "c.d", "e"]);
    }

    #[test]
    fn only_a_whole_object_of_bounded_size_is_opened() {
        for text in ["", " ", "[1]", "\"x\"", "{\"a\":1", "{\"a\":1} x", "{a:1}"] {
            assert!(Body::open(text.as_bytes()).is_none(), "{text}");
        }
        let many: Vec<String> = (0..=FIELDS).map(|n| format!("\"f{n}\":1")).collect();
        assert!(Body::open(format!("{{{}}}", many.join(",")).as_bytes()).is_none());
    }
}

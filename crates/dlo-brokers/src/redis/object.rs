//! An entry without a payload field as a JSON object, and back: names and values that are text, in their order.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::entry::Field;

/// The fields as an object of strings; `None` where that would change them.
pub(super) fn from_fields(fields: &[Field]) -> Option<String> {
    if fields.is_empty() {
        return None;
    }
    let mut json = String::from("{");
    let mut names = std::collections::HashSet::with_capacity(fields.len());
    for (name, value) in fields {
        let (name, value) = (std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?);
        // The office's own names have a meaning that an object cannot hold.
        if !names.insert(name) || name.starts_with("dlo:") {
            return None;
        }
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&serde_json::to_string(name).ok()?);
        json.push(':');
        json.push_str(&serde_json::to_string(value).ok()?);
    }
    json.push('}');
    Some(json)
}

/// The fields of an object: strings as they are, everything else as its JSON text. `None` if it is no object.
pub(super) fn to_fields(json: &[u8]) -> Option<Vec<Field>> {
    serde_json::from_slice::<Pairs>(json).ok().map(|pairs| pairs.0)
}

/// The pairs of an object in the order in which they stand, which a map would not keep.
struct Pairs(Vec<Field>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            let text = serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| value.get().to_owned());
            pairs.push((Bytes::from(name), Bytes::from(text)));
        }
        Ok(Pairs(pairs))
    }
}

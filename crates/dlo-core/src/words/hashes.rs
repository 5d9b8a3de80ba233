//! The hashes of a JSON payload's fields, read off its bytes without building the document: every captured letter goes
//! through here, and a tree of names and values costs more than all the rest of indexing one.
//!
//! The hash of the path is carried down, so that a long name is read once, however many fields lie below it. Where a name
//! stands twice in an object both values are told, and of a payload that is no JSON what stands before the defect: an
//! index may promise too much, as hits are verified.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::{EMPTY, FIELDS, ROOT, STEP, json_fields, on, payload_field};

/// Calls `visit` with the [`super::exact_hash`] of every scalar field of a payload that [`super::payload_has`] finds.
pub fn payload_hashes(payload: &[u8], visit: &mut impl FnMut(u64)) {
    let mut walk = Walk { left: FIELDS, visit };
    let field = Field { path: on(EMPTY, ROOT.as_bytes()), walk: &mut walk };
    let mut reading = serde_json::Deserializer::from_slice(payload);
    let read = field.deserialize(&mut reading).and_then(|()| reading.end());
    // Of too many fields those count that come first by name, which only the whole document tells.
    if read.is_err()
        && walk.left == 0
        && let Ok(document) = serde_json::from_slice::<Value>(payload)
    {
        json_fields(&document, &mut |path, value| {
            visit(super::exact_hash(&payload_field(path), value.as_bytes()));
        });
    }
}

/// What is left of the fields that are told, and who hears of them.
struct Walk<'v, F> {
    left: usize,
    visit: &'v mut F,
}

/// A value somewhere in the document, with the hash of the path to it.
struct Field<'w, 'v, F> {
    path: u64,
    walk: &'w mut Walk<'v, F>,
}

impl<F: FnMut(u64)> Field<'_, '_, F> {
    fn told<E: Error>(self, text: &str) -> Result<(), E> {
        let Some(left) = self.walk.left.checked_sub(1) else {
            return Err(E::custom("more fields than are indexed"));
        };
        self.walk.left = left;
        (self.walk.visit)(on(on(self.path, &[0]), text.as_bytes()));
        Ok(())
    }
}

impl<'de, F: FnMut(u64)> DeserializeSeed<'de> for Field<'_, '_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// The name of a field becomes the hash of the path that ends in it.
struct Name(u64);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<u64, E> {
        Ok(on(on(self.0, STEP.encode_utf8(&mut [0; 4]).as_bytes()), name.as_bytes()))
    }
}

impl<'de, F: FnMut(u64)> Visitor<'de> for Field<'_, '_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(path) = fields.next_key_seed(Name(self.path))? {
            fields.next_value_seed(Field { path, walk: &mut *self.walk })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Field { path: self.path, walk: &mut *self.walk })?.is_some() {}
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.told(text)
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        self.told(if truth { "true" } else { "false" })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.told("null")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.told(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.told(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match Number::from_f64(number) {
            Some(number) => self.told(&number.to_string()),
            None => Err(E::custom("a number beyond all numbers")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::exact_hash;
    use proptest::prelude::*;

    /// By the document, field by field.
    fn one_by_one(payload: &[u8]) -> Vec<u64> {
        let mut hashes = Vec::new();
        if let Ok(document) = serde_json::from_slice::<Value>(payload) {
            json_fields(&document, &mut |path, value| {
                hashes.push(exact_hash(&payload_field(path), value.as_bytes()));
            });
        }
        hashes.sort_unstable();
        hashes
    }

    fn read_off(payload: &[u8]) -> Vec<u64> {
        let mut hashes = Vec::new();
        payload_hashes(payload, &mut |hash| hashes.push(hash));
        hashes.sort_unstable();
        hashes
    }

    #[test]
    fn hashes_read_off_the_bytes_are_those_of_the_document() {
        let payload = r#" {"customer": {"id": "CUST-441", "tags": ["a", {"b": null}], "": {"": 7}}, "lines": [[{"sku":
            7.50}], true, -3, 1e40, 123456789012345678901234567890], "stra\u00dfe": {"größe": "x\n"}, "empty": {}} "#;
        assert_eq!(one_by_one(payload.as_bytes()).len(), 10);
        assert_eq!(read_off(payload.as_bytes()), one_by_one(payload.as_bytes()));
        assert_eq!(read_off(b"17"), one_by_one(b"17"));
    }

    #[test]
    fn of_too_many_fields_those_are_told_that_a_search_finds() {
        let fields: Vec<String> = (0..FIELDS + 50).rev().map(|n| format!("\"f{n:05}\": {n}")).collect();
        let payload = format!("{{{}}}", fields.join(","));
        let (found, told) = (one_by_one(payload.as_bytes()), read_off(payload.as_bytes()));
        assert_eq!(found.len(), FIELDS);
        assert!(found.iter().all(|hash| told.binary_search(hash).is_ok()));
    }

    proptest! {
        #[test]
        fn whatever_a_search_finds_in_a_payload_is_told(payload in "(\\{|\\[|\"a\": ?|[0-9.e-]{1,4}|\"b\"|,|\\}|\\]|null){0,24}") {
            let told = read_off(payload.as_bytes());
            for hash in one_by_one(payload.as_bytes()) {
                prop_assert!(told.binary_search(&hash).is_ok(), "{payload}");
            }
        }
    }
}

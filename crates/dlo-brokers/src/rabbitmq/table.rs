//! AMQP's typed header tables as our headers, and back, without losing a type.
//!
//! A long string is its bytes, a void is an absent value. Everything else becomes JSON text (`x-death` an array of
//! objects with the keys it has on the wire), and its type stands beside it in one transport header, `rabbitmq:types`:
//! an object from header name to type, where a type is AMQP's letter (`I`, `l`, `t`, `T` …), an array holds the types of
//! an array and an object those of a table. A value that no longer fits its type was edited, and goes out as text.
//! Inside of arrays and tables, bytes that are no text are base64 (`S64`, `x`), and floats are text, which is exact.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use lapin::types::{AMQPValue, DecimalValue, FieldArray, FieldTable, LongString, ShortString};
use serde_json::{Map, Value as Json, json};

/// How deep arrays and tables may lie in each other; what is deeper is left out.
const DEPTH: usize = 64;

/// The types of the headers of one message, by name.
pub(super) type Types = Map<String, Json>;

/// A value as the bytes of a header, and its type where that does not go without saying.
pub(super) fn read(value: &AMQPValue) -> (Option<Bytes>, Option<Json>) {
    match value {
        AMQPValue::Void => (None, None),
        AMQPValue::LongString(text) => (Some(Bytes::copy_from_slice(text.as_bytes())), None),
        AMQPValue::ByteArray(bytes) => (Some(Bytes::copy_from_slice(bytes.as_slice())), Some(json!("x"))),
        other => {
            let (shown, kind) = show(other, DEPTH);
            let text = match shown {
                // A float, which stands without quotes where it stands alone.
                Json::String(text) => text,
                shown => shown.to_string(),
            };
            (Some(Bytes::from(text)), Some(kind))
        }
    }
}

/// A value as JSON, and its type.
fn show(value: &AMQPValue, depth: usize) -> (Json, Json) {
    match value {
        AMQPValue::Boolean(v) => (json!(v), json!("t")),
        AMQPValue::ShortShortInt(v) => (json!(v), json!("b")),
        AMQPValue::ShortShortUInt(v) => (json!(v), json!("B")),
        AMQPValue::ShortInt(v) => (json!(v), json!("s")),
        AMQPValue::ShortUInt(v) => (json!(v), json!("u")),
        AMQPValue::LongInt(v) => (json!(v), json!("I")),
        AMQPValue::LongUInt(v) => (json!(v), json!("i")),
        AMQPValue::LongLongInt(v) => (json!(v), json!("l")),
        AMQPValue::Timestamp(v) => (json!(v), json!("T")),
        AMQPValue::Float(v) => (json!(v.to_string()), json!("f")),
        AMQPValue::Double(v) => (json!(v.to_string()), json!("d")),
        AMQPValue::DecimalValue(v) => (json!({"scale": v.scale, "value": v.value}), json!("D")),
        AMQPValue::ShortString(v) => (json!(v.as_str()), json!("S")),
        AMQPValue::LongString(v) => match std::str::from_utf8(v.as_bytes()) {
            Ok(text) => (json!(text), json!("S")),
            Err(_) => (json!(BASE64_STANDARD.encode(v.as_bytes())), json!("S64")),
        },
        AMQPValue::ByteArray(v) => (json!(BASE64_STANDARD.encode(v.as_slice())), json!("x")),
        AMQPValue::Void => (Json::Null, json!("V")),
        AMQPValue::FieldArray(_) | AMQPValue::FieldTable(_) if depth == 0 => (Json::Null, json!("V")),
        AMQPValue::FieldArray(array) => {
            let (values, kinds) = array.as_slice().iter().map(|v| show(v, depth - 1)).unzip();
            (Json::Array(values), Json::Array(kinds))
        }
        AMQPValue::FieldTable(table) => {
            let (mut values, mut kinds) = (Map::new(), Map::new());
            for (name, value) in table {
                let (value, kind) = show(value, depth - 1);
                values.insert(name.to_string(), value);
                kinds.insert(name.to_string(), kind);
            }
            (Json::Object(values), Json::Object(kinds))
        }
    }
}

/// The value of a header: as its type says, else a long string.
pub(super) fn write(value: Option<&Bytes>, kind: Option<&Json>) -> AMQPValue {
    let Some(bytes) = value else { return AMQPValue::Void };
    kind.and_then(|kind| typed(bytes, kind)).unwrap_or_else(|| long_string(bytes))
}

pub(super) fn long_string(bytes: &[u8]) -> AMQPValue {
    AMQPValue::LongString(LongString::from(bytes))
}

fn typed(bytes: &Bytes, kind: &Json) -> Option<AMQPValue> {
    if kind.as_str() == Some("x") {
        return Some(AMQPValue::ByteArray(bytes.to_vec().into()));
    }
    let text = std::str::from_utf8(bytes).ok()?;
    match kind.as_str() {
        Some("f" | "d") => restore(&json!(text), kind),
        _ => restore(&serde_json::from_str(text).ok()?, kind),
    }
}

fn restore(value: &Json, kind: &Json) -> Option<AMQPValue> {
    match kind {
        Json::String(letter) => scalar(value, letter),
        Json::Array(kinds) => {
            let values = value.as_array().filter(|values| values.len() == kinds.len())?;
            let restored: Option<Vec<_>> =
                values.iter().zip(kinds).map(|(v, kind)| restore(v, kind)).collect();
            restored.map(|values| AMQPValue::FieldArray(FieldArray::from(values)))
        }
        Json::Object(kinds) => {
            let values = value.as_object().filter(|values| values.len() == kinds.len())?;
            let mut table = BTreeMap::new();
            for (name, value) in values {
                table.insert(ShortString::try_new(name.as_str()).ok()?, restore(value, kinds.get(name)?)?);
            }
            Some(AMQPValue::FieldTable(FieldTable::from(table)))
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => None,
    }
}

fn scalar(value: &Json, letter: &str) -> Option<AMQPValue> {
    let whole = || value.as_i64();
    Some(match letter {
        "t" => AMQPValue::Boolean(value.as_bool()?),
        "b" => AMQPValue::ShortShortInt(whole()?.try_into().ok()?),
        "B" => AMQPValue::ShortShortUInt(whole()?.try_into().ok()?),
        "s" => AMQPValue::ShortInt(whole()?.try_into().ok()?),
        "u" => AMQPValue::ShortUInt(whole()?.try_into().ok()?),
        "I" => AMQPValue::LongInt(whole()?.try_into().ok()?),
        "i" => AMQPValue::LongUInt(whole()?.try_into().ok()?),
        "l" => AMQPValue::LongLongInt(whole()?),
        "T" => AMQPValue::Timestamp(value.as_u64()?),
        "f" => AMQPValue::Float(value.as_str()?.parse().ok()?),
        "d" => AMQPValue::Double(value.as_str()?.parse().ok()?),
        "D" => AMQPValue::DecimalValue(DecimalValue {
            scale: value.get("scale")?.as_u64()?.try_into().ok()?,
            value: value.get("value")?.as_u64()?.try_into().ok()?,
        }),
        "S" => long_string(value.as_str()?.as_bytes()),
        "S64" => long_string(&BASE64_STANDARD.decode(value.as_str()?).ok()?),
        "x" => AMQPValue::ByteArray(BASE64_STANDARD.decode(value.as_str()?).ok()?.into()),
        "V" => value.as_null().map(|()| AMQPValue::Void)?,
        _ => return None,
    })
}

/// Bytes of a table on the wire, its own length included.
pub(super) fn encoded_len(table: &FieldTable) -> usize {
    4 + table.into_iter().map(|(name, value)| 1 + name.as_str().len() + value_len(value)).sum::<usize>()
}

fn value_len(value: &AMQPValue) -> usize {
    1 + match value {
        AMQPValue::Void => 0,
        AMQPValue::Boolean(_) | AMQPValue::ShortShortInt(_) | AMQPValue::ShortShortUInt(_) => 1,
        AMQPValue::ShortInt(_) | AMQPValue::ShortUInt(_) => 2,
        AMQPValue::LongInt(_) | AMQPValue::LongUInt(_) | AMQPValue::Float(_) => 4,
        AMQPValue::DecimalValue(_) => 5,
        AMQPValue::LongLongInt(_) | AMQPValue::Double(_) | AMQPValue::Timestamp(_) => 8,
        AMQPValue::ShortString(v) => 1 + v.as_str().len(),
        AMQPValue::LongString(v) => 4 + v.len(),
        AMQPValue::ByteArray(v) => 4 + v.len(),
        AMQPValue::FieldArray(v) => 4 + v.as_slice().iter().map(value_len).sum::<usize>(),
        AMQPValue::FieldTable(v) => encoded_len(v),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};

    use super::*;

    fn any_value() -> impl Strategy<Value = AMQPValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(AMQPValue::Boolean),
            any::<i8>().prop_map(AMQPValue::ShortShortInt),
            any::<u8>().prop_map(AMQPValue::ShortShortUInt),
            any::<i16>().prop_map(AMQPValue::ShortInt),
            any::<u16>().prop_map(AMQPValue::ShortUInt),
            any::<i32>().prop_map(AMQPValue::LongInt),
            any::<u32>().prop_map(AMQPValue::LongUInt),
            any::<i64>().prop_map(AMQPValue::LongLongInt),
            any::<u64>().prop_map(AMQPValue::Timestamp),
            any::<f32>().prop_map(AMQPValue::Float),
            any::<f64>().prop_map(AMQPValue::Double),
            any::<(u8, u32)>()
                .prop_map(|(scale, value)| AMQPValue::DecimalValue(DecimalValue { scale, value })),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| long_string(&bytes)),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| AMQPValue::ByteArray(bytes.into())),
            "\\PC{0,10}".prop_map(|text| long_string(text.as_bytes())),
            proptest::strategy::Just(AMQPValue::Void),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|v| AMQPValue::FieldArray(v.into())),
                prop::collection::btree_map("[a-z]{1,5}", inner, 0..5).prop_map(|map| {
                    let map: BTreeMap<ShortString, AMQPValue> =
                        map.into_iter().map(|(name, value)| (name.as_str().into(), value)).collect();
                    AMQPValue::FieldTable(map.into())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_comes_back_with_its_type(value in any_value()) {
            let (bytes, kind) = read(&value);
            // The types travel as text.
            let kind: Option<Json> = kind.map(|kind| serde_json::from_str(&kind.to_string()).unwrap());
            let back = write(bytes.as_ref(), kind.as_ref());
            // As text: a float that is not a number is not equal to itself.
            assert_eq!(format!("{back:?}"), format!("{value:?}"));
        }

        #[test]
        fn any_bytes_under_any_type_are_a_value(bytes in prop::collection::vec(any::<u8>(), 0..40), kind in "[tbBsuIilTfdDSxV\\[\\]{}\":,0-9]{0,12}") {
            let kind: Option<Json> = serde_json::from_str(&kind).ok();
            write(Some(&Bytes::from(bytes)), kind.as_ref());
        }
    }

    #[test]
    fn a_value_that_was_edited_out_of_its_type_is_text() {
        let edited = write(Some(&Bytes::from_static(b"three")), Some(&json!("I")));
        assert_eq!(edited, long_string(b"three"));
        assert_eq!(write(Some(&Bytes::from_static(b"3")), Some(&json!("I"))), AMQPValue::LongInt(3));
    }

    #[test]
    fn what_lies_too_deep_is_left_out_and_nothing_breaks() {
        let mut deep = AMQPValue::Boolean(true);
        for _ in 0..500 {
            deep = AMQPValue::FieldArray(vec![deep].into());
        }
        let (bytes, kind) = read(&deep);
        assert!(matches!(write(bytes.as_ref(), kind.as_ref()), AMQPValue::FieldArray(_)));
    }

    #[test]
    fn the_length_of_a_table_is_that_on_the_wire() {
        // `000000602…`: case 17 of the captures of RabbitMQ 3.10.8 says 0x60 bytes behind the length.
        let mut table = FieldTable::default();
        table.insert("tenant".into(), long_string(b"acme"));
        table.insert("attempt".into(), AMQPValue::LongInt(1));
        table.insert("x-exception".into(), long_string(b"TimeoutError: upstream"));
        table.insert("x-original-queue".into(), long_string(b"q.main"));
        assert_eq!(encoded_len(&table), 4 + 0x60);
    }
}

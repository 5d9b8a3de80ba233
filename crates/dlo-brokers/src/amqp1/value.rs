//! AMQP's typed values as header values, and back: text or bytes, with the type's name beside them.
//!
//! A type that has no plain text (a list, a map, a decimal, something described) travels as its own AMQP encoding in
//! base64, under the type `amqp`. What cannot be read back, because somebody edited it, becomes text or bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fe2o3_amqp::types::primitives::{Symbol, Timestamp, Uuid, Value};

const ENCODED: &str = "amqp";

/// A value as a header carries it. No type: text, or nothing at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) value: Option<Bytes>,
    pub(super) kind: Option<&'static str>,
}

pub(super) fn to_plain(value: Value) -> Plain {
    let typed = |kind: &'static str, text: String| Plain { value: Some(Bytes::from(text)), kind: Some(kind) };
    match value {
        Value::Null => Plain { value: None, kind: None },
        Value::String(text) => Plain { value: Some(Bytes::from(text)), kind: None },
        Value::Symbol(symbol) => typed("symbol", symbol.0),
        Value::Binary(bytes) => Plain { value: Some(Bytes::from(bytes.into_vec())), kind: Some("binary") },
        Value::Bool(value) => typed("boolean", value.to_string()),
        Value::Ubyte(value) => typed("ubyte", value.to_string()),
        Value::Ushort(value) => typed("ushort", value.to_string()),
        Value::Uint(value) => typed("uint", value.to_string()),
        Value::Ulong(value) => typed("ulong", value.to_string()),
        Value::Byte(value) => typed("byte", value.to_string()),
        Value::Short(value) => typed("short", value.to_string()),
        Value::Int(value) => typed("int", value.to_string()),
        Value::Long(value) => typed("long", value.to_string()),
        Value::Float(value) => typed("float", value.0.to_string()),
        Value::Double(value) => typed("double", value.0.to_string()),
        Value::Char(value) => typed("char", value.to_string()),
        Value::Timestamp(value) => typed("timestamp", value.milliseconds().to_string()),
        Value::Uuid(value) => typed("uuid", uuid_text(&value)),
        other @ (Value::Described(_)
        | Value::Decimal32(_)
        | Value::Decimal64(_)
        | Value::Decimal128(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Array(_)) => match serde_amqp::to_vec(&other) {
            Ok(encoded) => typed(ENCODED, STANDARD.encode(encoded)),
            Err(_) => Plain { value: None, kind: None },
        },
    }
}

/// The value that `to_plain` was given. Without a type, or with one that does not fit: text, or bytes where it is none.
pub(super) fn from_plain(value: Option<&Bytes>, kind: Option<&str>) -> Value {
    let Some(bytes) = value else { return Value::Null };
    let text = std::str::from_utf8(bytes).ok();
    if kind == Some("binary") {
        return Value::Binary(bytes.to_vec().into());
    }
    match (text, kind) {
        (Some(text), Some(kind)) => parse(text, kind).unwrap_or_else(|| Value::String(text.to_owned())),
        (Some(text), None) => Value::String(text.to_owned()),
        (None, _) => Value::Binary(bytes.to_vec().into()),
    }
}

fn parse(text: &str, kind: &str) -> Option<Value> {
    Some(match kind {
        "symbol" => Value::Symbol(Symbol::new(text)),
        "boolean" => Value::Bool(text.parse().ok()?),
        "ubyte" => Value::Ubyte(text.parse().ok()?),
        "ushort" => Value::Ushort(text.parse().ok()?),
        "uint" => Value::Uint(text.parse().ok()?),
        "ulong" => Value::Ulong(text.parse().ok()?),
        "byte" => Value::Byte(text.parse().ok()?),
        "short" => Value::Short(text.parse().ok()?),
        "int" => Value::Int(text.parse().ok()?),
        "long" => Value::Long(text.parse().ok()?),
        "float" => Value::from(text.parse::<f32>().ok()?),
        "double" => Value::from(text.parse::<f64>().ok()?),
        "char" => Value::Char(text.parse().ok()?),
        "timestamp" => Value::Timestamp(Timestamp::from_milliseconds(text.parse().ok()?)),
        "uuid" => Value::Uuid(uuid_from(text)?),
        ENCODED => serde_amqp::from_slice(&STANDARD.decode(text).ok()?).ok()?,
        _ => return None,
    })
}

/// The usual writing with hyphens.
pub(super) fn uuid_text(uuid: &Uuid) -> String {
    let hex: String = uuid.as_inner().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

pub(super) fn uuid_from(text: &str) -> Option<Uuid> {
    let hex: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    if hex.len() != 32 {
        return None;
    }
    let mut bytes = [0_u8; 16];
    for (at, pair) in hex.chunks(2).enumerate() {
        bytes[at] = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(Uuid::from(bytes))
}

#[cfg(test)]
mod tests {
    use fe2o3_amqp::types::primitives::OrderedMap;

    use super::*;

    #[test]
    fn every_type_comes_back_as_it_was() {
        let uuid = uuid_from("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        let mut map = OrderedMap::new();
        map.insert(Value::String("k".into()), Value::Int(-1));
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Ubyte(255),
            Value::Ushort(65_535),
            Value::Uint(u32::MAX),
            Value::Ulong(u64::MAX),
            Value::Byte(-128),
            Value::Short(-32_768),
            Value::Int(i32::MIN),
            Value::Long(i64::MIN),
            Value::from(0.1_f32),
            Value::from(1e300_f64),
            Value::Char('ß'),
            Value::Timestamp(Timestamp::from_milliseconds(-1)),
            Value::Uuid(uuid),
            Value::Binary(vec![0, 255].into()),
            Value::String("text".into()),
            Value::String(String::new()),
            Value::Symbol(Symbol::new("sym")),
            Value::List(vec![Value::Int(1), Value::Null]),
            Value::Map(map),
        ];
        for value in values {
            let plain = to_plain(value.clone());
            assert_eq!(from_plain(plain.value.as_ref(), plain.kind), value, "{plain:?}");
        }
    }

    #[test]
    fn a_value_that_no_longer_fits_its_type_is_text() {
        let edited = Bytes::from_static(b"twelve");
        assert_eq!(from_plain(Some(&edited), Some("int")), Value::String("twelve".into()));
        assert_eq!(from_plain(Some(&edited), Some("no-such-type")), Value::String("twelve".into()));
    }
}

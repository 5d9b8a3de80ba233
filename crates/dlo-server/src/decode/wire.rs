//! Protocol Buffers without a schema: fields by number and wire type. What a length of bytes is can only be guessed: text, a
//! message, or bytes.

use super::reading::{Reading, Step, Stop};
use super::writing::Writing;

/// One field as it is on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32([u8; 4]),
}

/// The next field: its number and its value. Groups, which nobody writes any more, are not understood.
pub(super) fn field<'a>(from: &mut Reading<'a>) -> Step<(u32, Value<'a>)> {
    let key = from.varint()?;
    let number = u32::try_from(key >> 3).ok().filter(|number| (1..1 << 29).contains(number));
    let number = number.ok_or(Stop::Wrong)?;
    let value = match key & 7 {
        0 => Value::Varint(from.varint()?),
        1 => Value::Fixed64(from.array()?),
        2 => {
            let length = usize::try_from(from.varint()?).map_err(|_| Stop::Wrong)?;
            Value::Bytes(from.take(length)?)
        }
        5 => Value::Fixed32(from.array()?),
        _ => return Err(Stop::Wrong),
    };
    Ok((number, value))
}

/// Whether it is made of fields from end to end.
pub(super) fn is_message(bytes: &[u8]) -> bool {
    let mut from = Reading(bytes);
    while !from.is_empty() {
        if field(&mut from).is_err() {
            return false;
        }
    }
    !bytes.is_empty()
}

pub(super) fn message(bytes: &[u8], to: &mut Writing) -> Step {
    let mut from = Reading(bytes);
    to.open('{')?;
    while !from.is_empty() {
        let (number, value) = field(&mut from)?;
        to.next()?;
        to.put(format_args!("{number}: "))?;
        show(value, to)?;
    }
    to.close('}')
}

/// A value of which only the wire type is known.
pub(super) fn show(value: Value<'_>, to: &mut Writing) -> Step {
    match value {
        // The highest bit set is a negative number as often as a large one.
        Value::Varint(number) if number > i64::MAX.unsigned_abs() => {
            to.put(format_args!("{number} (or {})", number.cast_signed()))
        }
        Value::Varint(number) => to.put(number),
        Value::Fixed64(bytes) => {
            let (number, float) = (u64::from_le_bytes(bytes), f64::from_le_bytes(bytes));
            to.put(format_args!("{number} (or {float:?})"))
        }
        Value::Fixed32(bytes) => {
            let (number, float) = (u32::from_le_bytes(bytes), f32::from_le_bytes(bytes));
            to.put(format_args!("{number} (or {float:?})"))
        }
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.chars().any(|c| c.is_control() && !c.is_ascii_whitespace()) => to.string(text),
            _ if is_message(bytes) => message(bytes, to),
            _ => to.bytes(bytes),
        },
    }
}

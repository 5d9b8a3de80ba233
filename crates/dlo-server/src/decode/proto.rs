//! Protocol Buffers by a descriptor set (`protoc --include_imports --descriptor_set_out=…`): fields by their names.
//!
//! A descriptor is itself such a message, so it is read by the same wire as payloads.

use std::collections::BTreeMap;

use super::reading::{Reading, Step, Stop, unzigzag};
use super::wire::{self, Value};
use super::writing::Writing;

/// Messages inside messages of a descriptor.
const DEEPEST: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Field {
    name: String,
    /// As descriptors number it.
    kind: u64,
    /// Of a message or an enum: its full name.
    type_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Message {
    fields: BTreeMap<u32, Field>,
    /// Full names of those that are defined inside, in their order.
    inner: Vec<String>,
}

/// Messages and enums by their full names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Proto {
    messages: BTreeMap<String, Message>,
    enums: BTreeMap<String, BTreeMap<u64, String>>,
    /// Those at the top of the last file, which is the one that was asked for.
    top: Vec<String>,
}

impl Proto {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut proto = Self::default();
        let read = proto.files(bytes);
        let wrong = "it is no descriptor set; make one by protoc --include_imports --descriptor_set_out=FILE";
        read.map_err(|_| wrong.to_string())?;
        if proto.top.is_empty() { Err(format!("{wrong}; it has no message")) } else { Ok(proto) }
    }

    fn files(&mut self, bytes: &[u8]) -> Step {
        for file in of(bytes, 1)? {
            let package = text(file, 2)?;
            self.top.clear();
            for message in of(file, 4)? {
                let name = self.message(message, &package, 0)?;
                self.top.push(name);
            }
            for one in of(file, 5)? {
                self.enumeration(one, &package)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, bytes: &[u8], space: &str, level: usize) -> Step<String> {
        if level > DEEPEST {
            return Err(Stop::Wrong);
        }
        let name = full(space, &text(bytes, 1)?);
        let mut message = Message::default();
        for field in of(bytes, 2)? {
            let number = u32::try_from(number(field, 3)?).map_err(|_| Stop::Wrong)?;
            let type_name = text(field, 6)?.trim_start_matches('.').to_string();
            message
                .fields
                .insert(number, Field { name: text(field, 1)?, kind: self::number(field, 5)?, type_name });
        }
        for inner in of(bytes, 3)? {
            message.inner.push(self.message(inner, &name, level + 1)?);
        }
        for one in of(bytes, 4)? {
            self.enumeration(one, &name)?;
        }
        self.messages.insert(name.clone(), message);
        Ok(name)
    }

    fn enumeration(&mut self, bytes: &[u8], space: &str) -> Step {
        let mut values = BTreeMap::new();
        for value in of(bytes, 2)? {
            values.insert(number(value, 2)?, text(value, 1)?);
        }
        self.enums.insert(full(space, &text(bytes, 1)?), values);
        Ok(())
    }

    /// The message that an event type names, else the first of the file.
    pub(super) fn named(&self, event_type: Option<&str>) -> Option<&str> {
        let wanted = event_type.unwrap_or_default();
        let is = |name: &&String| *name == wanted || name.rsplit('.').next() == Some(wanted);
        self.messages.keys().find(is).or(self.top.first()).map(String::as_str)
    }

    /// The message that indexes of Confluent's framing lead to.
    pub(super) fn indexed(&self, path: &[usize]) -> Option<&str> {
        let (first, rest) = path.split_first()?;
        let mut name = self.top.get(*first)?;
        for at in rest {
            name = self.messages.get(name)?.inner.get(*at)?;
        }
        Some(name)
    }

    pub(super) fn read(&self, name: &str, bytes: &[u8], to: &mut Writing) -> Step {
        let message = self.messages.get(name).ok_or(Stop::Wrong)?;
        let mut from = Reading(bytes);
        to.open('{')?;
        while !from.is_empty() {
            let (number, value) = wire::field(&mut from)?;
            to.next()?;
            match message.fields.get(&number) {
                Some(field) => {
                    to.string(&field.name)?;
                    to.put(": ")?;
                    self.value(field, value, to)?;
                }
                // A newer producer knows more than the schema.
                None => {
                    to.put(format_args!("{number}: "))?;
                    wire::show(value, to)?;
                }
            }
        }
        to.close('}')
    }

    fn value(&self, field: &Field, value: Value<'_>, to: &mut Writing) -> Step {
        match (field.kind, value) {
            (9, Value::Bytes(bytes)) => to.text(bytes),
            (12, Value::Bytes(bytes)) => to.bytes(bytes),
            (11, Value::Bytes(bytes)) => self.read(&field.type_name, bytes, to),
            (_, Value::Bytes(packed)) => self.packed(field, packed, to),
            (1, Value::Fixed64(bytes)) => to.float(f64::from_le_bytes(bytes)),
            (6, Value::Fixed64(bytes)) => to.put(u64::from_le_bytes(bytes)),
            (16, Value::Fixed64(bytes)) => to.put(i64::from_le_bytes(bytes)),
            (2, Value::Fixed32(bytes)) => to.single(f32::from_le_bytes(bytes)),
            (7, Value::Fixed32(bytes)) => to.put(u32::from_le_bytes(bytes)),
            (15, Value::Fixed32(bytes)) => to.put(i32::from_le_bytes(bytes)),
            (3 | 5, Value::Varint(number)) => to.put(number.cast_signed()),
            (4 | 13, Value::Varint(number)) => to.put(number),
            (17 | 18, Value::Varint(number)) => to.put(unzigzag(number)),
            (8, Value::Varint(number)) => to.put(number != 0),
            (14, Value::Varint(number)) => {
                match self.enums.get(&field.type_name).and_then(|values| values.get(&number)) {
                    Some(word) => to.string(word),
                    None => to.put(number.cast_signed()),
                }
            }
            // The wire says otherwise than the schema: the wire is what was sent.
            (_, value) => wire::show(value, to),
        }
    }

    /// Numbers of a repeated field, one behind the other.
    fn packed(&self, field: &Field, bytes: &[u8], to: &mut Writing) -> Step {
        let mut from = Reading(bytes);
        to.open('[')?;
        while !from.is_empty() {
            to.next()?;
            let one = match field.kind {
                1 | 6 | 16 => Value::Fixed64(from.array()?),
                2 | 7 | 15 => Value::Fixed32(from.array()?),
                3 | 4 | 5 | 8 | 13 | 14 | 17 | 18 => Value::Varint(from.varint()?),
                _ => return Err(Stop::Wrong),
            };
            self.value(field, one, to)?;
        }
        to.close(']')
    }
}

/// All values of a field that are lengths of bytes.
fn of(bytes: &[u8], wanted: u32) -> Step<Vec<&[u8]>> {
    let mut from = Reading(bytes);
    let mut found = Vec::new();
    while !from.is_empty() {
        if let (number, Value::Bytes(value)) = wire::field(&mut from)?
            && number == wanted
        {
            found.push(value);
        }
    }
    Ok(found)
}

fn text(bytes: &[u8], wanted: u32) -> Step<String> {
    let last = of(bytes, wanted)?.pop().unwrap_or_default();
    std::str::from_utf8(last).map(str::to_string).map_err(|_| Stop::Wrong)
}

fn number(bytes: &[u8], wanted: u32) -> Step<u64> {
    let mut from = Reading(bytes);
    let mut found = 0;
    while !from.is_empty() {
        if let (number, Value::Varint(value)) = wire::field(&mut from)?
            && number == wanted
        {
            found = value;
        }
    }
    Ok(found)
}

fn full(space: &str, name: &str) -> String {
    if space.is_empty() { name.to_string() } else { format!("{space}.{name}") }
}

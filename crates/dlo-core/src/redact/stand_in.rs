//! Copies of a message in which other values are in the place of the hidden ones, for a look at what a program does with
//! them. Whatever is computed from copies alone says nothing of the hidden values; what differs between copies depends on them.
//!
//! A copy keeps what a person may know: where something is hidden, and its kind (a text, a text of digits, a number, a
//! boolean, an object, an array). Lengths differ between copies. Inside an object that is hidden whole, the first copies
//! keep the names of its fields, and the last one renames them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::document::{Replace, rewrite};
use super::{LOOKED_THROUGH, MASK, Redactor};
use crate::message::{Header, Headers, Message, Payload};

/// How many copies are compared.
pub const COPIES: u8 = 3;

/// Around the letters that are put in the place of a hidden text.
const BEGIN: &str = "maskzq";
const END: &str = "qzksam";

impl Redactor {
    /// The copy of that number. `None`: the payload is no JSON, or too large to be looked through.
    pub fn stand_in(&self, message: &Message, copy: u8) -> Option<Message> {
        let payload = &message.payload.0;
        let mut source = Source::new(copy);
        let read = match self.looks_into_payloads() {
            false => None,
            true if payload.len() > LOOKED_THROUGH => return None,
            true => {
                rewrite(payload, &self.fields, &mut StandIns { rules: self, source: &mut source }).ok()?
            }
        };
        let headers = message.headers.iter().map(|header| self.header_stand_in(header, &mut source));
        Some(Message {
            headers: Headers(headers.collect()),
            payload: read.map_or_else(|| message.payload.clone(), |text| Payload::from(text.into_bytes())),
            key: message.key.as_ref().map(|key| match self.bytes_as_text(&key.0) {
                Cow::Borrowed(_) => key.clone(),
                Cow::Owned(masked) => {
                    Payload::from(source.in_place(&key.0, &String::from_utf8_lossy(&masked)).into_bytes())
                }
            }),
        })
    }

    /// A text that is known of the message, for the copy of that number.
    pub fn text_stand_in(&self, text: &str, copy: u8) -> String {
        match self.text(text) {
            Cow::Borrowed(text) => text.to_owned(),
            Cow::Owned(masked) => Source::new(copy).in_place(text.as_bytes(), &masked),
        }
    }

    fn header_stand_in(&self, header: &Header, source: &mut Source) -> Header {
        let masked = self.header(header);
        if masked == *header {
            return masked;
        }
        let (real, shown) = (header.value.as_deref(), masked.value.as_deref());
        let value =
            source.in_place(real.unwrap_or_default(), &String::from_utf8_lossy(shown.unwrap_or_default()));
        Header { name: header.name.clone(), value: Some(value.into_bytes().into()) }
    }
}

/// The text with the mask in the place of every stand-in.
pub fn without_stand_ins(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let Some(length) = rest[at..].find(END) else { break };
        shown.push_str(&rest[..at]);
        shown.push_str(MASK);
        rest = &rest[at + length + END.len()..];
    }
    if shown.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

struct StandIns<'r> {
    rules: &'r Redactor,
    source: &'r mut Source,
}

impl Replace for StandIns<'_> {
    fn value(&mut self, json: &str) -> Option<String> {
        let value = serde_json::from_str(json).ok()?;
        Some(self.source.value(value).to_string())
    }

    fn scalar(&mut self, text: &str, is_number: bool) -> Option<String> {
        let masked = super::owned(self.rules.text(text))?;
        if is_number {
            return Some(self.source.number(text.contains(['.', 'e', 'E'])));
        }
        Some(Value::from(self.source.in_place(text.as_bytes(), &masked)).to_string())
    }

    fn name(&mut self, name: &str) -> Option<String> {
        let masked = super::owned(self.rules.text(name))?;
        Some(Value::from(self.source.in_place(b"", &masked)).to_string())
    }
}

/// Values for one copy, from a fixed sequence: they need not be secret, since nothing real is in them.
struct Source {
    copy: u8,
    state: u64,
}

impl Source {
    fn new(copy: u8) -> Self {
        Self { copy, state: 0x9e37_79b9_7f4a_7c15 ^ (u64::from(copy) << 32) }
    }

    /// The next number of SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// For a text that is shown as `masked`.
    fn in_place(&mut self, real: &[u8], masked: &str) -> String {
        let is_number = !real.is_empty() && serde_json::from_slice::<serde_json::Number>(real).is_ok();
        if is_number && masked == MASK {
            return self.number(false);
        }
        let word = self.word();
        masked.replace(MASK, &word)
    }

    fn word(&mut self) -> String {
        let letters = 9 + 4 * usize::from(self.copy);
        let letter = |number: u64| char::from(b'a' + u8::try_from(number % 26).unwrap_or(0));
        let middle: String = (0..letters).map(|_| letter(self.next())).collect();
        format!("{BEGIN}{middle}{END}")
    }

    /// Digits, as many as the copy has, and never with a zero in front.
    fn number(&mut self, has_fraction: bool) -> String {
        let digits = 7 + 2 * usize::from(self.copy);
        let digit = |number: u64| char::from(b'1' + u8::try_from(number % 9).unwrap_or(0));
        let mut text: String = (0..digits).map(|_| digit(self.next())).collect();
        if has_fraction {
            text.push('.');
            text.push(digit(self.next()));
        }
        text
    }

    /// For a value that is hidden whole. The depth is bounded by the reader of JSON.
    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Null => Value::Null,
            Value::Bool(_) => Value::Bool(self.copy.is_multiple_of(2)),
            Value::Number(number) => {
                let text = self.number(number.is_f64());
                serde_json::from_str(&text).unwrap_or(Value::Null)
            }
            Value::String(text) => Value::from(self.in_place(text.as_bytes(), MASK)),
            Value::Array(items) => {
                let mut items: Vec<Value> = items.into_iter().map(|item| self.value(item)).collect();
                // One kind of element more, so that the number of elements is no fact of the hidden array.
                if let Some(first) = items.first().cloned() {
                    items.extend((0..=self.copy).map(|_| first.clone()));
                }
                Value::Array(items)
            }
            Value::Object(fields) => Value::Object(self.object(fields)),
        }
    }

    fn object(&mut self, fields: Map<String, Value>) -> Map<String, Value> {
        let is_last = self.copy + 1 == COPIES;
        let mut copied = Map::new();
        for (name, value) in fields {
            let name = if is_last { self.word() } else { name };
            let value = self.value(value);
            copied.insert(name, value);
        }
        if let Some(first) = copied.values().next().cloned() {
            copied.insert(self.word(), first);
        }
        copied
    }
}

//! One value that somebody wrote: a header's bytes or a field of a JSON document, read as what it should be.
//!
//! Reading is forgiving and bounded. What is no sense is as good as absent; names that are too long are absent, because a cut
//! name is another name; error text is cut. Bytes that Java serialised are never read, but for their class name.

use std::borrow::Cow;
use std::cell::Cell;

use super::{number, time};
use crate::limits;
use crate::time::Timestamp;

/// What was lost in reading, over all values of one letter.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub(super) truncated: Cell<bool>,
    pub(super) lossy: Cell<bool>,
}

/// A value, or its absence.
pub(super) struct Value<'v> {
    bytes: Option<Cow<'v, [u8]>>,
    flags: &'v Flags,
}

impl<'v> Value<'v> {
    pub(super) fn new(bytes: Option<Cow<'v, [u8]>>, flags: &'v Flags) -> Self {
        Self { bytes, flags }
    }

    pub(super) fn is_some(&self) -> bool {
        self.bytes.is_some()
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// This value, or `other` where this one is absent.
    pub(super) fn or(self, other: Self) -> Self {
        if self.bytes.is_some() { self } else { other }
    }

    /// The text, trimmed, if it is UTF-8 and says anything.
    pub(super) fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(self.bytes()?).ok()?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// As it was written: a blank may be part of a name.
    fn bounded(&self, max: usize) -> Option<String> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        (!text.is_empty() && text.len() <= max).then(|| text.to_owned())
    }

    /// The name of a queue, a consumer, a type.
    pub(super) fn name(&self) -> Option<String> {
        self.bounded(limits::NAME)
    }

    /// A message id or a consumer id.
    pub(super) fn id(&self) -> Option<String> {
        self.bounded(limits::ID)
    }

    /// An error class, cut to a name's length.
    pub(super) fn class(&self) -> Option<String> {
        if let Some(class) = self.bytes().and_then(java_class) {
            return Some(class);
        }
        self.prose(limits::NAME)
    }

    /// An error message.
    pub(super) fn message(&self) -> Option<String> {
        self.prose(limits::ERROR_MESSAGE)
    }

    /// A stack trace.
    pub(super) fn stack(&self) -> Option<String> {
        self.prose(limits::ERROR_STACK)
    }

    /// Text for people: lossy where it must be, cut where it is too long, and both are noted.
    fn prose(&self, max: usize) -> Option<String> {
        let bytes = self.bytes().filter(|bytes| !is_java(bytes))?;
        // More than the limit and one character is never looked at: a hostile header may have megabytes.
        let head = bytes.get(..max + 4).unwrap_or(bytes);
        let mut text = match std::str::from_utf8(head) {
            Ok(text) => text.to_owned(),
            // Cut in the middle of a character, which is cut off below.
            Err(error) if head.len() < bytes.len() && error.valid_up_to() >= max => {
                String::from_utf8_lossy(head).into_owned()
            }
            Err(_) => {
                self.flags.lossy.set(true);
                String::from_utf8_lossy(head).into_owned()
            }
        };
        if limits::cut(&mut text, max) {
            self.flags.truncated.set(true);
        }
        (!text.trim().is_empty()).then_some(text)
    }

    /// A decimal number.
    pub(super) fn decimal(&self) -> Option<i64> {
        number::decimal(self.bytes()?)
    }

    /// A number of a convention that writes big-endian bytes.
    pub(super) fn big_endian(&self) -> Option<i64> {
        number::big_endian(self.bytes()?)
    }

    /// The bytes of a Java `BigInteger`.
    pub(super) fn big_integer(&self) -> Option<i64> {
        number::big_integer(self.bytes()?)
    }

    /// How often something happened.
    pub(super) fn count(&self) -> Option<u32> {
        self.decimal().and_then(|number| u32::try_from(number).ok())
    }

    /// The index of a partition.
    pub(super) fn partition(&self) -> Option<i32> {
        self.decimal().and_then(number::partition)
    }

    /// A moment in any of the notations of the field.
    pub(super) fn time(&self) -> Option<Timestamp> {
        time::any(self.text()?)
    }

    /// Milliseconds since 1970 as decimal text.
    pub(super) fn millis(&self) -> Option<Timestamp> {
        self.decimal().and_then(time::millis)
    }
}

/// The magic of a Java object stream.
const JAVA: [u8; 4] = [0xac, 0xed, 0x00, 0x05];

fn is_java(bytes: &[u8]) -> bool {
    bytes.starts_with(&JAVA)
}

/// The class of the object that Java serialised, read from its descriptor; nothing is made of the rest.
fn java_class(bytes: &[u8]) -> Option<String> {
    // TC_OBJECT, TC_CLASSDESC, then a name with two bytes of length.
    let descriptor = bytes.strip_prefix(&JAVA)?.strip_prefix(&[0x73, 0x72])?;
    let length = usize::from(u16::from_be_bytes([*descriptor.first()?, *descriptor.get(1)?]));
    let name = std::str::from_utf8(descriptor.get(2..2 + length)?).ok()?;
    (name.len() <= limits::NAME && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'v>(bytes: &'v [u8], flags: &'v Flags) -> Value<'v> {
        Value::new(Some(Cow::Borrowed(bytes)), flags)
    }

    #[test]
    fn text_that_is_no_utf8_is_shown_and_flagged() {
        let flags = Flags::default();
        assert_eq!(value(b"a\xffb", &flags).message().as_deref(), Some("a\u{fffd}b"));
        assert!(flags.lossy.get() && !flags.truncated.get());
    }

    #[test]
    fn a_long_message_is_cut_and_flagged_and_not_called_lossy() {
        let flags = Flags::default();
        let long = "é".repeat(limits::ERROR_MESSAGE);
        let cut = value(long.as_bytes(), &flags).message().unwrap();
        assert!(cut.len() <= limits::ERROR_MESSAGE && cut.len() > limits::ERROR_MESSAGE - 4);
        assert!(flags.truncated.get() && !flags.lossy.get());
    }

    #[test]
    fn a_name_that_is_too_long_is_no_name() {
        let flags = Flags::default();
        assert_eq!(value("q".repeat(limits::NAME + 1).as_bytes(), &flags).name(), None);
    }

    #[test]
    fn of_a_java_object_only_the_class_is_told() {
        let flags = Flags::default();
        let mut bytes = vec![0xac, 0xed, 0, 5, 0x73, 0x72, 0, 7];
        bytes.extend_from_slice(b"a.B$Err\x00\x01\x02");
        assert_eq!(value(&bytes, &flags).class().as_deref(), Some("a.B$Err"));
        assert_eq!(value(&bytes, &flags).message(), None);
        assert_eq!(value(&bytes[..9], &flags).class(), None);
    }
}

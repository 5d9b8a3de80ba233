//! JSON in and out of jq, strictly, with every digit kept.
//!
//! jaq's own reader takes more than JSON (comments, `NaN`, `+1`) and its writer writes more; both are right for a person
//! at a terminal and wrong for a message. Here a number that is not computed with is written as it was read, a key that
//! stands twice is refused instead of dropped, and nesting has a bound.

use std::io::Write as _;

use hifijson::SliceLexer;
use hifijson::str::LexAlloc as _;
use hifijson::token::{Expect, Lex as _};
use jaq_json::{Map, Num, Rc, Val};

/// Arrays and objects inside each other.
pub(crate) const DEPTH: usize = 512;
/// Digits of an integer that jq computes with exactly; a longer one keeps its digits as long as it is not computed with.
const DIGITS: usize = 1_000;

/// Why bytes are not JSON as it is taken here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotJson {
    #[error("it is empty")]
    Empty,
    #[error("it is not JSON at byte {0}: {1}")]
    Syntax(usize, String),
    #[error("an object names a key twice before byte {0}, and only one of the two would stay")]
    Twice(usize),
    #[error("it is nested more than {DEPTH} levels deep")]
    Deep,
}

/// Why a value cannot be written as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotWritten {
    #[error("the result is larger than {0} bytes")]
    Large(usize),
    #[error("the result has a number that JSON cannot say (infinite, or not a number)")]
    NotFinite,
    #[error("the result has bytes that are not text")]
    NotText,
    #[error("the result has an object whose key is not a text")]
    Key,
    #[error("the result is nested more than {DEPTH} levels deep")]
    Deep,
}

enum Bad {
    Lexed(hifijson::Error),
    Twice,
    Deep,
}

impl<E: Into<hifijson::Error>> From<E> for Bad {
    fn from(error: E) -> Self {
        Self::Lexed(error.into())
    }
}

/// Reads exactly one value.
pub(crate) fn read(bytes: &[u8]) -> Result<Val, NotJson> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(NotJson::Empty);
    }
    let mut lexer = SliceLexer::new(bytes);
    let read = lexer.exactly_one(SliceLexer::ws_peek, |next, lexer| value(next, lexer, 0));
    let at = bytes.len() - lexer.as_slice().len();
    read.map_err(|bad| match bad {
        Bad::Lexed(error) => NotJson::Syntax(at, error.to_string()),
        Bad::Twice => NotJson::Twice(at),
        Bad::Deep => NotJson::Deep,
    })
}

fn value(next: u8, lexer: &mut SliceLexer<'_>, depth: usize) -> Result<Val, Bad> {
    if depth > DEPTH {
        return Err(Bad::Deep);
    }
    Ok(match next {
        b'"' => text(lexer)?,
        b'-' | b'0'..=b'9' => Val::Num(number(lexer)?),
        b'[' => {
            let mut items = Vec::new();
            lexer.discarded().seq(b']', SliceLexer::ws_peek, |next, lexer| {
                items.push(value(next, lexer, depth + 1)?);
                Ok::<_, Bad>(())
            })?;
            Val::Arr(Rc::new(items))
        }
        b'{' => {
            let mut members = Map::default();
            lexer.discarded().seq(b'}', SliceLexer::ws_peek, |next, lexer| {
                if next != b'"' {
                    return Err(Expect::String.into());
                }
                let key = text(lexer)?;
                lexer.expect(SliceLexer::ws_peek, b':').ok_or(Expect::Colon)?;
                let next = lexer.ws_peek().ok_or(Expect::Value)?;
                let member = value(next, lexer, depth + 1)?;
                members.insert(key, member).map_or(Ok(()), |_| Err(Bad::Twice))
            })?;
            Val::obj(members)
        }
        b'n' | b't' | b'f' => match lexer.null_or_bool().ok_or(Expect::Value)? {
            None => Val::Null,
            Some(truth) => Val::Bool(truth),
        },
        _ => return Err(Expect::Value.into()),
    })
}

fn text(lexer: &mut SliceLexer<'_>) -> Result<Val, Bad> {
    let text = lexer.discarded().str_string().map_err(hifijson::Error::Str)?;
    Ok(Val::utf8_str(text.into_owned().into_bytes()))
}

/// Integers are computed with exactly. Everything else, minus zero among it, keeps its spelling.
fn number(lexer: &mut SliceLexer<'_>) -> Result<Num, Bad> {
    let (digits, parts) = hifijson::num::LexWrite::num_string(lexer).validated()?;
    let integer = parts.is_int() && digits.len() <= DIGITS && digits != "-0";
    let exact = integer.then(|| Num::from_str_radix(digits, 10)).flatten();
    Ok(exact.unwrap_or_else(|| Num::Dec(Rc::new(digits.to_string()))))
}

/// How a value is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// On one line without spaces, as it is sent.
    Compact,
    /// One member a line, as it is compared by people.
    Pretty,
}

/// Writes a value in at most `most` bytes.
pub(crate) fn write(value: &Val, layout: Layout, most: usize) -> Result<Vec<u8>, NotWritten> {
    let mut writer = Writer { out: Vec::with_capacity(1024.min(most)), layout, most };
    writer.value(value, 0)?;
    writer.room()?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    layout: Layout,
    most: usize,
}

impl Writer {
    fn value(&mut self, value: &Val, depth: usize) -> Result<(), NotWritten> {
        self.room()?;
        if depth > DEPTH {
            return Err(NotWritten::Deep);
        }
        match value {
            Val::Null => self.out.extend_from_slice(b"null"),
            Val::Bool(truth) => self.out.extend_from_slice(if *truth { b"true" } else { b"false" }),
            Val::Num(number) => self.number(number)?,
            Val::TStr(text) => self.text(text)?,
            Val::BStr(_) => return Err(NotWritten::NotText),
            Val::Arr(items) => {
                self.out.push(b'[');
                for (place, item) in items.iter().enumerate() {
                    self.between(place, depth + 1);
                    self.value(item, depth + 1)?;
                }
                self.end(items.is_empty(), depth, b']');
            }
            Val::Obj(members) => {
                self.out.push(b'{');
                for (place, (key, member)) in members.iter().enumerate() {
                    self.between(place, depth + 1);
                    let Val::TStr(key) = key else { return Err(NotWritten::Key) };
                    self.text(key)?;
                    self.out.push(b':');
                    if self.layout == Layout::Pretty {
                        self.out.push(b' ');
                    }
                    self.value(member, depth + 1)?;
                }
                self.end(members.is_empty(), depth, b'}');
            }
        }
        Ok(())
    }

    /// Checked before each value and at the end: a result that shares its parts is small in memory and endless on paper.
    fn room(&self) -> Result<(), NotWritten> {
        if self.out.len() > self.most { Err(NotWritten::Large(self.most)) } else { Ok(()) }
    }

    fn between(&mut self, place: usize, depth: usize) {
        if place > 0 {
            self.out.push(b',');
        }
        self.line(depth);
    }

    fn end(&mut self, empty: bool, depth: usize, bracket: u8) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if self.layout == Layout::Pretty {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', depth * 2));
        }
    }

    /// A computed number without a fraction is written without one, as jq does: `1.5 * 100` is `150`, not `150.0`.
    fn number(&mut self, number: &Num) -> Result<(), NotWritten> {
        const WHOLE: f64 = 1e17;
        // Writing to memory does not fail.
        let _ = match number {
            Num::Int(integer) => write!(self.out, "{integer}"),
            Num::BigInt(integer) => write!(self.out, "{integer}"),
            Num::Dec(digits) => self.out.write_all(digits.as_bytes()),
            Num::Float(float) if !float.is_finite() => return Err(NotWritten::NotFinite),
            Num::Float(float) if float.fract() == 0.0 && float.abs() < WHOLE => {
                write!(self.out, "{float:.0}")
            }
            Num::Float(float) => write!(self.out, "{float:?}"),
        };
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), NotWritten> {
        std::str::from_utf8(text).map_err(|_| NotWritten::NotText)?;
        self.out.push(b'"');
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
            self.out.extend_from_slice(&rest[..at]);
            // Writing to memory does not fail.
            let _ = match rest[at] {
                b'"' => self.out.write_all(b"\\\""),
                b'\\' => self.out.write_all(b"\\\\"),
                b'\n' => self.out.write_all(b"\\n"),
                b'\r' => self.out.write_all(b"\\r"),
                b'\t' => self.out.write_all(b"\\t"),
                control => write!(self.out, "\\u{control:04x}"),
            };
            rest = &rest[at + 1..];
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
        Ok(())
    }
}

/// Whether two values are the same in every digit and in the order of their members. jq itself calls `1` and `1.0` equal.
pub(crate) fn identical(one: &Val, other: &Val) -> bool {
    match (one, other) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(one), Val::Bool(other)) => one == other,
        (Val::Num(Num::Int(one)), Val::Num(Num::Int(other))) => one == other,
        (Val::Num(one), Val::Num(other)) => one.to_string() == other.to_string(),
        (Val::TStr(one), Val::TStr(other)) | (Val::BStr(one), Val::BStr(other)) => one == other,
        (Val::Arr(one), Val::Arr(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| identical(one, other))
        }
        (Val::Obj(one), Val::Obj(other)) => {
            let pairs = one.iter().zip(other.iter());
            one.len() == other.len()
                && pairs.into_iter().all(|((key, one), (name, other))| key == name && identical(one, other))
        }
        _ => false,
    }
}

/// The bytes with one member a line, if they are JSON; numbers and texts keep their meaning and numbers their digits.
pub(crate) fn pretty(bytes: &[u8], most: usize) -> Option<String> {
    let written = write(&read(bytes).ok()?, Layout::Pretty, most).ok()?;
    String::from_utf8(written).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compact(text: &str) -> String {
        String::from_utf8(write(&read(text.as_bytes()).unwrap(), Layout::Compact, 1 << 20).unwrap()).unwrap()
    }

    #[test]
    fn every_number_is_written_as_it_was_read() {
        let long = "9".repeat(2_000);
        for number in ["0", "-0", "-0.0", "1.10", "1e3", "1E+03", "-12345678901234567890123", "0.1e-7", &long]
        {
            assert_eq!(compact(number), *number);
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for (text, at) in [
            ("{\"a\":NaN}", 5),
            ("[1,]", 3),
            ("# no\n1", 0),
            ("+1", 0),
            ("007", 1),
            ("{a:1}", 1),
            ("[1] 2", 4),
            ("\"\u{1}\"", 2),
            ("b\"x\"", 0),
            ("{\"a\":1", 6),
            ("nul", 1),
        ] {
            match read(text.as_bytes()) {
                Err(NotJson::Syntax(found, _)) => assert_eq!(found, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(read(b"\"\xff\""), Err(NotJson::Syntax(..))));
        assert!(matches!(read(b"\"\\ud800\""), Err(NotJson::Syntax(..))));
        assert_eq!(read(b" \n").unwrap_err(), NotJson::Empty);
        assert_eq!(read(br#"{"a":1,"a":2}"#).unwrap_err(), NotJson::Twice(12));
    }

    #[test]
    fn nesting_has_a_bound_in_both_directions() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(nested(DEPTH).as_bytes()).is_ok());
        assert_eq!(read(nested(100_000).as_bytes()).unwrap_err(), NotJson::Deep);
        let deep = (0..DEPTH + 2).fold(Val::Null, |inner, _| Val::Arr(Rc::new(vec![inner])));
        assert_eq!(write(&deep, Layout::Compact, 1 << 20).unwrap_err(), NotWritten::Deep);
    }

    #[test]
    fn what_json_cannot_say_is_not_written() {
        let write = |value: &Val| write(value, Layout::Compact, 100).unwrap_err();
        assert_eq!(write(&Val::Num(Num::Float(f64::NAN))), NotWritten::NotFinite);
        assert_eq!(write(&Val::byte_str("x")), NotWritten::NotText);
        assert_eq!(write(&Val::utf8_str(vec![0xff])), NotWritten::NotText);
        assert_eq!(write(&Val::obj([(Val::Null, Val::Null)].into_iter().collect())), NotWritten::Key);
        assert_eq!(write(&Val::utf8_str("x".repeat(99))), NotWritten::Large(100));
    }

    #[test]
    fn a_computed_number_has_no_needless_fraction() {
        let shown =
            |float| String::from_utf8(write(&Val::Num(Num::Float(float)), Layout::Compact, 99).unwrap());
        assert_eq!(shown(110.0).unwrap(), "110");
        assert_eq!(shown(0.1 + 0.2).unwrap(), "0.30000000000000004");
        assert_eq!(shown(1e300).unwrap(), "1e300");
    }

    #[test]
    fn a_pretty_text_has_one_member_a_line() {
        assert_eq!(
            pretty(br#"{"a":[1.10,{}],"b":[]}"#, 1_000).unwrap(),
            "{\n  \"a\": [\n    1.10,\n    {}\n  ],\n  \"b\": []\n}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn strings_survive_reading_and_writing(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&compact(&json)).unwrap(), text);
        }
    }
}

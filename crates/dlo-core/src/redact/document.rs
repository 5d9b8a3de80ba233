//! A JSON document with some of its values replaced. Every other byte stays: order, spelling of numbers, names that occur
//! twice. A reader that keeps one of two equal names would miss the other one, so the text itself is walked.

use serde::de::IgnoredAny;

use super::path::{FieldPath, Places};

/// Arrays and objects inside each other.
const DEPTH: usize = 128;

/// What is put in the place of values and names.
pub(super) trait Replace {
    /// For the whole value at a path that is hidden, given as JSON. Returns JSON.
    fn value(&mut self, json: &str) -> Option<String>;
    /// For a text or the digits of a number elsewhere. `None`: it stays. Returns JSON.
    fn scalar(&mut self, text: &str, is_number: bool) -> Option<String>;
    /// For the name of a field. `None`: it stays. Returns JSON.
    fn name(&mut self, name: &str) -> Option<String>;
}

/// Why a document has no masked copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotRead;

/// The document with its replacements; `None` where nothing is replaced.
pub(super) fn rewrite(
    payload: &[u8],
    paths: &[FieldPath],
    replace: &mut dyn Replace,
) -> Result<Option<String>, NotRead> {
    let text = std::str::from_utf8(payload).map_err(|_| NotRead)?;
    // Read once as a whole, so that the walk below meets nothing but JSON.
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| NotRead)?;
    let mut walk = Walk { text, at: 0, copied: 0, out: String::new(), replace };
    walk.value(&Places::start(paths), 0).ok_or(NotRead)?;
    if walk.out.is_empty() {
        return Ok(None);
    }
    walk.out.push_str(&text[walk.copied..]);
    Ok(Some(walk.out))
}

struct Walk<'t, 'r> {
    text: &'t str,
    at: usize,
    /// Everything before is in `out`.
    copied: usize,
    out: String,
    replace: &'r mut dyn Replace,
}

impl<'t> Walk<'t, '_> {
    fn value(&mut self, places: &Places<'_>, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        let first = self.next()?;
        let start = self.at;
        if places.reached() {
            self.skip()?;
            let json = self.replace.value(&self.text[start..self.at])?;
            self.put(start, &json);
            return Some(());
        }
        match first {
            b'{' => self.object(places, depth),
            b'[' => self.array(places, depth),
            b'"' => {
                let text = self.string()?;
                let json = self.replace.scalar(&text, false);
                self.put_some(start, json);
                Some(())
            }
            b'-' | b'0'..=b'9' => {
                self.skip()?;
                let json = self.replace.scalar(&self.text[start..self.at], true);
                self.put_some(start, json);
                Some(())
            }
            _ => self.skip(),
        }
    }

    fn object(&mut self, places: &Places<'_>, depth: usize) -> Option<()> {
        self.at += 1;
        loop {
            match self.next()? {
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                b',' => self.at += 1,
                _ => {
                    let start = self.at;
                    let name = self.string()?;
                    let json = self.replace.name(&name);
                    self.put_some(start, json);
                    (self.next()? == b':').then_some(())?;
                    self.at += 1;
                    self.value(&places.enter(&name), depth + 1)?;
                }
            }
        }
    }

    fn array(&mut self, places: &Places<'_>, depth: usize) -> Option<()> {
        self.at += 1;
        loop {
            match self.next()? {
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                b',' => self.at += 1,
                _ => self.value(places, depth + 1)?,
            }
        }
    }

    /// The first byte that is no white space.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let blanks = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        self.at += blanks;
        Some(rest[blanks])
    }

    /// A text, decoded.
    fn string(&mut self) -> Option<std::borrow::Cow<'t, str>> {
        let start = self.at;
        self.skip_string()?;
        let json = &self.text[start..self.at];
        if json.contains('\\') {
            return serde_json::from_str::<String>(json).ok().map(Into::into);
        }
        json.get(1..json.len() - 1).map(Into::into)
    }

    fn skip_string(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            match bytes.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    /// Goes behind one value.
    fn skip(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            match self.next()? {
                b'"' => self.skip_string()?,
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    open = open.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => {
                    let rest = &self.text.as_bytes()[self.at..];
                    let is_end =
                        |byte: &u8| matches!(byte, b',' | b':' | b'}' | b']') || byte.is_ascii_whitespace();
                    self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                }
            }
            if open == 0 {
                return Some(());
            }
        }
    }

    fn put_some(&mut self, start: usize, json: Option<String>) {
        if let Some(json) = json {
            self.put(start, &json);
        }
    }

    /// Puts `json` in the place of what was read since `start`.
    fn put(&mut self, start: usize, json: &str) {
        self.out.push_str(&self.text[self.copied..start]);
        self.out.push_str(json);
        self.copied = self.at;
    }
}

//! The kinds of values a setting can have, each with the words that tell what was expected and what was found.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use dlo_core::UnknownCode;
use dlo_core::units::{ByteSize, HumanDuration};
use toml_edit::Value;

use super::expand::expand;
use super::reader::{Found, Section};

/// Characters of one text value.
const LONGEST: usize = 8 * 1024;

impl Section<'_> {
    /// Text, with its variables filled in. Absent if it is not there or does not fit, which is then noted.
    pub(crate) fn text(&self, key: &'static str) -> Option<String> {
        let found = self.value(key)?;
        self.text_of(&found)
    }

    /// Text that must not be empty.
    pub(crate) fn name(&self, key: &'static str) -> Option<String> {
        let text = self.text(key)?;
        let fits = !text.trim().is_empty() && text.chars().count() <= dlo_core::limits::NAME;
        if !fits {
            self.problem(key, format!("expected 1 to {} characters", dlo_core::limits::NAME));
        }
        fits.then_some(text)
    }

    /// Text, or a list of texts.
    pub(crate) fn texts(&self, key: &'static str) -> Vec<String> {
        let Some(found) = self.value(key) else { return Vec::new() };
        let Value::Array(list) = found.value else { return self.text_of(&found).into_iter().collect() };
        list.iter()
            .filter_map(|value| self.text_of(&Found { path: found.path.clone(), line: found.line, value }))
            .collect()
    }

    /// Names that the user chose, each with a text.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let Some(table) = self.table() else { return Vec::new() };
        let mut pairs = Vec::new();
        for (name, item) in table.iter() {
            match item.as_value() {
                Some(value) => {
                    let found = Found { path: self.path_of(name), line: self.line(), value };
                    pairs.extend(self.text_of(&found).map(|text| (name.to_string(), text)));
                }
                None => self.problem(name, "is a text; write it as `name = \"…\"`"),
            }
        }
        pairs
    }

    pub(crate) fn flag(&self, key: &'static str) -> Option<bool> {
        let found = self.value(key)?;
        match found.value {
            Value::Boolean(flag) => Some(*flag.value()),
            other => self.unfit(&found, "true or false", other),
        }
    }

    /// A whole number within a range.
    pub(crate) fn number(&self, key: &'static str, range: RangeInclusive<i64>) -> Option<i64> {
        let found = self.value(key)?;
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        match found.value {
            Value::Integer(number) if range.contains(number.value()) => Some(*number.value()),
            other => self.unfit(&found, &expected, other),
        }
    }

    /// A span of time such as `30s`, `10m`, `7d`.
    pub(crate) fn duration(&self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let found = self.value(key)?;
        let (least, most) = (HumanDuration(*range.start()), HumanDuration(*range.end()));
        let expected = format!("a span of time from {least} to {most}, such as \"30s\" or \"7d\"");
        let Value::String(_) = found.value else { return self.unfit(&found, &expected, found.value) };
        let text = self.text_of(&found)?;
        match text.parse() {
            Ok(HumanDuration(span)) if range.contains(&span) => Some(span),
            _ => self.unfit_text(&found, &expected, &text),
        }
    }

    /// A number of bytes such as `512kb`, `16mb`, or a plain number.
    pub(crate) fn size(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let found = self.value(key)?;
        let (least, most) = (ByteSize(*range.start()), ByteSize(*range.end()));
        let expected = format!("a size from {least} to {most}, such as \"16mb\"");
        let text = match found.value {
            Value::String(_) => self.text_of(&found)?,
            Value::Integer(number) => number.value().to_string(),
            other => return self.unfit(&found, &expected, other),
        };
        match text.parse() {
            Ok(ByteSize(size)) if range.contains(&size) => Some(size),
            _ => self.unfit_text(&found, &expected, &text),
        }
    }

    /// A word of a closed vocabulary.
    pub(crate) fn word<T: FromStr<Err = UnknownCode>>(&self, key: &'static str) -> Option<T> {
        let text = self.text(key)?;
        match text.parse() {
            Ok(word) => Some(word),
            Err(unknown) => {
                self.problem(
                    key,
                    format!("expected one of {}, found \"{}\"", unknown.expected, unknown.found),
                );
                None
            }
        }
    }

    pub(crate) fn path(&self, key: &'static str) -> Option<PathBuf> {
        let text = self.text(key)?;
        if text.is_empty() {
            self.problem(key, "expected a path, found an empty text");
            return None;
        }
        Some(PathBuf::from(text))
    }

    fn text_of(&self, found: &Found<'_>) -> Option<String> {
        let Value::String(text) = found.value else {
            return self.unfit(found, "text in quotes", found.value);
        };
        match expand(text.value(), self.reader.env) {
            Ok(text) if text.chars().count() <= LONGEST => Some(text),
            Ok(_) => {
                let what = format!("`{}` expected at most {LONGEST} characters", found.path);
                self.reader.problem(found.line, what);
                None
            }
            Err(bad) => {
                self.reader.problem(found.line, format!("`{}`: {bad}", found.path));
                None
            }
        }
    }

    fn unfit<T>(&self, found: &Found<'_>, expected: &str, value: &Value) -> Option<T> {
        let shown = match value {
            Value::String(text) => format!("\"{}\"", short(text.value())),
            Value::Integer(number) => number.value().to_string(),
            Value::Float(number) => number.value().to_string(),
            Value::Boolean(flag) => flag.value().to_string(),
            Value::Datetime(_) => "a date".to_string(),
            Value::Array(_) => "a list".to_string(),
            Value::InlineTable(_) => "a table".to_string(),
        };
        self.reader.problem(found.line, format!("`{}` expected {expected}, found {shown}", found.path));
        None
    }

    fn unfit_text<T>(&self, found: &Found<'_>, expected: &str, text: &str) -> Option<T> {
        let what = format!("`{}` expected {expected}, found \"{}\"", found.path, short(text));
        self.reader.problem(found.line, what);
        None
    }
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

//! Masking what is sensitive (I2): a copy for those without the right to see it. The original is never touched.
//!
//! Three kinds of rules: fields of JSON payloads by path, headers by name, and patterns in any text. Masking never fails
//! and errs on the dark side: where rules name fields and the payload cannot be read as JSON, or is too large to be
//! looked through, the whole payload is hidden, because a broken document is just where a secret would slip out.
//! Of a JSON document every byte that is not hidden stays: order, spelling, and names that an object has twice.

mod detect;
mod document;
mod path;
mod stand_in;

use std::borrow::Cow;

use bytes::Bytes;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Header, Headers};
use crate::pattern::{OneOrMany, PATTERNS, Patterns, RuleError, expression};

pub use detect::Detector;
use document::{Replace, rewrite};
use path::{FieldPath, Places};
pub use stand_in::{COPIES, without_stand_ins};

/// What stands in the place of what is hidden.
pub const MASK: &str = "***";
/// Bytes of a payload that are looked through; a larger one is hidden whole.
pub const LOOKED_THROUGH: usize = 4 * 1024 * 1024;

/// `[redact]` as config writes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedactRules {
    /// Paths of JSON fields: `customer.card`, `*.password`, `**.iban`. `*` is one field, `**` any number of them; array
    /// positions do not count.
    pub fields: Vec<String>,
    /// Header names, `*` for any run of characters, without regard to case.
    pub headers: Vec<String>,
    /// Regular expressions; what they match is hidden in every text.
    pub patterns: Vec<String>,
    /// Known kinds of secrets, found wherever they stand.
    pub detect: Vec<Detector>,
}

/// Rules, ready to use. Without rules nothing is hidden.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    fields: Vec<FieldPath>,
    headers: Patterns,
    patterns: Vec<Regex>,
    detect: Vec<Detector>,
}

impl Redactor {
    pub fn compile(rules: &RedactRules) -> Result<Self, RuleError> {
        for (field, count) in [("fields", rules.fields.len()), ("patterns", rules.patterns.len())] {
            if count > PATTERNS {
                let problem = format!("expected at most {PATTERNS}, found {count}");
                return Err(RuleError::new("redact", field, problem));
            }
        }
        let headers = match rules.headers.as_slice() {
            [] => Patterns::default(),
            names => {
                let lower = names.iter().map(|name| name.to_ascii_lowercase()).collect();
                Patterns::compile("redact", "headers", &OneOrMany::Many(lower))?
            }
        };
        Ok(Self {
            fields: rules.fields.iter().map(|text| FieldPath::parse(text)).collect::<Result<_, _>>()?,
            headers,
            patterns: rules.patterns.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?,
            detect: rules.detect.clone(),
        })
    }

    /// The text with what is sensitive hidden.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        let replace = |masked: &mut Cow<'a, str>, next: Option<String>| {
            if let Some(next) = next {
                *masked = Cow::Owned(next);
            }
        };
        for regex in &self.patterns {
            let next = owned(regex.replace_all(&masked, regex::NoExpand(MASK)));
            replace(&mut masked, next);
        }
        for detector in &self.detect {
            let next = owned(detector.mask(&masked));
            replace(&mut masked, next);
        }
        masked
    }

    /// The headers with what is sensitive hidden. Names stay.
    pub fn headers(&self, headers: &Headers) -> Headers {
        Headers(headers.iter().map(|header| self.header(header)).collect())
    }

    fn header(&self, header: &Header) -> Header {
        let value = header.value.as_ref().map(|value| {
            if self.headers.matches(&header.name.to_ascii_lowercase()) {
                return Bytes::from_static(MASK.as_bytes());
            }
            match self.bytes_as_text(value) {
                Cow::Borrowed(_) => value.clone(),
                Cow::Owned(masked) => Bytes::from(masked),
            }
        });
        Header { name: header.name.clone(), value }
    }

    /// The payload with what is sensitive hidden; as it is when nothing in it is.
    pub fn payload<'a>(&self, payload: &'a [u8]) -> Cow<'a, [u8]> {
        if self.fields.is_empty() && self.patterns.is_empty() && self.detect.is_empty() {
            return Cow::Borrowed(payload);
        }
        if payload.len() > LOOKED_THROUGH {
            return hidden(payload, "too large to be masked");
        }
        match rewrite(payload, &self.fields, &mut Masks(self)) {
            Ok(None) => Cow::Borrowed(payload),
            Ok(Some(masked)) => Cow::Owned(masked.into_bytes()),
            Err(_) if self.fields.is_empty() => self.bytes_as_text(payload),
            Err(_) => hidden(payload, "no JSON, so its fields cannot be masked"),
        }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && !self.looks_into_payloads()
    }

    /// Whether anything of a payload may be hidden.
    pub fn looks_into_payloads(&self) -> bool {
        !(self.fields.is_empty() && self.patterns.is_empty() && self.detect.is_empty())
    }

    /// Whether a part of this text is hidden where it is shown.
    pub fn hides_text(&self, text: &str) -> bool {
        matches!(self.text(text), Cow::Owned(_))
    }

    /// Whether the values of headers of this name are hidden.
    pub fn hides_header(&self, name: &str) -> bool {
        self.headers.matches(&name.to_ascii_lowercase())
    }

    /// Whether the field of a payload at this path is hidden, by itself or with what it is part of.
    pub fn hides_field(&self, path: &[String]) -> bool {
        let mut places = Places::start(&self.fields);
        path.iter().any(|name| {
            places = places.enter(name);
            places.reached() || self.hides_text(name)
        })
    }

    /// Patterns on bytes that may be text; as they are when nothing matches.
    fn bytes_as_text<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self.text(&String::from_utf8_lossy(bytes)) {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(masked) => Cow::Owned(masked.into_bytes()),
        }
    }
}

/// Puts the mask in the place of what is hidden.
struct Masks<'r>(&'r Redactor);

impl Replace for Masks<'_> {
    fn value(&mut self, _: &str) -> Option<String> {
        Some(Value::from(MASK).to_string())
    }

    /// A card number may well be sent as a number.
    fn scalar(&mut self, text: &str, _: bool) -> Option<String> {
        self.name(text)
    }

    /// A name can be a secret too: `{"jane@example.com": {…}}`.
    fn name(&mut self, name: &str) -> Option<String> {
        owned(self.0.text(name)).map(|masked| Value::from(masked).to_string())
    }
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

fn hidden(payload: &[u8], why: &str) -> Cow<'static, [u8]> {
    Cow::Owned(format!("{MASK} ({} bytes: {why})", payload.len()).into_bytes())
}

fn pattern(text: &str) -> Result<Regex, RuleError> {
    let regex = expression("redact", "patterns", text)?;
    if regex.is_match("") {
        let problem = "matches empty text, so it would hide nothing and write the mask everywhere; \
                       let it match at least one character";
        return Err(RuleError::new("redact", "patterns", problem));
    }
    Ok(regex)
}

#[cfg(test)]
mod tests;

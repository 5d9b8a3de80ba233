//! Patterns that rules are made of: a name, or a name with `*` for any run of characters.
//!
//! Classification, ownership and redaction share them, and share the way a wrong rule is refused: by the rule's
//! name, the field, what was found and what would be right. Matching looks at each character a bounded number
//! of times; no pattern can hang the consumer.

use std::collections::HashSet;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::limits;

/// Rules in one list.
pub const RULES: usize = 1_000;
/// Patterns in one field of a rule.
pub const PATTERNS: usize = 1_000;

/// Bytes that one compiled expression may take.
const REGEX_SIZE: usize = 1 << 20;

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule}: `{field}`: {problem}")]
pub struct RuleError {
    /// Its name in quotes, or its place in the list.
    pub rule: String,
    pub field: &'static str,
    pub problem: String,
}

impl RuleError {
    pub(crate) fn new(rule: &str, field: &'static str, problem: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), field, problem: problem.into() }
    }
}

/// One or several patterns as config writes them: `"KeyError"` or `["KeyError", "*.Timeout*"]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

impl From<&str> for OneOrMany {
    fn from(text: &str) -> Self {
        Self::One(text.to_owned())
    }
}

impl From<&[&str]> for OneOrMany {
    fn from(texts: &[&str]) -> Self {
        Self::Many(texts.iter().map(|text| (*text).to_owned()).collect())
    }
}

impl std::fmt::Display for OneOrMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.as_slice().join("|"))
    }
}

/// A name with `*` for any run of characters, none included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    /// What stands between the stars; a name without a star is one piece.
    pieces: Vec<String>,
}

impl Glob {
    pub fn new(text: &str) -> Self {
        Self { pieces: text.split('*').map(str::to_owned).collect() }
    }

    /// Whether the whole of `text` fits.
    pub fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|name| name == text);
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        // The leftmost fit of each piece leaves the most room for those behind it.
        for piece in middle {
            match rest.find(piece.as_str()) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

/// Patterns of one field, ready to match: names are looked up, globs are tried in order.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    names: HashSet<String>,
    globs: Vec<Glob>,
}

impl Patterns {
    pub(crate) fn compile(rule: &str, field: &'static str, texts: &OneOrMany) -> Result<Self, RuleError> {
        let texts = texts.as_slice();
        if texts.is_empty() || texts.len() > PATTERNS {
            let problem = format!("expected 1 to {PATTERNS} patterns, found {}", texts.len());
            return Err(RuleError::new(rule, field, problem));
        }
        let mut patterns = Self::default();
        for text in texts {
            if text.is_empty() || text.len() > limits::NAME {
                let problem = format!(
                    "expected a name of 1 to {} bytes, with `*` for any run of characters; found {}",
                    limits::NAME,
                    text.len()
                );
                return Err(RuleError::new(rule, field, problem));
            }
            if text.contains('*') {
                patterns.globs.push(Glob::new(text));
            } else {
                patterns.names.insert(text.clone());
            }
        }
        Ok(patterns)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }

    pub fn matches(&self, text: &str) -> bool {
        self.names.contains(text) || self.globs.iter().any(|glob| glob.matches(text))
    }

    /// As [`Patterns::matches`], for a value that may not be known: then nothing matches.
    pub fn matches_known(&self, text: Option<&str>) -> bool {
        text.is_some_and(|text| self.matches(text))
    }

    /// Whether the class fits, whole or by its last segment: `KeyError` fits `builtins.KeyError` and `app::KeyError`.
    pub fn matches_class(&self, class: &str) -> bool {
        let simple = simple_name(class);
        self.matches(class) || (simple.len() < class.len() && self.matches(simple))
    }
}

/// The last segment of a class name: behind the last `.`, `:`, `/`, `\`, `$` or `*` (Go's pointers).
pub fn simple_name(class: &str) -> &str {
    class.rsplit(['.', ':', '/', '\\', '$', '*']).find(|segment| !segment.is_empty()).unwrap_or(class)
}

/// A regular expression of a rule. They run in linear time, so none can hang the consumer.
pub(crate) fn expression(rule: &str, field: &'static str, text: &str) -> Result<Regex, RuleError> {
    RegexBuilder::new(text).size_limit(REGEX_SIZE).build().map_err(|cause| {
        // The cause draws the expression over several lines; its last line says what is wrong.
        let cause = cause.to_string();
        let what = cause.lines().last().unwrap_or_default().trim_start_matches("error: ");
        RuleError::new(rule, field, format!("expected a regular expression (RE2 style): {what}"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        Patterns::compile("r", "class", &OneOrMany::from(texts)).unwrap()
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        let table = [
            ("order.*", "order.placed", true),
            ("order.*", "order.", true),
            ("order.*", "orders", false),
            ("*Timeout*", "ReadTimeoutException", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "anything", true),
            ("exact", "exact", true),
            ("exact", "Exact", false),
        ];
        for (pattern, text, fits) in table {
            assert_eq!(Glob::new(pattern).matches(text), fits, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_class_fits_by_its_last_segment() {
        let timeout = patterns(&["TimeoutException", "Key*"]);
        for class in [
            "TimeoutException",
            "java.util.concurrent.TimeoutException",
            "app::errors::KeyError",
            "Outer$TimeoutException",
            "App\\KeyMissing",
        ] {
            assert!(timeout.matches_class(class), "{class}");
        }
        assert!(!timeout.matches_class("TimeoutException.Inner"));
        assert!(!timeout.matches_class(""));
        assert!(patterns(&["DeadlineExceeded"]).matches_class("*net.DeadlineExceeded"));
    }

    #[test]
    fn a_wrong_pattern_is_refused_by_rule_and_field() {
        let refusal = Patterns::compile("`tax`", "class", &OneOrMany::from("")).unwrap_err();
        assert!(
            refusal.to_string().starts_with("rule `tax`: `class`: expected a name of 1 to 256"),
            "{refusal}"
        );
        assert!(Patterns::compile("`tax`", "class", &OneOrMany::Many(vec![])).is_err());
    }

    proptest! {
        #[test]
        fn a_text_fits_itself_with_any_part_starred(text in "[a-c]{0,12}", from in 0..12_usize, to in 0..12_usize) {
            let (from, to) = (from.min(text.len()), to.min(text.len()));
            let starred = format!("{}*{}", &text[..from.min(to)], &text[from.max(to)..]);
            prop_assert!(Glob::new(&starred).matches(&text));
        }

        #[test]
        fn no_text_makes_matching_panic(pattern in "\\PC{0,20}", text in "\\PC{0,40}") {
            let _ = Glob::new(&pattern).matches(&text);
            let _ = simple_name(&text);
        }
    }
}

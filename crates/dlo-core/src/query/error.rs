//! What is wrong with a query, where, and what to write instead.
//!
//! An error knows its place in the text but does not keep the text: whoever has it asks for [`QueryError::pointing`],
//! which draws the caret. What the user wrote is repeated in part only, so that an error stays one line.

use std::ops::Range;

use crate::limits;

/// Characters of what was found that an error repeats.
const FOUND: usize = 64;
/// Characters of the query that [`QueryError::pointing`] shows on either side of the place.
const AROUND: usize = 60;

/// A query that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct QueryError {
    /// The bytes of the text that are meant. Empty where something is missing.
    pub at: Range<usize>,
    /// The character at which they begin, counted from one.
    pub column: usize,
    /// Names that may have been meant, the nearest first; at most three.
    pub near: Vec<String>,
    pub problem: Problem,
}

/// The ways in which a query can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the query is longer than {} characters", limits::QUERY)]
    TooLong,
    #[error("the query has more than {} terms", limits::QUERY_TERMS)]
    TooManyTerms,
    #[error("unknown field `{found}`{directions}")]
    UnknownField { found: String, directions: String },
    #[error("`{field}` needs a name after a dot, such as `{example}`")]
    MissingName { field: &'static str, example: &'static str },
    #[error("`{field}:` needs a value right behind the colon")]
    MissingValue { field: String },
    #[error("`{field}` cannot be compared; if the value begins with `{op}`, put it in quotes")]
    NotComparable { field: String, op: &'static str },
    #[error("`{field}` needs a comparison, such as `{example}`")]
    NeedsComparison { field: &'static str, example: &'static str },
    #[error("a whole day cannot be negated; say which side is meant, with `{field}:<` or `{field}:>=`")]
    NegatedDay { field: &'static str },
    #[error("expected {expected}, found `{found}`")]
    BadValue { expected: String, found: String },
    #[error("the quote is never closed; inside quotes, a quote is written \\\" and a backslash \\\\")]
    UnclosedQuote,
    #[error(
        "a quote stands inside a word; quotes go around a whole word, phrase or value, with a space behind"
    )]
    StrayQuote,
    #[error("there is no word to search for; a word is made of letters and digits")]
    NoWord,
}

impl Problem {
    pub(super) fn bad_value(expected: impl Into<String>, found: &str) -> Self {
        Self::BadValue { expected: expected.into(), found: clip(found) }
    }

    pub(super) fn at(self, text: &str, at: Range<usize>) -> QueryError {
        let column = text.get(..at.start).map_or(0, |before| before.chars().count()) + 1;
        QueryError { at, column, near: Vec::new(), problem: self }
    }
}

/// What was found, short enough to be repeated.
pub(super) fn clip(found: &str) -> String {
    let mut clipped: String = found.chars().take(FOUND).map(plain).collect();
    if clipped.len() < found.len() && found.chars().nth(FOUND).is_some() {
        clipped.push('…');
    }
    clipped
}

/// A character that keeps a line a line.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

impl QueryError {
    pub(super) fn with_near(mut self, near: Vec<&str>) -> Self {
        self.near = near.into_iter().map(String::from).collect();
        self
    }

    /// The query with the place marked, and what is wrong with it:
    ///
    /// ```text
    /// status:open attempts:>=three
    ///                        ^^^^^ expected a whole number, found `three`
    /// ```
    pub fn pointing(&self, text: &str) -> String {
        let marked = text.get(self.at.clone()).map_or(0, |part| part.chars().count()).clamp(1, AROUND);
        let start = self.column - 1;
        let skipped = start.saturating_sub(AROUND);
        let shown = start - skipped + marked + AROUND;
        let line: String = text.chars().skip(skipped).take(shown).map(plain).collect();
        let (before, after) = (if skipped > 0 { "…" } else { "" }, &" ".repeat(start - skipped));
        let indent = if skipped > 0 { " " } else { "" };
        format!("{before}{line}\n{indent}{after}{} {}", "^".repeat(marked), self.problem)
    }
}

#[cfg(test)]
mod tests {
    use crate::query::Query;
    use crate::time::Timestamp;

    fn pointed(text: &str) -> String {
        Query::parse(text, Timestamp::EPOCH).unwrap_err().pointing(text)
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_eq!(
            pointed("straße attempts:>=three"),
            "straße attempts:>=three\n                  ^^^^^ expected a whole number such as 3, found `three`"
        );
        assert_eq!(
            pointed("class: open"),
            "class: open\n      ^ `class:` needs a value right behind the colon"
        );
    }

    #[test]
    fn a_long_query_is_shown_around_the_place_only() {
        let text = format!("{}stauts:open\tnow", "word ".repeat(40));
        let shown = pointed(&text);
        let (line, caret) = shown.split_once('\n').unwrap();
        assert!(line.starts_with('…') && line.ends_with("stauts:open now"), "{shown}");
        let column = |line: &str, what: &str| line.find(what).map(|at| line[..at].chars().count());
        assert_eq!(column(line, "stauts"), column(caret, "^"), "{shown}");
    }

    #[test]
    fn an_error_repeats_only_the_beginning_of_what_was_found() {
        let error = Query::parse(&format!("attempts:{}", "x".repeat(1_000)), Timestamp::EPOCH).unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }
}

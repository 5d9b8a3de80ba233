//! Cuts the text of a query into terms. Knows quotes, signs and dots; does not know a single field.
//!
//! ```text
//! term  = [ "-" ] ( phrase | word | field ":" [ op ] value )
//! field = part { "." part }          the parts behind the first may be quoted
//! value = phrase | what comes before the next space
//! ```
//! Inside quotes `\"` is a quote and `\\` a backslash; any other backslash is itself, as people paste paths.

use std::ops::Range;

use super::Op;
use super::error::{Problem, QueryError};

/// A run of text with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) quoted: bool,
    pub(super) at: Range<usize>,
}

/// One term, not yet understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawTerm {
    pub(super) negated: bool,
    pub(super) kind: RawKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum RawKind {
    Free(Piece),
    /// The path has at least one part, and the first is not quoted.
    Field {
        path: Vec<Piece>,
        op: Option<(Op, Range<usize>)>,
        value: Piece,
    },
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next term, or `None` at the end.
    pub(super) fn term(&mut self) -> Result<Option<RawTerm>, QueryError> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        let negated = self.take("-");
        let start = self.at;
        if self.peek() == Some('"') {
            return Ok(Some(RawTerm { negated, kind: RawKind::Free(self.phrase(&[])?) }));
        }
        let path = self.path()?;
        if !self.take(":") {
            if let Some(quoted) = path.iter().find(|part| part.quoted) {
                return Err(Problem::StrayQuote.at(self.text, quoted.at.clone()));
            }
            if self.at == start && !negated {
                return Ok(None);
            }
            let at = start..self.at;
            let word = Piece { text: self.text[at.clone()].to_string(), quoted: false, at };
            return Ok(Some(RawTerm { negated, kind: RawKind::Free(word) }));
        }
        let op = self.op();
        let value = if self.peek() == Some('"') { self.phrase(&[])? } else { self.run(|_| false)? };
        Ok(Some(RawTerm { negated, kind: RawKind::Field { path, op, value } }))
    }

    /// The parts before a colon; for a free word, the word cut at its dots.
    fn path(&mut self) -> Result<Vec<Piece>, QueryError> {
        let mut parts = Vec::new();
        loop {
            let quoted = !parts.is_empty() && self.peek() == Some('"');
            parts.push(if quoted {
                self.phrase(&['.', ':'])?
            } else {
                self.run(|c| matches!(c, '.' | ':'))?
            });
            if !self.take(".") {
                return Ok(parts);
            }
        }
    }

    fn op(&mut self) -> Option<(Op, Range<usize>)> {
        let start = self.at;
        // The longer spellings first: `>=` also begins with `>`.
        let op = [Op::Ge, Op::Le, Op::Gt, Op::Lt, Op::Eq].into_iter().find(|op| self.take(op.sign()))?;
        Some((op, start..self.at))
    }

    /// Up to the next space, or to where `stop` says.
    fn run(&mut self, stop: impl Fn(char) -> bool) -> Result<Piece, QueryError> {
        let start = self.at;
        let rest = self.rest();
        let len = rest.find(|c: char| c.is_whitespace() || c == '"' || stop(c)).unwrap_or(rest.len());
        self.at += len;
        if self.peek() == Some('"') {
            return Err(Problem::StrayQuote.at(self.text, self.at..self.at + 1));
        }
        Ok(Piece { text: rest[..len].to_string(), quoted: false, at: start..self.at })
    }

    /// A quoted run. Behind it stands a space, the end, or one of `followers`.
    fn phrase(&mut self, followers: &[char]) -> Result<Piece, QueryError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err(Problem::UnclosedQuote.at(self.text, start..start + 1));
            };
            self.at += c.len_utf8();
            match c {
                '"' => break,
                '\\' if matches!(self.peek(), Some('"' | '\\')) => {
                    text.extend(self.peek());
                    self.at += 1;
                }
                other => text.push(other),
            }
        }
        match self.peek() {
            Some(c) if !c.is_whitespace() && !followers.contains(&c) => {
                Err(Problem::StrayQuote.at(self.text, self.at - 1..self.at))
            }
            _ => Ok(Piece { text, quoted: true, at: start..self.at }),
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }
}

impl Op {
    /// As it is written between colon and value.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Result<Vec<RawTerm>, Problem> {
        let mut lexer = Lexer::new(text);
        let mut found = Vec::new();
        while let Some(term) = lexer.term().map_err(|error| error.problem)? {
            found.push(term);
        }
        Ok(found)
    }

    fn free(text: &str) -> Vec<(bool, String)> {
        let word = |term| match term {
            RawTerm { negated, kind: RawKind::Free(piece) } => (negated, piece.text),
            RawTerm { kind: RawKind::Field { .. }, .. } => panic!("a field in {text}"),
        };
        terms(text).unwrap().into_iter().map(word).collect()
    }

    #[test]
    fn spaces_part_terms_and_quotes_hold_them() {
        let yes = |text: &str| (false, text.to_string());
        assert_eq!(
            free(" tax \t\u{a0} \"not in  table\"\njava.lang.Error "),
            [yes("tax"), yes("not in  table"), yes("java.lang.Error")]
        );
        assert_eq!(free(r#"-tax -"a b""#), [(true, "tax".into()), (true, "a b".into())]);
        assert_eq!(terms("  ").unwrap(), []);
    }

    #[test]
    fn a_backslash_guards_quotes_and_backslashes_only() {
        assert_eq!(free(r#""say \"hi\" to C:\new \\""#), [(false, r#"say "hi" to C:\new \"#.to_string())]);
    }

    #[test]
    fn a_path_may_have_quoted_parts() {
        let found = terms(r#"payload.a."b.c:d".e:>="x y""#).unwrap();
        let RawKind::Field { path, op, value } = &found[0].kind else { panic!("no field") };
        let parts: Vec<&str> = path.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(parts, ["payload", "a", "b.c:d", "e"]);
        assert_eq!(op.as_ref().map(|(op, _)| *op), Some(Op::Ge));
        assert_eq!((value.text.as_str(), value.quoted), ("x y", true));
    }

    #[test]
    fn quotes_that_do_not_fit_are_refused() {
        assert_eq!(terms(r#"class:"Key"#), Err(Problem::UnclosedQuote));
        for text in [r#"can"t"#, r#""a"b"#, r#"class:a"b""#, r#"class:"a"b"#, r#"payload."a""#, r#"a."b"c:1"#]
        {
            assert_eq!(terms(text), Err(Problem::StrayQuote), "{text}");
        }
    }
}

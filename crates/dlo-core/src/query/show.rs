//! Writes a query as the text that means it: links on the page, filters that are remembered, tests.
//!
//! The text parses back to the same query. Quotes are used where the text would otherwise be read differently.

use std::fmt::{self, Display, Formatter};

use super::{Compare, Matcher, Op, Query, Term};

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("-")?;
        }
        self.matcher.fmt(f)
    }
}

impl Display for Matcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(name) => write!(f, "source:{}", value(name)),
            Self::Queue(name) => write!(f, "queue:{}", value(name)),
            Self::Group(id) => write!(f, "group:{id}"),
            Self::Type(name) => write!(f, "type:{}", value(name)),
            Self::Class(name) => write!(f, "class:{}", value(name)),
            Self::Consumer(name) => write!(f, "consumer:{}", value(name)),
            Self::Owner(None) => f.write_str("owner:none"),
            Self::Owner(Some(name)) if name == "none" => f.write_str("owner:\"none\""),
            Self::Owner(Some(name)) => write!(f, "owner:{}", value(name)),
            Self::Status(status) => write!(f, "status:{status}"),
            Self::Id(id) => write!(f, "id:{id}"),
            Self::Broker(kind) => write!(f, "broker:{kind}"),
            Self::Partition(number) => write!(f, "partition:{number}"),
            Self::Offset(compare) => write!(f, "offset:{compare}"),
            Self::Version(version) => write!(f, "version:{}", value(version)),
            Self::Reason(reason) => write!(f, "reason:{reason}"),
            Self::Verdict(verdict) => write!(f, "verdict:{verdict}"),
            Self::Rule(name) => write!(f, "rule:{}", value(name)),
            Self::Code(code) => write!(f, "code:{}", value(code)),
            Self::ConsumerId(id) => write!(f, "consumer_id:{}", value(id)),
            Self::Attempts(compare) => write!(f, "attempts:{compare}"),
            Self::Replays(compare) => write!(f, "replays:{compare}"),
            Self::Exhausted(_) => f.write_str("is:exhausted"),
            Self::Expiring(_) => f.write_str("is:expiring"),
            Self::Suspected(kind) => write!(f, "is:{kind}"),
            Self::Size(compare) => write!(f, "size:{compare}"),
            Self::Failed(compare) => write!(f, "failed:{compare}"),
            Self::Captured(compare) => write!(f, "captured:{compare}"),
            Self::Key(key) => write!(f, "key:{}", value(key)),
            Self::Correlation(id) => write!(f, "correlation:{}", value(id)),
            Self::Message(id) => write!(f, "message:{}", value(id)),
            Self::Trace(id) => write!(f, "trace:{}", value(id)),
            Self::Header { name, value: found } => {
                write!(f, "header.{}:{}", part(name, &[':']), value(found))
            }
            Self::Payload { path, value: found } => {
                f.write_str("payload")?;
                path.iter().try_for_each(|name| write!(f, ".{}", part(name, &[':', '.'])))?;
                write!(f, ":{}", value(found))
            }
            Self::Text(words) if words.starts_with('-') => f.write_str(&quoted(words)),
            Self::Text(words) => f.write_str(&part(words, &[':'])),
            Self::Hidden(inner) | Self::Shown { inner, .. } => inner.fmt(f),
        }
    }
}

impl<T: Display> Display for Compare<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Eq => write!(f, "{}", self.value),
            op @ (Op::Lt | Op::Le | Op::Gt | Op::Ge) => write!(f, "{}{}", op.sign(), self.value),
        }
    }
}

/// A value behind its colon.
pub(super) fn value(text: &str) -> String {
    if text.starts_with(['<', '>', '=']) { quoted(text) } else { part(text, &[]) }
}

/// Text as it is, or in quotes if it holds anything of a meaning of its own.
fn part(text: &str, special: &[char]) -> String {
    let plain = |c: char| !c.is_whitespace() && c != '"' && !special.contains(&c);
    if !text.is_empty() && text.chars().all(plain) { text.to_string() } else { quoted(text) }
}

/// Text in quotes.
fn quoted(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            written.push('\\');
        }
        written.push(c);
    }
    written.push('"');
    written
}

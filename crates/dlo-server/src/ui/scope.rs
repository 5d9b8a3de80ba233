//! A query in words: what a plan or a decision means, for somebody who does not read the query language.

use std::fmt::Display;

use dlo_core::query::{Compare, Matcher, Op, Query, Term};

use super::{Failed, names};
use crate::office::Office;
use dlo_core::suspect::Suspicion;

/// Each term as a phrase that goes on from "letters …", groups by what they are called.
pub(crate) async fn named(office: &Office, query: &Query) -> Result<Vec<String>, Failed> {
    let mut all = Vec::with_capacity(query.terms.len());
    for one in &query.terms {
        all.push(if let (Matcher::Group(id), false) = (&one.matcher, one.negated) {
            format!("of the group \u{201c}{}\u{201d}", names::group(office, *id).await?)
        } else {
            term(one)
        });
    }
    Ok(all)
}

fn term(term: &Term) -> String {
    let words = matcher(&term.matcher);
    if term.negated { format!("but not: {words}") } else { words }
}

fn matcher(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Source(name) => format!("of the source {name}"),
        Matcher::Queue(name) => format!("of the queue {name}"),
        Matcher::Group(id) => format!("of the group {id}"),
        Matcher::Type(name) => format!("of the type {name}"),
        Matcher::Class(name) => format!("that failed with {name}"),
        Matcher::Consumer(name) => format!("of the consumer {name}"),
        Matcher::Owner(None) => "that nobody owns".to_string(),
        Matcher::Owner(Some(name)) => format!("owned by {name}"),
        Matcher::Status(status) => format!("that are {}", super::words::phrase(status.as_str())),
        Matcher::Id(id) => format!("with the id {id}"),
        Matcher::Broker(kind) => format!("from {kind}"),
        Matcher::Partition(number) => format!("of partition {number}"),
        Matcher::Offset(compare) => format!("with an offset {}", compared(compare)),
        Matcher::Version(version) => format!("of event version {version}"),
        Matcher::Reason(reason) => format!("parked for the reason {}", super::words::phrase(reason.as_str())),
        Matcher::Verdict(verdict) => {
            format!("with the verdict {}", super::words::phrase(verdict.as_str()))
        }
        Matcher::Rule(name) => format!("decided by the rule {name}"),
        Matcher::Code(code) => format!("with the error code {code}"),
        Matcher::ConsumerId(id) => format!("of the consumer instance {id}"),
        Matcher::Attempts(compare) => format!("with attempts {}", compared(compare)),
        Matcher::Replays(compare) => format!("replayed before: {}", compared(compare)),
        Matcher::Expiring(_) => "that a rule takes away within a day".to_string(),
        Matcher::Suspected(Suspicion::Duplicate) => "that are suspected duplicates".to_string(),
        Matcher::Suspected(Suspicion::Return) => "that are suspected returns".to_string(),
        Matcher::Exhausted(_) => "replayed as often as allowed".to_string(),
        Matcher::Size(compare) => format!("with a payload of bytes {}", compared(compare)),
        Matcher::Failed(compare) => format!("that failed at a time {}", compared(compare)),
        Matcher::Captured(compare) => format!("captured at a time {}", compared(compare)),
        Matcher::Key(key) => format!("with the key {key}"),
        Matcher::Correlation(id) => format!("with the correlation id {id}"),
        Matcher::Message(id) => format!("with the message id {id}"),
        Matcher::Trace(id) => format!("with the trace id {id}"),
        Matcher::Header { name, value } => format!("whose header {name} is {value}"),
        Matcher::Payload { path, value } => format!("whose field {} is {value}", path.join(".")),
        Matcher::Text(text) => format!("with \u{201c}{text}\u{201d} in error or payload"),
        Matcher::Shown { inner, .. } => self::matcher(inner),
        Matcher::Hidden(inner) => {
            format!("by a masked value ({}), which finds nothing", self::matcher(inner))
        }
    }
}

fn compared<T: Display>(compare: &Compare<T>) -> String {
    let words = match compare.op {
        Op::Eq => "equal to",
        Op::Lt => "below",
        Op::Le => "up to",
        Op::Gt => "above",
        Op::Ge => "from",
    };
    format!("{words} {}", compare.value)
}

#[cfg(test)]
mod tests {
    use dlo_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_query_reads_as_a_sentence() {
        let query = Query::parse("source:orders class:KeyError -status:open attempts:>=3", Timestamp::EPOCH);
        let said = query.unwrap().terms.iter().map(term).collect::<Vec<_>>().join(", ");
        assert_eq!(
            said,
            "of the source orders, that failed with KeyError, but not: that are open, with attempts from 3"
        );
    }
}

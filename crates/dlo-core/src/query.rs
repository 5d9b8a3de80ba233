//! The search language: one grammar in page, CLI, API and config.
//!
//! Terms are AND. This file holds what a query *means*. `query/lex.rs` cuts the text into terms, `query/parse.rs` gives
//! each its meaning (the fields stand in `query/fields.rs`), `query/error.rs` points at the place that has none,
//! `query/show.rs` writes a query as text again, `query/complete.rs` says what may be typed next.
//! Whether a letter matches is asked of the stores, and of [`crate::words`].

pub mod complete;
mod error;
mod expiry;
mod fields;
mod lex;
mod limits;
mod parse;
mod show;
mod shown;

pub use error::{Problem, QueryError};
pub use expiry::{Ageing, End, Expiry, SOON};
pub use fields::{FIELDS, Field, Named, Values};
pub use limits::ReplayLimits;
pub use shown::ShownBy;

use crate::id::{GroupId, LetterId};
use crate::letter::Status;
use crate::origin::BrokerKind;
use crate::reason::Reason;
use crate::suspect::Suspicion;
use crate::time::Timestamp;
use crate::verdict::VerdictKind;

/// Everything that must hold for a letter to be found. No terms: every letter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    pub terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    pub negated: bool,
    pub matcher: Matcher,
}

/// One thing that a letter has or has not.
#[derive(Debug, Clone, PartialEq)]
pub enum Matcher {
    // What the group carries.
    Source(String),
    Queue(String),
    Group(GroupId),
    Type(String),
    Class(String),
    Consumer(String),
    /// `owner:none` is `None`.
    Owner(Option<String>),
    // What the letter carries, in columns.
    Status(Status),
    Id(LetterId),
    Broker(BrokerKind),
    Partition(i64),
    Offset(Compare<i64>),
    Version(String),
    Reason(Reason),
    Verdict(VerdictKind),
    Rule(String),
    Code(String),
    ConsumerId(String),
    Attempts(Compare<i64>),
    Replays(Compare<i64>),
    /// Replayed as often as its source allows.
    Exhausted(ReplayLimits),
    /// Open, and a rule of automation takes it away within a day.
    Expiring(Expiry),
    /// It may repeat another letter.
    Suspected(Suspicion),
    Size(Compare<i64>),
    /// Also what `age:` becomes, by the clock at the time of the question.
    Failed(Compare<Timestamp>),
    Captured(Compare<Timestamp>),
    // What is found through the index of exact words.
    Key(String),
    Correlation(String),
    Message(String),
    Trace(String),
    // What is read from headers, payload and error text.
    Header {
        name: String,
        value: String,
    },
    /// A field of a JSON payload; any element of an array on the way matches.
    Payload {
        path: Vec<String>,
        value: String,
    },
    /// A word, or words that stand next to each other, in error text or payload.
    Text(String),
    // What a person asks while values are masked.
    /// It asks for a hidden value: no letter has it.
    Hidden(Box<Matcher>),
    /// Words or a field of the payload, looked for in what these rules show.
    Shown {
        inner: Box<Matcher>,
        by: ShownBy,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compare<T> {
    pub op: Op,
    pub value: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

impl<T: PartialOrd> Compare<T> {
    /// Whether `found op value` holds.
    pub fn holds(&self, found: T) -> bool {
        match self.op {
            Op::Eq => found == self.value,
            Op::Lt => found < self.value,
            Op::Le => found <= self.value,
            Op::Gt => found > self.value,
            Op::Ge => found >= self.value,
        }
    }
}

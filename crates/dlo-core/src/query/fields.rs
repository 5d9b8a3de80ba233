//! Every field of the language on one page: its name, what it means in one line, and what may stand behind its colon.
//!
//! The order is that of the reference page (`docs/reference/query.md`). `query/parse.rs` knows the names from here and
//! reads the values; `query/complete.rs` offers both to whoever types.

use super::parse::nearest;
use crate::letter::Status;
use crate::origin::BrokerKind;
use crate::reason::Reason;
use crate::verdict::VerdictKind;

/// A field, as it is offered and explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// What it asks for, in one line.
    pub help: &'static str,
    /// A term that uses it.
    pub example: &'static str,
    pub values: Values,
}

/// What stands behind a field's colon, as far as it can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// One of these words and no other.
    Words(&'static [&'static str]),
    /// A name that groups carry: whoever keeps the groups knows which there are.
    Named(Named),
    /// Anything of its kind; these are usual.
    Usual(&'static [&'static str]),
    /// A day or a moment.
    Moment,
    /// What stands in letters alone. Never offered: it may be anybody's data.
    Own,
}

/// The words of groups that letters are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Named {
    Source,
    Queue,
    Type,
    Class,
    Consumer,
    Owner,
}

impl Named {
    pub const ALL: [Self; 6] =
        [Self::Source, Self::Queue, Self::Type, Self::Class, Self::Consumer, Self::Owner];

    /// The field that asks for it.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Queue => "queue",
            Self::Type => "type",
            Self::Class => "class",
            Self::Consumer => "consumer",
            Self::Owner => "owner",
        }
    }
}

const fn field(name: &'static str, help: &'static str, example: &'static str, values: Values) -> Field {
    Field { name, help, example, values }
}

const COUNTS: Values = Values::Usual(&["0", ">0", ">=3", ">=10"]);

/// Every field. `header` and `payload` take a name behind a dot.
pub const FIELDS: [Field; 31] = [
    field("status", "where the letter stands", "status:open", Values::Words(Status::WORDS)),
    field("source", "the source that it was captured from", "source:orders", Values::Named(Named::Source)),
    field(
        "queue",
        "queue, topic, stream or subject it was read from",
        "queue:orders.dlq",
        Values::Named(Named::Queue),
    ),
    field("group", "a group's id", "group:01936f3c-7a2e-7c1b-9d4f-2b8e6a0c5d17", Values::Own),
    field("type", "event type", "type:invoice.paid", Values::Named(Named::Type)),
    field("class", "error class", "class:KeyError", Values::Named(Named::Class)),
    field(
        "consumer",
        "consumer group that could not process it",
        "consumer:pricing",
        Values::Named(Named::Consumer),
    ),
    field("owner", "team; none: letters without one", "owner:payments", Values::Named(Named::Owner)),
    field("id", "a letter's id", "id:01936f3c-7a2e-7c1b-9d4f-2b8e6a0c5d17", Values::Own),
    field("broker", "kind of broker", "broker:kafka", Values::Words(BrokerKind::WORDS)),
    field("partition", "partition number", "partition:17", Values::Own),
    field("offset", "offset in its partition; can be compared", "offset:>=1000", Values::Own),
    field("version", "event version", "version:1", Values::Own),
    field("reason", "why it was parked", "reason:timeout", Values::Words(Reason::WORDS)),
    field(
        "verdict",
        "what was decided when it failed",
        "verdict:dead_letter",
        Values::Words(VerdictKind::WORDS),
    ),
    field("rule", "name of the rule that decided", "rule:bad-input", Values::Own),
    field("code", "error code", "code:E1042", Values::Own),
    field("consumer_id", "the consumer's instance", "consumer_id:pricing-7", Values::Own),
    field("attempts", "how often it was tried; can be compared", "attempts:>=3", COUNTS),
    field("replays", "how often it was replayed; can be compared", "replays:>0", COUNTS),
    field(
        "is",
        "what it is beside its status; exhausted: replayed as often as its source allows; expiring: a rule discards or archives it within a day; suspected_duplicate, suspected_return: it may repeat another letter",
        "is:exhausted",
        Values::Words(&["exhausted", "expiring", "suspected_duplicate", "suspected_return"]),
    ),
    field(
        "size",
        "payload size; can be compared",
        "size:>100kb",
        Values::Usual(&[">1kb", ">100kb", ">1mb", "0"]),
    ),
    field(
        "age",
        "time since it failed; must be compared",
        "age:>2h",
        Values::Usual(&["<15m", "<1h", ">2h", ">1d", ">7d"]),
    ),
    field(
        "failed",
        "when it failed: a day or a moment, in UTC; can be compared",
        "failed:>2026-11-01",
        Values::Moment,
    ),
    field("captured", "when the office received it; can be compared", "captured:>2026-11-01", Values::Moment),
    field("key", "message key", "key:C-441", Values::Own),
    field("correlation", "correlation id", "correlation:req_274ad", Values::Own),
    field("message", "the broker's message id", "message:42", Values::Own),
    field("trace", "trace id", "trace:4bf92f3577b34da6a3ce929d0e0e4736", Values::Own),
    field("header", "value of a header, by its name", "header.x-tenant:acme", Values::Own),
    field("payload", "value at a place of a JSON payload", "payload.customer.id:C-441", Values::Own),
];

/// What people call fields elsewhere.
const CALLED: [(&str, &str); 12] = [
    ("topic", "queue"),
    ("stream", "queue"),
    ("error", "class"),
    ("exception", "class"),
    ("event", "type"),
    ("event_type", "type"),
    ("team", "owner"),
    ("state", "status"),
    ("retries", "attempts"),
    ("body", "payload"),
    ("date", "failed"),
    ("msgid", "message"),
];

impl Field {
    pub fn named(name: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.name == name)
    }

    /// Whether a name stands behind it, after a dot.
    pub fn takes_name(&self) -> bool {
        matches!(self.name, "header" | "payload")
    }

    /// How well `typed` fits, the smaller the better: the beginning of the name, the beginning of what others call it,
    /// or a part of the name.
    pub(super) fn fits(&self, typed: &str) -> Option<u8> {
        let called = |(word, name): &(&str, &str)| *name == self.name && word.starts_with(typed);
        if self.name.starts_with(typed) {
            Some(0)
        } else if CALLED.iter().any(called) {
            Some(1)
        } else {
            self.name.contains(typed).then_some(2)
        }
    }
}

/// The fields that `found` may have been meant as, the nearest first; at most three.
pub(super) fn near(found: &str) -> Vec<&'static str> {
    let called = CALLED.iter().find(|(name, _)| *name == found).map(|(_, field)| *field);
    let spelled = nearest(found, FIELDS.iter().map(|field| field.name));
    let mut near: Vec<&'static str> = called.into_iter().chain(spelled).collect();
    near.dedup();
    near.truncate(3);
    near
}

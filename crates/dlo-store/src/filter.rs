//! A query, sorted by where its terms can be answered: by the group, by the row, by the word indexes, by the block.
//!
//! Both stores go the same way: choose the cheapest source of candidates, then hold every candidate against the
//! whole query here. So an index may promise too much, never too little, and both engines agree on what matches.

use std::borrow::Cow;

use std::ops::RangeInclusive;

use dlo_core::group::Group;
use dlo_core::id::GroupId;
use dlo_core::letter::{Letter, Status};
use dlo_core::query::{Expiry, Matcher, Op, Query, Term};
use dlo_core::time::Timestamp;
use dlo_core::words;

use crate::StoreError;
use crate::block::Cold;
use crate::grams::{self, Term as IndexTerm};
use crate::place::{Place, Range};
use crate::prepare::{has_token, header_field, suspicion_token};

/// A query ready to be answered.
#[derive(Debug)]
pub(crate) struct Filter<'q> {
    terms: &'q [Term],
    /// Tokens that every match has in the index of rows.
    pub(crate) quick: Vec<String>,
    /// Hashes of exact values that every match has in its block.
    pub(crate) exact: Vec<u64>,
    /// Folded texts that stand in the error text or in the payload of every match.
    pub(crate) texts: Vec<String>,
    /// For each term the folded text it asks for; empty where it asks for none.
    folded: Vec<String>,
}

impl<'q> Filter<'q> {
    pub(crate) fn new(query: &'q Query) -> Self {
        let mut filter = Self {
            terms: &query.terms,
            quick: Vec::new(),
            exact: Vec::new(),
            texts: Vec::new(),
            folded: query.terms.iter().map(|term| text_of(&term.matcher)).collect(),
        };
        for term in query.terms.iter().filter(|term| !term.negated) {
            filter.take_tokens(&term.matcher);
        }
        filter
    }

    fn take_tokens(&mut self, matcher: &Matcher) {
        match matcher {
            Matcher::Key(value) => self.take_exact("key", value),
            Matcher::Correlation(value) => self.take_exact("correlation", value),
            Matcher::Message(value) => self.take_exact("message", value),
            Matcher::Trace(value) => self.take_exact("trace", value),
            Matcher::Version(value) => self.take_exact("version", value),
            Matcher::Code(value) => self.take_exact("code", value),
            Matcher::Rule(value) => self.take_exact("rule", value),
            Matcher::ConsumerId(value) => self.take_exact("consumer_id", value),
            Matcher::Reason(value) => self.take_exact("reason", value.as_str()),
            Matcher::Verdict(value) if has_token(*value) => self.take_exact("verdict", value.as_str()),
            Matcher::Suspected(kind) => self.quick.push(suspicion_token(*kind)),
            Matcher::Header { name, value } => {
                self.exact.push(words::exact_hash(&header_field(name), value.as_bytes()));
            }
            Matcher::Payload { path, value } => {
                self.exact.push(words::exact_hash(&words::payload_field(path), value.as_bytes()));
            }
            Matcher::Text(text) => self.texts.push(words::fold(text)),
            // What is shown is a part of what is stored: the index of that finds it.
            Matcher::Shown { inner, .. } => self.take_tokens(inner),
            _ => {}
        }
    }

    fn take_exact(&mut self, field: &str, value: &str) {
        self.quick.push(words::exact(field, value.as_bytes()));
    }

    /// Ranges of terms of which the block of every match has one each; none: no index helps.
    pub(crate) fn wanted(&self) -> Vec<RangeInclusive<IndexTerm>> {
        let exact = self.exact.iter().map(|hash| grams::exact(*hash)).map(|term| term..=term);
        exact.chain(self.texts.iter().flat_map(|text| grams::wanted(text))).collect()
    }

    /// Whether some term cannot be decided for this letter without its block: text is looked for in the error first.
    pub(crate) fn needs_block(&self, letter: &Letter) -> bool {
        self.terms.iter().zip(&self.folded).any(|(term, folded)| match &term.matcher {
            Matcher::Header { .. } | Matcher::Payload { .. } => true,
            Matcher::Text(_) => term.negated || !words::contains(&letter.error_message, folded),
            Matcher::Shown { by, .. } => {
                folded.is_empty() || term.negated || !by.contains(&letter.error_message, folded)
            }
            Matcher::Expiring(expiry) => expiry.reads_blocks(),
            _ => false,
        })
    }

    /// The texts asked for that do not stand in this error text: they must stand in the payload.
    pub(crate) fn texts_beyond(&self, error_message: &str) -> Vec<&str> {
        let beyond = |text: &&String| !words::contains(error_message, text);
        self.texts.iter().filter(beyond).map(String::as_str).collect()
    }

    /// The letter that an `id:` term names: then nothing else needs to be searched.
    pub(crate) fn only(&self) -> Option<dlo_core::id::LetterId> {
        self.terms.iter().find_map(|term| match term.matcher {
            Matcher::Id(id) if !term.negated => Some(id),
            _ => None,
        })
    }

    /// The statuses that a match can have.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        let legal = |status: &Status| {
            self.terms.iter().all(|term| match &term.matcher {
                Matcher::Status(wanted) => (wanted == status) != term.negated,
                Matcher::Expiring(_) => term.negated || *status == Status::Open,
                // No letter has it, so none needs to be looked at.
                Matcher::Hidden(_) => term.negated,
                _ => true,
            })
        };
        Status::ALL.iter().copied().filter(legal).collect()
    }

    /// The places that the query's times leave, before `high`.
    pub(crate) fn range(&self, high: Place) -> Range {
        let mut range = Range { low: Place::from(Timestamp::EPOCH), high };
        for term in self.terms.iter().filter(|term| !term.negated) {
            if let Matcher::Expiring(expiry) = &term.matcher
                && let Some(last) = expiry.failed_until()
            {
                range.high = range.high.min(Place::behind(last));
            }
            let Matcher::Failed(compare) = &term.matcher else { continue };
            if matches!(compare.op, Op::Gt | Op::Ge | Op::Eq) {
                range.low = range.low.max(Place::from(compare.value));
            }
            if matches!(compare.op, Op::Lt | Op::Le | Op::Eq) {
                range.high = range.high.min(Place::behind(compare.value));
            }
        }
        range
    }

    /// Whether letters of this group can match. An overflow group holds many causes, so only its source speaks for it.
    pub(crate) fn may_hold(&self, group: &Group) -> bool {
        self.terms.iter().all(|term| match group_says(group, &term.matcher) {
            Some(holds) => holds != term.negated,
            None => true,
        })
    }

    /// Whether a term rules out groups at all; if not, there is no need to look at them.
    pub(crate) fn concerns_groups(&self) -> bool {
        self.terms.iter().any(|term| {
            matches!(
                term.matcher,
                Matcher::Source(_)
                    | Matcher::Queue(_)
                    | Matcher::Group(_)
                    | Matcher::Type(_)
                    | Matcher::Class(_)
                    | Matcher::Consumer(_)
                    | Matcher::Owner(_)
                    | Matcher::Expiring(_)
            )
        })
    }

    /// Whether a term looks at columns of the row that no index orders by.
    pub(crate) fn concerns_rows(&self) -> bool {
        !self.terms.iter().all(|term| {
            matches!(
                term.matcher,
                Matcher::Source(_)
                    | Matcher::Group(_)
                    | Matcher::Status(_)
                    | Matcher::Queue(_)
                    | Matcher::Type(_)
                    | Matcher::Class(_)
                    | Matcher::Consumer(_)
                    | Matcher::Owner(_)
                    | Matcher::Hidden(_)
            )
        })
    }

    /// Whether the row satisfies every term that can be decided without its block.
    pub(crate) fn row_matches(&self, letter: &Letter) -> bool {
        self.terms.iter().all(|term| match row_says(letter, &term.matcher) {
            Some(holds) => holds != term.negated,
            None => true,
        })
    }

    /// Whether row and block together satisfy the terms that need the block.
    pub(crate) fn block_matches(&self, letter: &Letter, cold: &Cold) -> bool {
        self.terms.iter().zip(&self.folded).all(|(term, folded)| {
            match block_says(letter, cold, &term.matcher, folded) {
                Some(holds) => holds != term.negated,
                None => true,
            }
        })
    }
}

/// The query with heads in the place of groups that were merged: whoever names a member means its head.
pub(crate) fn with_heads(query: &Query, head_of: impl Fn(GroupId) -> Option<GroupId>) -> Cow<'_, Query> {
    let merged = |term: &Term| match term.matcher {
        Matcher::Group(id) => head_of(id).filter(|head| *head != id),
        _ => None,
    };
    if !query.terms.iter().any(|term| merged(term).is_some()) {
        return Cow::Borrowed(query);
    }
    let named = |term: &Term| match merged(term) {
        Some(head) => Term { matcher: Matcher::Group(head), ..term.clone() },
        None => term.clone(),
    };
    Cow::Owned(Query { terms: query.terms.iter().map(named).collect() })
}

/// A letter whose block cannot be read matches nothing that is asked of blocks, negated or not: one damaged letter must not
/// hide the others, and nobody decides about a letter by what could not be looked at.
pub(crate) fn unless_unreadable(
    letter: &Letter,
    matches: Result<bool, StoreError>,
) -> Result<bool, StoreError> {
    match matches {
        Err(StoreError::Unreadable(_)) => {
            tracing::warn!(letter = %letter.id, "its block cannot be read; searches in headers and payloads pass it over");
            Ok(false)
        }
        decided => decided,
    }
}

fn group_says(group: &Group, matcher: &Matcher) -> Option<bool> {
    match matcher {
        Matcher::Source(wanted) => Some(group.source == *wanted),
        Matcher::Group(wanted) => Some(group.head() == *wanted),
        Matcher::Owner(wanted) => Some(group.owner == *wanted),
        Matcher::Expiring(expiry) => {
            let may =
                |term: &Term| group_says(group, &term.matcher).is_none_or(|holds| holds != term.negated);
            let possible = expiry.ends().any(|rule| rule.terms.iter().all(may));
            (!possible).then_some(false)
        }
        _ if group.overflow => None,
        Matcher::Queue(wanted) => Some(group.queue == *wanted),
        Matcher::Type(wanted) => Some(group.event_type.as_ref() == Some(wanted)),
        Matcher::Class(wanted) => Some(group.error_class.as_ref() == Some(wanted)),
        Matcher::Consumer(wanted) => Some(group.consumer.as_ref() == Some(wanted)),
        _ => None,
    }
}

fn row_says(letter: &Letter, matcher: &Matcher) -> Option<bool> {
    let is = |found: &Option<String>, wanted: &String| Some(found.as_ref() == Some(wanted));
    match matcher {
        Matcher::Source(wanted) => Some(letter.source == *wanted),
        Matcher::Queue(wanted) => Some(letter.origin.queue == *wanted),
        Matcher::Group(wanted) => Some(letter.group_id == *wanted),
        Matcher::Type(wanted) => is(&letter.event_type, wanted),
        Matcher::Class(wanted) => is(&letter.error_class, wanted),
        Matcher::Consumer(wanted) => is(&letter.consumer, wanted),
        Matcher::Owner(wanted) => Some(letter.owner == *wanted),
        Matcher::Status(wanted) => Some(letter.status == *wanted),
        Matcher::Id(wanted) => Some(letter.id == *wanted),
        Matcher::Broker(wanted) => Some(letter.origin.broker == *wanted),
        Matcher::Partition(wanted) => Some(letter.origin.partition.map(i64::from) == Some(*wanted)),
        Matcher::Offset(wanted) => Some(letter.origin.offset.is_some_and(|found| wanted.holds(found))),
        Matcher::Version(wanted) => is(&letter.event_version, wanted),
        Matcher::Reason(wanted) => Some(letter.reason == *wanted),
        Matcher::Verdict(wanted) => Some(letter.verdict == *wanted),
        Matcher::Rule(wanted) => is(&letter.rule, wanted),
        Matcher::Code(wanted) => is(&letter.error_code, wanted),
        Matcher::ConsumerId(wanted) => is(&letter.consumer_id, wanted),
        Matcher::Attempts(wanted) => Some(wanted.holds(i64::from(letter.attempts))),
        Matcher::Replays(wanted) => Some(wanted.holds(i64::from(letter.replays))),
        Matcher::Exhausted(limits) => Some(limits.is_reached(&letter.source, letter.replays)),
        Matcher::Expiring(expiry) if expiry.reads_blocks() => None,
        Matcher::Expiring(expiry) => Some(expires(letter, expiry, &|term| row_says(letter, &term.matcher))),
        Matcher::Suspected(wanted) => Some(letter.suspect.is_some_and(|suspect| suspect.kind == *wanted)),
        Matcher::Size(wanted) => Some(wanted.holds(i64::try_from(letter.payload_size).unwrap_or(i64::MAX))),
        Matcher::Failed(wanted) => Some(wanted.holds(letter.failed_at)),
        Matcher::Captured(wanted) => Some(wanted.holds(letter.captured_at)),
        Matcher::Key(wanted) => Some(letter.key.as_deref() == Some(wanted.as_bytes())),
        Matcher::Correlation(wanted) => is(&letter.correlation_id, wanted),
        Matcher::Message(wanted) => is(&letter.origin.message_id, wanted),
        Matcher::Trace(wanted) => is(&letter.trace_id, wanted),
        Matcher::Hidden(_) => Some(false),
        Matcher::Header { .. } | Matcher::Payload { .. } | Matcher::Text(_) | Matcher::Shown { .. } => None,
    }
}

/// The folded text that a term asks for; empty where it asks for none.
fn text_of(matcher: &Matcher) -> String {
    match matcher {
        Matcher::Text(text) => words::fold(text),
        Matcher::Shown { inner, .. } => text_of(inner),
        _ => String::new(),
    }
}

/// Whether a rule takes the letter away soon, by what `says` of the terms of rules.
fn expires(letter: &Letter, expiry: &Expiry, says: &dyn Fn(&Term) -> Option<bool>) -> bool {
    let holds = |term: &Term| says(term).is_some_and(|holds| holds != term.negated);
    letter.status == Status::Open && expiry.is_soon(letter.failed_at, |rule| rule.terms.iter().all(holds))
}

fn block_says(letter: &Letter, cold: &Cold, matcher: &Matcher, folded: &str) -> Option<bool> {
    match matcher {
        Matcher::Header { name, value } => Some(cold.headers.iter().any(|header| {
            header.name.eq_ignore_ascii_case(name) && header.value.as_deref() == Some(value.as_bytes())
        })),
        Matcher::Payload { path, value } => Some(words::payload_has(&cold.payload.0, path, value)),
        Matcher::Expiring(expiry) if expiry.reads_blocks() => Some(expires(letter, expiry, &|term| {
            row_says(letter, &term.matcher)
                .or_else(|| block_says(letter, cold, &term.matcher, &text_of(&term.matcher)))
        })),
        Matcher::Shown { by, .. } if !folded.is_empty() => {
            Some(by.contains(&letter.error_message, folded) || by.payload_contains(&cold.payload.0, folded))
        }
        Matcher::Shown { inner, by } => {
            Some(by.is_read(&cold.payload.0) && block_says(letter, cold, inner, folded) == Some(true))
        }
        Matcher::Text(_) => Some(
            words::contains(&letter.error_message, folded)
                || words::contains(&words::scanned(&cold.payload.0), folded),
        ),
        _ => None,
    }
}

//! Admission: from the parts of a dead letter, however they came, to a letter that the store takes.
//!
//! One place for HTTP and for capture. It holds every text against its bound, sets what was left open, finds
//! the fingerprint, the owner and the key that makes two deaths one. Over HTTP what is out of bounds is refused with
//! directions; from a queue nothing may be refused, because nobody would keep it: there it is mended.

mod bounds;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use dlo_core::attempt::History;
use dlo_core::classify::{Place, Ruleset, Unknown};
use dlo_core::envelope;
use dlo_core::failure::Failure;
use dlo_core::fingerprint::{Fingerprint, Parts};
use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status};
use dlo_core::limits;
use dlo_core::message::Message;
use dlo_core::origin::{DedupeKey, Origin};
use dlo_core::owners::{Owners, Subject};
use dlo_core::reason::Reason;
use dlo_core::suspect::DeathMark;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;

/// On a replayed message: the letter it was.
const REPLAYED_FROM: &str = "x-replayed-from-dlq";
/// On a replayed message: the id of that send.
const REPLAY_ID: &str = "dlo-replay-id";

/// Why one letter was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) field: Option<Cow<'static, str>>,
    pub(crate) detail: Cow<'static, str>,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, field: None, detail: detail.into() }
    }

    #[must_use]
    pub(crate) fn field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }
}

/// The parts of a dead letter before anybody checked them. What is `None` or empty was not said.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) source: String,
    pub(crate) origin: Origin,
    pub(crate) message: Message,
    pub(crate) content_type: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) event_version: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) consumer: Option<String>,
    pub(crate) consumer_id: Option<String>,
    pub(crate) consumer_version: Option<String>,
    pub(crate) attempts: Option<u32>,
    pub(crate) history: History,
    pub(crate) error_class: Option<String>,
    pub(crate) error_message: String,
    pub(crate) error_code: Option<String>,
    pub(crate) error_stack: Option<String>,
    pub(crate) reason: Option<Reason>,
    pub(crate) verdict: Option<VerdictKind>,
    pub(crate) rule: Option<String>,
    pub(crate) published_at: Option<Timestamp>,
    pub(crate) received_at: Option<Timestamp>,
    pub(crate) first_failed_at: Option<Timestamp>,
    pub(crate) failed_at: Option<Timestamp>,
    pub(crate) replay_id: Option<String>,
    pub(crate) replay_of: Option<LetterId>,
    pub(crate) status: Option<Status>,
}

impl Draft {
    pub(crate) fn new(source: String, origin: Origin, message: Message) -> Self {
        Self {
            source,
            origin,
            message,
            content_type: None,
            event_type: None,
            event_version: None,
            correlation_id: None,
            trace_id: None,
            consumer: None,
            consumer_id: None,
            consumer_version: None,
            attempts: None,
            history: History::default(),
            error_class: None,
            error_message: String::new(),
            error_code: None,
            error_stack: None,
            reason: None,
            verdict: None,
            rule: None,
            published_at: None,
            received_at: None,
            first_failed_at: None,
            failed_at: None,
            replay_id: None,
            replay_of: None,
            status: None,
        }
    }
}

/// What to do with a part that is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The sender hears of it and can mend it.
    Refuse,
    /// Nobody is there to hear of it: the part is cut or left out, the letter is kept.
    Mend,
}

/// What makes a second admission of the same death known.
#[derive(Debug, Clone)]
pub(crate) enum Dedupe {
    /// The coordinates of its origin; `otherwise`, where it has none.
    ByOrigin { otherwise: Option<DedupeKey> },
    /// This key, or none: then it is always a new letter.
    Exactly(Option<DedupeKey>),
}

/// The rules by which letters are taken in.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Changes when the config is read anew; a lock that is held for one look costs less than a letter's hash.
    owners: RwLock<Owners>,
    /// The built-in rules. They compile, as a test of the core proves; without them no reason would be derived.
    rules: Option<Ruleset>,
}

impl Admission {
    pub(crate) fn new(owners: Owners) -> Self {
        Self { owners: RwLock::new(owners), rules: Ruleset::compile(Vec::new()).ok() }
    }

    /// From now on these rules say who owns what.
    pub(crate) fn set_owners(&self, owners: Owners) {
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// Who owns a cause; `None` is counted and alerted.
    pub(crate) fn owner_of(&self, parts: Parts<'_>) -> Option<String> {
        let subject = Subject {
            source: parts.source,
            queue: parts.queue,
            event_type: parts.event_type,
            consumer: parts.consumer,
            class: parts.error_class,
        };
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.owner_of(&subject).map(str::to_string)
    }

    /// The reason of a letter that names none: what the built-in rules know of its error for certain, so that "could not
    /// parse" is not filed under "could not process".
    fn reason_of(&self, draft: &Draft) -> Reason {
        let failure = Failure {
            code: draft.error_code.clone(),
            ..Failure::new(draft.error_class.clone().unwrap_or_default(), draft.error_message.clone())
        };
        let place = Place {
            queue: &draft.origin.queue,
            consumer: draft.consumer.as_deref(),
            event_type: draft.event_type.as_deref(),
        };
        let known = self.rules.as_ref().map(|rules| rules.classify(&failure, &place, Unknown::DeadLetter));
        let terminal = known.filter(|known| known.verdict == VerdictKind::DeadLetter);
        terminal.map_or(Reason::ProcessingError, |known| known.reason)
    }

    /// A letter as the store takes it.
    pub(crate) fn admit(
        &self,
        mut draft: Draft,
        manner: Manner,
        dedupe: Dedupe,
        now: Timestamp,
    ) -> Result<NewLetter, Refusal> {
        bounds::texts(&mut draft, manner)?;
        bounds::message(&draft.message, manner)?;
        let times = bounds::times(&mut draft, manner, now)?;
        follow_headers(&mut draft);

        let parts = Parts {
            source: &draft.source,
            queue: &draft.origin.queue,
            consumer: draft.consumer.as_deref(),
            event_type: draft.event_type.as_deref(),
            error_class: draft.error_class.as_deref(),
        };
        let fingerprint = Fingerprint::of(parts, &draft.error_message);
        let owner = self.owner_of(parts);
        let dedupe = match dedupe {
            Dedupe::Exactly(key) => key,
            Dedupe::ByOrigin { otherwise } => draft
                .origin
                .dedupe_key(&draft.source, draft.consumer.as_deref(), draft.replay_id.as_deref())
                .or(otherwise),
        };
        let death = death_mark(&draft);
        let tried = draft.history.records().last().map_or(1, |last| last.number.max(1));
        let verdict = draft.verdict.unwrap_or(VerdictKind::DeadLetter);
        Ok(NewLetter {
            attempts: draft.attempts.unwrap_or(tried),
            failed_at: times,
            reason: draft.reason.unwrap_or_else(|| self.reason_of(&draft)),
            status: draft.status.unwrap_or(match verdict {
                VerdictKind::Discard => Status::Discarded,
                VerdictKind::DeadLetter | VerdictKind::Retry => Status::Open,
            }),
            verdict,
            fingerprint,
            owner,
            dedupe,
            death,
            source: draft.source,
            origin: draft.origin,
            message: draft.message,
            content_type: draft.content_type,
            event_type: draft.event_type,
            event_version: draft.event_version,
            correlation_id: draft.correlation_id,
            trace_id: draft.trace_id,
            consumer: draft.consumer,
            consumer_id: draft.consumer_id,
            consumer_version: draft.consumer_version,
            history: draft.history,
            error_class: draft.error_class,
            error_message: draft.error_message,
            error_code: draft.error_code,
            error_stack: draft.error_stack,
            rule: draft.rule,
            published_at: draft.published_at,
            received_at: draft.received_at,
            first_failed_at: draft.first_failed_at,
            replay_id: draft.replay_id,
            replay_of: draft.replay_of,
        })
    }
}

/// What our headers say of the death, where nothing but a hash of the bytes names it.
fn death_mark(draft: &Draft) -> Option<DeathMark> {
    let headers = &draft.message.headers;
    // A pointer has the mark of its whole letter, and is no copy of it.
    if headers.is_empty() || draft.origin.has_coordinates() || envelope::body_elsewhere(headers).is_some() {
        return None;
    }
    envelope::death_mark(headers)
}

/// What a replayed message says about itself in its headers, where the sender did not say it outright.
fn follow_headers(draft: &mut Draft) {
    if draft.message.headers.is_empty() {
        return;
    }
    let headers = &draft.message.headers;
    if draft.replay_of.is_none() {
        draft.replay_of = headers.text(REPLAYED_FROM).and_then(|id| id.parse().ok());
    }
    if draft.replay_id.is_none() && draft.replay_of.is_some() {
        draft.replay_id = headers.text(REPLAY_ID).filter(|id| fits_id(id)).map(str::to_string);
    }
    if draft.content_type.is_none() {
        draft.content_type = headers.text("content-type").filter(|kind| fits_id(kind)).map(str::to_string);
    }
}

fn fits_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= limits::ID && !text.contains('\0')
}

//! Which fields of each stored type are masked. Every field is named, so that a new one does not compile until somebody
//! decides about it.
//!
//! Ids, times, counts and codes of ours are shown. So are addresses (names of sources and queues) and names of people and
//! teams: a person who cannot see them cannot act.

mod replays;
mod triage;

use std::borrow::Cow;

use bytes::Bytes;
use dlo_core::attempt::{AttemptRecord, History};
use dlo_core::letter::{Death, Letter, LetterDetail};
use dlo_core::origin::Origin;
use dlo_core::redact::Redactor;
use dlo_store::triage::Sampled;
use dlo_store::{AuditEntry, AuditPage, LetterPage, StoredPayload, TimelineEntry, Verification};

/// A value with parts that may be hidden.
pub(crate) trait Masked {
    fn mask(&mut self, rules: &Redactor);
}

/// Hides in place; says whether anything was hidden.
pub(super) fn text(rules: &Redactor, shown: &mut String) -> bool {
    let Cow::Owned(masked) = rules.text(shown) else { return false };
    *shown = masked;
    true
}

/// Bytes that may be text.
pub(super) fn key(rules: &Redactor, key: &mut Option<Vec<u8>>) {
    if let Some(key) = key
        && let Cow::Owned(masked) = rules.text(&String::from_utf8_lossy(key))
    {
        *key = masked.into_bytes();
    }
}

fn bytes(rules: &Redactor, payload: &mut Bytes) {
    if let Cow::Owned(masked) = rules.payload(payload) {
        *payload = masked.into();
    }
}

impl Masked for String {
    fn mask(&mut self, rules: &Redactor) {
        text(rules, self);
    }
}

impl<T: Masked> Masked for Option<T> {
    fn mask(&mut self, rules: &Redactor) {
        self.iter_mut().for_each(|one| one.mask(rules));
    }
}

impl<T: Masked> Masked for Vec<T> {
    fn mask(&mut self, rules: &Redactor) {
        self.iter_mut().for_each(|one| one.mask(rules));
    }
}

impl Masked for Origin {
    fn mask(&mut self, rules: &Redactor) {
        let Self { broker: _, queue: _, incarnation: _, partition: _, offset: _, message_id } = self;
        message_id.mask(rules);
    }
}

impl Masked for History {
    fn mask(&mut self, rules: &Redactor) {
        *self = Self::from_records(self.records().iter().map(|record| {
            let mut record = record.clone();
            let AttemptRecord { number: _, at: _, error_class, message, verdict: _, delay_ms: _ } =
                &mut record;
            [error_class, message].into_iter().for_each(|one| one.mask(rules));
            record
        }));
    }
}

impl Masked for Letter {
    fn mask(&mut self, rules: &Redactor) {
        let Self {
            id: _,
            status: _,
            group_id: _,
            owner: _,
            source: _,
            origin,
            key: own_key,
            content_type,
            event_type,
            event_version,
            correlation_id,
            trace_id,
            consumer,
            consumer_id,
            consumer_version,
            attempts: _,
            error_class,
            error_message,
            error_code,
            reason: _,
            verdict: _,
            rule,
            published_at: _,
            received_at: _,
            first_failed_at: _,
            failed_at: _,
            captured_at: _,
            payload_size: _,
            replays: _,
            deaths: _,
            suspect: _,
        } = self;
        origin.mask(rules);
        key(rules, own_key);
        error_message.mask(rules);
        let names = [content_type, event_type, event_version, correlation_id, trace_id];
        let of_failure = [consumer, consumer_id, consumer_version, error_class, error_code, rule];
        names.into_iter().chain(of_failure).for_each(|one| one.mask(rules));
    }
}

impl Masked for LetterDetail {
    fn mask(&mut self, rules: &Redactor) {
        let Self { letter, headers, error_stack, history, deaths, suspects: _ } = self;
        letter.mask(rules);
        *headers = rules.headers(headers);
        error_stack.mask(rules);
        history.mask(rules);
        deaths.mask(rules);
    }
}

impl Masked for Death {
    fn mask(&mut self, rules: &Redactor) {
        let Self {
            number: _,
            at: _,
            captured_at: _,
            origin,
            consumer,
            consumer_id,
            consumer_version,
            attempts: _,
            error_class,
            error_message,
            error_code,
            error_stack,
            reason: _,
            verdict: _,
            rule,
            replay_id,
            history,
        } = self;
        origin.mask(rules);
        history.mask(rules);
        error_message.mask(rules);
        let of_consumer = [consumer, consumer_id, consumer_version, rule, replay_id];
        let of_error = [error_class, error_code, error_stack];
        of_consumer.into_iter().chain(of_error).for_each(|one| one.mask(rules));
    }
}

impl Masked for LetterPage {
    fn mask(&mut self, rules: &Redactor) {
        self.letters.mask(rules);
    }
}

impl Masked for StoredPayload {
    fn mask(&mut self, rules: &Redactor) {
        let Self { bytes: own, content_type } = self;
        bytes(rules, own);
        content_type.mask(rules);
    }
}

impl Masked for Sampled {
    fn mask(&mut self, rules: &Redactor) {
        let Self { letter: _, key: own, payload } = self;
        key(rules, own);
        bytes(rules, payload);
    }
}

impl Masked for TimelineEntry {
    fn mask(&mut self, rules: &Redactor) {
        let Self { at: _, what: _, author: _, reason, reference } = self;
        [reason, reference].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for AuditEntry {
    fn mask(&mut self, rules: &Redactor) {
        let Self {
            seq: _,
            at: _,
            what: _,
            author: _,
            reason,
            reference,
            source: _,
            letter: _,
            group: _,
            count: _,
        } = self;
        [reason, reference].into_iter().for_each(|one| one.mask(rules));
    }
}

impl Masked for AuditPage {
    fn mask(&mut self, rules: &Redactor) {
        self.entries.mask(rules);
    }
}

impl Masked for Verification {
    fn mask(&mut self, rules: &Redactor) {
        self.problems.mask(rules);
    }
}

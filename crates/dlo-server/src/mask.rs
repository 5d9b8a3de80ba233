//! What is sensitive is hidden before anything is shown (I2): in lists, letters, payloads, exports and pages.
//!
//! The store keeps the original; a copy is masked on its way out. Without rules nothing is touched.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use dlo_core::attempt::{AttemptRecord, History};
use dlo_core::group::Group;
use dlo_core::letter::{Letter, LetterDetail};
use dlo_core::message::{Message, Payload};
use dlo_core::redact::Redactor;
use dlo_store::StoredPayload;

/// The rules, if there are any.
#[derive(Debug, Default)]
pub(crate) struct Mask(RwLock<Option<Arc<Redactor>>>);

impl Mask {
    pub(crate) fn new(rules: Redactor) -> Self {
        Self(RwLock::new(Some(Arc::new(rules))))
    }

    /// From now on these rules say what is hidden.
    pub(crate) fn set(&self, rules: Option<Redactor>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules.map(Arc::new);
    }

    fn rules(&self) -> Option<Arc<Redactor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn letters(&self, letters: &mut [Letter]) {
        letters.iter_mut().for_each(|letter| self.letter(letter));
    }

    fn letter(&self, letter: &mut Letter) {
        let Some(rules) = &self.rules() else { return };
        text(rules, &mut letter.error_message);
        mask_key(rules, &mut letter.key);
    }

    pub(crate) fn detail(&self, detail: &mut LetterDetail) {
        let Some(rules) = &self.rules() else { return };
        self.letter(&mut detail.letter);
        detail.headers = rules.headers(&detail.headers);
        detail.history = history(rules, &detail.history);
        if let Some(stack) = &mut detail.error_stack {
            text(rules, stack);
        }
        for death in &mut detail.deaths {
            text(rules, &mut death.error_message);
            if let Some(stack) = &mut death.error_stack {
                text(rules, stack);
            }
            death.history = history(rules, &death.history);
        }
    }

    pub(crate) fn payload(&self, payload: &mut StoredPayload) {
        let Some(rules) = &self.rules() else { return };
        if let Cow::Owned(masked) = rules.payload(&payload.bytes) {
            payload.bytes = masked.into();
        }
    }

    /// Text that was made of a payload, whose numbers may be what no byte of it spelt. Says whether anything was hidden.
    pub(crate) fn text(&self, shown: &mut String) -> bool {
        self.rules().is_some_and(|rules| text(&rules, shown))
    }

    /// A letter of a sample.
    pub(crate) fn sampled(&self, key: &mut Option<Vec<u8>>, payload: &mut bytes::Bytes) {
        let Some(rules) = &self.rules() else { return };
        mask_key(rules, key);
        if let Cow::Owned(masked) = rules.payload(payload) {
            *payload = masked.into();
        }
    }

    /// A whole message on its way out.
    pub(crate) fn message(&self, message: &mut Message) {
        let Some(rules) = &self.rules() else { return };
        message.headers = rules.headers(&message.headers);
        if let Cow::Owned(masked) = rules.payload(&message.payload.0) {
            message.payload = Payload::from(masked);
        }
        if let Some(key) = &mut message.key
            && let Ok(shown) = std::str::from_utf8(&key.0)
            && let Cow::Owned(masked) = rules.text(shown)
        {
            *key = Payload::from(masked);
        }
    }

    /// A group is named by its error text.
    pub(crate) fn groups(&self, groups: &mut [Group]) {
        let Some(rules) = &self.rules() else { return };
        for group in groups {
            text(rules, &mut group.template);
            if let Some(split) = &mut group.split {
                text(rules, &mut split.condition);
            }
        }
    }
}

fn mask_key(rules: &Redactor, key: &mut Option<Vec<u8>>) {
    if let Some(key) = key
        && let Ok(shown) = std::str::from_utf8(key)
        && let Cow::Owned(masked) = rules.text(shown)
    {
        *key = masked.into_bytes();
    }
}

/// Hides in place; says whether anything was hidden.
fn text(rules: &Redactor, shown: &mut String) -> bool {
    let Cow::Owned(masked) = rules.text(shown) else { return false };
    *shown = masked;
    true
}

fn history(rules: &Redactor, history: &History) -> History {
    History::from_records(history.records().iter().map(|record| AttemptRecord {
        message: record.message.as_deref().map(|message| rules.text(message).into_owned()),
        ..record.clone()
    }))
}

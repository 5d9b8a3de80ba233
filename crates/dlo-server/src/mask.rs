//! What is sensitive is hidden before anything is shown (I2): in lists, letters, payloads, exports, events, pages and logs.
//!
//! The store keeps the original; a copy is masked on its way out. `mask/values.rs` says of each stored type which of its
//! fields are masked, `mask/shown.rs` reads from the store and masks. Without rules nothing is touched.

mod shown;
mod values;

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use dlo_core::group::Condition;
use dlo_core::message::{Message, Payload};
use dlo_core::query::{Matcher, Query, ShownBy};
use dlo_core::redact::Redactor;
use dlo_store::StoredPayload;

pub(crate) use shown::Shown;
pub(crate) use values::Masked;

/// The rules, if there are any.
#[derive(Debug, Default)]
pub(crate) struct Mask(RwLock<Option<Arc<Redactor>>>);

impl Mask {
    pub(crate) fn new(rules: Redactor) -> Self {
        let mask = Self::default();
        mask.set(Some(rules));
        mask
    }

    /// From now on these rules say what is hidden.
    pub(crate) fn set(&self, rules: Option<Redactor>) {
        let rules = rules.filter(|rules| !rules.is_empty()).map(Arc::new);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    pub(crate) fn rules(&self) -> Option<Arc<Redactor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn shown_by(&self) -> Option<ShownBy> {
        self.rules().map(ShownBy)
    }

    /// A query of a person: it finds by what is shown.
    pub(crate) fn query(&self, query: Query) -> Query {
        match &self.rules() {
            Some(rules) => query.into_shown(rules),
            None => query,
        }
    }

    /// Why a condition may not split a group. The store compares it with real values, and the size of the new group would
    /// tell them.
    pub(crate) fn forbids(&self, condition: &Condition) -> Option<String> {
        let rules = self.rules()?;
        let query = condition.query().clone().into_shown(&rules);
        if let Some(why) = query.masked_terms().first() {
            return Some(format!("{why}, so it cannot split a group"));
        }
        let text = query.terms.iter().find_map(|term| match &term.matcher {
            Matcher::Shown { inner, .. } if matches!(**inner, Matcher::Text(_)) => Some(inner.to_string()),
            _ => None,
        })?;
        Some(format!(
            "`{text}` is looked for in whole payloads, and values in them are masked; split by a field, such as `class:` or `payload.country:`"
        ))
    }

    /// The value with what is sensitive hidden.
    pub(crate) fn over<T: Masked>(&self, mut value: T) -> T {
        if let Some(rules) = &self.rules() {
            value.mask(rules);
        }
        value
    }

    pub(crate) fn payload(&self, payload: &mut StoredPayload) {
        if let Some(rules) = &self.rules() {
            payload.mask(rules);
        }
    }

    /// Text that was made of a payload, whose numbers may be what no byte of it spelt. Says whether anything was hidden.
    pub(crate) fn text(&self, shown: &mut String) -> bool {
        self.rules().is_some_and(|rules| values::text(&rules, shown))
    }

    /// A whole message on its way out.
    pub(crate) fn message(&self, message: &mut Message) {
        let Some(rules) = &self.rules() else { return };
        message.headers = rules.headers(&message.headers);
        if let Cow::Owned(masked) = rules.payload(&message.payload.0) {
            message.payload = Payload::from(masked);
        }
        if let Some(key) = &mut message.key {
            let mut bytes = Some(key.0.to_vec());
            values::key(rules, &mut bytes);
            *key = Payload::from(bytes.unwrap_or_default());
        }
    }

    /// The rules, if they hide a part of this message.
    pub(crate) fn hides_a_part_of(&self, message: &Message) -> Option<Arc<Redactor>> {
        let rules = self.rules()?;
        let hides = matches!(rules.payload(&message.payload.0), Cow::Owned(_))
            || rules.headers(&message.headers) != message.headers
            || message.key.as_ref().is_some_and(|key| rules.hides_text(&String::from_utf8_lossy(&key.0)));
        hides.then_some(rules)
    }
}

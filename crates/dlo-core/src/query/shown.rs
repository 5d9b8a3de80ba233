//! A query as it may be asked while values are masked: it finds what is shown, and nothing by what is hidden.
//!
//! Whether a term asks for a hidden value is mostly known from the term alone: an exact value is hidden or not, wherever it
//! occurs. Such a term matches nothing, whatever is stored. Words occur in texts that are hidden in part, so each text is
//! looked at as it is shown.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Matcher, Query, Term};
use crate::redact::{LOOKED_THROUGH, MASK, Redactor};
use crate::words;

/// The masking rules by which texts are shown.
#[derive(Debug, Clone)]
pub struct ShownBy(pub Arc<Redactor>);

/// Rules are the same when they were made together.
impl PartialEq for ShownBy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ShownBy {}

impl ShownBy {
    /// Whether folded text occurs in `text`, also after masking. Words on both sides of a mask are no neighbours.
    pub fn contains(&self, text: &str, folded: &str) -> bool {
        words::contains(text, folded)
            && match self.0.text(text) {
                Cow::Borrowed(_) => true,
                Cow::Owned(shown) => in_a_part(&shown, folded),
            }
    }

    /// The same for a payload.
    pub fn payload_contains(&self, payload: &[u8], folded: &str) -> bool {
        words::contains(&words::scanned(payload), folded)
            && match self.0.payload(payload) {
                Cow::Borrowed(_) => true,
                Cow::Owned(_) if payload.len() > LOOKED_THROUGH => false,
                Cow::Owned(shown) => in_a_part(&words::scanned(&shown), folded),
            }
    }

    /// Whether a payload is small enough to be masked field by field. A larger one is hidden whole.
    pub fn is_read(&self, payload: &[u8]) -> bool {
        payload.len() <= LOOKED_THROUGH
    }
}

fn in_a_part(shown: &str, folded: &str) -> bool {
    shown.split(MASK).any(|part| words::contains(part, folded))
}

impl Query {
    /// The same question, asked of what these rules show.
    #[must_use]
    pub fn into_shown(self, rules: &Arc<Redactor>) -> Self {
        let shown = |term: Term| Term { matcher: term.matcher.into_shown(rules), ..term };
        Self { terms: self.terms.into_iter().map(shown).collect() }
    }

    /// Which terms ask for values that are masked, each in a sentence for a person.
    pub fn masked_terms(&self) -> Vec<String> {
        let told = self.terms.iter().filter_map(|term| match &term.matcher {
            Matcher::Hidden(inner) => Some(inner.why_hidden()),
            _ => None,
        });
        let mut sentences: Vec<String> = told.collect();
        sentences.dedup();
        sentences
    }
}

impl Matcher {
    fn into_shown(self, rules: &Arc<Redactor>) -> Self {
        match &self {
            Self::Payload { path, value } if rules.hides_field(path) || rules.hides_text(value) => {
                Self::Hidden(Box::new(self))
            }
            Self::Header { name, value } if rules.hides_header(name) || rules.hides_text(value) => {
                Self::Hidden(Box::new(self))
            }
            Self::Payload { .. } if rules.looks_into_payloads() => self.looked_at(rules),
            Self::Text(text) if rules.hides_text(text) => Self::Hidden(Box::new(self)),
            Self::Text(_) if rules.looks_into_payloads() => self.looked_at(rules),
            Self::Type(value)
            | Self::Class(value)
            | Self::Consumer(value)
            | Self::Version(value)
            | Self::Rule(value)
            | Self::Code(value)
            | Self::ConsumerId(value)
            | Self::Key(value)
            | Self::Correlation(value)
            | Self::Message(value)
            | Self::Trace(value)
                if rules.hides_text(value) =>
            {
                Self::Hidden(Box::new(self))
            }
            _ => self,
        }
    }

    fn looked_at(self, rules: &Arc<Redactor>) -> Self {
        Self::Shown { inner: Box::new(self), by: ShownBy(Arc::clone(rules)) }
    }

    /// Names the field, never the value.
    fn why_hidden(&self) -> String {
        let written = self.to_string();
        match self {
            Self::Payload { path, .. } => format!("payload.{} is masked", path.join(".")),
            Self::Header { name, .. } => format!("header.{name} is masked"),
            Self::Text(_) => "words that are masked are not searched for".to_owned(),
            _ => {
                let field = written.split_once(':').map_or("the value", |(field, _)| field);
                format!("this value of {field} is masked")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::RedactRules;
    use crate::time::Timestamp;

    fn rules(json: &str) -> Arc<Redactor> {
        let rules: RedactRules = serde_json::from_str(json).unwrap();
        Arc::new(Redactor::compile(&rules).unwrap())
    }

    fn asked(text: &str, by: &Arc<Redactor>) -> Query {
        Query::parse(text, Timestamp::EPOCH).unwrap().into_shown(by)
    }

    #[test]
    fn a_term_that_asks_for_a_hidden_value_says_so_and_names_no_value() {
        let by = rules(r#"{"fields":["card"],"headers":["authorization"],"detect":["card","email"]}"#);
        let hidden = [
            ("payload.card:4111", "payload.card is masked"),
            ("payload.card.last4:1111", "payload.card.last4 is masked"),
            ("payload.note:jane@example.com", "payload.note is masked"),
            ("header.Authorization:x", "header.Authorization is masked"),
            ("key:4111111111111111", "this value of key is masked"),
            ("-class:jane@example.com", "this value of class is masked"),
            ("\"4111 1111 1111 1111\"", "words that are masked are not searched for"),
        ];
        for (text, why) in hidden {
            let query = asked(text, &by);
            assert_eq!(query.masked_terms(), [why], "{text}");
            assert_eq!(query.to_string(), text, "it is written as it was asked");
        }
        for shown in ["payload.id:7", "header.tenant:eu", "key:C-1", "4111", "class:KeyError", "status:open"]
        {
            assert_eq!(asked(shown, &by).masked_terms(), Vec::<String>::new(), "{shown}");
        }
    }

    #[test]
    fn words_are_found_where_they_are_shown_and_not_across_a_mask() {
        let by = ShownBy(rules(r#"{"fields":["card"],"detect":["email"]}"#));
        let text = "mail to jane@example.com failed";
        assert!(by.contains(text, "mail to") && by.contains(text, "failed"));
        assert!(!by.contains(text, "jane") && !by.contains(text, "to failed"));
        let payload = br#"{"id":"4110","card":"4111111111111111","note":"paid"}"#;
        assert!(by.payload_contains(payload, "4110") && by.payload_contains(payload, "note paid"));
        assert!(!by.payload_contains(payload, "4111") && !by.payload_contains(payload, "card note"));
    }

    #[test]
    fn rules_for_headers_alone_change_no_other_term() {
        let by = rules(r#"{"headers":["authorization"]}"#);
        for text in ["pin", "payload.card:1", "key:x"] {
            assert_eq!(asked(text, &by), Query::parse(text, Timestamp::EPOCH).unwrap(), "{text}");
        }
    }
}

//! Kinds of letters by number, so that each is spelled out once however many letters have it.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::super::PlannedKind;
use crate::time::Timestamp;

/// What letters have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind<'a> {
    pub source: &'a str,
    pub event_type: Option<&'a str>,
    pub error_class: Option<&'a str>,
    pub owner: Option<&'a str>,
    /// The group that failed.
    pub consumer: Option<&'a str>,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) source: String,
    pub(super) event_type: Option<String>,
    pub(super) error_class: Option<String>,
    owner: Option<String>,
    consumer: Option<String>,
    /// Kinds of one source and class are one part of a plan: this one.
    pub(super) part: usize,
}

#[derive(Debug, Default)]
pub(super) struct Kinds {
    known: Vec<Known>,
    /// By hash, so that looking one up copies nothing.
    places: HashMap<u64, Vec<usize>>,
    parts: HashMap<(String, Option<String>), usize>,
}

impl Kinds {
    pub(super) fn get(&self, number: usize) -> &Known {
        &self.known[number]
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The number of a kind, a new one if need be.
    pub(super) fn number(&mut self, kind: &Kind<'_>) -> usize {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        let places = self.places.entry(hasher.finish()).or_default();
        if let Some(number) = places.iter().find(|number| self.known[**number].is(kind)) {
            return *number;
        }
        let owned = |text: Option<&str>| text.map(str::to_string);
        let next = self.parts.len();
        let part = *self.parts.entry((kind.source.to_string(), owned(kind.error_class))).or_insert(next);
        places.push(self.known.len());
        self.known.push(Known {
            source: kind.source.to_string(),
            event_type: owned(kind.event_type),
            error_class: owned(kind.error_class),
            owner: owned(kind.owner),
            consumer: owned(kind.consumer),
            part,
        });
        self.known.len() - 1
    }
}

impl Known {
    fn is(&self, kind: &Kind<'_>) -> bool {
        self.source == kind.source
            && self.event_type.as_deref() == kind.event_type
            && self.error_class.as_deref() == kind.error_class
            && self.owner.as_deref() == kind.owner
            && self.consumer.as_deref() == kind.consumer
    }

    /// As it is shown in a plan, with nothing counted yet.
    pub(super) fn planned(&self, at: Timestamp) -> PlannedKind {
        PlannedKind {
            source: self.source.clone(),
            event_type: self.event_type.clone(),
            error_class: self.error_class.clone(),
            owner: self.owner.clone(),
            consumer: self.consumer.clone(),
            count: 0,
            oldest: at,
            newest: at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind<'_> = Kind {
        source: "orders",
        event_type: Some("OrderPlaced"),
        error_class: Some("KeyError"),
        owner: Some("tax"),
        consumer: Some("pricing"),
    };

    fn others() -> [Kind<'static>; 5] {
        [
            Kind { source: "mail", ..KIND },
            Kind { event_type: None, ..KIND },
            Kind { error_class: Some("Timeout"), ..KIND },
            Kind { owner: None, ..KIND },
            Kind { consumer: Some(""), ..KIND },
        ]
    }

    #[test]
    fn kinds_whose_hashes_are_equal_differ_by_any_of_their_fields() {
        let mut kinds = Kinds::default();
        let number = kinds.number(&KIND);
        assert!(kinds.get(number).is(&KIND));
        for other in others() {
            assert!(!kinds.get(number).is(&other), "{other:?}");
        }
    }

    #[test]
    fn a_kind_keeps_its_number_and_shares_its_part_with_those_of_its_source_and_class() {
        let mut kinds = Kinds::default();
        let number = kinds.number(&KIND);
        let numbers = others().map(|other| kinds.number(&other));
        assert_eq!((number, numbers, kinds.len()), (0, [1, 2, 3, 4, 5], 6));
        assert_eq!((kinds.number(&KIND), kinds.len()), (0, 6));
        assert_eq!([0, 1, 2, 3, 4, 5].map(|number| kinds.get(number).part), [0, 1, 0, 2, 0, 0]);
    }
}

//! Capture's own way from a message to a letter, with no broker, store or office around it.
//!
//! For the gate of benchmarks (`bench/gate`), which counts what that way costs: the same two steps that every lane
//! takes, and nothing beside them.

use dlo_core::conventions::Mapper;
use dlo_core::letter::NewLetter;
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::owners::Owners;
use dlo_core::time::Timestamp;

use super::admit::{self, Found};
use crate::admit::Admission;

/// One dead-letter queue of one source, without what it is read from.
#[doc(hidden)]
#[derive(Debug)]
pub struct Intake {
    source: String,
    dlq: String,
    mapper: Mapper,
    admission: Admission,
}

impl Intake {
    pub fn new(source: impl Into<String>, dlq: impl Into<String>, owners: Owners) -> Self {
        let (source, dlq) = (source.into(), dlq.into());
        Self { source, dlq, mapper: Mapper::default(), admission: Admission::new(owners) }
    }

    /// The letter of a message that was found at `place`; `None` if admission refuses it.
    pub fn letter(&self, message: Message, place: Origin, now: Timestamp) -> Option<NewLetter> {
        let found = Found::new(&self.dlq, &self.mapper, message, place);
        admit::letter(&self.admission, &self.source, found, now).ok()
    }
}

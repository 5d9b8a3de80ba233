//! An audit row on its way in: the same for both stores, which only differ in how they write it.

use dlo_core::group::GroupDeed;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::NewLetter;
use dlo_core::time::Timestamp;

use crate::{Deed, Event};

/// The author of what the office does by itself.
pub(crate) const OFFICE: &str = "office";

/// A row on its way in.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) at: Timestamp,
    pub(crate) event: Event,
    pub(crate) author: String,
    pub(crate) reason: Option<String>,
    pub(crate) reference: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) letter: Option<LetterId>,
    pub(crate) group: Option<GroupId>,
    pub(crate) count: u64,
}

impl Row {
    /// A batch that was captured: one row per source.
    pub(crate) fn captured(at: Timestamp, source: &str, count: u64) -> Self {
        let office = Deed { author: OFFICE.into(), reason: None, reference: None };
        Self { source: Some(source.into()), ..Self::by(at, Event::Captured, count, &office) }
    }

    /// What a runtime or a broker did with a letter before it reached us.
    pub(crate) fn of_letter(at: Timestamp, event: Event, id: LetterId, letter: &NewLetter) -> Self {
        let author = letter.consumer.clone().unwrap_or_else(|| OFFICE.into());
        let reason = letter.rule.clone().or_else(|| Some(letter.reason.to_string()));
        let deed = Deed { author, reason, reference: None };
        Self { source: Some(letter.source.clone()), letter: Some(id), ..Self::by(at, event, 1, &deed) }
    }

    /// What somebody did with a group, with what belongs to it: a version, a person, another group.
    pub(crate) fn of_group(
        at: Timestamp,
        what: GroupDeed,
        group: GroupId,
        deed: &Deed,
        detail: Option<String>,
    ) -> Self {
        let row = Self::by(at, Event::Group(what), 1, deed);
        Self { group: Some(group), reference: row.reference.clone().or(detail), ..row }
    }

    /// What the office did with a group by itself.
    pub(crate) fn by_office(at: Timestamp, what: GroupDeed, group: GroupId, detail: Option<String>) -> Self {
        let office = Deed { author: OFFICE.into(), reason: None, reference: None };
        Self::of_group(at, what, group, &office, detail)
    }

    /// What somebody did.
    pub(crate) fn by(at: Timestamp, event: Event, count: u64, deed: &Deed) -> Self {
        Self {
            at,
            event,
            author: deed.author.clone(),
            reason: deed.reason.clone(),
            reference: deed.reference.clone(),
            source: None,
            letter: None,
            group: None,
            count,
        }
    }
}

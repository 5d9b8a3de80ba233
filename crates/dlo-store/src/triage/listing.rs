//! Lists of groups: which are wanted, in which order, and where the next page begins. The same for both stores.

use dlo_core::group::Group;
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::query::ShownBy;
use dlo_core::time::Timestamp;
use uuid::Uuid;

use super::GroupOrder;
use crate::{Cursor, GroupFilter, StoreError};

/// A group's place in a list: larger comes first.
pub(crate) type Listed = (i64, GroupId);

/// Where a letter stands of which something is still to come.
const UNFINISHED: [Status; 4] = [Status::Open, Status::Claimed, Status::Sent, Status::InDoubt];

/// Whether a head, with the numbers of its members, stands as is wanted. What names it is asked by [`is_named`], and what
/// depends on its oldest open letter elsewhere.
pub(crate) fn holds(filter: &GroupFilter, group: &Group) -> bool {
    group.merged_into.is_none()
        && group.counts.total() > 0
        && filter.owner.as_ref().is_none_or(|wanted| *wanted == group.owner)
        && filter.assignee.as_ref().is_none_or(|wanted| *wanted == group.assignee)
        && filter.holding.is_none_or(|status| group.counts.get(status) > 0)
        && (!filter.handled || UNFINISHED.iter().all(|status| group.counts.get(*status) == 0))
        && (filter.statuses.is_empty() || filter.statuses.contains(&group.life.status))
}

/// Whether a group goes by the names that are wanted. A family is wanted if one of it does, the head or a member.
pub(crate) fn is_named(filter: &GroupFilter, group: &Group) -> bool {
    let is_hidden = |name: &String| filter.shown_by.as_ref().is_some_and(|by| by.0.hides_text(name));
    let is = |wanted: &Option<String>, found: Option<&String>| {
        wanted.as_ref().is_none_or(|wanted| Some(wanted) == found && !is_hidden(wanted))
    };
    filter.source.as_ref().is_none_or(|wanted| *wanted == group.source)
        && is(&filter.event_type, group.event_type.as_ref())
        && is(&filter.error_class, group.error_class.as_ref())
        && is(&filter.consumer, group.consumer.as_ref())
        && filter.text.as_deref().is_none_or(|text| mentions(group, text, filter.shown_by.as_ref()))
}

/// Whether every word stands somewhere in what names the group, whatever its case.
fn mentions(group: &Group, text: &str, shown_by: Option<&ShownBy>) -> bool {
    let named = [
        Some(&group.source),
        Some(&group.queue),
        group.consumer.as_ref(),
        group.event_type.as_ref(),
        group.error_class.as_ref(),
        Some(&group.template),
    ];
    let shown = |word: &String| match shown_by {
        Some(by) => by.0.text(word).to_lowercase(),
        None => word.to_lowercase(),
    };
    let haystack = named.into_iter().flatten().map(shown).collect::<Vec<_>>().join("\n");
    text.to_lowercase().split_whitespace().all(|word| haystack.contains(word))
}

/// Where a group stands in the order; `None`: it is not part of such a list.
pub(crate) fn order_key(order: GroupOrder, group: &Group, oldest_open: Option<Timestamp>) -> Option<i64> {
    match order {
        GroupOrder::LastSeen => Some(group.last_seen.as_micros()),
        GroupOrder::FirstSeen => Some(group.first_seen.as_micros()),
        GroupOrder::MostOpen => i64::try_from(group.counts.get(Status::Open)).ok(),
        GroupOrder::OldestOpen => oldest_open.map(|at| at.as_micros().saturating_neg()),
    }
}

fn letter(order: GroupOrder) -> &'static str {
    match order {
        GroupOrder::LastSeen => "l",
        GroupOrder::FirstSeen => "f",
        GroupOrder::MostOpen => "m",
        GroupOrder::OldestOpen => "o",
    }
}

pub(crate) fn cursor_of(order: GroupOrder, (key, id): Listed) -> Cursor {
    Cursor(format!("{}.{key}.{id}", letter(order)))
}

/// A cursor of another order is not one of this list.
pub(crate) fn from_cursor(order: GroupOrder, Cursor(text): &Cursor) -> Result<Listed, StoreError> {
    let parts: Vec<&str> = text.split('.').collect();
    let [of, key, id] = parts[..] else { return Err(StoreError::BadCursor) };
    let key = key.parse().map_err(|_| StoreError::BadCursor)?;
    let id = Uuid::try_parse(id).map_err(|_| StoreError::BadCursor)?;
    if of == letter(order) { Ok((key, GroupId(id))) } else { Err(StoreError::BadCursor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_for_its_own_order_only() {
        let listed = (-5, GroupId(Uuid::from_u128(7)));
        let cursor = cursor_of(GroupOrder::OldestOpen, listed);
        assert_eq!(from_cursor(GroupOrder::OldestOpen, &cursor).unwrap(), listed);
        assert!(from_cursor(GroupOrder::LastSeen, &cursor).is_err());
        for text in ["", "l", "l.x.y", "l.1.2.3", "nothing of ours"] {
            assert!(from_cursor(GroupOrder::LastSeen, &Cursor(text.into())).is_err(), "{text}");
        }
    }
}

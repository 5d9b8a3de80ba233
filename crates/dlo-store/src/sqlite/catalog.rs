//! Groups and sources in memory: what filters are resolved against and what counts are read from.
//!
//! The embedded store has one process, so memory can be the reading side of what the transaction wrote. A write
//! stages its changes beside the catalog and merges them only after the commit: a failed transaction leaves no trace.
//! Bounded by the cap of groups per source.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dlo_core::group::{Group, GroupDeed, Life, StatusCounts};
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::{read_error, rows};
use crate::StoreError;
use crate::triage::rules::Rule;

/// The row number of a group, which letters carry.
pub(super) type GroupRow = i64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Source {
    pub(super) captured: u64,
    pub(super) deaths: u64,
    pub(super) groups: usize,
    pub(super) last_captured: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) groups: BTreeMap<GroupRow, Group>,
    rows: HashMap<GroupId, GroupRow>,
    /// The members of each head.
    families: HashMap<GroupId, Vec<GroupRow>>,
    /// The conditions that lead from a group to others, in the order of their making.
    rules: HashMap<GroupRow, Arc<[Rule]>>,
    pub(super) sources: BTreeMap<String, Source>,
}

impl Catalog {
    /// Reads everything that is kept at write time.
    pub(super) fn load(connection: &Connection) -> Result<Self, StoreError> {
        let mut catalog = Self::default();
        let mut statement = connection
            .prepare("SELECT name, captured, deaths, last_captured FROM sources")
            .map_err(read_error)?;
        let sources = statement
            .query_map([], |row| {
                let last: Option<i64> = row.get(3)?;
                let source = Source {
                    captured: row.get::<_, i64>(1)? as u64,
                    deaths: row.get::<_, i64>(2)? as u64,
                    groups: 0,
                    last_captured: last.map(Timestamp::from_micros),
                };
                Ok((row.get::<_, String>(0)?, source))
            })
            .map_err(read_error)?;
        for source in sources {
            let (name, source) = source.map_err(read_error)?;
            catalog.sources.insert(name, source);
        }
        let mut statement = connection.prepare(rows::SELECT_GROUPS).map_err(read_error)?;
        let groups = statement.query_map([], rows::group).map_err(read_error)?;
        for group in groups {
            let (row, group) = group.map_err(read_error)?;
            catalog.add(row, group);
        }
        catalog.load_counts(connection)?;
        catalog.load_rules(connection)?;
        Ok(catalog)
    }

    fn load_rules(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let sql = "SELECT s.group_id, s.number, s.split_id, g.split_where FROM splits s
                     JOIN groups g ON g.id = s.split_id WHERE g.split_where IS NOT NULL ORDER BY s.number";
        let mut statement = connection.prepare(sql).map_err(read_error)?;
        let mut rows = statement.query([]).map_err(read_error)?;
        let mut rules: HashMap<GroupRow, Vec<Rule>> = HashMap::new();
        while let Some(row) = rows.next().map_err(read_error)? {
            let get = |column: usize| row.get::<_, i64>(column).map_err(read_error);
            let condition: String = row.get(3).map_err(read_error)?;
            rules.entry(get(0)?).or_default().extend(Rule::read(get(1)?, get(2)?, &condition));
        }
        self.rules = rules.into_iter().map(|(row, rules)| (row, rules.into())).collect();
        Ok(())
    }

    fn load_counts(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let mut statement =
            connection.prepare("SELECT group_id, status, n FROM counts").map_err(read_error)?;
        let counts = statement
            .query_map([], |row| Ok((row.get(0)?, row.get::<_, u8>(1)?, row.get::<_, i64>(2)?)))
            .map_err(read_error)?;
        for count in counts {
            let (group, status, n): (GroupRow, u8, i64) = count.map_err(read_error)?;
            if let (Some(group), Some(status)) = (self.groups.get_mut(&group), Status::from_number(status)) {
                group.counts.set(status, n as u64);
            }
        }
        Ok(())
    }

    fn add(&mut self, row: GroupRow, group: Group) {
        self.rows.insert(group.id, row);
        if let Some(head) = group.merged_into {
            self.families.entry(head).or_default().push(row);
        }
        self.sources.entry(group.source.clone()).or_default().groups += 1;
        self.groups.insert(row, group);
    }

    pub(super) fn row(&self, id: GroupId) -> Option<GroupRow> {
        self.rows.get(&id).copied()
    }

    /// The row that speaks for a group: its own, or its head's.
    pub(super) fn head_of(&self, row: GroupRow) -> GroupRow {
        let head = self.groups.get(&row).and_then(|group| group.merged_into);
        head.and_then(|head| self.row(head)).unwrap_or(row)
    }

    /// The head that speaks for a group, if it is here.
    pub(super) fn head(&self, id: GroupId) -> Option<GroupRow> {
        self.row(id).map(|row| self.head_of(row))
    }

    /// The rows that were merged into a head.
    pub(super) fn members(&self, head: GroupRow) -> &[GroupRow] {
        let family = self.groups.get(&head).and_then(|group| self.families.get(&group.id));
        family.map_or(&[], Vec::as_slice)
    }

    /// The conditions that letters of a group are held against.
    pub(super) fn rules(&self, row: GroupRow) -> Option<Arc<[Rule]>> {
        self.rules.get(&row).filter(|rules| !rules.is_empty()).cloned()
    }

    /// A head and its members.
    pub(super) fn family(&self, head: GroupRow) -> Vec<GroupRow> {
        std::iter::once(head).chain(self.members(head).iter().copied()).collect()
    }

    /// A group as it is shown: with the numbers of its members.
    pub(super) fn shown(&self, row: GroupRow) -> Option<Group> {
        let mut group = self.groups.get(&row)?.clone();
        for member in self.members(row).iter().filter_map(|row| self.groups.get(row)) {
            group.take_in(member);
        }
        Some(group)
    }

    pub(super) fn last_row(&self) -> GroupRow {
        self.groups.last_key_value().map_or(0, |(row, _)| *row)
    }

    /// Letters of all groups, by status.
    pub(super) fn totals(&self) -> StatusCounts {
        let mut totals = StatusCounts::default();
        for group in self.groups.values() {
            totals.merge(&group.counts);
        }
        totals
    }

    /// Takes over groups that a transaction is about to commit, still empty: whoever reads a letter right after
    /// the commit must find its group here. Returns what to take back if the commit fails.
    pub(super) fn announce(&mut self, staged: &mut Staged) -> Vec<GroupRow> {
        let rows = staged.new_groups.keys().copied().collect();
        for (row, group) in std::mem::take(&mut staged.new_groups) {
            self.add(row, group);
        }
        rows
    }

    /// Takes back groups whose commit failed. In memory only, so that it succeeds on a disk that fails: a group that
    /// stayed here would be given letters, and is not in the database.
    pub(super) fn withdraw(&mut self, announced: &[GroupRow]) {
        for group in announced.iter().filter_map(|row| self.groups.remove(row)) {
            self.rows.remove(&group.id);
            if let Some(source) = self.sources.get_mut(&group.source) {
                source.groups -= 1;
                if *source == Source::default() {
                    self.sources.remove(&group.source);
                }
            }
        }
    }

    /// Takes over what a committed transaction staged.
    pub(super) fn merge(&mut self, staged: Staged) {
        for (row, touch) in staged.touched {
            if let Some(group) = self.groups.get_mut(&row) {
                group.first_seen = group.first_seen.min(touch.first);
                group.last_seen = group.last_seen.max(touch.last);
            }
        }
        for (row, (first, last)) in staged.seen {
            if let Some(group) = self.groups.get_mut(&row) {
                (group.first_seen, group.last_seen) = (first, last);
            }
        }
        for (row, edit) in staged.edits {
            self.edit(row, edit);
        }
        self.rules.extend(staged.rules);
        for ((row, status), delta) in staged.counts {
            if let Some(group) = self.groups.get_mut(&row) {
                group.counts.set(status, group.counts.get(status).saturating_add_signed(delta));
            }
        }
        for (name, arrived) in staged.sources {
            let source = self.sources.entry(name).or_default();
            source.captured = source.captured.saturating_add_signed(arrived.captured);
            source.deaths += arrived.deaths;
            source.last_captured = source.last_captured.max(Some(arrived.at));
        }
    }
}

impl Catalog {
    /// Takes over what people said of a group.
    pub(super) fn edit(&mut self, row: GroupRow, edit: Edit) {
        let Some(group) = self.groups.get_mut(&row) else { return };
        let before = std::mem::replace(&mut group.merged_into, edit.merged_into);
        (group.life, group.owner, group.owner_by_hand) = (edit.life, edit.owner, edit.owner_by_hand);
        group.assignee = edit.assignee;
        if before == edit.merged_into {
            return;
        }
        if let Some(family) = before.and_then(|head| self.families.get_mut(&head)) {
            family.retain(|member| *member != row);
        }
        if let Some(head) = edit.merged_into {
            self.families.entry(head).or_default().push(row);
        }
    }
}

/// What one transaction changes of the catalog.
#[derive(Debug, Default)]
pub(super) struct Staged {
    pub(super) new_groups: BTreeMap<GroupRow, Group>,
    pub(super) new_rows: HashMap<GroupId, GroupRow>,
    pub(super) touched: HashMap<GroupRow, Touch>,
    /// First and last seen anew, where letters went to another group. Written by whoever stages it.
    pub(super) seen: HashMap<GroupRow, (Timestamp, Timestamp)>,
    /// All conditions of a group, where they changed.
    pub(super) rules: HashMap<GroupRow, Arc<[Rule]>>,
    pub(super) counts: HashMap<(GroupRow, Status), i64>,
    pub(super) sources: BTreeMap<String, Arrived>,
    /// What changes of groups beside their numbers.
    pub(super) edits: HashMap<GroupRow, Edit>,
    /// What the office did with groups because of their letters.
    pub(super) deeds: Vec<(GroupId, GroupDeed, Timestamp)>,
    /// Letters that arrived, by group and minute; less than zero where some went to another group.
    pub(super) minutes: HashMap<(GroupRow, i64), i64>,
    /// When, by the office's clock.
    pub(super) at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Touch {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The head, where it is resolved or snoozed: each letter is held against that.
    pub(super) watched: Option<GroupRow>,
}

/// The part of a group that people change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) life: Life,
    pub(super) owner: Option<String>,
    pub(super) owner_by_hand: bool,
    pub(super) assignee: Option<String>,
    pub(super) merged_into: Option<GroupId>,
}

impl Edit {
    pub(super) fn of(group: &Group) -> Self {
        Self {
            life: group.life.clone(),
            owner: group.owner.clone(),
            owner_by_hand: group.owner_by_hand,
            assignee: group.assignee.clone(),
            merged_into: group.merged_into,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    /// Less than zero when letters went on to another source.
    pub(super) captured: i64,
    pub(super) deaths: u64,
    pub(super) new_groups: usize,
    pub(super) at: Timestamp,
}

impl Staged {
    pub(super) fn count(&mut self, group: GroupRow, status: Status, delta: i64) {
        *self.counts.entry((group, status)).or_default() += delta;
    }
}

/// A stored id.
pub(super) fn uuid(bytes: &[u8]) -> Result<Uuid, rusqlite::Error> {
    Uuid::from_slice(bytes).map_err(|_| rows::unreadable("id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(source: &str, number: u128) -> Group {
        Group::begun(GroupId(Uuid::from_u128(number)), 1, source, Timestamp::EPOCH)
    }

    #[test]
    fn groups_whose_commit_failed_leave_no_trace() {
        let mut catalog = Catalog::default();
        catalog.add(1, group("orders", 1));
        let new_groups = BTreeMap::from([(2, group("orders", 2)), (3, group("refunds", 3))]);
        let mut staged = Staged { new_groups, ..Staged::default() };
        let announced = catalog.announce(&mut staged);
        assert_eq!(catalog.row(GroupId(Uuid::from_u128(3))), Some(3));
        catalog.withdraw(&announced);
        assert_eq!((catalog.last_row(), catalog.row(GroupId(Uuid::from_u128(3)))), (1, None));
        assert_eq!(catalog.sources.keys().collect::<Vec<_>>(), ["orders"]);
        assert_eq!(catalog.sources["orders"].groups, 1);
    }
}

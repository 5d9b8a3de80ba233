//! Rows to values and back. Column lists stand once; their order is the order of the reading.

use dlo_core::group::{Group, GroupStatus, Life, Snooze, SplitOff, StatusCounts};
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{Letter, Status};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use rusqlite::Row;

use super::catalog::{Catalog, GroupRow, uuid};
use super::suspects;
use crate::place::Place;

pub(super) const SELECT_GROUPS: &str =
    "SELECT id, uid, version, source, queue, consumer, event_type, error_class,
    template, overflow, status, owner, first_seen, last_seen, since, resolved_in, regressed_at, snooze_until,
    snooze_letters, snooze_from, owner_by_hand, assignee, merged_into, split_from, split_where, split_title FROM groups";

pub(super) const LETTER: &str = "place, id, group_id, status, block, slot, captured_at, failed_at, first_failed_at,
    received_at, published_at, broker, incarnation, partition, log_offset, message_id, msg_key, content_type,
    event_version, correlation_id, trace_id, consumer_id, consumer_version, attempts, error_message, error_code,
    reason, verdict, rule, payload_size, replays, deaths, own_queue, own_consumer, own_type, own_class,
    (SELECT kind FROM suspects s WHERE s.letter = letters.id), (SELECT related FROM suspects s WHERE s.letter = letters.id)";

/// A letter with what only the store needs to know of it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) place: Place,
    /// The row of its group, not of the head that speaks for it.
    pub(super) group: GroupRow,
    pub(super) block: i64,
    pub(super) slot: usize,
    pub(super) letter: Letter,
}

pub(super) fn group(row: &Row<'_>) -> rusqlite::Result<(GroupRow, Group)> {
    let uid: Vec<u8> = row.get(1)?;
    let group = Group {
        id: GroupId(uuid(&uid)?),
        fingerprint_version: row.get(2)?,
        source: row.get(3)?,
        queue: row.get(4)?,
        consumer: row.get(5)?,
        event_type: row.get(6)?,
        error_class: row.get(7)?,
        template: row.get(8)?,
        overflow: row.get(9)?,
        life: life(row)?,
        owner: row.get(11)?,
        owner_by_hand: row.get(20)?,
        assignee: row.get(21)?,
        merged_into: row.get::<_, Option<Vec<u8>>>(22)?.map(|head| uuid(&head)).transpose()?.map(GroupId),
        split: split(row)?,
        members: 0,
        first_seen: Timestamp::from_micros(row.get(12)?),
        last_seen: Timestamp::from_micros(row.get(13)?),
        counts: StatusCounts::default(),
    };
    Ok((row.get(0)?, group))
}

fn split(row: &Row<'_>) -> rusqlite::Result<Option<SplitOff>> {
    let (Some(from), Some(condition)) = (row.get::<_, Option<Vec<u8>>>(23)?, row.get(24)?) else {
        return Ok(None);
    };
    Ok(Some(SplitOff { from: GroupId(uuid(&from)?), condition, title: row.get(25)? }))
}

fn life(row: &Row<'_>) -> rusqlite::Result<Life> {
    let time = |index: usize| row.get::<_, Option<i64>>(index).map(|at| at.map(Timestamp::from_micros));
    let status = |number: u8| GroupStatus::from_number(number).ok_or_else(|| unreadable("groups.status"));
    let letters = row.get::<_, Option<i64>>(18)?.map(|left| u64::try_from(left).unwrap_or(0));
    let snooze = match row.get::<_, Option<u8>>(19)? {
        Some(from) => Some(Snooze { until: time(17)?, letters, from: status(from)? }),
        None => None,
    };
    Ok(Life {
        status: status(row.get(10)?)?,
        since: time(14)?,
        resolved_in: row.get(15)?,
        regressed_at: time(16)?,
        snooze,
    })
}

/// Reads the columns of [`LETTER`].
pub(super) fn letter(row: &Row<'_>, catalog: &Catalog) -> rusqlite::Result<Found> {
    let time = |index: usize| row.get::<_, Option<i64>>(index).map(|at| at.map(Timestamp::from_micros));
    let group_row: GroupRow = row.get(2)?;
    let group = catalog.groups.get(&group_row).ok_or_else(|| unreadable("letters.group_id"))?;
    let own = |index: usize, of_group: &Option<String>| {
        if group.overflow { row.get(index) } else { Ok(of_group.clone()) }
    };
    let id = row.get_ref(1)?.as_blob().map_err(|_| unreadable("letters.id"))?;
    let queue = if group.overflow {
        row.get::<_, Option<String>>(32)?.unwrap_or_default()
    } else {
        group.queue.clone()
    };
    let letter = Letter {
        id: LetterId(uuid(id)?),
        status: Status::from_number(row.get(3)?).ok_or_else(|| unreadable("letters.status"))?,
        group_id: group.head(),
        owner: group.owner.clone(),
        source: group.source.clone(),
        origin: Origin {
            broker: BrokerKind::from_number(row.get(11)?).ok_or_else(|| unreadable("letters.broker"))?,
            queue,
            incarnation: row.get(12)?,
            partition: row.get(13)?,
            offset: row.get(14)?,
            message_id: row.get(15)?,
        },
        key: row.get(16)?,
        content_type: row.get(17)?,
        event_type: own(34, &group.event_type)?,
        event_version: row.get(18)?,
        correlation_id: row.get(19)?,
        trace_id: row.get(20)?,
        consumer: own(33, &group.consumer)?,
        consumer_id: row.get(21)?,
        consumer_version: row.get(22)?,
        attempts: row.get(23)?,
        error_class: own(35, &group.error_class)?,
        error_message: row.get(24)?,
        error_code: row.get(25)?,
        reason: Reason::from_number(row.get(26)?).ok_or_else(|| unreadable("letters.reason"))?,
        verdict: VerdictKind::from_number(row.get(27)?).ok_or_else(|| unreadable("letters.verdict"))?,
        rule: row.get(28)?,
        published_at: time(10)?,
        received_at: time(9)?,
        first_failed_at: time(8)?,
        failed_at: Timestamp::from_micros(row.get(7)?),
        captured_at: Timestamp::from_micros(row.get(6)?),
        payload_size: row.get::<_, i64>(29)? as u64,
        replays: row.get(30)?,
        deaths: row.get(31)?,
        suspect: suspects::suspect(row, 36)?,
    };
    Ok(Found {
        place: Place(row.get(0)?),
        group: group_row,
        block: row.get(4)?,
        slot: row.get::<_, u32>(5)? as usize,
        letter,
    })
}

/// A value that this version does not know; see `read_error` for what becomes of it.
pub(super) fn unreadable(column: &'static str) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnName(column.to_string())
}

//! Rows to values. Column lists stand once; their order is the order of the reading.

use dlo_core::group::{Group, GroupStatus, Life, Snooze, SplitOff, StatusCounts};
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{Letter, Status};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use tokio_postgres::Row;

use super::suspects;
use super::text::unescape;
use crate::StoreError;
use crate::place::Place;

/// The row number of a group, which letters carry.
pub(super) type GroupRow = i64;

/// Of `groups g`. Times and counts are read beside it, where they are wanted.
pub(super) const GROUP: &str =
    "g.id, g.uid, g.version, g.source, g.queue, g.consumer, g.event_type, g.error_class,
    g.template, g.overflow, g.status, g.owner, g.since, g.resolved_in, g.regressed_at, g.snooze_until, g.snooze_letters,
    g.snooze_from, g.owner_by_hand, g.assignee, g.merged_into, g.split_from, g.split_where, g.split_title";
/// How many columns [`GROUP`] has: what is read beside it stands behind.
pub(super) const GROUP_COLUMNS: usize = 24;

/// Of `letters l JOIN groups g`. In an overflow group the letter's own words stand for the group's.
pub(super) const LETTER: &str = "l.place, l.id, l.status, l.block, l.slot, l.captured_at, l.failed_at,
    l.first_failed_at, l.received_at, l.published_at, l.broker, l.incarnation, l.partition, l.log_offset, l.message_id,
    l.msg_key, l.content_type, l.event_version, l.correlation_id, l.trace_id, l.consumer_id, l.consumer_version,
    l.attempts, l.error_message, l.error_code, l.reason, l.verdict, l.rule, l.payload_size, l.replays, l.deaths,
    l.replay_id, coalesce(g.merged_into, g.uid), g.owner, g.source, CASE WHEN g.overflow THEN coalesce(l.own_queue, '') ELSE g.queue END,
    CASE WHEN g.overflow THEN l.own_consumer ELSE g.consumer END,
    CASE WHEN g.overflow THEN l.own_type ELSE g.event_type END,
    CASE WHEN g.overflow THEN l.own_class ELSE g.error_class END,
    (SELECT s.kind FROM suspects s WHERE s.letter = l.id), (SELECT s.related FROM suspects s WHERE s.letter = l.id)";

/// A letter with what only the store needs to know of it.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) block: i64,
    pub(super) slot: usize,
    /// Of its only death; those of others stand in `deaths`.
    pub(super) replay_id: Option<String>,
    pub(super) letter: Letter,
}

/// Reads the columns of [`GROUP`]; first and last seen, and counts, are filled in by whoever read them.
pub(super) fn group(row: &Row) -> Result<(GroupRow, Group), StoreError> {
    let group = Group {
        id: GroupId(row.get(1)),
        fingerprint_version: number(row.get(2), "groups.version")?,
        source: text(row, 3),
        queue: text(row, 4),
        consumer: maybe_text(row, 5),
        event_type: maybe_text(row, 6),
        error_class: maybe_text(row, 7),
        template: text(row, 8),
        overflow: row.get(9),
        life: life(row)?,
        owner: maybe_text(row, 11),
        owner_by_hand: row.get(18),
        assignee: maybe_text(row, 19),
        merged_into: row.get::<_, Option<uuid::Uuid>>(20).map(GroupId),
        split: split(row),
        members: 0,
        first_seen: Timestamp::EPOCH,
        last_seen: Timestamp::EPOCH,
        counts: StatusCounts::default(),
    };
    Ok((row.get(0), group))
}

fn split(row: &Row) -> Option<SplitOff> {
    let from = row.get::<_, Option<uuid::Uuid>>(21).map(GroupId)?;
    Some(SplitOff { from, condition: maybe_text(row, 22)?, title: maybe_text(row, 23) })
}

fn life(row: &Row) -> Result<Life, StoreError> {
    let letters = row.get::<_, Option<i64>>(16).map(|left| u64::try_from(left).unwrap_or(0));
    let snooze = match row.get::<_, Option<i16>>(17) {
        Some(from) => Some(Snooze { until: time(row, 15), letters, from: group_status(from)? }),
        None => None,
    };
    Ok(Life {
        status: group_status(row.get(10))?,
        since: time(row, 12),
        resolved_in: maybe_text(row, 13),
        regressed_at: time(row, 14),
        snooze,
    })
}

/// Reads the columns of [`LETTER`].
pub(super) fn letter(row: &Row) -> Result<Found, StoreError> {
    let letter = Letter {
        id: LetterId(row.get(1)),
        status: status(row.get(2))?,
        captured_at: Timestamp::from_micros(row.get(5)),
        failed_at: Timestamp::from_micros(row.get(6)),
        first_failed_at: time(row, 7),
        received_at: time(row, 8),
        published_at: time(row, 9),
        origin: Origin {
            broker: code(row.get(10), BrokerKind::from_number, "letters.broker")?,
            queue: text(row, 35),
            incarnation: maybe_text(row, 11),
            partition: row.get(12),
            offset: row.get(13),
            message_id: maybe_text(row, 14),
        },
        key: row.get(15),
        content_type: maybe_text(row, 16),
        event_version: maybe_text(row, 17),
        correlation_id: maybe_text(row, 18),
        trace_id: maybe_text(row, 19),
        consumer_id: maybe_text(row, 20),
        consumer_version: maybe_text(row, 21),
        attempts: number(row.get(22), "letters.attempts")?,
        error_message: text(row, 23),
        error_code: maybe_text(row, 24),
        reason: code(row.get(25), Reason::from_number, "letters.reason")?,
        verdict: code(row.get(26), VerdictKind::from_number, "letters.verdict")?,
        rule: maybe_text(row, 27),
        payload_size: number(row.get(28), "letters.payload_size")?,
        replays: number(row.get(29), "letters.replays")?,
        deaths: number(row.get(30), "letters.deaths")?,
        group_id: GroupId(row.get(32)),
        owner: maybe_text(row, 33),
        source: text(row, 34),
        consumer: maybe_text(row, 36),
        event_type: maybe_text(row, 37),
        error_class: maybe_text(row, 38),
        suspect: suspects::suspect(row, 39)?,
    };
    Ok(Found {
        place: Place(row.get(0)),
        block: row.get(3),
        slot: slot(row.get(4))?,
        replay_id: maybe_text(row, 31),
        letter,
    })
}

pub(super) fn text(row: &Row, column: usize) -> String {
    unescape(row.get(column))
}

pub(super) fn maybe_text(row: &Row, column: usize) -> Option<String> {
    row.get::<_, Option<String>>(column).map(unescape)
}

fn time(row: &Row, column: usize) -> Option<Timestamp> {
    row.get::<_, Option<i64>>(column).map(Timestamp::from_micros)
}

pub(super) fn status(number: i16) -> Result<Status, StoreError> {
    code(number, Status::from_number, "letters.status")
}

pub(super) fn group_status(number: i16) -> Result<GroupStatus, StoreError> {
    code(number, GroupStatus::from_number, "groups.status")
}

/// A code of one of dlo-core's vocabularies.
pub(super) fn code<T>(
    number: i16,
    read: impl Fn(u8) -> Option<T>,
    column: &'static str,
) -> Result<T, StoreError> {
    u8::try_from(number).ok().and_then(read).ok_or_else(|| unreadable(column))
}

pub(super) fn number<T: TryFrom<i64>>(number: i64, column: &'static str) -> Result<T, StoreError> {
    T::try_from(number).map_err(|_| unreadable(column))
}

pub(super) fn slot(number: i32) -> Result<usize, StoreError> {
    usize::try_from(number).map_err(|_| unreadable("slot"))
}

pub(super) fn unreadable(column: &'static str) -> StoreError {
    StoreError::Unreadable(format!("{column} holds a value this version does not know"))
}

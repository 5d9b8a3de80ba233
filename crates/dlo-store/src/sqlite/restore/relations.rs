//! Tables agree with each other: conservation, as `dlo audit verify` finds it, and what pages take for granted beside it.

use rusqlite::Connection;

use super::super::{audit, read_error};
use super::refused;
use crate::StoreError;

/// How many problems an error names.
const NAMED: usize = 3;

/// Rows that should not be there, counted, and what they are.
const CHECKS: &[(&str, &str)] = &[
    // Entries of the audit log are numbered without gaps and never deleted; neither are notes.
    (
        "SELECT ifnull(max(seq), 0) - count(*) + (SELECT count(*) FROM audit WHERE seq < 1) FROM audit",
        "entries of the audit log are missing",
    ),
    (
        "SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0) <> ifnull((SELECT max(seq) FROM audit), 0)",
        "entries of the audit log are missing at its end",
    ),
    ("SELECT ifnull(max(number), 0) - count(*) FROM notes", "notes are missing"),
    ("SELECT ifnull(max(number) - min(number) + 1, 0) - count(*) FROM deploys", "deployments are missing"),
    // A number past these leaves no room for the next one.
    (
        "SELECT count(*) FROM sqlite_sequence WHERE typeof(seq) <> 'integer' OR seq < 0 OR seq > 1 << 52",
        "counters of numbers are out of range",
    ),
    (
        "SELECT (SELECT count(*) FROM blocks WHERE id < 1 OR id > 1 << 40)
              + (SELECT count(*) FROM groups WHERE id < 1 OR id > 1 << 40)
              + (SELECT count(*) FROM replays WHERE row < 1 OR row > 1 << 40)
              + (SELECT count(*) FROM segments WHERE id < 1 OR id > 1 << 32)
              + (SELECT count(*) FROM leftovers WHERE segment < 1 OR segment > 1 << 32)
              + (SELECT count(*) FROM letters WHERE place < 1)",
        "rows have a number that is out of range",
    ),
    (
        "SELECT (SELECT count(*) FROM sources WHERE deaths < 0 OR deaths > 1 << 52)
              + (SELECT count(*) FROM trend WHERE n < 0 OR n > 1 << 52)",
        "counts are out of range",
    ),
    // A death that is the only one stands in the letter's row.
    (
        "SELECT count(*) FROM letters l WHERE l.deaths < 1
            OR l.deaths > 1 AND l.deaths <> (SELECT count(*) FROM deaths d WHERE d.letter = l.id)",
        "letters lack deaths",
    ),
    (
        "SELECT count(*) FROM deaths d WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = d.letter AND l.deaths > 1)",
        "deaths have no letter",
    ),
    (
        "SELECT count(*) FROM repairs r WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = r.letter)",
        "repairs have no letter",
    ),
    (
        "SELECT count(*) FROM pointers p WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = p.letter)",
        "pointers have no letter",
    ),
    (
        "SELECT count(*) FROM suspects s WHERE s.letter = s.related OR s.kind NOT IN (1, 2)
            OR NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = s.letter)
            OR NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = s.related)",
        "suspected letters are not there, or do not name another one",
    ),
    (
        "SELECT count(*) FROM sent_marks m
          WHERE NOT EXISTS (SELECT 1 FROM replay_items i WHERE i.replay = m.replay AND i.number = m.number)",
        "marks of sent messages have no item",
    ),
    (
        "SELECT count(*) FROM mark_batches b
          WHERE length(b.marks) % 16 <> 0 OR NOT EXISTS (SELECT 1 FROM replays r WHERE r.row = b.replay)",
        "batches of marks are cut short or have no replay",
    ),
    (
        "SELECT count(*) FROM death_ids d WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = d.letter)",
        "death ids have no letter",
    ),
    (
        "SELECT count(*) FROM letters l WHERE NOT EXISTS (SELECT 1 FROM quick_docsize d WHERE d.id = l.place)",
        "letters are missing in the index of exact values",
    ),
    (
        "SELECT count(*) FROM quick_docsize d WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.place = d.id)",
        "entries in the index of exact values have no letter",
    ),
    (
        "SELECT count(*) FROM replays c WHERE c.parent IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM replays p WHERE p.row = c.parent AND p.parent IS NULL)",
        "parts of replays have no whole",
    ),
    (
        "SELECT count(*) FROM replays p WHERE p.children <> (SELECT count(*) FROM replays c WHERE c.parent = p.row)",
        "replays lack parts",
    ),
    (
        "SELECT (SELECT count(*) FROM replay_items i WHERE NOT EXISTS (SELECT 1 FROM replays r WHERE r.row = i.replay))
              + (SELECT count(*) FROM replay_counts c WHERE NOT EXISTS (SELECT 1 FROM replays r WHERE r.row = c.replay))",
        "items or counts of replays have no replay",
    ),
    (
        "SELECT count(*) FROM (SELECT min(number) AS low, max(number) - count(*) AS gap FROM replay_items GROUP BY replay)
          WHERE low <> 0 OR gap <> -1",
        "replays lack items",
    ),
    (
        "SELECT count(*) FROM replay_items i WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = i.letter)",
        "items of replays have no letter",
    ),
];

pub(super) fn check(db: &Connection) -> Result<(), StoreError> {
    let mut problems = audit::verify(db)?.problems;
    for (sql, what) in CHECKS {
        let found: i64 = db.query_row(sql, [], |row| row.get(0)).map_err(read_error)?;
        if found != 0 {
            problems.push(format!("{} {what}", found.unsigned_abs()));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let more = problems.len().saturating_sub(NAMED);
    problems.truncate(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(refused(format!("its numbers do not agree: {}{more}", problems.join("; "))))
}

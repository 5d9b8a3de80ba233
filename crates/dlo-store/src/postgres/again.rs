//! A replayed letter comes back: one more chapter of the same letter.
//!
//! The letter moves to the place of its new failure and shows that failure; what it was before stands in `deaths`.
//! Its payload, key, headers and origin stay those of the first time. If the letter is closed meanwhile (discarded,
//! compensated, archived) the death is recorded and the letter stays closed; if another replay has it in hand by now, it
//! stays there. A letter that comes back through another source is that source's from then on. Its row is locked by whoever calls.

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::time::Timestamp;
use dlo_core::words;

use super::letters::Row;
use super::rows::{self, GroupRow};
use super::splits::{self, Rules};
use super::tally::Tally;
use super::text::{escape, escape_option};
use super::{read_error, replays, suspects};
use crate::StoreError;
use crate::place::Place;
use crate::prepare::suspicion_token;

struct Former {
    place: Place,
    group: GroupRow,
    source: String,
    status: Status,
    deaths: i64,
    /// Exact values that stay findable.
    tokens: Vec<String>,
}

/// Adds the death that `row` describes to the letter `row.id`.
pub(super) async fn die_again(
    db: &Transaction<'_>,
    tally: &mut Tally,
    row: &Row<'_>,
    rules: &Rules,
    now: Timestamp,
) -> Result<(), StoreError> {
    let former = find(db, row.id).await?;
    let held = replays::come_back(db, row.id, row.letter, now).await?;
    let status =
        if held { former.status } else { Step::DieAgain.apply(former.status).unwrap_or(former.status) };
    if former.deaths == 1 {
        copy_first(db, row.id).await?;
    }
    write_death(db, row, former.deaths + 1, now).await?;
    let place = free_place(db, row.place).await?;
    move_letter(db, row, &former, place, status).await?;
    move_words(db, row, &former, place).await?;
    let group = splits::sort_again(db, rules, row.group.row, row.id).await?;
    tally.count(former.group, former.status, -1);
    tally.count(group, status, 1);
    tally.see(group, row.letter);
    tally.arrived(&row.letter.source).deaths += 1;
    if former.source != row.letter.source {
        tally.arrived(&former.source).captured -= 1;
        tally.arrived(&row.letter.source).captured += 1;
    }
    Ok(())
}

async fn find(db: &Transaction<'_>, id: LetterId) -> Result<Former, StoreError> {
    let sql =
        "SELECT l.place, l.group_id, l.status, l.deaths, l.msg_key, l.correlation_id, l.message_id, l.trace_id,
                l.event_version, g.source, (SELECT s.kind FROM suspects s WHERE s.letter = l.id)
           FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = $1";
    let row = db.query_one(sql, &[&id.0]).await.map_err(read_error)?;
    let mut tokens = Vec::new();
    if let Some(key) = row.get::<_, Option<&[u8]>>(4) {
        tokens.push(words::exact("key", key));
    }
    for (column, field) in [(5, "correlation"), (6, "message"), (7, "trace"), (8, "version")] {
        if let Some(value) = rows::maybe_text(&row, column) {
            tokens.push(words::exact(field, value.as_bytes()));
        }
    }
    if let Some(kind) = row.get::<_, Option<i16>>(10) {
        tokens.push(suspicion_token(suspects::kind(kind)?));
    }
    Ok(Former {
        place: Place(row.get(0)),
        group: row.get(1),
        source: rows::text(&row, 9),
        status: rows::status(row.get(2))?,
        deaths: row.get(3),
        tokens,
    })
}

/// The death that stood in the letter's row so far.
async fn copy_first(db: &Transaction<'_>, id: LetterId) -> Result<(), StoreError> {
    let sql = "INSERT INTO deaths
        SELECT l.id, 1, l.block, l.slot, l.failed_at, l.captured_at, l.broker,
               CASE WHEN g.overflow THEN coalesce(l.own_queue, '') ELSE g.queue END,
               l.incarnation, l.partition, l.log_offset, l.message_id,
               CASE WHEN g.overflow THEN l.own_consumer ELSE g.consumer END,
               l.consumer_id, l.consumer_version, l.attempts,
               CASE WHEN g.overflow THEN l.own_class ELSE g.error_class END,
               l.error_message, l.error_code, l.reason, l.verdict, l.rule, l.replay_id
          FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = $1";
    db.execute(sql, &[&id.0]).await.map_err(read_error)?;
    Ok(())
}

async fn write_death(
    db: &Transaction<'_>,
    row: &Row<'_>,
    number: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let letter = row.letter;
    let sql = "INSERT INTO deaths VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
               $18, $19, $20, $21, $22, $23)";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &row.id.0,
            &number,
            &row.block,
            &row.slot,
            &letter.failed_at.as_micros(),
            &now.as_micros(),
            &i16::from(letter.origin.broker.number()),
            &escape(&letter.origin.queue),
            &escape_option(&letter.origin.incarnation),
            &letter.origin.partition,
            &letter.origin.offset,
            &escape_option(&letter.origin.message_id),
            &escape_option(&letter.consumer),
            &escape_option(&letter.consumer_id),
            &escape_option(&letter.consumer_version),
            &i64::from(letter.attempts),
            &escape_option(&letter.error_class),
            &escape(&letter.error_message),
            &escape_option(&letter.error_code),
            &i16::from(letter.reason.number()),
            &i16::from(letter.verdict.number()),
            &escape_option(&letter.rule),
            &escape_option(&letter.replay_id),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

/// The first place from `wanted` on that nobody has. Should another transaction take it meanwhile, this one is tried again.
async fn free_place(db: &Transaction<'_>, wanted: Place) -> Result<Place, StoreError> {
    let statement = db.prepare_cached("SELECT 1 FROM letters WHERE place = $1").await.map_err(read_error)?;
    let mut place = wanted;
    while db.query_opt(&statement, &[&place.0]).await.map_err(read_error)?.is_some() {
        place = place.next();
    }
    Ok(place)
}

async fn move_letter(
    db: &Transaction<'_>,
    row: &Row<'_>,
    former: &Former,
    place: Place,
    status: Status,
) -> Result<(), StoreError> {
    let letter = row.letter;
    let sql = "UPDATE letters
           SET place = $2, group_id = $3, status = $4, failed_at = $5, attempts = $6, error_message = $7, error_code = $8,
               reason = $9, verdict = $10, rule = $11, consumer_id = $12, consumer_version = $13, deaths = deaths + 1,
               replays = greatest(replays, deaths), own_queue = $14, own_consumer = $15, own_type = $16, own_class = $17
         WHERE place = $1";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &former.place.0,
            &place.0,
            &row.group.row,
            &i16::from(status.number()),
            &letter.failed_at.as_micros(),
            &i64::from(letter.attempts),
            &escape(&letter.error_message),
            &escape_option(&letter.error_code),
            &i16::from(letter.reason.number()),
            &i16::from(letter.verdict.number()),
            &escape_option(&letter.rule),
            &escape_option(&letter.consumer_id),
            &escape_option(&letter.consumer_version),
            &row.own(Some(&letter.origin.queue)),
            &row.own(letter.consumer.as_ref()),
            &row.own(letter.event_type.as_ref()),
            &row.own(letter.error_class.as_ref()),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

/// Exact values anew; texts are indexed again, since the error text is another. The mark first: if the index is just being
/// written, this waits for it, and then finds what was written instead of the mark.
async fn move_words(
    db: &Transaction<'_>,
    row: &Row<'_>,
    former: &Former,
    place: Place,
) -> Result<(), StoreError> {
    let tokens: Vec<&str> = row
        .tokens
        .split(' ')
        .chain(former.tokens.iter().map(String::as_str))
        .filter(|t| !t.is_empty())
        .collect();
    let (from, to) = (&former.place.0, &place.0);
    db.execute("DELETE FROM quick WHERE place = $1", &[from]).await.map_err(read_error)?;
    db.execute("INSERT INTO quick VALUES ($1, array_to_tsvector($2))", &[to, &tokens])
        .await
        .map_err(read_error)?;
    for sql in ["DELETE FROM unindexed WHERE place = $1", "DELETE FROM grams WHERE place = $1"] {
        db.execute(sql, &[from]).await.map_err(read_error)?;
    }
    let mark = "INSERT INTO unindexed SELECT place, block, slot FROM letters WHERE place = $1";
    db.execute(mark, &[to]).await.map_err(read_error)?;
    Ok(())
}

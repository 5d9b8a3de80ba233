//! The rows of new letters: the letter itself, its words, and its mark for the payload index.

use std::borrow::Cow;
use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::letter::NewLetter;
use dlo_core::suspect::Suspect;
use dlo_core::time::Timestamp;
use uuid::Uuid;

use super::grouping::Grouping;
use super::read_error;
use super::text::{escape, escape_option};
use crate::StoreError;
use crate::place::Place;
use crate::prepare::with_suspicion;

/// A letter on its way into the database, with everything that was decided about it.
#[derive(Debug)]
pub(super) struct Row<'b> {
    pub(super) letter: &'b NewLetter,
    pub(super) id: LetterId,
    /// One more death of the letter `id`.
    pub(super) again: bool,
    pub(super) place: Place,
    pub(super) group: Grouping,
    pub(super) block: i64,
    pub(super) slot: i32,
    pub(super) size: i64,
    pub(super) tokens: &'b str,
    pub(super) suspect: Option<Suspect>,
}

impl Row<'_> {
    /// The tokens of its row in the index of exact values.
    fn tokens(&self) -> Cow<'_, str> {
        match self.suspect {
            Some(suspect) => with_suspicion(self.tokens, suspect.kind).into(),
            None => self.tokens.into(),
        }
    }

    /// What stands in the `own_` columns: words that an overflow group does not carry.
    pub(super) fn own<'t>(&self, word: Option<&'t String>) -> Option<Cow<'t, str>> {
        word.filter(|_| self.group.overflow).map(|word| escape(word))
    }
}

/// Tries to find a free place. Steps double, so that even a full millisecond is passed.
const PLACES: u32 = 32;

/// Writes the letters. A place that is taken is passed over: `rows` have their final places afterwards.
pub(super) async fn insert(
    db: &Transaction<'_>,
    rows: &mut [Row<'_>],
    now: Timestamp,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut written: HashMap<Uuid, i64> = HashMap::new();
    for attempt in 0..PLACES {
        let left: Vec<&Row<'_>> = rows.iter().filter(|row| !written.contains_key(&row.id.0)).collect();
        if left.is_empty() {
            break;
        }
        written.extend(insert_rows(db, &left, now).await?);
        for row in rows.iter_mut().filter(|row| !written.contains_key(&row.id.0)) {
            row.place = Place(row.place.0.saturating_add(1 << attempt));
        }
    }
    if written.len() < rows.len() {
        return Err(StoreError::Refused("no free place was found for a letter".into()));
    }
    futures::try_join!(insert_words(db, rows), mark_unindexed(db, rows))?;
    Ok(())
}

const INSERT: &str = "
    INSERT INTO letters
    SELECT t.place, t.id, t.group_id, t.status, t.block, t.slot, $34, t.failed_at, t.first_failed_at, t.received_at,
           t.published_at, t.broker, t.incarnation, t.partition, t.log_offset, t.message_id, t.msg_key, t.content_type,
           t.event_version, t.correlation_id, t.trace_id, t.consumer_id, t.consumer_version, t.attempts, t.error_message,
           t.error_code, t.reason, t.verdict, t.rule, t.payload_size, 0, 1, t.replay_id, t.own_queue, t.own_consumer,
           t.own_type, t.own_class
      FROM UNNEST($1::bigint[], $2::uuid[], $3::bigint[], $4::smallint[], $5::bigint[], $6::integer[], $7::bigint[],
           $8::bigint[], $9::bigint[], $10::bigint[], $11::smallint[], $12::text[], $13::integer[], $14::bigint[],
           $15::text[], $16::bytea[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[],
           $23::bigint[], $24::text[], $25::text[], $26::smallint[], $27::smallint[], $28::text[], $29::bigint[],
           $30::text[], $31::text[], $32::text[], $33::text[], $35::text[])
        AS t (place, id, group_id, status, block, slot, failed_at, first_failed_at, received_at, published_at, broker,
           incarnation, partition, log_offset, message_id, msg_key, content_type, event_version, correlation_id, trace_id,
           consumer_id, consumer_version, attempts, error_message, error_code, reason, verdict, rule, payload_size,
           replay_id, own_queue, own_consumer, own_type, own_class)
    ON CONFLICT (place) DO NOTHING RETURNING id, place";

/// Writes those whose place is free; returns them.
async fn insert_rows(
    db: &Transaction<'_>,
    rows: &[&Row<'_>],
    now: Timestamp,
) -> Result<Vec<(Uuid, i64)>, StoreError> {
    let texts = |field: fn(&NewLetter) -> &Option<String>| {
        rows.iter().map(|row| escape_option(field(row.letter))).collect::<Vec<_>>()
    };
    let owns = |field: fn(&NewLetter) -> Option<&String>| {
        rows.iter().map(|row| row.own(field(row.letter))).collect::<Vec<_>>()
    };
    let times = |field: fn(&NewLetter) -> Option<Timestamp>| {
        rows.iter().map(|row| field(row.letter).map(Timestamp::as_micros)).collect::<Vec<_>>()
    };
    let codes =
        |field: fn(&NewLetter) -> u8| rows.iter().map(|row| i16::from(field(row.letter))).collect::<Vec<_>>();
    let statement = db.prepare_cached(INSERT).await.map_err(read_error)?;
    let inserted = db
        .query(
            &statement,
            &[
                &rows.iter().map(|row| row.place.0).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.id.0).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.group.row).collect::<Vec<_>>(),
                &codes(|letter| letter.status.number()),
                &rows.iter().map(|row| row.block).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.slot).collect::<Vec<_>>(),
                &times(|letter| Some(letter.failed_at)),
                &times(|letter| letter.first_failed_at),
                &times(|letter| letter.received_at),
                &times(|letter| letter.published_at),
                &codes(|letter| letter.origin.broker.number()),
                &texts(|letter| &letter.origin.incarnation),
                &rows.iter().map(|row| row.letter.origin.partition).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.letter.origin.offset).collect::<Vec<_>>(),
                &texts(|letter| &letter.origin.message_id),
                &rows
                    .iter()
                    .map(|row| row.letter.message.key.as_ref().map(|key| &key.0[..]))
                    .collect::<Vec<_>>(),
                &texts(|letter| &letter.content_type),
                &texts(|letter| &letter.event_version),
                &texts(|letter| &letter.correlation_id),
                &texts(|letter| &letter.trace_id),
                &texts(|letter| &letter.consumer_id),
                &texts(|letter| &letter.consumer_version),
                &rows.iter().map(|row| i64::from(row.letter.attempts)).collect::<Vec<_>>(),
                &rows.iter().map(|row| escape(&row.letter.error_message)).collect::<Vec<_>>(),
                &texts(|letter| &letter.error_code),
                &codes(|letter| letter.reason.number()),
                &codes(|letter| letter.verdict.number()),
                &texts(|letter| &letter.rule),
                &rows.iter().map(|row| row.size).collect::<Vec<_>>(),
                &texts(|letter| &letter.replay_id),
                &owns(|letter| Some(&letter.origin.queue)),
                &owns(|letter| letter.consumer.as_ref()),
                &owns(|letter| letter.event_type.as_ref()),
                &now.as_micros(),
                &owns(|letter| letter.error_class.as_ref()),
            ],
        )
        .await
        .map_err(read_error)?;
    Ok(inserted.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Words are made by us, so they are taken as they are, without a parser or a dictionary.
async fn insert_words(db: &Transaction<'_>, rows: &[Row<'_>]) -> Result<(), StoreError> {
    let (places, tokens): (Vec<i64>, Vec<Cow<'_, str>>) =
        rows.iter().map(|row| (row.place.0, row.tokens())).filter(|(_, tokens)| !tokens.is_empty()).unzip();
    let sql = "INSERT INTO quick SELECT t.place, array_to_tsvector(string_to_array(t.tokens, ' '))
                 FROM UNNEST($1::bigint[], $2::text[]) AS t (place, tokens)";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&places, &tokens]).await.map_err(read_error)?;
    Ok(())
}

async fn mark_unindexed(db: &Transaction<'_>, rows: &[Row<'_>]) -> Result<(), StoreError> {
    let places: Vec<i64> = rows.iter().map(|row| row.place.0).collect();
    let blocks: Vec<i64> = rows.iter().map(|row| row.block).collect();
    let slots: Vec<i32> = rows.iter().map(|row| row.slot).collect();
    let sql = "INSERT INTO unindexed SELECT * FROM UNNEST($1::bigint[], $2::bigint[], $3::integer[])";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&places, &blocks, &slots]).await.map_err(read_error)?;
    Ok(())
}

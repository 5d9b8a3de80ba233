//! The groups of a batch: known ones are looked up, new ones are made up to the source's cap.
//!
//! Only a batch that brings a new cause to a source with room takes that source's lock, so the cap holds exactly over all
//! processes; groups are never deleted, so a source that is full stays full and needs no lock. Sources are locked
//! in the order of their names.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::fingerprint::Fingerprint;
use dlo_core::group::GroupStatus;
use dlo_core::id::GroupId;
use dlo_core::letter::NewLetter;
use uuid::Uuid;

use super::rows::GroupRow;
use super::text::{escape, escape_option};
use super::{read_error, splits};
use crate::StoreError;

/// The group a letter belongs to; in an overflow group the letter keeps its own words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grouping {
    pub(super) row: GroupRow,
    pub(super) overflow: bool,
    /// Conditions lead from it to other groups.
    pub(super) split: bool,
}

/// For each fingerprint of these letters, its group.
pub(super) async fn resolve(
    db: &Transaction<'_>,
    letters: impl Iterator<Item = &NewLetter>,
    cap: usize,
) -> Result<HashMap<GroupId, Grouping>, StoreError> {
    let mut causes: HashMap<GroupId, &NewLetter> = HashMap::new();
    let mut order = Vec::new();
    for letter in letters {
        if causes.insert(letter.fingerprint.group, letter).is_none() {
            order.push(letter.fingerprint.group);
        }
    }
    let mut known = splits::held(db, find(db, &order)).await?;
    let mut new: BTreeMap<&str, Vec<&NewLetter>> = BTreeMap::new();
    for letter in order.iter().filter(|id| !known.contains_key(*id)).filter_map(|id| causes.get(id)) {
        new.entry(&letter.source).or_default().push(letter);
    }
    for (source, letters) in new {
        make(db, source, &letters, cap, &mut known).await?;
    }
    Ok(known)
}

async fn find(db: &Transaction<'_>, ids: &[GroupId]) -> Result<HashMap<GroupId, Grouping>, StoreError> {
    let uids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let statement = db
        .prepare_cached(
            "SELECT uid, id, overflow, EXISTS (SELECT 1 FROM splits s WHERE s.group_id = g.id)
               FROM groups g WHERE uid = ANY($1)",
        )
        .await
        .map_err(read_error)?;
    let rows = db.query(&statement, &[&uids]).await.map_err(read_error)?;
    let grouping =
        |row: &tokio_postgres::Row| Grouping { row: row.get(1), overflow: row.get(2), split: row.get(3) };
    Ok(rows.iter().map(|row| (GroupId(row.get(0)), grouping(row))).collect())
}

/// Makes the groups of new causes of one source, as far as there is room; the rest goes to its overflow group.
async fn make(
    db: &Transaction<'_>,
    source: &str,
    letters: &[&NewLetter],
    cap: usize,
    known: &mut HashMap<GroupId, Grouping>,
) -> Result<(), StoreError> {
    let ids: Vec<GroupId> = letters.iter().map(|letter| letter.fingerprint.group).collect();
    let overflow = Fingerprint::overflow(source);
    if room(db, source, cap).await? > 0 {
        lock(db, source).await?;
        known.extend(find(db, &ids).await?);
        let room = room(db, source, cap).await?;
        let made: Vec<&NewLetter> = letters
            .iter()
            .filter(|letter| !known.contains_key(&letter.fingerprint.group))
            .take(room)
            .copied()
            .collect();
        insert(db, &made).await?;
        known.extend(find(db, &ids).await?);
    }
    let left: Vec<GroupId> = ids.into_iter().filter(|id| !known.contains_key(id)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let mut found = find(db, &[overflow.group]).await?;
    if found.is_empty() {
        lock(db, source).await?;
        insert_overflow(db, source, &overflow).await?;
        found = find(db, &[overflow.group]).await?;
    }
    let grouping = found
        .get(&overflow.group)
        .copied()
        .ok_or_else(|| StoreError::Refused("an overflow group that was made is not there".into()))?;
    known.extend(left.into_iter().map(|id| (id, grouping)));
    Ok(())
}

/// Until the end of the transaction, nobody else makes groups of this source.
pub(super) async fn lock(db: &Transaction<'_>, source: &str) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&escape(source)]).await.map_err(read_error)?;
    Ok(())
}

pub(super) async fn room(db: &Transaction<'_>, source: &str, cap: usize) -> Result<usize, StoreError> {
    let sql = "SELECT count(*) FROM groups WHERE source = $1 AND NOT overflow";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let row = db.query_one(&statement, &[&escape(source)]).await.map_err(read_error)?;
    Ok(cap.saturating_sub(usize::try_from(row.get::<_, i64>(0)).unwrap_or(usize::MAX)))
}

const INSERT: &str = "
    INSERT INTO groups (uid, version, source, queue, consumer, event_type, error_class, template, owner, overflow, status)
    SELECT t.*, false, $10
      FROM UNNEST($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                  $9::text[]) AS t
    ON CONFLICT (uid) DO NOTHING";

async fn insert(db: &Transaction<'_>, letters: &[&NewLetter]) -> Result<(), StoreError> {
    if letters.is_empty() {
        return Ok(());
    }
    let texts = |field: fn(&NewLetter) -> &Option<String>| {
        letters.iter().map(|letter| escape_option(field(letter))).collect::<Vec<_>>()
    };
    let uids: Vec<Uuid> = letters.iter().map(|letter| letter.fingerprint.group.0).collect();
    let versions: Vec<i64> = letters.iter().map(|letter| letter.fingerprint.version.into()).collect();
    let sources: Vec<_> = letters.iter().map(|letter| escape(&letter.source)).collect();
    let queues: Vec<_> = letters.iter().map(|letter| escape(&letter.origin.queue)).collect();
    let templates: Vec<_> = letters.iter().map(|letter| escape(&letter.fingerprint.template)).collect();
    let statement = db.prepare_cached(INSERT).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &uids,
            &versions,
            &sources,
            &queues,
            &texts(|letter| &letter.consumer),
            &texts(|letter| &letter.event_type),
            &texts(|letter| &letter.error_class),
            &templates,
            &texts(|letter| &letter.owner),
            &i16::from(GroupStatus::New.number()),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

/// An overflow group speaks for many causes: it has a source and no other word, nor an owner of its own.
async fn insert_overflow(
    db: &Transaction<'_>,
    source: &str,
    fingerprint: &Fingerprint,
) -> Result<(), StoreError> {
    db.execute(
        "INSERT INTO groups (uid, version, source, queue, template, overflow, status)
         VALUES ($1, $2, $3, '', $4, true, $5) ON CONFLICT (uid) DO NOTHING",
        &[
            &fingerprint.group.0,
            &i64::from(fingerprint.version),
            &escape(source),
            &escape(&fingerprint.template),
            &i16::from(GroupStatus::New.number()),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

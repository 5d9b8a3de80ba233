//! Where candidates come from: statements that give places newest first, from `low` on and before `high`.
//!
//! Each reads ranges of an index that ends in the place, or a word index, and stops after as many as asked. The rows of
//! the letters are joined to them in the same statement, so that a round costs one trip.

use std::fmt::Write;

use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::read_error;
use super::rows::{self, Found, GroupRow};
use crate::StoreError;
use crate::place::Range;

/// One source of candidates. It may give too many, never too few.
#[derive(Debug)]
pub(super) enum Stream {
    Everything,
    Statuses(Vec<i16>),
    /// Single (group, status) pairs, merged.
    Pairs(Vec<GroupRow>, Vec<i16>),
    /// Letters with all words, by the word indexes; what is not indexed yet comes along.
    Words {
        quick: Option<Words>,
        deep: Option<Words>,
    },
}

/// Words to find in one of the indexes.
#[derive(Debug)]
pub(super) struct Words {
    query: String,
    /// Each of them is known to be common: then the planner knows better whether to walk instead.
    common: bool,
}

impl Words {
    /// Looks up what is known of these words in `table`.
    ///
    /// For a word that is not among the common ones the planner assumes half a percent, and walks the whole table for it.
    async fn new(db: &Transaction<'_>, table: &str, words: &[String]) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT $2::text[] <@ coalesce((SELECT most_common_elems::text::text[] FROM pg_stats
                    WHERE schemaname = current_schema() AND tablename = $1 AND attname = 'words'), '{}')";
        let statement = db.prepare_cached(sql).await.map_err(read_error)?;
        let row = db.query_one(&statement, &[&table, &words]).await.map_err(read_error)?;
        Ok(Some(Self { query: tsquery(words), common: row.get(0) }))
    }
}

impl Stream {
    /// Letters that have all words in the index of rows.
    pub(super) async fn quick(db: &Transaction<'_>, words: &[String]) -> Result<Self, StoreError> {
        Ok(Self::Words { quick: Words::new(db, "quick", words).await?, deep: None })
    }

    /// Letters that have all words in the index of payloads.
    pub(super) async fn deep(db: &Transaction<'_>, words: &[String]) -> Result<Self, StoreError> {
        Ok(Self::Words { quick: None, deep: Words::new(db, "deep", words).await? })
    }

    /// Letters that have all words in the one index or in the other.
    pub(super) async fn either(db: &Transaction<'_>, words: &[String]) -> Result<Self, StoreError> {
        let quick = Words::new(db, "quick", words).await?;
        Ok(Self::Words { quick, deep: Words::new(db, "deep", words).await? })
    }

    /// The next candidates, at most `limit`, newest first. Fewer mean that none is left.
    pub(super) async fn next(
        &self,
        db: &Transaction<'_>,
        range: Range,
        limit: i64,
    ) -> Result<Vec<Found>, StoreError> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&range.high.0, &range.low.0, &limit];
        let candidates = match self {
            Self::Everything => format!("SELECT place FROM ({}) e", ranges("letters", "")),
            Self::Statuses(statuses) => {
                parameters.push(statuses);
                format!(
                    "SELECT c.place FROM UNNEST($4::smallint[]) AS t (status) CROSS JOIN LATERAL ({}) c",
                    ranges("letters", "status = t.status AND")
                )
            }
            Self::Pairs(groups, statuses) => {
                parameters.extend([groups as &(dyn ToSql + Sync), statuses]);
                format!(
                    "SELECT c.place FROM UNNEST($4::bigint[], $5::smallint[]) AS t (group_id, status)
                      CROSS JOIN LATERAL ({}) c",
                    ranges("letters", "group_id = t.group_id AND status = t.status AND")
                )
            }
            Self::Words { quick, deep } => words(quick.as_ref(), deep.as_ref(), &mut parameters),
        };
        let sql = format!(
            "SELECT {} FROM ({candidates} ORDER BY place DESC LIMIT $3) c
               JOIN letters l ON l.place = c.place JOIN groups g ON g.id = l.group_id ORDER BY l.place DESC",
            rows::LETTER
        );
        let found = match self {
            // Planned anew each time: how rare a word is decides between its index and a walk.
            Self::Words { .. } => db.query(&sql, &parameters).await.map_err(read_error)?,
            Self::Everything | Self::Statuses(_) | Self::Pairs(..) => {
                let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
                db.query(&statement, &parameters).await.map_err(read_error)?
            }
        };
        found.iter().map(rows::letter).collect()
    }
}

/// The newest places of a table in the range, under a condition.
fn ranges(table: &str, condition: &str) -> String {
    ordered(table, condition, "place")
}

fn ordered(table: &str, condition: &str, by: &str) -> String {
    format!(
        "SELECT place FROM {table} WHERE {condition} place < $1 AND place >= $2 ORDER BY {by} DESC LIMIT $3"
    )
}

fn words<'p>(
    quick: Option<&'p Words>,
    deep: Option<&'p Words>,
    parameters: &mut Vec<&'p (dyn ToSql + Sync)>,
) -> String {
    let mut sources = Vec::new();
    for (table, wanted) in [("quick", quick), ("deep", deep)] {
        if let Some(wanted) = wanted {
            parameters.push(&wanted.query);
            let condition = format!("words @@ ${}::text::tsquery AND", parameters.len());
            // Not the column itself: a walk along it is no way to find a rare word.
            let by = if wanted.common { "place" } else { "place + 0" };
            sources.push(format!("({})", ordered(table, &condition, by)));
        }
    }
    if deep.is_some() {
        sources.push(format!("({})", ranges("unindexed", "")));
    }
    format!("SELECT place FROM ({}) u", sources.join(" UNION "))
}

/// All of these words, as PostgreSQL writes it. Words are letters and digits, so that quotes are all they need.
fn tsquery(words: &[String]) -> String {
    let mut query = String::new();
    for word in words {
        let and = if query.is_empty() { "" } else { " & " };
        // Writing to a string does not fail.
        let _ = write!(query, "{and}'{}'", word.replace('\\', "\\\\").replace('\'', "''"));
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_joined_by_and() {
        let words = ["tax", "straße", "o'neil", "a\\b"].map(String::from);
        assert_eq!(tsquery(&words), r"'tax' & 'straße' & 'o''neil' & 'a\\b'");
    }
}

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
    /// Letters with all of these words, by a word index; what is not indexed yet comes along.
    Words {
        quick: Option<String>,
        deep: Option<String>,
    },
}

impl Stream {
    /// Letters that have all words in the index of rows.
    pub(super) fn quick(words: &[String]) -> Self {
        Self::Words { quick: Some(tsquery(words)), deep: None }
    }

    /// Letters that have all words in the index of payloads.
    pub(super) fn deep(words: &[String]) -> Self {
        Self::Words { quick: None, deep: Some(tsquery(words)) }
    }

    /// Letters that have all words in the one index or in the other.
    pub(super) fn either(words: &[String]) -> Self {
        Self::Words { quick: Some(tsquery(words)), deep: Some(tsquery(words)) }
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
    format!(
        "SELECT place FROM {table} WHERE {condition} place < $1 AND place >= $2 ORDER BY place DESC LIMIT $3"
    )
}

fn words<'p>(
    quick: Option<&'p String>,
    deep: Option<&'p String>,
    parameters: &mut Vec<&'p (dyn ToSql + Sync)>,
) -> String {
    let mut sources = Vec::new();
    for (table, wanted) in [("quick", quick), ("deep", deep)] {
        if let Some(wanted) = wanted {
            parameters.push(wanted);
            let condition = format!("words @@ ${}::text::tsquery AND", parameters.len());
            sources.push(format!("({})", ranges(table, &condition)));
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

//! Where candidates come from: statements that give places newest first, from `low` on and before `high`.
//!
//! Each reads ranges of an index that ends in the place, or a word index, and stops after as many as asked. The rows of
//! the letters are joined to them in the same statement, so that a round costs one trip.

use std::fmt::Write;

use deadpool_postgres::Transaction;
use dlo_core::words::{self, Wanted};
use tokio_postgres::types::ToSql;

use super::read_error;
use super::rows::{self, Found, GroupRow};
use crate::StoreError;
use crate::filter::Filter;
use crate::place::Range;

/// One source of candidates. It may give too many, never too few.
#[derive(Debug)]
pub(super) enum Stream {
    Everything,
    Statuses(Vec<i16>),
    /// Single (group, status) pairs, merged.
    Pairs(Vec<GroupRow>, Vec<i16>),
    /// Letters with these exact values, by the index of rows.
    Quick(Words),
    /// Letters with these texts and fields, by the index behind the rows; what is not indexed yet comes along.
    Deep(Words),
}

/// Words to find in one of the indexes.
#[derive(Debug)]
pub(super) struct Words {
    query: String,
    /// Each of them is known to be common: then the planner knows better whether to walk instead.
    common: bool,
}

impl Words {
    /// Looks up what is known of these words in `table`; each is the beginning of a word where it says so.
    ///
    /// For a word that is not among the common ones the planner assumes half a percent, and walks the whole table for it.
    async fn new(db: &Transaction<'_>, table: &str, words: &[(&str, bool)]) -> Result<Self, StoreError> {
        let sql = "SELECT coalesce(bool_and(EXISTS (SELECT 1 FROM UNNEST(s.common) c (word)
                          WHERE CASE WHEN w.beginning THEN starts_with(c.word, w.word) ELSE c.word = w.word END)), false)
                     FROM UNNEST($2::text[], $3::bool[]) AS w (word, beginning),
                          (SELECT coalesce((SELECT most_common_elems::text::text[] FROM pg_stats
                            WHERE schemaname = current_schema() AND tablename = $1 AND attname = 'words'), '{}')) s (common)";
        let statement = db.prepare_cached(sql).await.map_err(read_error)?;
        let (texts, beginnings): (Vec<&str>, Vec<bool>) = words.iter().copied().unzip();
        let row = db.query_one(&statement, &[&table, &texts, &beginnings]).await.map_err(read_error)?;
        Ok(Self { query: tsquery(words), common: row.get(0) })
    }
}

impl Stream {
    /// Letters that have all of these in the index of rows.
    pub(super) async fn quick(db: &Transaction<'_>, tokens: &[String]) -> Result<Self, StoreError> {
        let words: Vec<(&str, bool)> = tokens.iter().map(|token| (token.as_str(), false)).collect();
        Words::new(db, "quick", &words).await.map(Self::Quick)
    }

    /// Letters that have what the query wants of texts and blocks; `None` if no index helps.
    pub(super) async fn deep(db: &Transaction<'_>, filter: &Filter<'_>) -> Result<Option<Self>, StoreError> {
        let exact: Vec<String> = filter.exact.iter().map(|hash| format!("x{hash:016x}")).collect();
        let exact = exact.iter().map(|token| (token.as_str(), false));
        let grams = filter.texts.iter().flat_map(|text| words::wanted(text)).map(|wanted| match wanted {
            Wanted::Gram(gram) => (gram, false),
            Wanted::Beginning(start) => (start, true),
        });
        let words: Vec<(&str, bool)> = exact.chain(grams).collect();
        if words.is_empty() {
            return Ok(None);
        }
        Words::new(db, "grams", &words).await.map(|words| Some(Self::Deep(words)))
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
            Self::Quick(wanted) => {
                parameters.push(&wanted.query);
                format!("SELECT place FROM ({}) q", wanted.ordered("quick"))
            }
            Self::Deep(wanted) => {
                parameters.push(&wanted.query);
                let (indexed, waiting) = (wanted.ordered("grams"), ranges("unindexed", ""));
                format!("SELECT place FROM (({indexed}) UNION ({waiting})) u")
            }
        };
        let sql = format!(
            "SELECT {} FROM ({candidates} ORDER BY place DESC LIMIT $3) c
               JOIN letters l ON l.place = c.place JOIN groups g ON g.id = l.group_id ORDER BY l.place DESC",
            rows::LETTER
        );
        let found = match self {
            // Planned anew each time: how rare a word is decides between its index and a walk.
            Self::Quick(_) | Self::Deep(_) => db.query(&sql, &parameters).await.map_err(read_error)?,
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

impl Words {
    /// The newest places of an index with these words, which are the fourth parameter.
    fn ordered(&self, table: &str) -> String {
        // Not the column itself: a walk along it is no way to find a rare word.
        let by = if self.common { "place" } else { "place + 0" };
        ordered(table, "words @@ $4::text::tsquery AND", by)
    }
}

/// All of these words, as PostgreSQL writes it. Words are letters and digits, so that quotes are all they need.
fn tsquery(words: &[(&str, bool)]) -> String {
    let mut query = String::new();
    for (word, beginning) in words {
        let and = if query.is_empty() { "" } else { " & " };
        let any = if *beginning { ":*" } else { "" };
        // Writing to a string does not fail.
        let _ = write!(query, "{and}'{}'{any}", word.replace('\\', "\\\\").replace('\'', "''"));
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_joined_by_and() {
        let words = [("tax", true), ("straße", false), ("o'neil", false), ("a\\b", false)];
        assert_eq!(tsquery(&words), r"'tax':* & 'straße' & 'o''neil' & 'a\\b'");
    }
}

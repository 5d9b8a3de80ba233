//! Words about groups, resolved in the database: which (group, status) pairs can hold matches, and how many letters they
//! have. The same as `Filter::may_hold`, but thousands of groups need not travel to be counted.
//!
//! An overflow group holds many causes: only its source, its owner and its id speak for it.

use deadpool_postgres::Transaction;
use dlo_core::query::{Matcher, Query};
use tokio_postgres::types::ToSql;

use super::read_error;
use super::rows::{self, GroupRow};
use super::text::{escape, escape_option};
use crate::StoreError;
use crate::place::Place;

type Value<'q> = Box<dyn ToSql + Sync + Send + 'q>;

/// The pairs of a query: what it asks of groups, with the values; the first one is the list of statuses.
pub(super) struct Pairs<'q> {
    /// For `groups g`.
    condition: String,
    /// For `letters l` of an overflow group, which carry their own words.
    own: String,
    values: Vec<Value<'q>>,
}

/// What the pairs amount to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary {
    pub(super) pairs: u64,
    pub(super) letters: u64,
}

impl<'q> Pairs<'q> {
    pub(super) fn new(query: &'q Query, statuses: Vec<i16>) -> Self {
        let values: Vec<Value<'q>> = vec![Box::new(statuses)];
        let mut pairs = Self { condition: String::new(), own: String::new(), values };
        for term in &query.terms {
            let (column, own, value): (_, _, Value<'q>) = match &term.matcher {
                Matcher::Group(id) => ("coalesce(g.merged_into, g.uid)", None, Box::new(id.0)),
                Matcher::Source(name) => ("g.source", None, Box::new(escape(name))),
                Matcher::Owner(owner) => ("g.owner", None, Box::new(escape_option(owner))),
                Matcher::Queue(name) => {
                    ("g.queue", Some("coalesce(l.own_queue, '')"), Box::new(escape(name)))
                }
                Matcher::Type(name) => ("g.event_type", Some("l.own_type"), Box::new(escape(name))),
                Matcher::Class(name) => ("g.error_class", Some("l.own_class"), Box::new(escape(name))),
                Matcher::Consumer(name) => ("g.consumer", Some("l.own_consumer"), Box::new(escape(name))),
                _ => continue,
            };
            pairs.values.push(value);
            let number = pairs.values.len();
            let is = match (term.negated, &term.matcher) {
                (true, _) => "IS DISTINCT FROM",
                (false, Matcher::Owner(_)) => "IS NOT DISTINCT FROM",
                (false, _) => "=",
            };
            let unless = if own.is_some() { "g.overflow OR " } else { "" };
            pairs.condition.push_str(&format!(" AND ({unless}{column} {is} ${number})"));
            pairs.own.push_str(&format!(" AND {} {is} ${number}", own.unwrap_or(column)));
        }
        pairs
    }

    fn sql(&self) -> String {
        format!(
            "SELECT c.group_id, c.status, sum(c.n)::bigint AS n, bool_or(g.overflow) AS overflow
               FROM groups g JOIN counts c ON c.group_id = g.id WHERE c.status = ANY($1){}
              GROUP BY c.group_id, c.status HAVING sum(c.n) > 0",
            self.condition
        )
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect()
    }

    pub(super) async fn summary(&self, db: &Transaction<'_>) -> Result<Summary, StoreError> {
        let sql = format!("SELECT count(*), coalesce(sum(n), 0)::bigint FROM ({}) p", self.sql());
        let row = db.query_one(&sql, &self.parameters()).await.map_err(read_error)?;
        Ok(Summary {
            pairs: rows::number(row.get(0), "counts")?,
            letters: rows::number(row.get(1), "counts.n")?,
        })
    }

    /// How many letters match if groups and statuses are all that is asked for: what is kept at write time, and the letters of
    /// overflow groups one by one, since their count speaks for many causes.
    pub(super) async fn count(&self, db: &Transaction<'_>) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT (SELECT coalesce(sum(n), 0)::bigint FROM ({}) p WHERE NOT overflow)
                  + (SELECT count(*) FROM groups g JOIN letters l ON l.group_id = g.id
                      WHERE g.overflow AND l.status = ANY($1){})",
            self.sql(),
            self.own
        );
        let row = db.query_one(&sql, &self.parameters()).await.map_err(read_error)?;
        rows::number(row.get(0), "counts.n")
    }

    /// Where the letters of the pairs stand, oldest first; those of overflow groups by their own words.
    pub(super) async fn places(&self, db: &Transaction<'_>, most: i64) -> Result<Vec<Place>, StoreError> {
        let mut parameters = self.parameters();
        parameters.push(&most);
        let sql = format!(
            "SELECT l.place FROM groups g JOIN letters l ON l.group_id = g.id
              WHERE l.status = ANY($1) AND (NOT g.overflow{} OR g.overflow{}) ORDER BY l.place LIMIT ${}",
            self.condition,
            self.own,
            parameters.len()
        );
        let found = db.query(&sql, &parameters).await.map_err(read_error)?;
        Ok(found.iter().map(|row| Place(row.get(0))).collect())
    }

    /// The pairs themselves.
    pub(super) async fn read(&self, db: &Transaction<'_>) -> Result<(Vec<GroupRow>, Vec<i16>), StoreError> {
        let found = db.query(&self.sql(), &self.parameters()).await.map_err(read_error)?;
        Ok(found.iter().map(|row| (row.get::<_, GroupRow>(0), row.get::<_, i16>(1))).unzip())
    }
}

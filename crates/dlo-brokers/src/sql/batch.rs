//! One batch of rows in an open transaction, and the connection that holds it.
//!
//! The rows are locked, not changed, until they are settled; whatever ends the connection gives them back. A settlement
//! is committed before it is told to have happened. Where it answers only a part of the batch, the commit lets go of
//! the other rows as well, and they are locked again at once: one that another office took in between is lost to this batch.

use std::collections::HashMap;

use dlo_core::broker::{BrokerError, Delivery, DeliveryTag, Settlement};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Timestamp;
use futures::future::join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::config::TableConfig;
use super::connection::{Connector, answer};
use super::errors::told;
use super::table::{self, Statements};

/// A connection with the statements of one queue prepared.
pub(super) struct Line {
    pub(super) client: Client,
    take: Statement,
    end: Statement,
    keep: Statement,
}

impl Line {
    /// Opens a connection and looks whether the table is as the settings say.
    pub(super) async fn open(
        connector: &Connector,
        queue: &str,
        table: &TableConfig,
    ) -> Result<Self, BrokerError> {
        let client = connector.open().await?;
        let Some(there) = table::columns(&client, table).await? else {
            return Err(BrokerError::Refused(table::absent(queue, table)));
        };
        let faults = table::faults(queue, table, &there);
        if !faults.is_empty() {
            return Err(BrokerError::Refused(faults.join("; ")));
        }
        let statements = Statements::new(table, &there);
        let named = |setting: &str| format!("`tables.{queue}.{setting}`");
        let take = answer(client.prepare(&statements.take), &named("pending")).await?;
        let ends = if table.delete { "delete" } else { "mark" };
        let end = answer(client.prepare(&statements.end), &named(ends)).await?;
        let keep = answer(client.prepare(&statements.keep), &named("pending")).await?;
        Ok(Self { client, take, end, keep })
    }

    /// Locks up to `most` rows. The transaction stays open exactly if there are some.
    pub(super) async fn take(&self, most: i64) -> Result<Vec<Row>, BrokerError> {
        // Both are sent before the first is answered.
        let limit: [&(dyn ToSql + Sync); 1] = [&most];
        let both = join(self.client.batch_execute("BEGIN"), self.client.query(&self.take, &limit));
        let both = async {
            let (begun, rows) = both.await;
            begun.and(rows)
        };
        let rows = answer(both, "taking rows").await?;
        if rows.is_empty() {
            self.roll_back().await?;
        }
        Ok(rows)
    }

    pub(super) async fn roll_back(&self) -> Result<(), BrokerError> {
        answer(self.client.batch_execute("ROLLBACK"), "letting rows go").await
    }

    /// Ends these rows, inside the transaction.
    async fn end(&self, ids: &[String]) -> Result<(), BrokerError> {
        let rows = answer(self.client.query(&self.end, &[&ids]), "settling rows").await?;
        if rows.len() != ids.len() {
            return Err(BrokerError::Refused(format!(
                "{} of {} captured rows could be ended, so none was: is `id` unique, and does a policy or a trigger \
                 of the table prevent it?",
                rows.len(),
                ids.len()
            )));
        }
        if rows.iter().any(|row| row.get(0)) {
            return Err(BrokerError::Refused(
                "`mark` leaves rows pending, so they would be captured for ever: correct `mark` or `pending`"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Commits; rows that are still in hand are locked again. Which of them that failed for, is returned.
    async fn commit(&self, in_hand: &[String]) -> Result<Vec<String>, BrokerError> {
        if in_hand.is_empty() {
            answer(self.client.batch_execute("COMMIT"), "committing").await?;
            return Ok(Vec::new());
        }
        let ids: [&(dyn ToSql + Sync); 1] = [&in_hand];
        let both = join(self.client.batch_execute("COMMIT; BEGIN"), self.client.query(&self.keep, &ids));
        let both = async {
            let (committed, kept) = both.await;
            committed.and(kept)
        };
        let kept = answer(both, "committing").await?;
        Ok(kept.iter().map(|row| row.get(0)).collect())
    }
}

/// Rows in hand, by their place in the batch.
pub(super) struct Batch {
    /// `None` while a settlement is under way, and after one that failed: then the server has the rows again.
    pub(super) line: Option<Line>,
    rows: HashMap<u16, String>,
}

impl Batch {
    pub(super) fn new(line: Line, ids: impl Iterator<Item = String>) -> Self {
        Self { line: Some(line), rows: (0_u16..).zip(ids).collect() }
    }

    /// Whether rows stay in hand when so many are answered.
    pub(super) fn outlasts(&self, answers: usize) -> bool {
        self.rows.len() > answers
    }

    pub(super) fn is_lost(&self) -> bool {
        self.line.as_ref().is_none_or(|line| line.client.is_closed())
    }

    /// Whether everything is answered.
    pub(super) fn is_over(&self) -> bool {
        self.rows.is_empty()
    }

    /// Tells the server. The line is taken out meanwhile, so that a call that fails or is dropped rolls back.
    pub(super) async fn settle(&mut self, answers: Vec<(u16, Settlement)>) -> Result<(), BrokerError> {
        let given_back = || BrokerError::Unavailable("the rows were given back and come again".to_owned());
        let Some(line) = self.line.take() else { return Err(given_back()) };
        let (mut ended, mut gone) = (Vec::new(), false);
        for (place, how) in answers {
            match (self.rows.remove(&place), how) {
                (Some(id), Settlement::Done | Settlement::Refuse) => ended.push(id),
                (None, Settlement::Done | Settlement::Refuse) => gone = true,
                (_, Settlement::Again { .. }) => {}
            }
        }
        if !ended.is_empty() {
            line.end(&ended).await?;
        }
        let in_hand: Vec<String> = self.rows.values().cloned().collect();
        let kept = line.commit(&in_hand).await?;
        self.rows.retain(|_, id| kept.contains(id));
        if self.rows.is_empty() && !in_hand.is_empty() {
            // A transaction was begun for rows that others have by now.
            line.roll_back().await?;
        }
        self.line = Some(line);
        if gone { Err(given_back()) } else { Ok(()) }
    }
}

/// A row as a message.
pub(super) fn delivery(
    queue: &str,
    table: &TableConfig,
    row: &Row,
    tag: u64,
) -> Result<Delivery, BrokerError> {
    let strange = |error: tokio_postgres::Error| told(&error, &format!("a row of `{}`", table.table));
    let mut headers = Headers::new();
    for (place, column) in table.headers.iter().enumerate() {
        headers.push(column, row.try_get::<_, Option<String>>(place + 4).map_err(strange)?.map(Into::into));
    }
    let payload: Option<Vec<u8>> = row.try_get(1).map_err(strange)?;
    if payload.is_none() {
        headers.push_transport(BrokerKind::Sql, "payload", "null");
    }
    let key: Option<Vec<u8>> = row.try_get(2).map_err(strange)?;
    let message =
        Message { key: key.map(Payload::from), headers, payload: Payload::from(payload.unwrap_or_default()) };
    let Some(id) = row.try_get::<_, Option<String>>(0).map_err(strange)? else {
        return Err(BrokerError::Refused(format!(
            "a row of `{}` has no `{}`, so it cannot be told from others: make the column NOT NULL and unique",
            table.table, table.id
        )));
    };
    let mut delivery = Delivery::new(message, Origin::message(BrokerKind::Sql, queue, id), DeliveryTag(tag));
    delivery.published_at = row.try_get::<_, Option<i64>>(3).map_err(strange)?.map(Timestamp::from_micros);
    Ok(delivery)
}

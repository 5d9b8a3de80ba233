//! One table, received: looks for rows, holds a few batches open, and settles them.
//!
//! There is no position: whatever is pending and not locked is taken, so a row whose transaction commits late is not
//! missed. A batch has its own connection; [`BATCHES`] bounds both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Quick, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Delivery, Settled, Settlement, Settler, Source};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::batch::{Batch, Line, delivery};
use super::config::TableConfig;
use super::connection::Connector;
use crate::backoff::Backoff;

/// Batches of one source that are not settled; also its connections.
pub(super) const BATCHES: usize = 4;
/// Rows of one batch.
pub(super) const LARGEST: usize = 1_000;
/// How often an empty table is looked at.
const POLL: Duration = Duration::from_millis(200);
/// A tag is the number of its batch, then the place in it.
const PLACES: u32 = 16;

#[derive(Debug)]
pub(super) struct SqlSource {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    table: TableConfig,
    queue: String,
    hands: Arc<Hands>,
    backoff: Backoff,
}

impl SqlSource {
    pub(super) async fn join(
        connector: &Arc<Connector>,
        capabilities: &Arc<Capabilities>,
        queue: &str,
        table: &TableConfig,
    ) -> Result<Self, BrokerError> {
        let line = Line::open(connector, queue, table).await?;
        let hands = Hands::default();
        hands.held().idle.push(line);
        Ok(Self {
            connector: Arc::clone(connector),
            capabilities: Arc::clone(capabilities),
            table: table.clone(),
            queue: queue.to_owned(),
            hands: Arc::new(hands),
            backoff: Backoff::default(),
        })
    }

    /// Rows, if there are any now and a batch is free for them.
    async fn look(&self, most: usize) -> Result<Vec<Delivery>, BrokerError> {
        let line = match self.hands.free_line() {
            Free::None => return Ok(Vec::new()),
            Free::Open(line) => line,
            Free::New => Line::open(&self.connector, &self.queue, &self.table).await?,
        };
        // Dropped here, the line ends and its rows are free again.
        let gate = self.hands.gate.lock().await;
        let rows = line.take(i64::try_from(most.min(LARGEST)).unwrap_or(1)).await?;
        drop(gate);
        if rows.is_empty() {
            self.hands.held().idle.push(line);
            return Ok(Vec::new());
        }
        let number = self.hands.next_number();
        let deliveries: Vec<Delivery> = (number << PLACES..)
            .zip(&rows)
            .map(|(tag, row)| delivery(&self.queue, &self.table, row, tag))
            .collect::<Result<_, _>>()?;
        let ids = deliveries.iter().filter_map(|delivery| delivery.origin.message_id.clone());
        self.hands.hold(number, Batch::new(line, ids));
        Ok(deliveries)
    }
}

#[async_trait]
impl Source for SqlSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        let hands = Arc::clone(&self.hands);
        if max == 0 {
            return Ok(Vec::new());
        }
        loop {
            let freed = hands.freed.notified();
            let pause = match self.look(max).await {
                Ok(deliveries) if !deliveries.is_empty() => {
                    self.backoff.reset();
                    return Ok(deliveries);
                }
                Ok(_) => {
                    self.backoff.reset();
                    if Instant::now() >= deadline {
                        return Ok(Vec::new());
                    }
                    POLL
                }
                Err(error) if !error.is_transient() => return Err(error),
                Err(error) => {
                    let pause = self.backoff.next();
                    if Instant::now() + pause >= deadline {
                        tokio::time::sleep_until(deadline).await;
                        return Err(error);
                    }
                    pause
                }
            };
            let until = deadline.min(Instant::now() + pause);
            let _ = tokio::time::timeout_at(until, freed).await;
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::<Hands>::clone(&self.hands)
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        for batch in self.hands.let_go() {
            let line = batch.lock().await.line.take();
            if let Some(line) = line {
                // A connection that does not answer is gone, and its rows are free.
                let _ = line.roll_back().await;
            }
        }
        Ok(())
    }
}

impl Drop for SqlSource {
    fn drop(&mut self) {
        self.hands.let_go();
    }
}

/// What a source and its settler share.
#[derive(Default)]
struct Hands {
    held: Quick<Held>,
    /// Held while rows are taken, and while a batch lets go of rows to lock them again: so it is not we who take them.
    gate: Mutex<()>,
    freed: Notify,
}

#[derive(Default)]
struct Held {
    closed: bool,
    idle: Vec<Line>,
    batches: BTreeMap<u64, Arc<Mutex<Batch>>>,
    last: u64,
}

enum Free {
    None,
    Open(Line),
    New,
}

impl std::fmt::Debug for Hands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hands({} batches)", self.held().batches.len())
    }
}

impl Hands {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_line(&self) -> Free {
        let mut held = self.held();
        // Whoever had deliveries of a lost connection may never answer them.
        held.batches.retain(|_, batch| !batch.try_lock().is_ok_and(|batch| batch.is_lost()));
        if held.batches.len() >= BATCHES {
            return Free::None;
        }
        held.idle.retain(|line| !line.client.is_closed());
        held.idle.pop().map_or(Free::New, Free::Open)
    }

    fn next_number(&self) -> u64 {
        let mut held = self.held();
        held.last += 1;
        held.last
    }

    fn hold(&self, number: u64, batch: Batch) {
        self.held().batches.insert(number, Arc::new(Mutex::new(batch)));
    }

    fn let_go(&self) -> Vec<Arc<Mutex<Batch>>> {
        let mut held = self.held();
        held.closed = true;
        held.idle.clear();
        std::mem::take(&mut held.batches).into_values().collect()
    }

    async fn settle_in(&self, number: u64, answers: Vec<(u16, Settlement)>) -> Result<(), BrokerError> {
        let batch = {
            let held = self.held();
            match held.batches.get(&number) {
                Some(batch) => Arc::clone(batch),
                None if held.closed => return Ok(()),
                None if answers.iter().all(|(_, how)| matches!(how, Settlement::Again { .. })) => {
                    return Ok(());
                }
                None => {
                    return Err(BrokerError::Unavailable(
                        "the connection that held the rows was lost; they come again".to_owned(),
                    ));
                }
            }
        };
        let mut batch = batch.lock().await;
        let gate = match batch.outlasts(answers.len()) {
            true => Some(self.gate.lock().await),
            false => None,
        };
        let settled = batch.settle(answers).await;
        drop(gate);
        if batch.is_over() || batch.is_lost() {
            let line = batch.line.take();
            let mut held = self.held();
            held.batches.remove(&number);
            if !held.closed {
                held.idle.extend(line);
            }
            self.freed.notify_waiters();
        }
        settled
    }
}

#[async_trait]
impl Settler for Hands {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let mut by_batch: BTreeMap<u64, Vec<(u16, Settlement)>> = BTreeMap::new();
        for Settled { tag, how, carry: _ } in settled {
            let place = u16::try_from(tag.0 & u64::from(u16::MAX)).unwrap_or(u16::MAX);
            by_batch.entry(tag.0 >> PLACES).or_default().push((place, how));
        }
        let mut outcome = Ok(());
        for (number, answers) in by_batch {
            outcome = outcome.and(self.settle_in(number, answers).await);
        }
        outcome
    }
}

//! Looking without taking: a stream read by entry id, by nobody's group.
//!
//! Redis gives a stream no identity of its own, so every position names the same life, [`LIFE`]. Ids are times, so the
//! entries of a stream that was deleted and created anew have larger ids, and a reader that goes on from its
//! old place misses none of them. Where ids have gone back (a clock, ids chosen by producers) the stream's last id lies
//! before the place, and the reader begins at the beginning.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Look, Position, Reader, Seen};
use dlo_core::origin::{BrokerKind, Origin};
use tokio::time::Instant;

use super::connection::Link;
use super::id::EntryId;
use super::inspect::look;
use super::reply::{self, Entry};
use super::{Shared, entry};
use crate::backoff::Backoff;

const LIFE: &str = "stream";
/// The longest wait without a look whether the stream is still there.
const SLICE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct RedisReader {
    shared: Arc<Shared>,
    link: Link,
    stream: String,
    /// The last entry that was handed out.
    at: EntryId,
    backoff: Backoff,
}

impl RedisReader {
    pub(super) async fn open(
        shared: Arc<Shared>,
        stream: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Self, BrokerError> {
        if partition != 0 {
            return Err(BrokerError::Refused(format!(
                "stream `{stream}` has one partition, 0; {partition} was asked for"
            )));
        }
        let facts = look(&shared, stream, None).await?;
        let from = from.filter(|from| from.incarnation == LIFE).and_then(|from| from.mark.as_deref());
        let at = from.and_then(|mark| EntryId::parse(mark.as_bytes())).filter(|at| *at <= facts.last);
        let link = shared.link.another();
        let at = at.unwrap_or_default();
        Ok(Self { shared, link, stream: stream.to_owned(), at, backoff: Backoff::default() })
    }

    async fn try_read(&self, max: usize, block: Duration) -> Result<Vec<Entry>, BrokerError> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(max.max(1));
        if !block.is_zero() {
            command.arg("BLOCK").arg(block.min(SLICE).as_millis().max(1) as u64);
        }
        command.arg("STREAMS").arg(&self.stream).arg(self.at.to_string());
        let entries = reply::entries_of_one_stream(self.link.command(&command).await?)?;
        if entries.is_empty() {
            // Silence may also mean that the stream is gone, or that it began anew before our place.
            let facts = look(&self.shared, &self.stream, None).await?;
            if facts.last < self.at {
                return Err(BrokerError::Closed);
            }
        }
        Ok(entries)
    }
}

/// Behind that entry.
pub(super) fn position(last: EntryId) -> Position {
    Position {
        incarnation: LIFE.to_owned(),
        partition: 0,
        next: last.number().saturating_add(1),
        mark: Some(last.to_string()),
    }
}

#[async_trait]
impl Reader for RedisReader {
    async fn read(&mut self, max: usize, wait: Duration) -> Result<Look, BrokerError> {
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.try_read(max, left).await {
                Ok(entries) => {
                    self.backoff.reset();
                    if let Some(last) = entries.last() {
                        self.at = last.id;
                    }
                    if !entries.is_empty() || Instant::now() >= deadline {
                        let seen = entries.into_iter().map(|entry| seen(&self.shared, &self.stream, entry));
                        return Ok(Look { seen: seen.collect(), position: position(self.at), skipped: 0 });
                    }
                }
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    tokio::time::sleep_until((Instant::now() + self.backoff.next()).min(deadline)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn tell(&mut self, _: &Position) -> Result<(), BrokerError> {
        Ok(())
    }
}

fn seen(shared: &Shared, stream: &str, entry: Entry) -> Seen {
    Seen {
        message: entry::read(entry.fields, shared.config.payload_field.as_deref()),
        origin: Origin::message(BrokerKind::Redis, stream, entry.id.to_string()),
        published_at: entry.id.time(),
    }
}

/// The entry with that id, if it is still there.
pub(super) async fn fetch(shared: &Shared, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
    let id = origin.message_id.as_deref().and_then(|id| EntryId::parse(id.as_bytes()));
    let Some(id) = id else { return Ok(None) };
    let mut command = redis::cmd("XRANGE");
    command.arg(&origin.queue).arg(id.to_string()).arg(id.to_string());
    let found = reply::entries(shared.link.command(&command).await?)?;
    Ok(found.into_iter().next().map(|entry| seen(shared, &origin.queue, entry)))
}

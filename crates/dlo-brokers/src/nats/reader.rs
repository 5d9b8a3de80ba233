//! Looking at a queue by position, without a consumer. The position is the sequence in the stream.
//!
//! A batch of sequences is asked for at once, each as "the first of this subject that is not before": what comes back
//! is everything in that span and the first record behind it. Nothing tells when something new comes, so a reader at
//! the end looks again after pauses that grow to a quarter of a second.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Look, Position, Reader, Seen};
use tokio::time::Instant;

use super::api::{Api, StreamInfo};
use super::records::{At, Home, look};

/// Records that are asked for at once: their answers are held in memory together.
const BATCH: usize = 256;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct NatsReader {
    api: Api,
    home: Home,
    next: u64,
    /// Records that were found behind what was asked for: how many to ask for next time.
    dense: bool,
}

impl NatsReader {
    pub(super) async fn open(
        api: &Api,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Self, BrokerError> {
        if partition != 0 {
            return Err(BrokerError::Refused(format!(
                "`{queue}` has no partition {partition}: it has one, 0"
            )));
        }
        let (stream, info) = api.stream_of(queue).await?;
        let home = Home { queue: queue.to_owned(), stream, created: info.created.clone() };
        let same = from.filter(|from| from.incarnation == home.created);
        let next = same.and_then(|from| u64::try_from(from.next).ok()).unwrap_or(info.state.first_seq);
        Ok(Self { api: api.clone(), home, next: next.max(1), dense: true })
    }

    /// One look: what is there now, and how much was removed before it was read.
    async fn look(&mut self, max: usize) -> Result<Look, BrokerError> {
        let wanted = if self.dense { max.clamp(1, BATCH) } else { 1 };
        let places: Vec<At<'_>> =
            (0..wanted as u64).map(|step| At::From(self.next + step, &self.home.queue)).collect();
        let found = look(&self.api, &self.home, &places).await?;
        // Looked at last: a stream that is the same now was the same when the records were read.
        let info = self.same_life().await?;
        let mut seen: Vec<Seen> = Vec::with_capacity(found.len());
        let mut next = self.next;
        for stored in found.into_iter().flatten() {
            if stored.seq >= next && seen.len() < max {
                next = stored.seq + 1;
                seen.push(stored.seen(&self.home)?);
            }
        }
        let skipped = self.removed(&info);
        if seen.is_empty() {
            // Records of other subjects, and those that are gone, need not be looked for again.
            next = next.max(info.state.first_seq);
        }
        self.dense = seen.len() * 2 > wanted || seen.is_empty();
        self.next = next;
        Ok(Look { seen, position: self.position(), skipped })
    }

    /// Records before the first that is left, where the stream holds this queue alone and they were ours.
    fn removed(&self, info: &StreamInfo) -> u64 {
        let alone = info.subjects() == [self.home.queue.as_str()];
        if alone { info.state.first_seq.min(info.state.last_seq + 1).saturating_sub(self.next) } else { 0 }
    }

    async fn same_life(&self) -> Result<StreamInfo, BrokerError> {
        match self.api.stream(&self.home.stream, None).await? {
            Some(info) if info.created == self.home.created => Ok(info),
            Some(_) => Err(BrokerError::Closed),
            None => Err(BrokerError::Missing(self.home.queue.clone())),
        }
    }

    fn position(&self) -> Position {
        Position {
            incarnation: self.home.created.clone(),
            partition: 0,
            next: i64::try_from(self.next).unwrap_or(i64::MAX),
            mark: None,
        }
    }
}

#[async_trait]
impl Reader for NatsReader {
    async fn read(&mut self, max: usize, wait: Duration) -> Result<Look, BrokerError> {
        let deadline = Instant::now() + wait;
        let mut pause = FIRST_PAUSE;
        loop {
            let look = self.look(max).await?;
            if !look.seen.is_empty() || look.skipped > 0 || Instant::now() >= deadline {
                return Ok(look);
            }
            tokio::time::sleep_until(deadline.min(Instant::now() + pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn tell(&mut self, _: &Position) -> Result<(), BrokerError> {
        Ok(())
    }
}

//! The answers of one consumer: a batch in one round trip, by entry id.
//!
//! An acknowledgement works whatever connection it comes over, and also for an entry that was taken over meanwhile: the
//! work is done. Everything else is done only to what this consumer still holds. After an error the entries are
//! doubtful, and the next read delivers again those whose answer had not arrived.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Settled, Settlement, Settler};
use redis::Cmd;

use super::burial::{Doomed, Why, bury};
use super::id::EntryId;
use super::reply;
use super::script::{AGAIN, is_unknown};
use super::seat::Seat;
use super::{DELAYED, LONGEST_DELAY, RETURNED};

#[derive(Debug)]
pub(super) struct RedisSettler(pub(super) Arc<Seat>);

/// A batch by what is to be done.
#[derive(Debug, Default)]
struct Batch {
    done: Vec<EntryId>,
    again: Vec<(EntryId, Duration)>,
    refused: Vec<Doomed>,
}

#[async_trait]
impl Settler for RedisSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        // What was held is with others by now, or will be.
        if self.0.has_left() {
            return Ok(());
        }
        let batch = self.sort(settled);
        let told = self.tell(&batch).await;
        if told.is_err() {
            let again = batch.again.iter().map(|(id, _)| *id);
            let refused = batch.refused.iter().map(|doomed| doomed.id);
            self.0.doubt(batch.done.iter().copied().chain(again).chain(refused));
        }
        told
    }
}

impl RedisSettler {
    fn sort(&self, settled: Vec<Settled>) -> Batch {
        let mut batch = Batch::default();
        let (tags, hows): (Vec<_>, Vec<_>) = settled.into_iter().map(|one| (one.tag, one.how)).unzip();
        for (id, how) in self.0.let_go(tags.into_iter()).into_iter().zip(hows) {
            let Some(id) = id else { continue };
            match how {
                Settlement::Done => batch.done.push(id),
                Settlement::Again { after } => batch.again.push((id, after.min(LONGEST_DELAY))),
                Settlement::Refuse => batch.refused.push(Doomed { id, why: Why::Refused }),
            }
        }
        batch
    }

    async fn tell(&self, batch: &Batch) -> Result<(), BrokerError> {
        let seat = &self.0;
        let link = &seat.shared.link;
        let mut pipeline = redis::pipe();
        for command in done(seat, &batch.done) {
            pipeline.add_command(command);
        }
        if !batch.again.is_empty() {
            pipeline.add_command(self.again(batch, false));
        }
        for answer in link.pipeline(&mut pipeline).await? {
            if is_unknown(&answer) {
                link.command::<redis::Value>(&self.again(batch, true)).await?;
            } else {
                reply::value(answer)?;
            }
        }
        if !batch.refused.is_empty() {
            bury(&seat.shared, &seat.names, &batch.refused, Some(&seat.me), seat.drain).await?;
        }
        Ok(())
    }

    fn again(&self, batch: &Batch, whole: bool) -> Cmd {
        let seat = &self.0;
        let keys = [seat.names.stream.as_str(), &seat.names.retries];
        let mut call = if whole { AGAIN.by_text(&keys) } else { AGAIN.by_hash(&keys) };
        call.arg(&seat.names.group).arg(&seat.me).arg(RETURNED).arg(DELAYED);
        for (id, after) in &batch.again {
            call.arg(id.to_string()).arg(after.as_millis() as u64);
        }
        call
    }
}

/// The commands that end entries. Deleted first: a crash between the two leaves a pending entry without content, which is
/// dropped; the other order would leave content that nobody is given any more.
fn done(seat: &Seat, ids: &[EntryId]) -> Vec<Cmd> {
    if ids.is_empty() {
        return Vec::new();
    }
    let ids: Vec<String> = ids.iter().map(EntryId::to_string).collect();
    let mut commands = Vec::new();
    if seat.drain {
        let mut delete = redis::cmd("XDEL");
        delete.arg(&seat.names.stream).arg(&ids);
        commands.push(delete);
    }
    let mut acknowledge = redis::cmd("XACK");
    acknowledge.arg(&seat.names.stream).arg(&seat.names.group).arg(&ids);
    commands.push(acknowledge);
    commands
}

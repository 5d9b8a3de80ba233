//! The broker's own dead-lettering: a copy with its story goes to the dead-letter queue, then the original is gone.
//!
//! The story is told in the office's headers, as far as a broker can know it: where, when, by whom, why; never the
//! error, which only a consumer knows. A dead-letter queue that is full or missing keeps the message where it is.

use dlo_core::envelope::{Envelope, OriginHeaders, encode, replay_mark};
use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use tokio::time::Instant;

use super::log::{Record, size_of};
use super::queue::Queue;
use super::{MAX_MESSAGE, Queues};

/// Why and when the broker gives a message up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Death<'a> {
    pub(super) reason: Reason,
    pub(super) group: Option<&'a str>,
    pub(super) deliveries: u32,
    pub(super) at: Timestamp,
    pub(super) now: Instant,
}

/// What became of a message that was to be dead-lettered.
#[derive(Debug)]
pub(super) enum Buried {
    Moved,
    /// The queue has no dead-letter queue: the message is gone.
    Gone,
    /// No room: it stays where it is.
    Full,
    /// The dead-letter queue of that name was never declared, or was deleted.
    Missing(String),
}

impl Queues {
    /// Copies a record, as `message`, to the dead-letter queue. The caller removes the original unless it was kept back.
    pub(super) fn bury(
        &mut self,
        queue: &str,
        partition: usize,
        record: &Record,
        message: Message,
        death: Death<'_>,
    ) -> Buried {
        let Some(from) = self.by_name.get(queue) else { return Buried::Gone };
        let Some(dead_letters) = &from.options.dead_letters else { return Buried::Gone };
        let name = dead_letters.queue.clone();
        let message = with_story(from, partition, record, message, death);
        let Some(to) = self.by_name.get_mut(&name) else { return Buried::Missing(name) };
        if !to.has_room(size_of(&message)) {
            return Buried::Full;
        }
        // The same partition where there is one, so that order per key is kept among the dead as well.
        let same = i32::try_from(partition).ok().filter(|_| partition < to.logs.len());
        let Ok(partition) = to.partition_for(&message, same) else { return Buried::Missing(name) };
        to.append(partition, message, death.at, death.now, None);
        to.ring();
        Buried::Moved
    }

    /// Dead-letters what waited longer than its queue keeps it, once for every group that did not get it.
    pub(super) fn expire(&mut self, queue: &str, at: Timestamp, now: Instant) {
        while let Some((partition, record)) = self.by_name.get(queue).and_then(|queue| queue.expired(now)) {
            let groups = self.by_name.get(queue).map(|queue| groups_without(queue, partition, record.offset));
            let death = Death { reason: Reason::Expired, group: None, deliveries: 0, at, now };
            for group in groups.unwrap_or_default() {
                let death = Death { group: group.as_deref(), ..death };
                match self.bury(queue, partition, &record, record.message.clone(), death) {
                    Buried::Moved | Buried::Gone => {}
                    // It stays, and expires when there is room. Groups that have their copy get it once more.
                    Buried::Full | Buried::Missing(_) => return,
                }
            }
            if let Some(queue) = self.by_name.get_mut(queue) {
                queue.pass_by(partition, record.offset);
            }
        }
    }
}

/// The groups that were not handed a record yet; one nameless when there is no group at all.
fn groups_without(queue: &Queue, partition: usize, offset: u64) -> Vec<Option<String>> {
    if queue.groups.is_empty() {
        return vec![None];
    }
    let waiting = queue.groups.iter().filter(|(_, group)| group.shares[partition].next <= offset);
    waiting.map(|(name, _)| Some(name.clone())).collect()
}

pub(super) fn origin(queue: &Queue, partition: u16, offset: u64) -> Origin {
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    Origin::log(BrokerKind::Memory, &*queue.name, i32::from(partition), offset)
        .in_incarnation(&*queue.incarnation)
}

/// The message with the story of its death behind its own headers.
fn with_story(
    queue: &Queue,
    partition: usize,
    record: &Record,
    message: Message,
    death: Death<'_>,
) -> Message {
    let place = origin(queue, partition as u16, record.offset);
    let replays = replay_mark(&message.headers).map_or(0, |mark| mark.count);
    let story = Envelope {
        death_id: Some(place.death_id(death.group, replays)),
        reason: Some(death.reason),
        error_message: Some(sentence(death)),
        attempts: Some(death.deliveries),
        dead_at: Some(death.at),
        origin: OriginHeaders::new(&place, Some(record.published_at)),
        consumer_group: death.group.map(str::to_owned),
        ..Envelope::default()
    };
    // It was taken once, so without the story it fits. A message without a story is better than none.
    encode(&message, &story, MAX_MESSAGE).unwrap_or(message)
}

fn sentence(death: Death<'_>) -> String {
    match death.reason {
        Reason::DeliveryLimit => format!("delivered {} times and never settled", death.deliveries),
        Reason::Expired => "nobody received it while the queue kept it".to_owned(),
        other => format!("the consumer gave it up: {other}"),
    }
}

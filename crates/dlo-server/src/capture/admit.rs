//! From a message that was found dead to a letter: whose story counts, and what makes two deaths the same one.
//!
//! Our own headers speak first, then every convention that others write; what nobody says is left open. The message
//! is stored as it was received, also where a convention wrapped the original: what was inside can be read again from
//! what is stored, and what was stored is never guessed at later.
//!
//! A death is known again by our own coordinates of it, which the runtime writes the same way however often it
//! parks, and otherwise by where it was *found*. Never by an origin that others wrote: two groups without a name, or
//! one message that died twice, carry the same one, and are two deaths.

use dlo_core::conventions::{self, Held, Mapper, Reading};
use dlo_core::envelope;
use dlo_core::letter::NewLetter;
use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, DedupeKey, Origin};
use dlo_core::time::Timestamp;

use crate::admit::{Admission, Dedupe, Draft, Manner, Refusal};

/// A message as it came out of the dead-letter queue.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) message: Message,
    /// Its place in the dead-letter queue.
    pub(super) place: Origin,
    pub(super) published_at: Option<Timestamp>,
    pub(super) deliveries: Option<u32>,
    pub(super) reading: Reading,
    /// Which record of a letter that points to many.
    pub(super) record: Option<Origin>,
}

impl Found {
    pub(super) fn new(dlq: &str, mapper: &Mapper, message: Message, place: Origin) -> Self {
        let found = conventions::Found { broker: place.broker, queue: dlq };
        let reading = conventions::read_with(&message, found, mapper);
        Self { message, place, published_at: None, deliveries: None, reading, record: None }
    }

    /// Whether the record itself is still to be fetched.
    pub(super) fn is_pointer(&self) -> bool {
        self.reading.held != Held::Whole
    }
}

/// The letter of a message. It has no dedupe key only where the broker gives no coordinates.
pub(super) fn letter(
    admission: &Admission,
    source: &str,
    found: Found,
    now: Timestamp,
) -> Result<NewLetter, Refusal> {
    let story = envelope::decode(&found.message.headers).unwrap_or_default();
    let Found { message, place, published_at, deliveries, reading, record } = found;
    let own = story.origin.origin();
    let replay = envelope::replay_mark(&message.headers);
    let consumer = story.consumer_group.or(reading.consumer);
    let dedupe = match &own {
        // A pointer is a letter of its own: the whole letter comes over HTTP, and is no copy of it.
        Some(origin) if origin.has_coordinates() && envelope::body_elsewhere(&message.headers).is_none() => {
            origin.dedupe_key(
                source,
                consumer.as_deref(),
                replay.as_ref().map(|mark| mark.replay_id.as_str()),
            )
        }
        _ => found_key(source, &place, record.as_ref()),
    };
    let producer = reading.message_id.or_else(|| conventions::message_id(&message));
    let id = message_id(&place, own.is_some() || replay.is_some(), producer);
    let mut origin = own.or(record).or(reading.origin).unwrap_or(place);
    origin.message_id = origin.message_id.or(id);
    let mut draft = Draft::new(source.to_owned(), origin, message);
    draft.event_type = reading.event_type;
    draft.event_version = reading.event_version;
    draft.correlation_id = reading.correlation_id;
    draft.trace_id = reading.trace_id;
    draft.content_type = reading.content_type;
    draft.reason = story.reason.or(reading.reason);
    draft.verdict = story.verdict;
    draft.rule = story.rule;
    draft.error_class = story.error_class.or(reading.error_class);
    draft.error_message = story.error_message.or(reading.error_message).unwrap_or_default();
    draft.error_code = story.error_code.or(reading.error_code);
    draft.error_stack = story.error_stack.or(reading.error_stack);
    // Deliveries of a dead-letter queue count our own reading; they are better than nothing only past the first.
    draft.attempts = story.attempts.or(reading.attempts).or(deliveries.filter(|deliveries| *deliveries > 1));
    draft.history = if story.history.is_empty() { reading.history } else { story.history };
    draft.first_failed_at = story.first_failed_at.or(reading.first_failed_at);
    draft.failed_at = story.dead_at.or(story.last_failed_at).or(reading.failed_at);
    draft.published_at = story.origin.timestamp.or(reading.published_at).or(published_at);
    draft.consumer = consumer;
    draft.consumer_id = story.consumer_id.or(reading.consumer_id);
    draft.consumer_version = story.consumer_version.or(reading.consumer_version);
    if let Some(mark) = replay {
        draft.replay_of = mark.letter;
        draft.replay_id = Some(mark.replay_id);
    }
    admission.admit(draft, Manner::Mend, Dedupe::Exactly(dedupe), now)
}

/// The message id of a letter whose origin names only the queue. `ours`: our runtime or a replay sent the message to this
/// queue.
fn message_id(place: &Origin, ours: bool, producer: Option<String>) -> Option<String> {
    match place.broker {
        // The service keeps its id when it moves a message to a dead-letter queue.
        BrokerKind::Sqs if !ours => place.message_id.clone().or(producer),
        // What we send to a stream has an id of ours in the place of the producer's.
        BrokerKind::Nats if ours => None,
        _ => producer,
    }
}

/// The key of what was found at a place; of one record of many, if it points to many.
fn found_key(source: &str, place: &Origin, record: Option<&Origin>) -> Option<DedupeKey> {
    let part = record.map(|record| {
        format!("{}/{:?}/{:?}/{:?}", record.queue, record.partition, record.offset, record.message_id)
    });
    place.dedupe_key(source, part.as_deref(), None)
}

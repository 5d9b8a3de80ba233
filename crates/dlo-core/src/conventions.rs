//! Reading what others wrote on a dead letter: one file per convention, all of them asked of every letter.
//!
//! The outermost writer supplies the failure, the innermost the origin; who that is stands in `order.rs`. What nobody
//! knows stays as raw headers. Pure: a letter that is only a pointer says so, and whoever can fetch makes it whole.
//! Header names are looked at once, and a payload is read as JSON only where no client has told its story in headers.

mod added;
mod body;
mod catalogue;
pub mod emit;
mod failure_headers;
mod kinds;
mod mapper;
mod number;
mod order;
mod scan;
mod take_off;
mod time;
mod value;
mod view;
mod well_known;

use serde::Serialize;

use crate::attempt::History;
use crate::message::Message;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;
use crate::time::Timestamp;

pub(crate) use failure_headers::PlainStories;
pub use failure_headers::tells_of_a_failure;
pub use mapper::{Fields, Mapper, OneOrMany};
pub(crate) use take_off::{added_headers, has_added, has_doubtful, take_off_fields};
pub use well_known::message_id;

/// Records of one batch that become letters; of a larger one the first ones do, and the rest is counted.
pub const BATCH: usize = 1_000;

/// Where a dead letter was found: what a detector may need beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    pub broker: BrokerKind,
    /// The dead-letter queue.
    pub queue: &'a str,
}

/// What a dead letter holds of the original message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    #[default]
    Whole,
    /// Only where the record stands: fetch it while it is there.
    Pointer(Origin),
    /// Where a batch of records stands; each of them is a letter of its own. At most [`BATCH`].
    Batch(Vec<Origin>),
}

/// A dead letter as its writers tell it. What was not there, or was no sense, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Reading {
    /// The conventions that were recognised, outermost first (`spring.dlt`, `connect`, `rabbitmq` …).
    pub conventions: Vec<&'static str>,
    /// Where it was before it first died, by the innermost writer.
    pub origin: Option<Origin>,
    /// The id that the application gave it. It stays the same over every death, so it is no coordinate: a second death would
    /// be taken for the first.
    pub message_id: Option<String>,
    /// RabbitMQ: the exchange it had been published to; empty is the default exchange.
    pub exchange: Option<String>,
    /// RabbitMQ: the routing key it had been published with.
    pub routing_key: Option<String>,
    /// RabbitMQ: further routing keys that the producer named (`CC`).
    #[serde(skip)]
    pub copies: Vec<String>,
    /// RabbitMQ: the time to live that the producer gave it, in milliseconds.
    #[serde(skip)]
    pub expiration: Option<String>,
    pub held: Held,
    /// Records of a batch beyond [`BATCH`].
    pub left_out: u64,
    /// The original payload and key, where a convention wrapped them (an envelope, a key that is metadata).
    #[serde(skip)]
    pub unwrapped: Option<Message>,
    pub consumer: Option<String>,
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub error_stack: Option<String>,
    pub error_code: Option<String>,
    pub reason: Option<Reason>,
    pub attempts: Option<u32>,
    pub history: History,
    pub published_at: Option<Timestamp>,
    pub first_failed_at: Option<Timestamp>,
    pub failed_at: Option<Timestamp>,
    pub event_type: Option<String>,
    pub event_version: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub content_type: Option<String>,
    /// A text was longer than its limit and was cut; the header still has all of it.
    pub truncated: bool,
    /// A text was no UTF-8 and has replacement characters; the header still has its bytes.
    pub lossy: bool,
}

/// Asks every convention of a message that was found dead.
pub fn read(message: &Message, found: Found<'_>) -> Reading {
    read_with(message, found, &Mapper::default())
}

/// Asks every convention, and the names that a user gave.
pub fn read_with(message: &Message, found: Found<'_>, mapper: &Mapper) -> Reading {
    let view = view::View::new(message, found);
    let seen = scan::scan(&view);
    let mut stories = seen.stories(&view);
    mapper::read_into(mapper, &view, &mut stories);
    let mut reading = order::merge(stories, &view);
    well_known::fill(&mut reading, message);
    reading.truncated = view.flags.truncated.get();
    reading.lossy = view.flags.lossy.get();
    reading
}

/// The ids of all conventions, in no particular order.
pub fn ids() -> impl Iterator<Item = &'static str> {
    catalogue::ALL.iter().map(|convention| convention.id).chain(mapper::IDS)
}

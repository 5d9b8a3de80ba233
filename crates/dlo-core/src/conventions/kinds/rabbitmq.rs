//! RabbitMQ's own record: `x-death`, newest entry first, one per queue and reason; over AMQP 1.0 the annotation
//! `x-opt-deaths`. It comes as JSON text. A message may have died more often than its
//! newest entry says: counts are summed. The first death names the origin.

use super::super::Reading;
use super::super::body::{Body, inside, list};
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::super::{number, time};
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;
use crate::time::Timestamp;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "rabbitmq",
    writer: Writer::Carried,
    marks: &[
        Mark::Name("x-death"),
        Mark::Name("x-first-death-queue"),
        Mark::Name(DEATHS_1_0),
        Mark::Name("x-opt-deaths"),
    ],
    strip: &[
        Mark::Name("x-death"),
        Mark::Name("x-delivery-count"),
        Mark::Name("x-acquired-count"),
        Mark::Name("x-opt-deaths"),
        Mark::Prefix("x-first-death-"),
        Mark::Prefix("x-last-death-"),
    ],
    read,
};

const DEATHS_1_0: &str = "amqp1:annotation:x-opt-deaths";
/// Entries that are read; a cycle of more queues than this is told by its newest ones.
const ENTRIES: usize = 64;
/// Routing keys of one entry that are read.
const KEYS: usize = 64;

/// One entry. The time is that of the first such death, but of the last where AMQP 1.0 tells it.
struct Entry {
    queue: Option<String>,
    reason: Option<Reason>,
    count: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    exchange: Option<String>,
    routing_key: Option<String>,
    /// Behind the routing key: what `CC` named.
    copies: Vec<String>,
    expiration: Option<String>,
}

fn read(view: &View<'_>) -> Option<Reading> {
    let entries = entries(view);
    let named = |name: &str| view.header(name).or(view.prefixed("amqp1:annotation:", name)).name();
    let newest = entries.first();
    let queue =
        named("x-first-death-queue").or_else(|| entries.last().and_then(|entry| entry.queue.clone()))?;
    // Entries are in the order of their last death, so the first death is found by its queue.
    let first = entries.iter().rfind(|entry| entry.queue.as_ref() == Some(&queue));
    let reason = newest
        .and_then(|entry| entry.reason)
        .or_else(|| named("x-last-death-reason").as_deref().and_then(reason))
        .or_else(|| named("x-first-death-reason").as_deref().and_then(reason));
    let message_id =
        view.any_header(&["rabbitmq:message-id", "rabbitmq:message_id", "amqp1:message-id"]).id();
    Some(Reading {
        origin: Some(Origin::queue(BrokerKind::Rabbitmq, queue)),
        message_id,
        exchange: first.and_then(|entry| entry.exchange.clone()).or_else(|| named("x-first-death-exchange")),
        routing_key: first.and_then(|entry| entry.routing_key.clone()),
        copies: first.map(|entry| entry.copies.clone()).unwrap_or_default(),
        // The server takes the expiration off at the first death, so at most one entry has it.
        expiration: entries.iter().rev().find_map(|entry| entry.expiration.clone()),
        reason,
        attempts: attempts(view, &entries),
        first_failed_at: entries.iter().filter_map(|entry| entry.first).min(),
        failed_at: newest.and_then(|entry| entry.last.or(entry.first)),
        ..Reading::default()
    })
}

/// All deaths, but without the waits of a retry loop, which expire and were no attempts; or the failed deliveries that a
/// quorum queue counted, if there were more.
fn attempts(view: &View<'_>, entries: &[Entry]) -> Option<u32> {
    let sum = |waits: bool| {
        let counted = entries.iter().filter(|entry| waits || entry.reason != Some(Reason::Expired));
        counted.map(|entry| entry.count).fold(0, u64::saturating_add)
    };
    let deaths = if sum(false) > 0 { sum(false) } else { sum(true) };
    let deliveries = view.header("x-delivery-count").decimal().and_then(|count| u64::try_from(count).ok());
    u32::try_from(deaths.max(deliveries.unwrap_or(0))).ok().filter(|count| *count > 0)
}

fn entries(view: &View<'_>) -> Vec<Entry> {
    let value = view.any_header(&["x-death", DEATHS_1_0, "x-opt-deaths"]);
    let Some(text) = value.text() else { return Vec::new() };
    let Ok(array) = serde_json::from_str::<&serde_json::value::RawValue>(text) else { return Vec::new() };
    let items = list(array, ENTRIES).unwrap_or_default();
    items.into_iter().filter_map(|item| inside(item).map(|body| entry(view, &body))).collect()
}

fn entry(view: &View<'_>, body: &Body<'_>) -> Entry {
    let field = |name: &str| view.raw(body.field(name));
    let text = |name: &str| {
        let value = field(name);
        value.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned)
    };
    let short = |text: &String| text.len() <= crate::limits::NAME;
    let keys = body.field("routing-keys").and_then(|keys| list(keys, KEYS)).unwrap_or_default();
    let mut keys = keys.into_iter().map(|key| view.raw(Some(key)).name());
    Entry {
        queue: field("queue").name(),
        reason: field("reason").text().and_then(reason),
        count: field("count").decimal().and_then(|count| u64::try_from(count).ok()).unwrap_or(1),
        first: moment(view, body, "time").or_else(|| moment(view, body, "first-time")),
        last: moment(view, body, "last-time"),
        exchange: text("exchange").filter(short),
        routing_key: keys.next().flatten(),
        copies: keys.flatten().collect(),
        expiration: field("original-expiration").id(),
    }
}

/// Seconds, milliseconds or text; the management API wraps seconds as `{"!": "timestamp", "value": …}`.
fn moment(view: &View<'_>, body: &Body<'_>, name: &str) -> Option<Timestamp> {
    let raw = body.field(name)?;
    let wrapped = inside(raw);
    let raw = wrapped.as_ref().and_then(|wrapped| wrapped.field("value")).unwrap_or(raw);
    let value = view.raw(Some(raw));
    value.bytes().and_then(number::decimal).and_then(time::epoch).or_else(|| value.time())
}

fn reason(text: &str) -> Option<Reason> {
    match text {
        "rejected" => Some(Reason::Rejected),
        "expired" => Some(Reason::Expired),
        "maxlen" => Some(Reason::QueueOverflow),
        "delivery_limit" => Some(Reason::DeliveryLimit),
        _ => None,
    }
}

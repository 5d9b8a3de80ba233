//! Who wrote last: the order of several stories on one letter, and the one reading that they make.
//!
//! 1. What the transport says of this very message in this very queue (an SQS attribute, an AMQP annotation, an advisory) is
//!    outermost: no client can copy it.
//! 2. Then the clients that republished it. Where the broker keeps the order of headers, the one whose marks end
//!    last wrote last. Elsewhere the later failure is the outer one, and ours goes before those that tell no time.
//!    SmallRye puts its headers before the others: it is outer where it read from a queue named after the other's.
//! 3. Innermost is what a broker wrote on the message and clients carry along (`x-death`, Pub/Sub attributes): a client
//!    that gives up republishes the message with it. Only a death clearly after the clients' failures is outermost.
//!
//! The failure comes from one story, the outermost that has an error, and so does the consumer; each other fact from
//! the outermost that tells it, but origin, publishing and first failure from the innermost. A first death by time-out
//! under a client's story is the delay of a retry queue, and no origin.

use std::cmp::Reverse;
use std::time::Duration;

use super::catalogue::Writer;
use super::scan::Story;
use super::view::View;
use super::{Held, Reading};
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;
use crate::time::Timestamp;

/// How far the clocks of a broker and a consumer may be apart.
const SKEW: Duration = Duration::from_secs(5);
/// Our own headers, the most trusted.
const OWN: &str = "dlo";

pub(super) fn merge(mut stories: Vec<Story>, view: &View<'_>) -> Reading {
    if stories.len() > 1 {
        drop_echoes(&mut stories);
        sort(&mut stories, view.found.broker);
        forget_waiting_rooms(&mut stories, view);
    }
    let mut stories = stories.into_iter();
    let Some(outermost) = stories.next() else { return Reading::default() };
    let mut reading = outermost.reading;
    reading.conventions.push(outermost.id);
    for story in stories {
        reading.conventions.push(story.id);
        join(&mut reading, story.reading);
    }
    reading
}

/// Outermost first.
fn sort(stories: &mut [Story], broker: BrokerKind) {
    let keeps_order = matches!(
        broker,
        BrokerKind::Kafka | BrokerKind::Redis | BrokerKind::Memory | BrokerKind::Http | BrokerKind::Sql
    );
    let last_failure = clients(stories).filter_map(|story| story.reading.failed_at).max();
    let smallrye_is_outer = smallrye_read_the_others_queue(stories);
    stories.sort_by_key(|story| {
        let failed_at = story.reading.failed_at;
        let layer = match story.writer {
            Writer::Transport => 0,
            Writer::Carried if is_after(failed_at, last_failure) => 0,
            Writer::Client => 1,
            Writer::Carried => 2,
        };
        let position = if story.id == "smallrye" && smallrye_is_outer { usize::MAX } else { story.position };
        let by_position = if keeps_order { position } else { 0 };
        // Where nothing else tells, ours is the one we know to be whole.
        (layer, Reverse(by_position), Reverse(failed_at), story.id != OWN)
    });
}

fn clients(stories: &[Story]) -> impl Iterator<Item = &Story> {
    stories.iter().filter(|story| story.writer == Writer::Client)
}

fn is_after(carried: Option<Timestamp>, client: Option<Timestamp>) -> bool {
    carried.zip(client).is_some_and(|(carried, client)| carried > client.plus(SKEW))
}

fn smallrye_read_the_others_queue(stories: &[Story]) -> bool {
    let queue = |story: &Story| story.reading.origin.as_ref().map(|origin| origin.queue.clone());
    let Some(own) = clients(stories).find(|story| story.id == "smallrye").and_then(queue) else {
        return false;
    };
    clients(stories)
        .filter(|story| story.id != "smallrye")
        .filter_map(queue)
        .any(|other| own.len() > other.len() && own.starts_with(&other))
}

/// Takes away what our runtime wrote for other tools beside its own headers (`emit.rs`): it says less, and the same.
fn drop_echoes(stories: &mut Vec<Story>) {
    let Some(own) = stories.iter().find(|story| story.id == OWN).map(|story| story.reading.clone()) else {
        return;
    };
    stories
        .retain(|story| story.id == OWN || story.writer != Writer::Client || !is_echo(&story.reading, &own));
}

/// Whether what is told is known already.
fn same<T: PartialEq>(told: Option<&T>, known: Option<&T>) -> bool {
    told.is_none() || told == known
}

/// Whether the outer story names the inner one's place, and perhaps more of it: then nothing better is told.
fn knows(outer: Option<&Origin>, inner: Option<&Origin>) -> bool {
    outer.zip(inner).is_some_and(|(outer, inner)| {
        outer.broker == inner.broker
            && outer.queue == inner.queue
            && same(inner.partition.as_ref(), outer.partition.as_ref())
            && same(inner.offset.as_ref(), outer.offset.as_ref())
            && same(inner.message_id.as_ref(), outer.message_id.as_ref())
    })
}

fn is_echo(story: &Reading, own: &Reading) -> bool {
    let place = match (&story.origin, &own.origin) {
        (Some(told), Some(own)) => {
            told.queue == own.queue
                && same(told.partition.as_ref(), own.partition.as_ref())
                && same(told.offset.as_ref(), own.offset.as_ref())
        }
        (Some(_), None) => false,
        (None, _) => true,
    };
    let failure = same(story.error_class.as_ref(), own.error_class.as_ref())
        && same(story.attempts.as_ref(), own.attempts.as_ref())
        && same(story.consumer.as_ref(), own.consumer.as_ref());
    place && failure && story.held == Held::Whole && story.unwrapped.is_none()
}

/// A message that waited for its retry in a queue with a time to live died there first, by the broker's count.
fn forget_waiting_rooms(stories: &mut [Story], view: &View<'_>) {
    const FIRST: &[&str] = &["x-first-death-reason", "amqp1:annotation:x-first-death-reason"];
    let known = clients(stories).any(|story| story.reading.origin.is_some());
    if known && view.any_header(FIRST).text() == Some("expired") {
        for story in stories.iter_mut().filter(|story| story.id == "rabbitmq") {
            story.reading.origin = None;
            story.reading.exchange = None;
            story.reading.routing_key = None;
            story.reading.copies.clear();
            story.reading.first_failed_at = None;
        }
    }
}

/// Adds what an inner story tells.
fn join(outer: &mut Reading, inner: Reading) {
    join_failure(outer, &inner);
    // Deaths by time-out count waits; whoever failed counted attempts.
    if outer.reason == Some(Reason::Expired) {
        outer.attempts = inner.attempts.or(outer.attempts);
    }
    if outer.consumer.is_none() && outer.consumer_id.is_none() && outer.consumer_version.is_none() {
        outer.consumer = inner.consumer;
        outer.consumer_id = inner.consumer_id;
        outer.consumer_version = inner.consumer_version;
    }
    keep(&mut outer.attempts, inner.attempts);
    keep(&mut outer.unwrapped, inner.unwrapped);
    keep(&mut outer.event_type, inner.event_type);
    keep(&mut outer.event_version, inner.event_version);
    keep(&mut outer.correlation_id, inner.correlation_id);
    keep(&mut outer.trace_id, inner.trace_id);
    keep(&mut outer.content_type, inner.content_type);
    if outer.history.is_empty() {
        outer.history = inner.history;
    }
    if outer.held == Held::Whole {
        outer.held = inner.held;
        outer.left_out = inner.left_out;
    }
    if !knows(outer.origin.as_ref(), inner.origin.as_ref()) {
        replace(&mut outer.origin, inner.origin);
    }
    replace(&mut outer.message_id, inner.message_id);
    if inner.exchange.is_some() {
        outer.copies = inner.copies;
    }
    replace(&mut outer.exchange, inner.exchange);
    replace(&mut outer.routing_key, inner.routing_key);
    replace(&mut outer.expiration, inner.expiration);
    replace(&mut outer.published_at, inner.published_at);
    replace(&mut outer.first_failed_at, inner.first_failed_at);
}

/// An error is one story's own: its reason and its time are not mixed with those of another. A writer that only moved the
/// message (a redrive, an expiry) tells why and when, and leaves the error to the one before.
fn join_failure(outer: &mut Reading, inner: &Reading) {
    let has_error = outer.error_class.is_some()
        || outer.error_message.is_some()
        || outer.error_stack.is_some()
        || outer.error_code.is_some();
    if has_error {
        return;
    }
    outer.error_class.clone_from(&inner.error_class);
    outer.error_message.clone_from(&inner.error_message);
    outer.error_stack.clone_from(&inner.error_stack);
    outer.error_code.clone_from(&inner.error_code);
    keep(&mut outer.reason, inner.reason);
    keep(&mut outer.failed_at, inner.failed_at);
}

fn keep<T>(outer: &mut Option<T>, inner: Option<T>) {
    if outer.is_none() {
        *outer = inner;
    }
}

fn replace<T>(outer: &mut Option<T>, inner: Option<T>) {
    if inner.is_some() {
        *outer = inner;
    }
}

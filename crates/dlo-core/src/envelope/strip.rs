//! What is taken off a message before it is replayed: our own story of a failure, and that of other conventions.
//!
//! A consumer that met the old story again would take it for its own: Spring counts attempts by such headers, RabbitMQ
//! drops a message whose `x-death` shows a cycle. All of it stays in the letter's history. The names are listed with each
//! convention. Words that an application may use for itself (`attempts`, `error_message`) are taken off only if the
//! names of the message together show that a failing consumer wrote them.

use super::names;
use crate::conventions::{self, Mapper, PlainStories};
use crate::message::{Headers, Message};
use crate::origin::BrokerKind;

/// Takes the story of every failure off, ours and others'. The mark of a replay stays; see [`super::mark_replayed`].
pub fn strip_for_replay(headers: &mut Headers) {
    let mut message = Message { headers: std::mem::take(headers), ..Message::default() };
    strip_message(&mut message, BrokerKind::Kafka, &Mapper::default());
    *headers = message.headers;
}

/// As [`strip_for_replay`], and on Redis also the fields that a failing consumer added to an entry without a payload
/// field. The names of `mapper` are followed.
pub fn strip_message(message: &mut Message, broker: BrokerKind, mapper: &Mapper) {
    // First, because our own story says that no other consumer added anything.
    conventions::take_off_fields(message, mapper);
    let headers = &mut message.headers;
    let keeps = |name: &str| mapper.keep.0.iter().any(|named| named.eq_ignore_ascii_case(name));
    let stories = PlainStories::of(headers);
    let tells = |name: &str| conventions::tells_of_a_failure(name) || stories.have(name);
    let mut goes: Vec<bool> = headers
        .iter()
        .map(|header| is_ours(&header.name) || tells(&header.name) && !keeps(&header.name))
        .collect();
    for at in conventions::added_headers(headers, broker, mapper) {
        goes[at] = true;
    }
    if broker == BrokerKind::Redis {
        move_payload(headers, &goes);
    }
    let mut goes = goes.into_iter();
    headers.0.retain(|_| !goes.next().unwrap_or(false));
}

/// Redis: the fact that says before which fields of its entry the payload was.
const PAYLOAD_AT: &str = "redis:payload-at";

/// Redis: the payload moves to the front by as many fields as are taken off before it. Marks of an earlier replay count
/// as taken off, because new ones are put behind.
fn move_payload(headers: &mut Headers, goes: &[bool]) {
    let Some(at) = headers.text(PAYLOAD_AT).and_then(|at| at.parse::<usize>().ok()) else { return };
    let fields = headers.iter().zip(goes).filter(|(header, _)| was_a_field(&header.name));
    let taken_off = fields.take(at).filter(|(header, goes)| **goes || is_reserved(&header.name)).count();
    if taken_off > 0
        && let Some(fact) = headers.0.iter_mut().find(|header| header.name == PAYLOAD_AT)
    {
        fact.value = Some((at - taken_off).to_string().into());
    }
}

/// Whether a header was a field of the entry, and no fact about its layout.
fn was_a_field(name: &str) -> bool {
    !matches!(name, PAYLOAD_AT | "redis:payload-field" | "redis:layout")
}

/// By prefix, not by list: what a newer version writes about a failure must not travel on either.
fn is_ours(name: &str) -> bool {
    has_our_prefix(name) && !names::is_one_of(name, names::OF_A_REPLAY)
}

fn has_our_prefix(name: &str) -> bool {
    name.get(..names::PREFIX.len()).is_some_and(|head| head.eq_ignore_ascii_case(names::PREFIX))
}

/// Whether a name is one that only we write: it begins with `dlo-`, or it is the mark of a replay.
pub fn is_reserved(name: &str) -> bool {
    has_our_prefix(name) || names::is_one_of(name, names::OF_A_REPLAY)
}

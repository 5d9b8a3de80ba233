//! A death on a message: written behind the original headers, cut until it fits, and read back.

use super::fit::{BodyTooLarge, size};
use super::read::{history, name, origin, parsed, put, put_history, put_origin, time};
use super::{Envelope, OriginHeaders, Part, names};
use crate::limits;
use crate::message::{Headers, Message};
use crate::suspect::DeathMark;

/// The message as it goes to the dead-letter queue, at most `max_message` bytes by [`size`].
///
/// Payload, key and original headers stay. Our own headers of an earlier hop or death are replaced; those of a
/// replay stay, because the office needs them to know which letter died again.
pub fn encode(message: &Message, envelope: &Envelope, max_message: usize) -> Result<Message, BodyTooLarge> {
    let mut base = message.clone();
    remove_death(&mut base.headers);
    let mut story = bounded(envelope.clone());
    loop {
        let written = write(&base, &story);
        let size = size(&written);
        if size <= max_message {
            return Ok(written);
        }
        if !cut(&mut story, size - max_message) {
            return Err(BodyTooLarge { size, limit: max_message });
        }
    }
}

/// Takes off what [`encode`] writes.
pub fn remove_death(headers: &mut Headers) {
    headers.remove_where(|header| names::is_one_of(header, names::OF_A_FAILURE));
}

/// The id of the death and whether a copy may exist: what tells copies apart that the broker does not name.
pub fn death_mark(headers: &Headers) -> Option<DeathMark> {
    let id = parsed(headers, names::DEATH_ID)?;
    parsed::<u32>(headers, names::DLO_VERSION).filter(|version| *version > 0)?;
    Some(DeathMark { id, redelivered: parsed(headers, names::REDELIVERED).unwrap_or_default() })
}

/// Writes what [`death_mark`] reads, and nothing else of the story. Nothing is done where the broker names the message.
pub fn mark_death(headers: &mut Headers, envelope: &Envelope) {
    if envelope.death_id.is_none() || is_named(&envelope.origin) {
        return;
    }
    const OF_THE_MARK: &[&str] = &[names::DLO_VERSION, names::DEATH_ID, names::REDELIVERED];
    headers.remove_where(|header| names::is_one_of(header, OF_THE_MARK));
    put(headers, names::DLO_VERSION, Some(names::VERSION));
    put(headers, names::DEATH_ID, envelope.death_id);
    put(headers, names::REDELIVERED, envelope.redelivered.then_some(true));
}

/// What our headers say, if there are any. Never fails; a newer version is read as far as its names are known.
pub fn decode(headers: &Headers) -> Option<Envelope> {
    parsed::<u32>(headers, names::DLO_VERSION).filter(|version| *version > 0)?;
    let text = |header| headers.text(header).map(str::to_owned);
    let truncated = headers.text(names::TRUNCATED).unwrap_or_default();
    let envelope = Envelope {
        death_id: parsed(headers, names::DEATH_ID),
        redelivered: parsed(headers, names::REDELIVERED).unwrap_or_default(),
        reason: parsed(headers, names::REASON),
        verdict: parsed(headers, names::VERDICT),
        rule: text(names::RULE),
        error_class: text(names::ERROR_CLASS),
        error_message: text(names::ERROR_MESSAGE),
        error_stack: text(names::ERROR_STACK),
        error_code: text(names::ERROR_CODE),
        attempts: parsed(headers, names::ATTEMPTS),
        history: history(headers),
        first_failed_at: time(headers, names::FIRST_FAILED_AT),
        last_failed_at: time(headers, names::LAST_FAILED_AT),
        dead_at: time(headers, names::DEAD_AT),
        origin: origin(headers),
        consumer_group: name(headers, names::CONSUMER_GROUP, limits::NAME),
        consumer_id: name(headers, names::CONSUMER_ID, limits::ID),
        consumer_version: name(headers, names::CONSUMER_VERSION, limits::NAME),
        truncated: Part::ALL
            .iter()
            .copied()
            .filter(|part| truncated.split(',').any(|word| word.trim() == part.as_str()))
            .collect(),
    };
    Some(bounded(envelope))
}

/// Marks a dead letter that is written again, because nobody knows whether it was written before. It grows by a few bytes. Nothing is done where the broker names the message: there a second copy is recognised.
pub fn mark_redelivered(headers: &mut Headers) {
    if !is_named(&origin(headers)) && headers.text(names::REDELIVERED).is_none() {
        put(headers, names::REDELIVERED, Some(true));
    }
}

/// Whether the broker names the message.
fn is_named(origin: &OriginHeaders) -> bool {
    origin.origin().is_some_and(|origin| origin.has_coordinates())
}

/// The same story with every text cut to its limit, and the cuts that lose something to a reader noted.
fn bounded(mut story: Envelope) -> Envelope {
    for name in [&mut story.rule, &mut story.error_class, &mut story.error_code].into_iter().flatten() {
        limits::cut(name, limits::NAME);
    }
    if story.error_stack.as_mut().is_some_and(|stack| limits::cut(stack, limits::ERROR_STACK)) {
        note(&mut story.truncated, Part::Stack);
    }
    if story.error_message.as_mut().is_some_and(|message| limits::cut(message, limits::ERROR_MESSAGE)) {
        note(&mut story.truncated, Part::Message);
    }
    story
}

fn write(base: &Message, story: &Envelope) -> Message {
    let mut message = base.clone();
    let headers = &mut message.headers;
    put(headers, names::DLO_VERSION, Some(names::VERSION));
    put(headers, names::DEATH_ID, story.death_id);
    put(headers, names::REDELIVERED, story.redelivered.then_some(true));
    put(headers, names::REASON, story.reason);
    put(headers, names::VERDICT, story.verdict);
    put(headers, names::RULE, story.rule.as_ref());
    put(headers, names::ERROR_CLASS, story.error_class.as_ref());
    put(headers, names::ERROR_MESSAGE, story.error_message.as_ref());
    put(headers, names::ERROR_STACK, story.error_stack.as_ref());
    put(headers, names::ERROR_CODE, story.error_code.as_ref());
    put(headers, names::ATTEMPTS, story.attempts);
    put_history(headers, &story.history);
    put(headers, names::FIRST_FAILED_AT, story.first_failed_at);
    put(headers, names::LAST_FAILED_AT, story.last_failed_at);
    put(headers, names::DEAD_AT, story.dead_at);
    put_origin(headers, &story.origin);
    put(headers, names::CONSUMER_GROUP, story.consumer_group.as_ref());
    put(headers, names::CONSUMER_ID, story.consumer_id.as_ref());
    put(headers, names::CONSUMER_VERSION, story.consumer_version.as_ref());
    if !story.truncated.is_empty() {
        let parts: Vec<&str> = story.truncated.iter().map(|part| part.as_str()).collect();
        put(headers, names::TRUNCATED, Some(parts.join(",")));
    }
    message
}

/// Takes about `excess` bytes off the first part that has any left; `false` when nothing is left to cut.
fn cut(story: &mut Envelope, excess: usize) -> bool {
    let part = if shorten(&mut story.error_stack, excess) {
        Part::Stack
    } else if shorten(&mut story.error_message, excess) {
        Part::Message
    } else if story.history.shrink() {
        Part::History
    } else {
        return false;
    };
    note(&mut story.truncated, part);
    true
}

/// Cuts the text by `excess` bytes; what would be left empty is taken away. `false` if there is no text.
fn shorten(text: &mut Option<String>, excess: usize) -> bool {
    let Some(long) = text else { return false };
    let keep = long.len().saturating_sub(excess.max(1));
    limits::cut(long, keep);
    if long.is_empty() {
        *text = None;
    }
    true
}

fn note(truncated: &mut Vec<Part>, part: Part) {
    if !truncated.contains(&part) {
        truncated.push(part);
        truncated.sort_unstable();
    }
}

//! What a letter may hold: every part against its bound in `dlo_core::limits`.
//!
//! Names and ids are refused when they are too long, because a cut name is another name. Error texts are cut: their
//! beginning tells the story.

use std::time::Duration;

use dlo_core::limits;
use dlo_core::message::Message;
use dlo_core::time::Timestamp;

use super::{Draft, Manner, Refusal};

/// How a text is bounded.
#[derive(Clone, Copy)]
enum Bound {
    /// At most so many characters; longer is refused, because a cut name is another name.
    Name,
    /// At most so many bytes; longer is refused.
    Id,
    /// What is longer is cut.
    Prose(usize),
}

/// Holds every text against its bound.
pub(super) fn texts(draft: &mut Draft, manner: Manner) -> Result<(), Refusal> {
    use Bound::{Id, Name, Prose};
    if draft.source.is_empty() {
        return Err(
            Refusal::new("missing_field", "`source` must name where the letter belongs").field("source")
        );
    }
    bound("source", &mut draft.source, Name, manner)?;
    bound("queue", &mut draft.origin.queue, Name, manner)?;
    bound("error_message", &mut draft.error_message, Prose(limits::ERROR_MESSAGE), manner)?;
    let optional: [(&'static str, &mut Option<String>, Bound); 15] = [
        ("incarnation", &mut draft.origin.incarnation, Id),
        ("message_id", &mut draft.origin.message_id, Id),
        ("content_type", &mut draft.content_type, Id),
        ("event_type", &mut draft.event_type, Name),
        ("event_version", &mut draft.event_version, Name),
        ("correlation_id", &mut draft.correlation_id, Id),
        ("trace_id", &mut draft.trace_id, Id),
        ("consumer", &mut draft.consumer, Name),
        ("consumer_id", &mut draft.consumer_id, Id),
        ("consumer_version", &mut draft.consumer_version, Id),
        ("error_class", &mut draft.error_class, Name),
        ("error_code", &mut draft.error_code, Name),
        ("error_stack", &mut draft.error_stack, Prose(limits::ERROR_STACK)),
        ("rule", &mut draft.rule, Name),
        ("replay_id", &mut draft.replay_id, Id),
    ];
    for (field, slot, kind) in optional {
        let Some(text) = slot else { continue };
        if text.is_empty() {
            // An empty name is no name; brokers and shells send it for "not there".
            *slot = None;
            continue;
        }
        bound(field, text, kind, manner)?;
    }
    Ok(())
}

fn bound(field: &'static str, text: &mut String, kind: Bound, manner: Manner) -> Result<(), Refusal> {
    if text.as_bytes().contains(&0) {
        match manner {
            Manner::Refuse => {
                let detail =
                    format!("`{field}` contains a NUL character; only payload, key and header values may");
                return Err(Refusal::new("nul_character", detail).field(field));
            }
            Manner::Mend => *text = text.replace('\0', "\u{fffd}"),
        }
    }
    let (limit, unit, length) = match kind {
        Bound::Prose(limit) => {
            limits::cut(text, limit);
            return Ok(());
        }
        // Counting characters only when there are enough bytes for too many of them.
        Bound::Name if text.len() <= limits::NAME => return Ok(()),
        Bound::Name => (limits::NAME, "characters", text.chars().count()),
        Bound::Id => (limits::ID, "bytes", text.len()),
    };
    if length <= limit {
        return Ok(());
    }
    match manner {
        Manner::Refuse => {
            let detail = format!("`{field}` has {length} {unit}, at most {limit} are kept");
            Err(Refusal::new("too_long", detail).field(field))
        }
        Manner::Mend => {
            limits::cut(text, limit);
            Ok(())
        }
    }
}

/// Payload, key and headers are kept as they came or not at all; from a queue they are kept whatever their size,
/// because the broker has bounded them already.
pub(super) fn message(message: &Message, manner: Manner) -> Result<(), Refusal> {
    if manner == Manner::Mend {
        return Ok(());
    }
    let over = |field: &'static str, what: &str, found: usize, limit: usize, unit: &str| {
        let detail = format!("{what} {found} {unit}, at most {limit} are kept");
        Err(Refusal::new("too_large", detail).field(field))
    };
    let payload = message.payload.0.len();
    if payload > limits::PAYLOAD {
        return over("payload", "the payload has", payload, limits::PAYLOAD, "bytes");
    }
    let key = message.key.as_ref().map_or(0, |key| key.0.len());
    if key > limits::KEY {
        return over("key", "the key has", key, limits::KEY, "bytes");
    }
    if message.headers.len() > limits::HEADERS {
        return over("headers", "there are", message.headers.len(), limits::HEADERS, "headers");
    }
    let size = message.headers.size();
    if size > limits::HEADERS_SIZE {
        return over("headers", "the headers have", size, limits::HEADERS_SIZE, "bytes");
    }
    Ok(())
}

/// Holds every reported time against the calendar; returns the time of the failure.
pub(super) fn times(draft: &mut Draft, manner: Manner, now: Timestamp) -> Result<Timestamp, Refusal> {
    let latest = now.plus(Duration::from_secs(limits::FUTURE_SECONDS));
    let times = [
        ("published_at", &mut draft.published_at),
        ("received_at", &mut draft.received_at),
        ("first_failed_at", &mut draft.first_failed_at),
        ("failed_at", &mut draft.failed_at),
    ];
    for (field, slot) in times {
        let Some(time) = *slot else { continue };
        let refusal = if time < Timestamp::EPOCH {
            Refusal::new("time_out_of_range", format!("`{field}` lies before 1970"))
        } else if time > latest {
            let detail = format!("`{field}` is {time}, more than a day ahead of the office's clock ({now})");
            Refusal::new("time_in_future", detail)
        } else {
            continue;
        };
        match manner {
            Manner::Refuse => return Err(refusal.field(field)),
            Manner::Mend => *slot = None,
        }
    }
    Ok(draft.failed_at.unwrap_or(now))
}

//! JSON envelopes: which field is the payload, which the error, which the origin. The payload inside comes out byte for byte as
//! it stood there: a text without its quotes, an object as it was written.

use super::super::Reading;
use super::super::body::Body;
use super::super::view::View;
use super::Mapper;
use super::fields::{Draft, Field};
use super::wrapped::{self, bytes, original_headers, text};
use super::{flat, nested, proof};
use crate::message::Message;

/// Names that say what went wrong and where the message was.
const TELLING: &[(&str, Field)] = &[
    ("originalTopic", Field::Queue),
    ("original_topic", Field::Queue),
    ("originalQueue", Field::Queue),
    ("original_queue", Field::Queue),
    ("sourceTopic", Field::Queue),
    ("source_topic", Field::Queue),
    ("sourceQueue", Field::Queue),
    ("source_queue", Field::Queue),
    ("originalStream", Field::Queue),
    ("original_stream", Field::Queue),
    ("originalSubject", Field::Queue),
    ("original_subject", Field::Queue),
    ("errorMessage", Field::ErrorMessage),
    ("error_message", Field::ErrorMessage),
    ("failureReason", Field::ErrorMessage),
    ("failure_reason", Field::ErrorMessage),
    ("exceptionMessage", Field::ErrorMessage),
    ("exception_message", Field::ErrorMessage),
    ("lastError", Field::ErrorMessage),
    ("last_error", Field::ErrorMessage),
    ("dlq_reason", Field::ErrorMessage),
    ("error.message", Field::ErrorMessage),
    ("exception.message", Field::ErrorMessage),
    ("error", Field::ErrorMessage),
    ("error.type", Field::ErrorClass),
    ("error.class", Field::ErrorClass),
    ("error.name", Field::ErrorClass),
    ("exception.class", Field::ErrorClass),
    ("exception.type", Field::ErrorClass),
    ("errorClass", Field::ErrorClass),
    ("error_class", Field::ErrorClass),
    ("errorType", Field::ErrorClass),
    ("error_type", Field::ErrorClass),
    ("exceptionClass", Field::ErrorClass),
    ("exception_class", Field::ErrorClass),
    ("exceptionType", Field::ErrorClass),
    ("exception_type", Field::ErrorClass),
    ("exception", Field::ErrorClass),
];

/// Names that say more once the envelope is known for one.
const MORE: &[(&str, Field)] = &[
    ("topic", Field::Queue),
    ("queue", Field::Queue),
    ("originalPartition", Field::Partition),
    ("original_partition", Field::Partition),
    ("partition", Field::Partition),
    ("originalOffset", Field::Offset),
    ("original_offset", Field::Offset),
    ("offset", Field::Offset),
    ("originalMessageId", Field::MessageId),
    ("original_message_id", Field::MessageId),
    ("messageId", Field::MessageId),
    ("message_id", Field::MessageId),
    ("reason", Field::Reason),
    ("stackTrace", Field::ErrorStack),
    ("stack_trace", Field::ErrorStack),
    ("stacktrace", Field::ErrorStack),
    ("traceback", Field::ErrorStack),
    ("error.stack", Field::ErrorStack),
    ("error.stackTrace", Field::ErrorStack),
    ("stack", Field::ErrorStack),
    ("errorCode", Field::ErrorCode),
    ("error_code", Field::ErrorCode),
    ("error.code", Field::ErrorCode),
    ("retryCount", Field::Attempts),
    ("retry_count", Field::Attempts),
    ("attempts", Field::Attempts),
    ("attemptCount", Field::Attempts),
    ("attempt_count", Field::Attempts),
    ("deliveryCount", Field::Attempts),
    ("failedAt", Field::FailedAt),
    ("failed_at", Field::FailedAt),
    ("timestamp", Field::FailedAt),
    ("firstFailedAt", Field::FirstFailedAt),
    ("first_failed_at", Field::FirstFailedAt),
    ("consumerGroup", Field::Consumer),
    ("consumer_group", Field::Consumer),
    ("consumer", Field::Consumer),
    ("handler", Field::Consumer),
    ("service", Field::Consumer),
    ("eventType", Field::EventType),
    ("event_type", Field::EventType),
    ("correlationId", Field::CorrelationId),
    ("correlation_id", Field::CorrelationId),
    ("traceId", Field::TraceId),
    ("trace_id", Field::TraceId),
];

/// What the paths of a user tell.
pub(super) fn mapped(mapper: &Mapper, view: &View<'_>) -> Option<Reading> {
    let paths: Vec<(Field, &str)> =
        mapper.json.each().flat_map(|(field, names)| names.iter().map(move |name| (field, name))).collect();
    if paths.is_empty() && mapper.payload.0.is_empty() {
        return None;
    }
    let body = view.body()?;
    let mut draft = Draft::default();
    for (field, path) in paths {
        draft.put(field, &view.field(path));
    }
    if !draft.has_story() {
        return None;
    }
    let found = |names: &super::OneOrMany| names.iter().find_map(|path| body.at(path));
    let unwrapped =
        found(&mapper.payload).and_then(|payload| bytes(payload, mapper.payload_base64)).map(|payload| {
            Message {
                payload,
                key: found(&mapper.key).map(text).or_else(|| view.message.key.clone()),
                headers: found(&mapper.original_headers)
                    .and_then(original_headers)
                    .unwrap_or_else(|| view.message.headers.clone()),
            }
        });
    Some(Reading { unwrapped, ..draft.finish(view)? })
}

/// What the shapes of typical hand-written consumers tell.
pub(super) fn guessed(view: &View<'_>) -> Option<Reading> {
    let body = view.body()?;
    if !nested::may_be_envelope(body) || flat::is_copy(view) {
        return None;
    }
    let scopes = nested::scopes(body);
    if !wrapped::has_payload(&scopes) || !proof::is_envelope(view, &scopes) {
        return None;
    }
    let mut draft = Draft::default();
    take(&mut draft, view, body, TELLING);
    nested::take(&mut draft, view, &scopes);
    take(&mut draft, view, body, MORE);
    let mut unwrapped = wrapped::message(view, &scopes)?;
    flat::settle_layout(&mut unwrapped);
    Some(Reading { unwrapped: Some(unwrapped), ..draft.finish(view)? })
}

fn take(draft: &mut Draft, view: &View<'_>, body: &Body<'_>, names: &[(&str, Field)]) {
    for (path, field) in names {
        // A field that is an object is looked into by its own paths; as a text it would be noise.
        if let Some(raw) = body.at(path).filter(|raw| !raw.get().starts_with(['{', '['])) {
            draft.put(*field, &view.raw(Some(raw)));
        }
    }
}

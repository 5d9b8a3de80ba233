//! Header names of typical hand-written consumers, compared in lower case with `-` for `_` and without a leading `x-`.

use super::super::Reading;
use super::super::view::View;
use super::fields::{Draft, Field};

/// Sorted, for a look-up a header.
const NAMES: &[(&str, Field)] = &[
    ("attempts", Field::Attempts),
    ("consumer-group", Field::Consumer),
    ("dead-letter-reason", Field::ErrorMessage),
    ("delivery-attempts", Field::Attempts),
    ("dlq-attempts", Field::Attempts),
    ("dlq-consumer", Field::Consumer),
    ("dlq-consumer-group", Field::Consumer),
    ("dlq-error", Field::ErrorMessage),
    ("dlq-error-class", Field::ErrorClass),
    ("dlq-error-message", Field::ErrorMessage),
    ("dlq-failed-at", Field::FailedAt),
    ("dlq-original-offset", Field::Offset),
    ("dlq-original-partition", Field::Partition),
    ("dlq-original-queue", Field::Queue),
    ("dlq-original-topic", Field::Queue),
    ("dlq-reason", Field::Reason),
    ("dlq-retry-count", Field::Attempts),
    ("dlq-stack", Field::ErrorStack),
    ("dlq-step", Field::ErrorCode),
    ("dlq-timestamp", Field::FailedAt),
    ("error", Field::ErrorMessage),
    ("error-class", Field::ErrorClass),
    ("error-code", Field::ErrorCode),
    ("error-message", Field::ErrorMessage),
    ("error-stack", Field::ErrorStack),
    ("error-type", Field::ErrorClass),
    ("exception", Field::ErrorMessage),
    ("exception-class", Field::ErrorClass),
    ("exception-message", Field::ErrorMessage),
    ("exception-stacktrace", Field::ErrorStack),
    ("exception-type", Field::ErrorClass),
    ("failed-at", Field::FailedAt),
    ("failure-reason", Field::ErrorMessage),
    ("first-failed-at", Field::FirstFailedAt),
    ("original-offset", Field::Offset),
    ("original-partition", Field::Partition),
    ("original-queue", Field::Queue),
    ("original-stream", Field::Queue),
    ("original-subject", Field::Queue),
    ("original-topic", Field::Queue),
    ("retry-count", Field::Attempts),
    ("source-queue", Field::Queue),
    ("source-topic", Field::Queue),
    ("stack-trace", Field::ErrorStack),
    ("stacktrace", Field::ErrorStack),
];

/// The longest name with its `x-`.
const LONGEST: usize = 32;

/// The field that a name of such a consumer says.
pub(super) fn known(name: &str) -> Option<(&'static str, Field)> {
    let mut buffer = [0; LONGEST];
    let plain = buffer.get_mut(..name.len())?;
    for (to, from) in plain.iter_mut().zip(name.bytes()) {
        *to = if from == b'_' { b'-' } else { from.to_ascii_lowercase() };
    }
    let plain = plain.strip_prefix(b"x-").unwrap_or(plain);
    let at = NAMES.binary_search_by(|(known, _)| known.as_bytes().cmp(plain)).ok()?;
    NAMES.get(at).copied()
}

/// Words that tell of a failure only beside another one: an application counts its own attempts, and has its own group.
const BESIDE: [&str; 3] = ["attempts", "consumer-group", "delivery-attempts"];

/// What such headers tell. The last of a name is current, so they are asked from the end.
pub(super) fn headers(view: &View<'_>) -> Option<Reading> {
    let mut draft = Draft::default();
    let mut telling = false;
    for header in view.message.headers.0.iter().rev() {
        if let Some((word, field)) = known(&header.name) {
            telling |= !BESIDE.contains(&word);
            draft.put(field, &view.header(&header.name));
        }
    }
    telling.then(|| draft.finish(view)).flatten()
}

/// Whether a replay takes a header of that name off, whatever else the message has: what only a dead letter has. Words
/// that an application may use (`error_message`, `attempts`) are judged together, see `added.rs`.
pub(in super::super) fn tells_of_a_failure(name: &str) -> bool {
    let starts =
        |prefix: &str| name.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    let listed =
        known(name).is_some_and(|(word, _)| starts("x-") || ALONE.iter().any(|one| word.starts_with(one)));
    listed || ["dlq-", "dlq_", "x-dlq-"].iter().any(|prefix| starts(prefix))
}

/// What words begin with that only a dead letter has.
const ALONE: [&str; 2] = ["dead-letter-", "original-"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted_and_fit_the_buffer() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        assert!(NAMES.iter().all(|(name, _)| name.len() + 2 <= LONGEST));
    }

    #[test]
    fn a_replay_takes_off_what_only_a_dead_letter_has() {
        for name in
            ["x-retry-count", "dlq_reason", "X-Error", "x-dlq-anything", "original_topic", "x-source-queue"]
        {
            assert!(tells_of_a_failure(name), "{name}");
        }
        for name in
            ["attempts", "error", "error_message", "failed-at", "tenant", "x-tenant", "source_queue", "é"]
        {
            assert!(!tells_of_a_failure(name), "{name}");
        }
    }
}

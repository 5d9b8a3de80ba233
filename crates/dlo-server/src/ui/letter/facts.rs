//! Everything of a letter that is known and fits one line, in the order in which it is asked at night.

use dlo_core::letter::LetterDetail;
use dlo_core::time::Timestamp;

use crate::ui::show::Shown;
use crate::ui::words;

/// Bytes of a key that are shown.
const KEY: usize = 4_096;

pub(super) fn all(detail: &LetterDetail) -> Vec<(&'static str, String)> {
    let letter = &detail.letter;
    let origin = &letter.origin;
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let key = letter.key.as_deref().map(|key| Shown::of_line(key, KEY));
    let all = [
        ("Source", Some(letter.source.clone())),
        ("Consumer", letter.consumer.clone()),
        ("Consumer id", letter.consumer_id.clone()),
        ("Consumer version", letter.consumer_version.clone()),
        ("Event type", letter.event_type.clone()),
        ("Event version", letter.event_version.clone()),
        ("Key", key),
        ("Message id", origin.message_id.clone()),
        ("Correlation id", letter.correlation_id.clone()),
        ("Trace id", letter.trace_id.clone()),
        ("Broker", Some(origin.broker.to_string())),
        ("Queue", Some(origin.queue.clone())),
        ("Partition", origin.partition.map(|number| number.to_string())),
        ("Offset", origin.offset.map(|number| number.to_string())),
        ("Verdict", Some(words::phrase(letter.verdict.as_str()))),
        ("Rule", letter.rule.clone()),
        ("Error code", letter.error_code.clone()),
        ("Attempts", Some(letter.attempts.to_string())),
        ("Deaths", Some(letter.deaths.to_string())),
        ("Replays", Some(letter.replays.to_string())),
        ("Published", time(letter.published_at)),
        ("Received", time(letter.received_at)),
        ("First failed", time(letter.first_failed_at)),
        ("Failed", Some(letter.failed_at.to_string())),
        ("Captured", Some(letter.captured_at.to_string())),
        ("Content type", letter.content_type.clone()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

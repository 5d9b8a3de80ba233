//! Letters and groups as the API shows them. These shapes stay: fields are added, never renamed.
//!
//! The fields of a letter have the names under which it is sent. Bytes that are text are shown as text, others as
//! base64 under a name that says so.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dlo_core::attempt::AttemptRecord;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{Death, Letter, LetterDetail, Status};
use dlo_core::message::{Header, Headers};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::suspect::Suspect;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::automation::Leaving;

/// A letter in a list.
#[derive(Debug, Serialize)]
pub(crate) struct LetterOut<'a> {
    id: LetterId,
    status: Status,
    group_id: GroupId,
    owner: Option<&'a str>,
    source: &'a str,
    #[serde(flatten)]
    origin: OriginOut<'a>,
    #[serde(flatten)]
    key: KeyOut<'a>,
    content_type: Option<&'a str>,
    event_type: Option<&'a str>,
    event_version: Option<VersionOut<'a>>,
    correlation_id: Option<&'a str>,
    trace_id: Option<&'a str>,
    consumer: Option<&'a str>,
    consumer_id: Option<&'a str>,
    consumer_version: Option<&'a str>,
    attempts: u32,
    error_class: Option<&'a str>,
    error_message: &'a str,
    error_code: Option<&'a str>,
    reason: Reason,
    verdict: VerdictKind,
    rule: Option<&'a str>,
    published_at: Option<Timestamp>,
    received_at: Option<Timestamp>,
    first_failed_at: Option<Timestamp>,
    failed_at: Timestamp,
    captured_at: Timestamp,
    payload_size: u64,
    replays: u32,
    death_count: u32,
    /// The letter that it may repeat.
    suspect: Option<Suspect>,
}

impl<'a> LetterOut<'a> {
    pub(crate) fn new(letter: &'a Letter) -> Self {
        Self {
            id: letter.id,
            status: letter.status,
            group_id: letter.group_id,
            owner: letter.owner.as_deref(),
            source: &letter.source,
            origin: OriginOut::new(&letter.origin),
            key: KeyOut::new(letter.key.as_deref()),
            content_type: letter.content_type.as_deref(),
            event_type: letter.event_type.as_deref(),
            event_version: letter.event_version.as_deref().map(VersionOut),
            correlation_id: letter.correlation_id.as_deref(),
            trace_id: letter.trace_id.as_deref(),
            consumer: letter.consumer.as_deref(),
            consumer_id: letter.consumer_id.as_deref(),
            consumer_version: letter.consumer_version.as_deref(),
            attempts: letter.attempts,
            error_class: letter.error_class.as_deref(),
            error_message: &letter.error_message,
            error_code: letter.error_code.as_deref(),
            reason: letter.reason,
            verdict: letter.verdict,
            rule: letter.rule.as_deref(),
            published_at: letter.published_at,
            received_at: letter.received_at,
            first_failed_at: letter.first_failed_at,
            failed_at: letter.failed_at,
            captured_at: letter.captured_at,
            payload_size: letter.payload_size,
            replays: letter.replays,
            death_count: letter.deaths,
            suspect: letter.suspect,
        }
    }
}

/// Where it came from, as fields of the letter.
#[derive(Debug, Serialize)]
pub(crate) struct OriginOut<'a> {
    broker: BrokerKind,
    queue: &'a str,
    incarnation: Option<&'a str>,
    partition: Option<i32>,
    offset: Option<i64>,
    message_id: Option<&'a str>,
}

impl<'a> OriginOut<'a> {
    pub(crate) fn new(origin: &'a Origin) -> Self {
        Self {
            broker: origin.broker,
            queue: &origin.queue,
            incarnation: origin.incarnation.as_deref(),
            partition: origin.partition,
            offset: origin.offset,
            message_id: origin.message_id.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct KeyOut<'a> {
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
}

impl<'a> KeyOut<'a> {
    pub(crate) fn new(key: Option<&'a [u8]>) -> Self {
        let text = key.and_then(|key| std::str::from_utf8(key).ok());
        let encoded = if text.is_none() { key.map(|key| STANDARD.encode(key)) } else { None };
        Self { key: text, key_base64: encoded }
    }
}

/// A version as it was probably sent: `1` as a number, `2.0-beta` as text.
#[derive(Debug)]
pub(crate) struct VersionOut<'a>(pub(crate) &'a str);

impl Serialize for VersionOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<i64>() {
            Ok(number) if number.to_string() == self.0 => serializer.serialize_i64(number),
            _ => serializer.serialize_str(self.0),
        }
    }
}

/// Headers as the list of pairs that `POST /letters` takes.
#[derive(Debug)]
pub(crate) struct HeadersOut<'a>(pub(crate) &'a Headers);

impl Serialize for HeadersOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Binary<'a> {
            name: &'a str,
            value_base64: String,
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for header @ Header { name, value } in self.0.iter() {
            match (value, header.text()) {
                (Some(bytes), None) => {
                    list.serialize_element(&Binary { name, value_base64: STANDARD.encode(bytes) })?;
                }
                (_, text) => list.serialize_element(&(name, text))?,
            }
        }
        list.end()
    }
}

/// One letter whole.
#[derive(Debug, Serialize)]
pub(crate) struct DetailOut<'a> {
    #[serde(flatten)]
    letter: LetterOut<'a>,
    headers: HeadersOut<'a>,
    error_stack: Option<&'a str>,
    attempt_history: &'a [AttemptRecord],
    deaths: Vec<DeathOut<'a>>,
    /// Letters that may repeat this one.
    suspects: &'a [Suspect],
    /// When automation takes it away.
    leaves: Option<Leaving>,
    /// The queue that a routed letter is in.
    routed_to: Option<String>,
}

impl<'a> DetailOut<'a> {
    pub(crate) fn new(detail: &'a LetterDetail, leaves: Option<Leaving>, routed_to: Option<String>) -> Self {
        Self {
            leaves,
            routed_to,
            letter: LetterOut::new(&detail.letter),
            headers: HeadersOut(&detail.headers),
            error_stack: detail.error_stack.as_deref(),
            attempt_history: detail.history.records(),
            deaths: detail.deaths.iter().map(DeathOut::new).collect(),
            suspects: &detail.suspects,
        }
    }
}

/// One time the letter was parked.
#[derive(Debug, Serialize)]
struct DeathOut<'a> {
    number: u32,
    failed_at: Timestamp,
    captured_at: Timestamp,
    #[serde(flatten)]
    origin: OriginOut<'a>,
    consumer: Option<&'a str>,
    consumer_id: Option<&'a str>,
    consumer_version: Option<&'a str>,
    attempts: u32,
    attempt_history: &'a [AttemptRecord],
    error_class: Option<&'a str>,
    error_message: &'a str,
    error_code: Option<&'a str>,
    error_stack: Option<&'a str>,
    reason: Reason,
    verdict: VerdictKind,
    rule: Option<&'a str>,
    replay_id: Option<&'a str>,
}

impl<'a> DeathOut<'a> {
    fn new(death: &'a Death) -> Self {
        Self {
            number: death.number,
            failed_at: death.at,
            captured_at: death.captured_at,
            origin: OriginOut::new(&death.origin),
            consumer: death.consumer.as_deref(),
            consumer_id: death.consumer_id.as_deref(),
            consumer_version: death.consumer_version.as_deref(),
            attempts: death.attempts,
            attempt_history: death.history.records(),
            error_class: death.error_class.as_deref(),
            error_message: &death.error_message,
            error_code: death.error_code.as_deref(),
            error_stack: death.error_stack.as_deref(),
            reason: death.reason,
            verdict: death.verdict,
            rule: death.rule.as_deref(),
            replay_id: death.replay_id.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_shown_as_it_was_probably_sent() {
        let shown = |text| serde_json::to_string(&VersionOut(text)).unwrap();
        assert_eq!(
            (shown("1"), shown("01"), shown("2.0-beta")),
            ("1".into(), "\"01\"".into(), "\"2.0-beta\"".into())
        );
    }

    #[test]
    fn headers_are_shown_in_the_shape_in_which_they_are_sent() {
        let mut headers = Headers::new();
        headers.push_text("a", "b");
        headers.push("absent", None);
        headers.push("raw", Some(bytes::Bytes::from_static(&[0xff])));
        let shown = serde_json::to_string(&HeadersOut(&headers)).unwrap();
        assert_eq!(shown, r#"[["a","b"],["absent",null],{"name":"raw","value_base64":"/w=="}]"#);
    }

    #[test]
    fn a_key_that_is_no_text_is_shown_as_base64() {
        let shown = |key| serde_json::to_string(&KeyOut::new(key)).unwrap();
        assert_eq!(shown(Some(b"C-441")), r#"{"key":"C-441"}"#);
        assert_eq!(shown(Some(&[0xff])), r#"{"key":null,"key_base64":"/w=="}"#);
        assert_eq!(shown(None), r#"{"key":null}"#);
    }
}

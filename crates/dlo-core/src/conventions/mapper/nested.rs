//! JSON envelopes whose story is in objects of their own: `metadata`, `error`, `original`, `dlq` and their like.
//!
//! A name is compared without separators and in lower case, so `originalTopic`, `original_topic` and
//! `x-original-topic` are one word. Reading is bounded: at most [`OBJECTS`] objects, [`DEPTH`] levels deep.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use super::super::body::{Body, inside, list, plain};
use super::super::view::View;
use super::fields::{Draft, Field};
use super::wrapped;

/// Objects of one envelope that are opened.
const OBJECTS: usize = 16;
/// Levels below the envelope.
const DEPTH: usize = 2;

/// What the name of an object says about the words inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The envelope itself.
    Top,
    /// A story under full words: `originalTopic`, `errorMessage`.
    Story,
    /// An error: `message` is its message.
    Error,
    /// Where the message was: `topic` is its topic. It may hold the message as well.
    Origin,
}

/// One object of an envelope.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) role: Role,
    fields: Vec<(String, &'a RawValue)>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(role: Role, body: &Body<'a>) -> Self {
        let fields = body.fields().filter(|(_, value)| value.get() != "null");
        Self { role, fields: fields.map(|(name, value)| (folded(name), value)).collect() }
    }

    /// The value of the first of these words that is there.
    pub(super) fn any(&self, words: &[&str]) -> Option<&'a RawValue> {
        words.iter().find_map(|word| self.field(word))
    }

    /// The names of all fields, folded.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    fn field(&self, word: &str) -> Option<&'a RawValue> {
        self.fields.iter().find(|(name, _)| name == word).map(|(_, value)| *value)
    }
}

/// Names longer than this are nobody's word.
const LONGEST: usize = 32;

/// A name without separators, in lower case, without a leading `x-`; empty if it is no word of an envelope.
fn folded(name: &str) -> String {
    with_folded(name, str::to_owned).unwrap_or_default()
}

/// Folds a name without memory of its own: this is done for every field of every business message.
fn with_folded<T>(name: &str, then: impl FnOnce(&str) -> T) -> Option<T> {
    let bare = name.strip_prefix("x-").or_else(|| name.strip_prefix("X-")).unwrap_or(name);
    let mut buffer = [0; LONGEST];
    let mut length = 0;
    for byte in bare.bytes().filter(u8::is_ascii_alphanumeric) {
        *buffer.get_mut(length)? = byte.to_ascii_lowercase();
        length += 1;
    }
    std::str::from_utf8(&buffer[..length]).ok().map(then)
}

/// Whether a field could be the message, or an object that holds it. Most business messages have none.
pub(super) fn may_be_envelope(body: &Body<'_>) -> bool {
    let opens = |raw: &RawValue| raw.get().starts_with(['{', '"', '[']);
    let is_word =
        |word: &str, raw: &RawValue| wrapped::is_payload(word) || (opens(raw) && role(word).is_some());
    body.fields()
        .any(|(name, raw)| may_be_word(name) && with_folded(name, |word| is_word(word, raw)).unwrap_or(false))
}

/// For every first letter of a word that matters here: the last letters of such words, as bits.
static LAST_LETTERS: LazyLock<[u32; 26]> = LazyLock::new(|| {
    let mut table = [0; 26];
    for word in wrapped::payload_words().chain(OBJECT_NAMES.iter().map(|(name, _)| *name)) {
        let letter = |byte: Option<u8>| byte.and_then(letter).unwrap_or_default();
        table[letter(word.bytes().next())] |= 1 << letter(word.bytes().last());
    }
    table
});

fn letter(byte: u8) -> Option<usize> {
    byte.is_ascii_alphabetic().then(|| usize::from(byte.to_ascii_lowercase() - b'a'))
}

/// Whether the first and the last byte of a name allow that it is one of these words. It is asked of every field of
/// every business message, so it must cost next to nothing.
fn may_be_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let (Some(first), Some(end)) = (letter(*first), letter(*last)) else {
        // A separator in front, or a number at the end, as in `payload_b64`.
        return !first.is_ascii_alphanumeric() || last.is_ascii_digit();
    };
    first == usize::from(b'x' - b'a') || LAST_LETTERS[first] & (1 << end) != 0
}

/// Objects in which envelopes keep their story, sorted.
const OBJECT_NAMES: &[(&str, Role)] = &[
    ("attributes", Role::Story),
    ("cause", Role::Error),
    ("context", Role::Story),
    ("deadletter", Role::Story),
    ("deadletterinfo", Role::Story),
    ("deadlettermetadata", Role::Story),
    ("details", Role::Story),
    ("dlq", Role::Story),
    ("dlqinfo", Role::Story),
    ("dlqmetadata", Role::Story),
    ("dlt", Role::Story),
    ("envelope", Role::Story),
    ("err", Role::Error),
    ("error", Role::Error),
    ("errordetails", Role::Error),
    ("errorinfo", Role::Error),
    ("errors", Role::Error),
    ("exception", Role::Error),
    ("exceptioninfo", Role::Error),
    ("failure", Role::Error),
    ("failuredetails", Role::Error),
    ("failureinfo", Role::Error),
    ("header", Role::Story),
    ("headers", Role::Story),
    ("info", Role::Story),
    ("kafka", Role::Origin),
    ("lasterror", Role::Error),
    ("meta", Role::Story),
    ("metadata", Role::Story),
    ("origin", Role::Origin),
    ("original", Role::Origin),
    ("originalmessage", Role::Origin),
    ("originalrecord", Role::Origin),
    ("processing", Role::Story),
    ("properties", Role::Story),
    ("record", Role::Origin),
    ("retry", Role::Story),
    ("source", Role::Origin),
    ("sourceinfo", Role::Origin),
    ("sourcerecord", Role::Origin),
];

/// What the name of an object says.
fn role(name: &str) -> Option<Role> {
    let at = OBJECT_NAMES.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    OBJECT_NAMES.get(at).map(|(_, role)| *role)
}

/// The envelope and the objects inside that may tell its story.
pub(super) fn scopes<'a>(body: &Body<'a>) -> Vec<Scope<'a>> {
    let mut scopes = vec![Scope::new(Role::Top, body)];
    let mut at = 0;
    let mut last_of_level = 1;
    for _ in 0..DEPTH {
        while at < last_of_level {
            let objects: Vec<(Role, &RawValue)> =
                scopes[at].fields.iter().filter_map(|(name, raw)| Some((role(name)?, *raw))).collect();
            for (role, raw) in objects {
                if scopes.len() > OBJECTS {
                    return scopes;
                }
                if let Some(body) = object(raw) {
                    scopes.push(Scope::new(role, &body));
                }
            }
            at += 1;
        }
        last_of_level = scopes.len();
    }
    scopes
}

/// The object that a value is, or the first one of a list.
fn object(raw: &RawValue) -> Option<Body<'_>> {
    if raw.get().starts_with('[') {
        return inside(list(raw, 1)?.first()?);
    }
    inside(raw)
}

/// Takes what the objects inside the envelope tell.
pub(super) fn take(draft: &mut Draft, view: &View<'_>, scopes: &[Scope<'_>]) {
    for scope in scopes.iter().filter(|scope| scope.role != Role::Top) {
        let own = match scope.role {
            Role::Error => IN_ERROR,
            Role::Origin => IN_ORIGIN,
            Role::Top | Role::Story => &[],
        };
        for (word, field) in WORDS.iter().chain(own) {
            if let Some(raw) = scope.field(word).filter(|raw| !raw.get().starts_with(['{', '['])) {
                draft.put(*field, &view.raw(Some(raw)));
            }
        }
        stack_of_lines(draft, view, scope);
    }
}

fn stack_of_lines(draft: &mut Draft, view: &View<'_>, scope: &Scope<'_>) {
    if let Some(lines) = scope.any(STACKS).filter(|raw| raw.get().starts_with('[')) {
        draft.put_stack(view.stack(Some(lines)));
    }
}

const STACKS: &[&str] = &["stacktrace", "stack", "errorstack", "traceback", "backtrace", "trace"];

/// Words with one meaning wherever they are, the surest first.
pub(super) const WORDS: &[(&str, Field)] = &[
    ("originaltopic", Field::Queue),
    ("originalqueue", Field::Queue),
    ("originalstream", Field::Queue),
    ("originalsubject", Field::Queue),
    ("originalchannel", Field::Queue),
    ("origintopic", Field::Queue),
    ("originqueue", Field::Queue),
    ("origtopic", Field::Queue),
    ("sourcetopic", Field::Queue),
    ("sourcequeue", Field::Queue),
    ("sourcestream", Field::Queue),
    ("sourcesubject", Field::Queue),
    ("originalpartition", Field::Partition),
    ("sourcepartition", Field::Partition),
    ("partition", Field::Partition),
    ("originaloffset", Field::Offset),
    ("sourceoffset", Field::Offset),
    ("offset", Field::Offset),
    ("originalmessageid", Field::MessageId),
    ("originalid", Field::MessageId),
    ("errormessage", Field::ErrorMessage),
    ("errormsg", Field::ErrorMessage),
    ("exceptionmessage", Field::ErrorMessage),
    ("failurereason", Field::ErrorMessage),
    ("failuremessage", Field::ErrorMessage),
    ("lasterror", Field::ErrorMessage),
    ("lasterrormessage", Field::ErrorMessage),
    ("deadletterreason", Field::ErrorMessage),
    ("dlqreason", Field::ErrorMessage),
    ("error", Field::ErrorMessage),
    ("errorclass", Field::ErrorClass),
    ("errortype", Field::ErrorClass),
    ("errorname", Field::ErrorClass),
    ("exceptionclass", Field::ErrorClass),
    ("exceptiontype", Field::ErrorClass),
    ("exceptionname", Field::ErrorClass),
    ("exception", Field::ErrorClass),
    ("errorcode", Field::ErrorCode),
    ("stacktrace", Field::ErrorStack),
    ("errorstack", Field::ErrorStack),
    ("errorstacktrace", Field::ErrorStack),
    ("exceptionstacktrace", Field::ErrorStack),
    ("traceback", Field::ErrorStack),
    ("reason", Field::Reason),
    ("retrycount", Field::Attempts),
    ("attempts", Field::Attempts),
    ("attemptcount", Field::Attempts),
    ("retries", Field::Attempts),
    ("deliverycount", Field::Attempts),
    ("deliveryattempts", Field::Attempts),
    ("failedat", Field::FailedAt),
    ("failuretime", Field::FailedAt),
    ("failuretimestamp", Field::FailedAt),
    ("errortimestamp", Field::FailedAt),
    ("dlqtimestamp", Field::FailedAt),
    ("deadletteredat", Field::FailedAt),
    ("firstfailedat", Field::FirstFailedAt),
    ("consumergroup", Field::Consumer),
    ("consumergroupid", Field::Consumer),
    ("consumer", Field::Consumer),
    ("failedby", Field::Consumer),
    ("consumerid", Field::ConsumerId),
    ("eventtype", Field::EventType),
    ("correlationid", Field::CorrelationId),
    ("traceid", Field::TraceId),
];

/// Words of an object that is an error.
pub(super) const IN_ERROR: &[(&str, Field)] = &[
    ("message", Field::ErrorMessage),
    ("msg", Field::ErrorMessage),
    ("description", Field::ErrorMessage),
    ("detail", Field::ErrorMessage),
    ("type", Field::ErrorClass),
    ("class", Field::ErrorClass),
    ("name", Field::ErrorClass),
    ("code", Field::ErrorCode),
    ("stack", Field::ErrorStack),
    ("trace", Field::ErrorStack),
    ("backtrace", Field::ErrorStack),
    ("timestamp", Field::FailedAt),
    ("time", Field::FailedAt),
    ("occurredat", Field::FailedAt),
];

/// Words of an object that is the place of a message.
pub(super) const IN_ORIGIN: &[(&str, Field)] = &[
    ("topic", Field::Queue),
    ("queue", Field::Queue),
    ("stream", Field::Queue),
    ("subject", Field::Queue),
    ("channel", Field::Queue),
    ("id", Field::MessageId),
    ("messageid", Field::MessageId),
    ("timestamp", Field::PublishedAt),
];

/// The text of a value, if it is one.
pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, [u8]>> {
    raw.get().starts_with('"').then(|| plain(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_may_be_a_word_in_each_spelling() {
        for word in wrapped::payload_words().chain(OBJECT_NAMES.iter().map(|(name, _)| *name)) {
            assert!(
                may_be_word(word) && may_be_word(&format!("x-{word}")) && may_be_word(&format!("_{word}")),
                "{word}"
            );
            assert!(may_be_word(&word.to_uppercase()), "{word}");
        }
        assert!(!may_be_word("timestamp") && !may_be_word("stream_seq") && !may_be_word(""));
    }

    #[test]
    fn names_of_objects_are_sorted_and_every_word_is_folded() {
        assert!(OBJECT_NAMES.is_sorted_by(|a, b| a.0 < b.0));
        let words = WORDS.iter().chain(IN_ERROR).chain(IN_ORIGIN).map(|(word, _)| *word);
        for word in words.chain(OBJECT_NAMES.iter().map(|(name, _)| *name)) {
            assert_eq!(folded(word), word);
        }
        assert_eq!(
            (folded("X-Original_Topic").as_str(), folded(&"a".repeat(LONGEST + 1)).as_str()),
            ("originaltopic", "")
        );
    }
}

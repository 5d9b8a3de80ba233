//! The fields of a letter that a user can name, and how a value becomes one of them.

use serde::Deserialize;
use serde::de::Deserializer;

use super::super::Reading;
use super::super::value::Value;
use super::super::view::View;
use crate::origin::Origin;
use crate::reason::Reason;

/// One name, or several in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OneOrMany(pub Vec<String>);

impl OneOrMany {
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a name or a list of names")]
        enum Written {
            One(String),
            Many(Vec<String>),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::One(name) => Self(vec![name]),
            Written::Many(names) => Self(names),
        })
    }
}

macro_rules! fields {
    ($( $(#[$doc:meta])* $field:ident => $variant:ident ),+ $(,)?) => {
        /// A field of a letter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Field { $( $variant ),+ }

        /// Names per field: of headers, or paths into a JSON payload.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Fields { $( $(#[$doc])* pub $field: OneOrMany ),+ }

        impl Fields {
            /// Every field with its names.
            pub(super) fn each(&self) -> impl Iterator<Item = (Field, &OneOrMany)> {
                [ $( (Field::$variant, &self.$field) ),+ ].into_iter()
            }
        }
    };
}

fields! {
    /// The queue, topic, stream or subject it came from.
    queue => Queue,
    partition => Partition,
    offset => Offset,
    message_id => MessageId,
    consumer => Consumer,
    consumer_id => ConsumerId,
    consumer_version => ConsumerVersion,
    error_class => ErrorClass,
    error_message => ErrorMessage,
    error_stack => ErrorStack,
    error_code => ErrorCode,
    /// One of our reasons; any other text is taken for the error message.
    reason => Reason,
    attempts => Attempts,
    failed_at => FailedAt,
    first_failed_at => FirstFailedAt,
    published_at => PublishedAt,
    event_type => EventType,
    event_version => EventVersion,
    correlation_id => CorrelationId,
    trace_id => TraceId,
    content_type => ContentType,
}

/// A reading that is being put together; its place comes in parts.
#[derive(Default)]
pub(super) struct Draft {
    reading: Reading,
    queue: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
}

impl Draft {
    /// Takes a value for a field that is still open.
    pub(super) fn put(&mut self, field: Field, value: &Value<'_>) {
        let reading = &mut self.reading;
        match field {
            Field::Queue => fill(&mut self.queue, || value.name()),
            Field::Partition => fill(&mut self.partition, || value.partition()),
            Field::Offset => fill(&mut self.offset, || value.decimal().filter(|offset| *offset >= 0)),
            Field::MessageId => fill(&mut reading.message_id, || value.id()),
            Field::Consumer => fill(&mut reading.consumer, || value.name()),
            Field::ConsumerId => fill(&mut reading.consumer_id, || value.id()),
            Field::ConsumerVersion => fill(&mut reading.consumer_version, || value.name()),
            Field::ErrorClass => fill(&mut reading.error_class, || value.class()),
            Field::ErrorMessage => fill(&mut reading.error_message, || value.message()),
            Field::ErrorStack => fill(&mut reading.error_stack, || value.stack()),
            Field::ErrorCode => fill(&mut reading.error_code, || value.class()),
            Field::Reason => {
                match value.text().and_then(|word| word.to_ascii_lowercase().parse::<Reason>().ok()) {
                    Some(reason) => fill(&mut reading.reason, || Some(reason)),
                    None => fill(&mut reading.error_message, || value.message()),
                }
            }
            Field::Attempts => fill(&mut reading.attempts, || value.count()),
            Field::FailedAt => fill(&mut reading.failed_at, || value.time()),
            Field::FirstFailedAt => fill(&mut reading.first_failed_at, || value.time()),
            Field::PublishedAt => fill(&mut reading.published_at, || value.time()),
            Field::EventType => fill(&mut reading.event_type, || value.name()),
            Field::EventVersion => fill(&mut reading.event_version, || value.name()),
            Field::CorrelationId => fill(&mut reading.correlation_id, || value.id()),
            Field::TraceId => fill(&mut reading.trace_id, || value.id()),
            Field::ContentType => fill(&mut reading.content_type, || value.name()),
        }
    }

    /// The reading, if it tells an origin, an error, or that there were attempts.
    pub(super) fn finish(self, view: &View<'_>) -> Option<Reading> {
        let Self { mut reading, queue, partition, offset } = self;
        reading.origin = view.queue(queue).map(|origin| Origin { partition, offset, ..origin });
        split_class(&mut reading);
        let tells = reading.origin.is_some() || has_error(&reading) || reading.attempts.is_some();
        tells.then_some(reading)
    }

    /// Takes a stack that was put together.
    pub(super) fn put_stack(&mut self, stack: Option<String>) {
        if self.reading.error_stack.is_none() {
            self.reading.error_stack = stack;
        }
    }

    /// Whether an origin or an error was found so far.
    pub(super) fn has_story(&self) -> bool {
        self.queue.is_some() || has_error(&self.reading)
    }
}

fn has_error(reading: &Reading) -> bool {
    reading.error_class.is_some()
        || reading.error_message.is_some()
        || reading.error_stack.is_some()
        || reading.reason.is_some()
}

/// `TimeoutError: upstream` where nobody named a class: the word before the colon is one if it says so itself.
fn split_class(reading: &mut Reading) {
    if reading.error_class.is_some() {
        return;
    }
    let Some((head, rest)) = reading.error_message.as_deref().and_then(|text| text.split_once(": ")) else {
        return;
    };
    let is_class = (head.ends_with("Error") || head.ends_with("Exception"))
        && head.len() <= crate::limits::NAME
        && !head.contains(char::is_whitespace);
    if is_class {
        reading.error_class = Some(head.to_owned());
        reading.error_message = Some(rest.to_owned());
    }
}

fn fill<T>(slot: &mut Option<T>, value: impl FnOnce() -> Option<T>) {
    if slot.is_none() {
        *slot = value();
    }
}

/// What the headers tell that a user named.
pub(super) fn from_headers(fields: &Fields, view: &View<'_>) -> Option<Reading> {
    let mut draft = Draft::default();
    for (field, names) in fields.each() {
        for name in names.iter() {
            let value = view.header(name);
            if value.is_some() {
                draft.put(field, &value);
            }
        }
    }
    draft.finish(view)
}

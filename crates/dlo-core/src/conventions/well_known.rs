//! What nearly every message carries under well-known names: event type and version, correlation, trace, content type. The
//! message id is read by itself: it is no part of what a convention tells of a death.
//!
//! Filled in where no convention told it. Names are compared in lower case with `-` for `_`; a fact of the transport has its
//! own names, and gives way to a header of the application.

use std::sync::LazyLock;

use super::Reading;
use crate::limits;
use crate::message::{Header, Message, transport_fact};

/// Which field a name belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    EventType,
    EventVersion,
    Correlation,
    Trace,
    ContentType,
    MessageId,
}

/// A name, what it tells, and its rank.
type Name = (&'static str, Field, u8);

/// Names of the application's headers. Sorted; the number is the rank: of several names the lowest speaks.
const HEADERS: &[Name] = &[
    ("--typeid--", Field::EventType, 4),
    ("b3", Field::Trace, 4),
    ("ce-datacontenttype", Field::ContentType, 2),
    ("ce-id", Field::MessageId, 3),
    ("ce-traceparent", Field::Trace, 2),
    ("ce-type", Field::EventType, 2),
    ("cloudevents:type", Field::EventType, 2),
    ("content-type", Field::ContentType, 1),
    ("contenttype", Field::ContentType, 2),
    ("correlation-id", Field::Correlation, 1),
    ("correlationid", Field::Correlation, 2),
    ("event-type", Field::EventType, 1),
    ("event-version", Field::EventVersion, 1),
    ("eventtype", Field::EventType, 1),
    ("eventversion", Field::EventVersion, 1),
    ("googclient-traceparent", Field::Trace, 3),
    ("jmscorrelationid", Field::Correlation, 3),
    ("jmsmessageid", Field::MessageId, 2),
    ("jmstype", Field::EventType, 4),
    ("kafka-correlationid", Field::Correlation, 3),
    ("message-id", Field::MessageId, 1),
    ("message-type", Field::EventType, 3),
    ("message-version", Field::EventVersion, 3),
    ("messageid", Field::MessageId, 1),
    ("messagetype", Field::EventType, 3),
    ("nats-msg-id", Field::MessageId, 2),
    ("schema-version", Field::EventVersion, 2),
    ("schemaversion", Field::EventVersion, 2),
    ("trace-id", Field::Trace, 5),
    ("traceid", Field::Trace, 5),
    ("traceparent", Field::Trace, 1),
    ("uber-trace-id", Field::Trace, 4),
    ("x-amzn-trace-id", Field::Trace, 4),
    ("x-b3-traceid", Field::Trace, 4),
    ("x-cloud-trace-context", Field::Trace, 4),
    ("x-correlation-id", Field::Correlation, 2),
    ("x-event-type", Field::EventType, 1),
    ("x-event-version", Field::EventVersion, 1),
    ("x-message-id", Field::MessageId, 1),
    ("x-message-type", Field::EventType, 3),
    ("x-schema-version", Field::EventVersion, 2),
    ("x-trace-id", Field::Trace, 5),
];

/// Names of facts of the transport, without their kind.
const FACTS: &[Name] = &[
    ("awstraceheader", Field::Trace, 8),
    ("content-type", Field::ContentType, 8),
    ("correlation-id", Field::Correlation, 8),
    ("message-id", Field::MessageId, 8),
    ("message-type", Field::EventType, 8),
    ("messageid", Field::MessageId, 8),
    ("type", Field::EventType, 8),
];

/// The names of each first byte, so that most headers are compared with none or few.
type ByFirstByte = [&'static [Name]; 256];

static HEADERS_BY_FIRST_BYTE: LazyLock<ByFirstByte> = LazyLock::new(|| by_first_byte(HEADERS));
static FACTS_BY_FIRST_BYTE: LazyLock<ByFirstByte> = LazyLock::new(|| by_first_byte(FACTS));

fn by_first_byte(names: &'static [Name]) -> ByFirstByte {
    std::array::from_fn(|byte| {
        let first = |(name, _, _): &Name| name.bytes().next().map_or(0, usize::from);
        let start = names.partition_point(|name| first(name) < byte);
        let end = names.partition_point(|name| first(name) <= byte);
        &names[start..end]
    })
}

/// The longest name of either list.
const LONGEST: usize = 32;

/// The header that speaks for each field.
struct Best<'m>([Option<(u8, &'m Header)>; 6]);

impl<'m> Best<'m> {
    fn of(message: &'m Message) -> Self {
        let mut best: [Option<(u8, &Header)>; 6] = [None; 6];
        for header in message.headers.iter() {
            let Some((field, rank)) = known(&header.name) else { continue };
            let slot = &mut best[field as usize];
            // The last of equal ones speaks, as everywhere.
            if slot.is_none_or(|(other, _)| rank <= other) {
                *slot = Some((rank, header));
            }
        }
        Self(best)
    }

    fn text(&self, field: Field, max: usize) -> Option<&'m str> {
        let (_, header) = self.0[field as usize]?;
        header.text().map(str::trim).filter(|text| !text.is_empty() && text.len() <= max)
    }
}

/// The id of a message that its producer or its broker wrote. It is the same on every copy, so it is no coordinate.
pub fn message_id(message: &Message) -> Option<String> {
    Best::of(message).text(Field::MessageId, limits::ID).map(str::to_owned)
}

/// Fills in what the conventions left open.
pub(super) fn fill(reading: &mut Reading, message: &Message) {
    let best = Best::of(message);
    let or = |slot: &mut Option<String>, found: Option<&str>| {
        if slot.is_none() {
            *slot = found.map(str::to_owned);
        }
    };
    or(&mut reading.event_type, best.text(Field::EventType, limits::NAME));
    or(&mut reading.event_version, best.text(Field::EventVersion, limits::NAME));
    or(&mut reading.correlation_id, best.text(Field::Correlation, limits::ID));
    or(&mut reading.content_type, best.text(Field::ContentType, limits::NAME));
    if reading.trace_id.is_none() {
        reading.trace_id = best.text(Field::Trace, limits::ID).and_then(trace_id);
    }
}

fn known(name: &str) -> Option<(Field, u8)> {
    let (name, table) = match transport_fact(name) {
        Some(fact) => (fact, &*FACTS_BY_FIRST_BYTE),
        None => (name, &*HEADERS_BY_FIRST_BYTE),
    };
    let folded = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    let named = table[usize::from(folded(name.bytes().next()?))];
    if named.is_empty() {
        return None;
    }
    let mut buffer = [0; LONGEST];
    let plain = buffer.get_mut(..name.len())?;
    for (to, from) in plain.iter_mut().zip(name.bytes()) {
        *to = folded(from);
    }
    let at = named.binary_search_by(|(known, _, _)| known.as_bytes().cmp(plain)).ok()?;
    named.get(at).map(|(_, field, rank)| (*field, *rank))
}

/// The id of the trace alone: W3C is `version-trace-span-flags`, B3 `trace-span`, Jaeger `trace:span:…`, Google
/// `trace/span;…`, Amazon `Root=1-time-rest;…`, whose id is time and rest.
fn trace_id(text: &str) -> Option<String> {
    if let Some(root) = text.split(';').find_map(|part| part.trim().strip_prefix("Root=")) {
        let id: String = root.split('-').skip(1).collect();
        return (!id.is_empty()).then_some(id);
    }
    let mut parts = text.split(['-', ':', '/', ';']);
    let first = parts.next()?;
    let id = match parts.next() {
        Some(second) if first.len() == 2 && second.len() == 32 => second,
        Some(_) | None => first,
    };
    // A trace id of letters and dashes, such as a UUID, is one whole.
    let is_uuid = text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4;
    let id = if is_uuid { text } else { id };
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::BrokerKind;

    #[test]
    fn both_lists_are_sorted_and_fit_the_buffer() {
        for table in [HEADERS, FACTS] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
            assert!(table.iter().all(|(name, _, _)| name.len() <= LONGEST && !name.contains('_')));
        }
    }

    #[test]
    fn a_message_id_is_read_from_the_names_of_brokers_and_of_applications() {
        let read = |name: &str| {
            let mut message = Message::default();
            message.headers.push_text(name, "m-290");
            message_id(&message)
        };
        for name in
            ["rabbitmq:message-id", "amqp1:message-id", "Nats-Msg-Id", "sqs:MessageId", "X-Message-Id"]
        {
            assert_eq!(read(name).as_deref(), Some("m-290"), "{name}");
        }
        assert_eq!(read("message-identity"), None);
    }

    #[test]
    fn the_id_of_a_trace_is_found_in_every_notation() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        for text in [
            format!("00-{id}-00f067aa0ba902b7-01"),
            format!("{id}-00f067aa0ba902b7-1"),
            format!("{id}:00f067aa0ba902b7:0:1"),
            format!("{id}/123;o=1"),
            id.to_owned(),
            format!("Root=1-{}-{};Parent=5;Sampled=1", &id[..8], &id[8..]),
        ] {
            assert_eq!(trace_id(&text).as_deref(), Some(id), "{text}");
        }
        let uuid = "3d3eedff-c2cd-44cd-ada6-26d08144d29a";
        assert_eq!(trace_id(uuid).as_deref(), Some(uuid));
    }

    #[test]
    fn the_application_speaks_before_its_transport() {
        let mut message = Message::default();
        message.headers.push_text("Event_Type", "order.created");
        message.headers.push_transport(BrokerKind::Rabbitmq, "type", "other");
        message.headers.push_transport(BrokerKind::Rabbitmq, "content_type", "application/json");
        message.headers.push_transport(BrokerKind::Rabbitmq, "correlation-id", "c-1");
        let mut reading = Reading::default();
        fill(&mut reading, &message);
        assert_eq!(reading.event_type.as_deref(), Some("order.created"));
        assert_eq!(reading.content_type.as_deref(), Some("application/json"));
        assert_eq!(reading.correlation_id.as_deref(), Some("c-1"));
    }
}

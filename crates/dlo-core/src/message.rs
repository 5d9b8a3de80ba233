//! A message as a broker carries it: payload, key and headers, byte for byte.
//!
//! Header names are text and may repeat; values are bytes and may be absent, which is not the same as empty.
//! Order is kept. `Debug` shows sizes, never bytes: no payload byte reaches a log.

use bytes::Bytes;

use crate::origin::BrokerKind;

/// A body. Cheap to clone; what it holds is never changed.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Payload(pub Bytes);

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl<T: Into<Bytes>> From<T> for Payload {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

/// One header.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Header {
    pub name: String,
    /// `None`: the broker carried the name without a value.
    pub value: Option<Bytes>,
}

impl Header {
    /// The value as text, if there is one and it is UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.value.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: <{} bytes>", self.name, value.len()),
            None => write!(f, "{}: <absent>", self.name),
        }
    }
}

/// Headers in the order they came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Headers(pub Vec<Header>);

impl Headers {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header behind the others, even if the name is there already.
    pub fn push(&mut self, name: impl Into<String>, value: Option<Bytes>) {
        self.0.push(Header { name: name.into(), value });
    }

    /// Adds a text header behind the others.
    pub fn push_text(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.push(name, Some(Bytes::from(value.into())));
    }

    /// The last header of that name (the outermost writer's), compared without regard to ASCII case.
    pub fn last(&self, name: &str) -> Option<&Header> {
        self.0.iter().rev().find(|header| header.name.eq_ignore_ascii_case(name))
    }

    /// The text of the last header of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.last(name).and_then(Header::text)
    }

    /// The type of the event, under the names that the field uses for it.
    pub fn event_type(&self) -> Option<&str> {
        const NAMES: [&str; 5] = ["event-type", "event_type", "x-event-type", "ce_type", "ce-type"];
        NAMES.iter().find_map(|name| self.text(name))
    }

    /// Adds a fact of the transport that is not a header there (a property, an attribute, a subject), as a header
    /// named `<kind>:<name>`. No broker's client writes such a name, so it cannot be mistaken for one.
    pub fn push_transport(&mut self, kind: BrokerKind, name: &str, value: impl Into<String>) {
        self.push_text(transport_name(kind, name), value);
    }

    /// The text of a fact of the transport.
    pub fn transport(&self, kind: BrokerKind, name: &str) -> Option<&str> {
        // Publishers ask for a dozen of them for each message: no name is put together for that.
        let is_meant = |(of, fact): (&str, &str)| {
            of.eq_ignore_ascii_case(kind.as_str()) && fact.eq_ignore_ascii_case(name)
        };
        self.0.iter().rfind(|header| header.name.split_once(':').is_some_and(is_meant)).and_then(Header::text)
    }

    /// The headers that were headers on the wire, without the facts of any transport. A publisher sends these, and makes
    /// of its own kind's facts what its broker lets a producer set.
    pub fn on_wire(&self) -> impl Iterator<Item = &Header> {
        self.0.iter().filter(|header| !is_transport(&header.name))
    }

    /// Puts `others` behind, in place of all that have one of their names, compared without regard to ASCII case.
    pub fn supersede(&mut self, others: Headers) {
        self.remove_where(|name| others.last(name).is_some());
        self.0.extend(others.0);
    }

    /// Takes off every header for which `condition` holds.
    pub fn remove_where(&mut self, condition: impl Fn(&str) -> bool) {
        self.0.retain(|header| !condition(&header.name));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Header> {
        self.0.iter()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len)).sum()
    }
}

fn transport_name(kind: BrokerKind, name: &str) -> String {
    format!("{kind}:{name}")
}

/// Whether a header's name says that it is a fact of some transport.
pub fn is_transport(name: &str) -> bool {
    transport_fact(name).is_some()
}

/// The name of the fact, if the header is a fact of some transport: `content-type` of `rabbitmq:content-type`.
pub fn transport_fact(name: &str) -> Option<&str> {
    // No search for the colon: this is asked of every header of every message.
    BrokerKind::ALL.iter().find_map(|kind| {
        let kind = kind.as_str();
        let is_kind = name.as_bytes().get(kind.len()) == Some(&b':') && name.starts_with(kind);
        is_kind.then(|| name.get(kind.len() + 1..)).flatten()
    })
}

/// What is delivered to a consumer, parked in a dead-letter queue and sent on replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    pub key: Option<Payload>,
    pub headers: Headers,
    pub payload: Payload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_sizes_and_never_bytes() {
        let mut message = Message { payload: Payload::from("4111 1111"), ..Message::default() };
        message.headers.push_text("authorization", "Bearer s3cret");
        let shown = format!("{message:?}");
        assert!(shown.contains("<9 bytes>") && shown.contains("authorization"), "{shown}");
        assert!(!shown.contains("4111") && !shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn facts_of_the_transport_are_apart_from_what_was_on_the_wire() {
        let mut headers = Headers::new();
        headers.push_text("content-type", "text/plain");
        headers.push_transport(BrokerKind::Rabbitmq, "content-type", "application/json");
        headers.push_text("urn:x", "not a transport");
        assert_eq!(headers.transport(BrokerKind::Rabbitmq, "content-type"), Some("application/json"));
        let wire: Vec<_> = headers.on_wire().map(|header| header.name.as_str()).collect();
        assert_eq!(wire, ["content-type", "urn:x"]);
    }

    #[test]
    fn headers_that_supersede_leave_none_of_their_names_and_all_others_in_their_order() {
        let mut headers = Headers::new();
        for (name, value) in [("Story", "1"), ("z", "kept"), ("story", "2"), ("a", "kept")] {
            headers.push_text(name, value);
        }
        let mut newer = Headers::new();
        newer.push_text("story", "3");
        newer.push("more", None);
        headers.supersede(newer);
        let left: Vec<_> = headers.iter().map(|header| (header.name.as_str(), header.text())).collect();
        assert_eq!(left, [("z", Some("kept")), ("a", Some("kept")), ("story", Some("3")), ("more", None)]);
    }

    #[test]
    fn repeated_headers_keep_their_order_and_the_last_one_speaks() {
        let mut headers = Headers::new();
        headers.push_text("x-retry", "1");
        headers.push("x-retry", None);
        headers.push_text("X-Retry", "3");
        assert_eq!(headers.text("x-retry"), Some("3"));
        assert_eq!(headers.len(), 3);
    }
}

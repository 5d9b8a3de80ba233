//! A message as a consumer delivers it. What the server knows of it stands in its reply subject.
//!
//! `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer sequence>.<nanoseconds>.<pending>`, and with a domain
//! and a hash of the account behind `$JS.ACK` in the newer form.

use async_nats::{Message, Subject};
use dlo_core::broker::{Delivery, DeliveryTag};
use dlo_core::time::Timestamp;

use super::headers;
use super::records::Home;

#[derive(Debug)]
pub(super) struct Arrived {
    message: dlo_core::message::Message,
    pub(super) reply: Subject,
    pub(super) sequence: u64,
    pub(super) count: u32,
    published_at: Timestamp,
}

impl Arrived {
    /// `None` for a message that no consumer delivered: somebody wrote to our inbox.
    pub(super) fn read(message: Message, home: &Home) -> Option<Self> {
        let reply = message.reply?;
        let facts = Facts::read(&reply)?;
        let mut content = headers::from_map(message.headers.as_ref(), message.payload);
        home.tell(&mut content, &message.subject);
        Some(Self {
            message: content,
            sequence: facts.sequence,
            count: facts.deliveries,
            published_at: Timestamp::from_micros(facts.nanos / 1_000),
            reply,
        })
    }

    pub(super) fn delivery(self, home: &Home, tag: DeliveryTag) -> Delivery {
        let mut delivery = Delivery::new(self.message, home.origin(self.sequence), tag);
        delivery.delivery_count = Some(self.count);
        delivery.redelivered = self.count > 1;
        delivery.published_at = Some(self.published_at);
        delivery
    }
}

/// What a reply subject says.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    deliveries: u32,
    sequence: u64,
    nanos: i64,
}

impl Facts {
    fn read(reply: &str) -> Option<Self> {
        let tokens: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let [deliveries, sequence, _, nanos, ..] = (match tokens.len() {
            7 => &tokens[2..],
            9.. => &tokens[4..],
            _ => return None,
        }) else {
            return None;
        };
        Some(Self {
            deliveries: deliveries.parse().ok()?,
            sequence: sequence.parse().ok()?,
            nanos: nanos.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_of_a_reply_subject_are_read() {
        let expected = Facts { deliveries: 3, sequence: 41, nanos: 1_794_769_272_421_142_671 };
        let old = "$JS.ACK.ORDERS.worker.3.41.7.1794769272421142671.0";
        let new = "$JS.ACK.hub.ACC123.ORDERS.worker.3.41.7.1794769272421142671.0.token";
        assert_eq!(Facts::read(old), Some(Facts { ..expected }));
        assert_eq!(Facts::read(new), Some(expected));
    }

    proptest! {
        #[test]
        fn no_reply_subject_stops_us(text in "\\PC{0,80}|\\$JS\\.ACK(\\.[a-z0-9]{0,25}){0,14}") {
            let _ = Facts::read(&text);
        }
    }
}

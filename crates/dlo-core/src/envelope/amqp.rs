//! How a message was published to RabbitMQ, on a dead letter that our runtime parked there.
//!
//! The copy in the dead-letter queue is persistent and does not expire, whatever its producer wanted. What the producer
//! wanted is in these headers, and a replay sends it so.

use super::names;
use super::read::put;
use crate::message::Headers;

/// How the producer published a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    pub exchange: Option<String>,
    pub routing_key: Option<String>,
    /// The list of `CC` as JSON.
    pub copies: Option<String>,
    pub expiration: Option<String>,
    /// Zero: the producer gave none.
    pub delivery_mode: Option<u8>,
}

impl Published {
    /// Reads it from a dead letter of ours; empty on any other.
    pub fn of(headers: &Headers) -> Self {
        let text = |name: &str| headers.text(name).map(str::to_owned);
        Self {
            exchange: text(names::ORIGIN_EXCHANGE),
            routing_key: text(names::ORIGIN_ROUTING_KEY),
            copies: text(names::ORIGIN_COPIES),
            expiration: text(names::ORIGIN_EXPIRATION),
            delivery_mode: Self::delivery_mode_of(headers),
        }
    }

    /// Only how persistent the message was.
    pub fn delivery_mode_of(headers: &Headers) -> Option<u8> {
        headers.text(names::ORIGIN_DELIVERY_MODE).and_then(|mode| mode.parse().ok())
    }

    /// As headers of a dead letter.
    pub fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        put(&mut headers, names::ORIGIN_EXCHANGE, self.exchange.as_ref());
        put(&mut headers, names::ORIGIN_ROUTING_KEY, self.routing_key.as_ref());
        put(&mut headers, names::ORIGIN_COPIES, self.copies.as_ref());
        put(&mut headers, names::ORIGIN_EXPIRATION, self.expiration.as_ref());
        put(&mut headers, names::ORIGIN_DELIVERY_MODE, self.delivery_mode);
        headers
    }
}

/// Whether these are headers of a death that our runtime wrote.
pub fn is_parked(headers: &Headers) -> bool {
    headers.last(names::DLO_VERSION).is_some()
}

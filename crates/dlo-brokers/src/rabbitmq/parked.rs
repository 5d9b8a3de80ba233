//! A dead letter in its queue: it is persistent and does not expire, whatever its producer wanted for the message.
//!
//! What the producer wanted, and how the message was published, goes into headers of ours, so that a replay can send
//! the message as it was produced. Without this a dead letter with an expiration would be dropped by the server.

use dlo_core::envelope::Published;
use dlo_core::message::Headers;
use lapin::BasicProperties;
use lapin::types::{FieldTable, ShortString};

use super::message::{KIND, PERSISTENT};
use super::table;

/// Bytes of a `CC` that is kept.
const COPIES: usize = 8 * 1024;

/// The properties of a dead letter; the headers that tell of its publishing are added to `table`.
pub(super) fn kept(
    properties: BasicProperties,
    headers: &Headers,
    table: &mut FieldTable,
) -> BasicProperties {
    let fact = |name: &str| headers.transport(KIND, name).map(str::to_owned);
    // Without a routing key it was not received from RabbitMQ, and nothing is known.
    if fact("routing-key").is_some() {
        let mode = fact("delivery-mode").map_or(Some(0), |mode| mode.parse().ok());
        let published = Published {
            exchange: fact("exchange"),
            routing_key: fact("routing-key"),
            copies: headers.text("CC").filter(|list| list.len() <= COPIES).map(str::to_owned),
            expiration: fact("expiration"),
            delivery_mode: mode,
        };
        for header in published.headers().iter() {
            let value = table::write(header.value.as_ref(), None);
            table.insert(ShortString::from(header.name.as_str()), value);
        }
    }
    properties.with_delivery_mode(PERSISTENT)
}

//! Redis Streams have no dead letters; the adapter that moves an entry out of a pending list writes down what the list
//! knew. Deliveries of 2^63 - 1 are a fatal refusal (Redis 8.8), not a count, and our adapter says so. An entry's id begins with its time.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::time;
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "redis",
    // Our own headers stand beside it and say more.
    writer: Writer::Carried,
    marks: &[Mark::Name("redis:deliveries"), Mark::Name("redis:group")],
    strip: &[],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let fact = |name: &str| view.prefixed("redis:", name);
    let id = fact("id").id();
    let deliveries = fact("deliveries").decimal();
    let fatal = deliveries == Some(i64::MAX) || fact("deliveries").text() == Some("fatal");
    let born = id.as_deref().and_then(|id| id.split('-').next()).and_then(|ms| ms.parse().ok());
    let stream = fact("stream").name();
    Some(Reading {
        origin: stream
            .map(|stream| Origin { message_id: id.clone(), ..Origin::queue(BrokerKind::Redis, stream) }),
        consumer: fact("group").name(),
        consumer_id: fact("consumer").id(),
        reason: if fatal { Some(Reason::Rejected) } else { deliveries.map(|_| Reason::DeliveryLimit) },
        attempts: deliveries.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0),
        published_at: born.and_then(time::millis),
        ..Reading::default()
    })
}

//! ActiveMQ Classic: the failure's text hides the count and the cause. `originalExpiration` is set whenever the queue's
//! strategy has no expiry, so it proves nothing. Over STOMP the original destination is a header of the frame.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "activemq",
    writer: Writer::Carried,
    marks: &[
        Mark::Name("dlqDeliveryFailureCause"),
        Mark::Name("originalExpiration"),
        Mark::Name("stomp:original-destination"),
        Mark::Name("original-destination"),
    ],
    strip: &[
        Mark::Name("dlqDeliveryFailureCause"),
        Mark::Name("originalExpiration"),
        Mark::Name("originalDeliveryMode"),
        Mark::Name("original-destination"),
    ],
    read,
};

/// What stands before the cause, and before the count.
const CAUSE: &str = ", cause:";
const DELIVERY: &str = "Delivery[";

fn read(view: &View<'_>) -> Option<Reading> {
    let frame = |name: &str| view.prefixed("stomp:", name).or(view.header(name));
    let is_classic = view.has("dlqDeliveryFailureCause") || view.has("originalExpiration");
    if !is_classic && view.found.broker != BrokerKind::Stomp {
        // Somebody else's `original-destination`.
        return None;
    }
    let place = frame("original-destination");
    let queue = place.text().map(bare).or_else(|| view.found.queue.strip_prefix("DLQ.").map(bare));
    let message_id = frame("message-id").id();
    let text = view.header("dlqDeliveryFailureCause").message();
    let cause = text.as_deref().and_then(|text| text.rsplit_once(CAUSE)).map(|(_, cause)| cause.trim());
    let cause = cause.filter(|cause| !cause.is_empty() && *cause != "null");
    let attempts = text.as_deref().and_then(deliveries);
    Some(Reading {
        origin: queue
            .filter(|queue| !queue.is_empty() && queue.len() <= crate::limits::NAME)
            .map(|queue| Origin { message_id, ..Origin::queue(view.found.broker, queue) }),
        error_class: cause.and_then(class),
        error_message: cause.map(str::to_owned).or_else(|| text.clone()),
        reason: text.as_deref().and_then(reason),
        attempts,
        published_at: frame("timestamp").millis(),
        ..Reading::default()
    })
}

/// The name without the kind that STOMP puts before it.
fn bare(destination: &str) -> &str {
    ["/queue/", "/topic/", "queue://", "topic://"]
        .iter()
        .find_map(|kind| destination.strip_prefix(kind))
        .unwrap_or(destination)
}

fn deliveries(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once(DELIVERY)?;
    rest.split(']').next()?.parse().ok()
}

fn reason(text: &str) -> Option<Reason> {
    if text.contains("exceeds redelivery policy limit") {
        Some(Reason::DeliveryLimit)
    } else if text.contains("expired") || text.contains("Expired") {
        Some(Reason::Expired)
    } else {
        None
    }
}

/// The class before the colon, if it is one.
fn class(cause: &str) -> Option<String> {
    let class = cause.split([':', ' ', '\n']).next()?;
    (class.contains('.') && class.len() <= crate::limits::NAME).then(|| class.to_owned())
}

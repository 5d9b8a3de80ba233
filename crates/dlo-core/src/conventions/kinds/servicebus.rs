//! Azure Service Bus: two application properties and an annotation with the entity it was forwarded from. The dead-letter
//! queue is a path below the entity's own. The delivery count begins at zero on the wire.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "servicebus",
    writer: Writer::Transport,
    marks: &[Mark::Name("DeadLetterReason"), Mark::Name("amqp1:annotation:x-opt-deadletter-source")],
    strip: &[
        Mark::Name("DeadLetterReason"),
        Mark::Name("DeadLetterErrorDescription"),
        Mark::Prefix("x-opt-deadletter-"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let annotation = |name: &str| view.prefixed("amqp1:annotation:", name);
    let why = view.header("DeadLetterReason").class();
    let reason = why.as_deref().and_then(reason);
    let entity = annotation("x-opt-deadletter-source").name().or_else(|| entity(view.found.queue));
    let offset = annotation("x-opt-sequence-number").decimal();
    Some(Reading {
        origin: entity.map(|entity| Origin { offset, ..Origin::queue(BrokerKind::Amqp1, entity) }),
        message_id: view.header("amqp1:message-id").id(),
        consumer: subscription(view.found.queue),
        error_message: view.header("DeadLetterErrorDescription").message().or_else(|| why.clone()),
        // The system's own reasons are mapped; everything else is the application's word, or an exception's name.
        error_code: why.clone(),
        error_class: why.filter(|why| reason.is_none() && why.ends_with("Exception")),
        reason,
        attempts: view.header("amqp1:delivery-count").count().map(|count| count.saturating_add(1)),
        published_at: annotation("x-opt-enqueued-time").time(),
        ..Reading::default()
    })
}

fn reason(why: &str) -> Option<Reason> {
    match why {
        "MaxDeliveryCountExceeded" | "MaxDeliveryCountExceededExceptionMessage" => {
            Some(Reason::DeliveryLimit)
        }
        "TTLExpiredException" => Some(Reason::Expired),
        "HeaderSizeExceeded" | "MaxTransferHopCountExceeded" | "Session ID is null" => Some(Reason::Rejected),
        _ => None,
    }
}

/// The entity of `orders/$deadletterqueue` or `orders/Subscriptions/mail/$deadletterqueue`.
fn entity(path: &str) -> Option<String> {
    let (entity, rest) = path.split_once('/')?;
    rest.to_ascii_lowercase().ends_with("$deadletterqueue").then(|| entity.to_owned())
}

fn subscription(path: &str) -> Option<String> {
    let mut parts = path.split('/').skip(1);
    parts.find(|part| part.eq_ignore_ascii_case("subscriptions"))?;
    parts.next().map(str::to_owned)
}

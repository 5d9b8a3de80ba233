//! Kafka share groups (KIP-1191), also with the single underscore of a later draft. Unless the broker was told to copy the
//! record, key and value are null: the letter is a pointer, to be followed before retention removes the record.

use super::super::Held;
use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::Origin;
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "share-group",
    // A broker writes it, but as a new record: it stands in the header list like a client's.
    writer: Writer::Client,
    marks: &[Mark::Prefix("__dlq.errors."), Mark::Prefix("_dlq.errors.")],
    strip: &[Mark::Prefix("__dlq.errors."), Mark::Prefix("_dlq.errors.")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| {
        view.prefixed("__dlq.errors.", name)
            .or(view.prefixed("_dlq.errors.", name))
            .or(view.prefixed("_dlq.errors.original.", name))
    };
    let message = header("message").message();
    let disposition = header("disposition").name();
    let origin =
        view.kafka(header("topic").name(), header("partition").partition(), header("offset").decimal());
    Some(Reading {
        held: held(view, origin.as_ref()),
        origin,
        consumer: header("group").name(),
        reason: reason(message.as_deref()).or_else(|| reason(disposition.as_deref())),
        error_message: message,
        error_code: disposition,
        attempts: header("delivery.count").count(),
        ..Reading::default()
    })
}

fn held(view: &View<'_>, origin: Option<&Origin>) -> Held {
    let empty = view.message.payload.0.is_empty() && view.message.key.is_none();
    match origin {
        Some(origin) if empty && origin.partition.is_some() && origin.offset.is_some() => {
            Held::Pointer(origin.clone())
        }
        Some(_) | None => Held::Whole,
    }
}

fn reason(text: Option<&str>) -> Option<Reason> {
    let text = text?.to_ascii_lowercase();
    if text.contains("delivery count") {
        Some(Reason::DeliveryLimit)
    } else if text.contains("reject") {
        Some(Reason::Rejected)
    } else {
        None
    }
}

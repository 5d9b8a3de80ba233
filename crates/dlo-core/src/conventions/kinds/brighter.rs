//! Brighter: the reason is a word of its own list, the time in .NET's round-trip form.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "brighter",
    writer: Writer::Client,
    marks: &[Mark::Name("RejectionReason")],
    strip: &[
        Mark::Name("OriginalTopic"),
        Mark::Name("OriginalType"),
        Mark::Name("RejectionReason"),
        Mark::Name("RejectionMessage"),
        Mark::Name("RejectionTimestamp"),
        Mark::Name("HandledCount"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let topic = view.header("OriginalTopic").name()?;
    let word = view.header("RejectionReason").name();
    Some(Reading {
        origin: view.queue(Some(topic)),
        reason: match word.as_deref() {
            Some("DeliveryError") => Some(Reason::MaxRetriesExceeded),
            Some("Unacceptable") => Some(Reason::DeserializationError),
            Some(_) | None => None,
        },
        error_code: word.filter(|word| word != "None"),
        error_message: view.header("RejectionMessage").message(),
        attempts: view.header("HandledCount").count(),
        failed_at: view.header("RejectionTimestamp").time(),
        event_type: view.header("OriginalType").name(),
        ..Reading::default()
    })
}

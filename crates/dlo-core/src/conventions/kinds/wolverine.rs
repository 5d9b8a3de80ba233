//! Wolverine. Its names are anybody's, so two of them must be there. `failed-at` is milliseconds in decimal; the destination
//! is a URI. A retry hop tells the same under longer names.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::last_segment;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "wolverine",
    writer: Writer::Client,
    marks: &[Mark::Name("exception-type"), Mark::Name("wolverine-kafka-retry-attempt")],
    strip: &[
        Mark::Name("exception-type"),
        Mark::Name("exception-message"),
        Mark::Name("exception-stack"),
        Mark::Name("failed-at"),
        Mark::Name("original-destination"),
        Mark::Name("original-partition"),
        Mark::Name("original-offset"),
        Mark::Prefix("wolverine-kafka-retry-"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let hop = |name: &str| view.prefixed("wolverine-kafka-retry-", name);
    if !(view.has("failed-at") || view.has("wolverine-kafka-retry-attempt")) {
        return None;
    }
    let place = view.header("original-destination").or(hop("source"));
    let queue = place.text().map(last_segment).filter(|queue| !queue.is_empty());
    let origin = view.queue(queue.filter(|queue| queue.len() <= crate::limits::NAME).map(str::to_owned));
    Some(Reading {
        origin: origin.map(|origin| crate::origin::Origin {
            partition: view.header("original-partition").partition(),
            offset: view.header("original-offset").decimal(),
            ..origin
        }),
        error_class: view.header("exception-type").or(hop("exception-type")).class(),
        error_message: view.header("exception-message").or(hop("exception-message")).message(),
        error_stack: view.header("exception-stack").stack(),
        attempts: view.header("attempts").or(hop("attempt")).count(),
        first_failed_at: hop("first-failed").time(),
        failed_at: view.header("failed-at").time(),
        published_at: view.header("sent-at").time(),
        event_type: view.header("message-type").name(),
        ..Reading::default()
    })
}

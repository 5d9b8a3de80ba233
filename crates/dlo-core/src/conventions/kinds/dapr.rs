//! Dapr: the CloudEvent published again as it was. Nothing tells of a failure, but `topic` still names where it came from.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention =
    Convention { id: "dapr", writer: Writer::Client, marks: &[Mark::Field("pubsubname")], strip: &[], read };

fn read(view: &View<'_>) -> Option<Reading> {
    view.field("specversion").text()?;
    let topic = view.field("topic").name()?;
    // Found in its own topic: then it has not been dead-lettered by Dapr.
    if topic == view.found.queue {
        return None;
    }
    let trace = view.field("traceparent");
    Some(Reading {
        origin: view.queue(Some(topic)),
        message_id: view.field("id").id(),
        event_type: view.field("type").name(),
        trace_id: trace
            .text()
            .and_then(|trace| trace.split('-').nth(1))
            .map(str::to_owned)
            .filter(|id| id.len() <= crate::limits::ID),
        content_type: view.field("datacontenttype").name(),
        published_at: view.field("time").time(),
        ..Reading::default()
    })
}

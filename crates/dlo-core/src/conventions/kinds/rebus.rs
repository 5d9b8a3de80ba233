//! Rebus: one text with the message and everything else behind it.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "rebus",
    writer: Writer::Client,
    marks: &[Mark::Name("rbs2-error-details")],
    strip: &[
        Mark::Name("rbs2-error-details"),
        Mark::Name("rbs2-source-queue"),
        Mark::Name("rbs2-delivery-count"),
        Mark::Name("rbs2-defer-count"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.prefixed("rbs2-", name);
    let details = header("error-details");
    let text = details.text();
    Some(Reading {
        origin: view.queue(header("source-queue").name()),
        message_id: header("msg-id").id(),
        error_class: text.and_then(class),
        error_message: text.and_then(|text| text.lines().next()).map(|line| {
            let mut line = line.to_owned();
            crate::limits::cut(&mut line, crate::limits::ERROR_MESSAGE);
            line
        }),
        error_stack: text.filter(|text| text.contains('\n')).and_then(|_| details.stack()),
        attempts: header("delivery-count").count(),
        published_at: header("senttime").time(),
        event_type: header("msg-type")
            .text()
            .and_then(|text| text.split(',').next())
            .map(str::to_owned)
            .filter(|name| name.len() <= crate::limits::NAME),
        correlation_id: header("corr-id").id(),
        content_type: header("content-type").name(),
        ..Reading::default()
    })
}

/// The first word that looks like a .NET exception: `System.TimeoutException: …`.
fn class(text: &str) -> Option<String> {
    let head = text.get(..2_000).unwrap_or(text);
    head.split([' ', '\n', '\r', ':', '(', ')'])
        .find(|word| word.ends_with("Exception") && word.contains('.') && word.len() <= crate::limits::NAME)
        .map(str::to_owned)
}

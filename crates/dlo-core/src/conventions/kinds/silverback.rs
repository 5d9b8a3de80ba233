//! Silverback: all text. The reason is `<Type> in <assembly>`, or any text of the application's.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "silverback",
    writer: Writer::Client,
    marks: &[Mark::Name("x-failure-reason")],
    strip: &[Mark::Name("x-failed-attempts"), Mark::Name("x-failure-reason"), Mark::Prefix("x-source-")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let source = |name: &str| view.prefixed("x-source-", name);
    let topic = source("topic").name()?;
    let reason = view.header("x-failure-reason");
    let class = reason.text().and_then(|text| text.split_once(" in ")).map(|(class, _)| class.to_owned());
    Some(Reading {
        origin: view.kafka(Some(topic), source("partition").partition(), source("offset").decimal()),
        consumer: source("consumer-group-id").name(),
        error_class: class.filter(|class| class.len() <= crate::limits::NAME && !class.contains(' ')),
        error_message: reason.message(),
        attempts: view.header("x-failed-attempts").count(),
        published_at: source("timestamp").time(),
        event_type: view.header("x-message-type").name(),
        ..Reading::default()
    })
}

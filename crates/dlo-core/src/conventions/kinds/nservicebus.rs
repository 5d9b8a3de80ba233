//! NServiceBus: the failed queue may name its machine behind an `@`; times have a colon before the microseconds.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "nservicebus",
    writer: Writer::Client,
    marks: &[Mark::Name("NServiceBus.FailedQ")],
    strip: &[
        Mark::Name("NServiceBus.FailedQ"),
        Mark::Name("NServiceBus.TimeOfFailure"),
        Mark::Name("NServiceBus.Retries"),
        Mark::Prefix("NServiceBus.Retries."),
        Mark::Prefix("NServiceBus.ExceptionInfo."),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.prefixed("NServiceBus.", name);
    let exception = |name: &str| view.prefixed("NServiceBus.ExceptionInfo.", name);
    let failed = header("FailedQ").name()?;
    let queue = failed.split('@').next().unwrap_or(&failed).to_owned();
    let types = header("EnclosedMessageTypes");
    Some(Reading {
        origin: view.queue(Some(queue)),
        message_id: header("MessageId").id(),
        consumer: header("ProcessingEndpoint").name(),
        consumer_id: header("ProcessingMachine").id(),
        error_class: exception("ExceptionType").class(),
        error_message: exception("Message").message(),
        error_stack: exception("StackTrace").stack(),
        published_at: header("TimeSent").time(),
        failed_at: header("TimeOfFailure").time(),
        event_type: types.text().and_then(first_type),
        correlation_id: header("CorrelationId").id(),
        content_type: header("ContentType").name(),
        ..Reading::default()
    })
}

/// The most special of `Namespace.Type, Assembly, Version=…;Base, …`, without its assembly.
fn first_type(types: &str) -> Option<String> {
    let name = types.split([';', ',']).next()?.trim();
    (!name.is_empty() && name.len() <= crate::limits::NAME).then(|| name.to_owned())
}

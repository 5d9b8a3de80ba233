//! MassTransit: `<endpoint>_error` has faults, `<endpoint>_skipped` messages that nobody wanted. The class is a short name;
//! the address of the endpoint is a URI whose last part is its queue.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::last_segment;
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "masstransit",
    writer: Writer::Client,
    marks: &[Mark::Name("MT-Fault-ExceptionType"), Mark::Name("MT-Reason")],
    strip: &[
        Mark::Name("MT-Reason"),
        Mark::Name("MT-Redelivery-Count"),
        Mark::Prefix("MT-Fault-"),
        Mark::Prefix("MT-Host-"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let fault = |name: &str| view.prefixed("MT-Fault-", name);
    let address = fault("InputAddress");
    let queue = address.text().map(last_segment).filter(|queue| queue.len() <= crate::limits::NAME);
    let why = view.header("MT-Reason");
    let is_fault = why.text() == Some("fault") || fault("ExceptionType").is_some();
    let retries = fault("RetryCount").count();
    let redeliveries = fault("RedeliveryCount").or(view.header("MT-Redelivery-Count")).count();
    Some(Reading {
        origin: view.queue(queue.filter(|queue| !queue.is_empty()).map(str::to_owned)),
        consumer: fault("ConsumerType").name(),
        consumer_id: view.header("MT-Host-MachineName").id(),
        consumer_version: view.header("MT-Host-AssemblyVersion").name(),
        error_class: fault("ExceptionType").class(),
        error_message: if is_fault { fault("Message").message() } else { why.message() },
        error_stack: fault("StackTrace").stack(),
        reason: (!is_fault).then_some(Reason::Rejected),
        attempts: (retries.is_some() || redeliveries.is_some())
            .then(|| retries.unwrap_or(0).saturating_add(redeliveries.unwrap_or(0)).saturating_add(1)),
        failed_at: fault("Timestamp").time(),
        event_type: fault("MessageType").name(),
        ..Reading::default()
    })
}

//! ActiveMQ Artemis: where it came from, over AMQP as annotations; of the reasons only an expiry, no count.
//!
//! The original's id counts inside one broker's journal: brokers of a cluster, and one that was set up anew, give the same
//! numbers again. It is no coordinate, or a second message would be taken for a known one.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "artemis",
    writer: Writer::Carried,
    marks: &[
        Mark::Name("_AMQ_ORIG_ADDRESS"),
        Mark::Name("_AMQ_ORIG_QUEUE"),
        Mark::Name("amqp1:annotation:x-opt-ORIG-ADDRESS"),
        Mark::Name("amqp1:annotation:x-opt-ORIG-QUEUE"),
    ],
    strip: &[Mark::Prefix("_AMQ_ORIG_"), Mark::Prefix("x-opt-ORIG-"), Mark::Name("_AMQ_ACTUAL_EXPIRY")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let fact = |name: &str| {
        let annotation = name.replace('_', "-");
        view.prefixed("_AMQ_ORIG_", name).or(view.prefixed("amqp1:annotation:x-opt-ORIG-", &annotation))
    };
    // A queue may be bound to another address; the queue is where it was read from.
    let queue = fact("QUEUE").name().or_else(|| fact("ADDRESS").name())?;
    let expiry = ["_AMQ_ACTUAL_EXPIRY", "amqp1:annotation:x-opt-ACTUAL-EXPIRY"];
    let expired = view.any_header(&expiry).time();
    let broker = match view.found.broker {
        kind @ (BrokerKind::Stomp | BrokerKind::Amqp1) => kind,
        _ => BrokerKind::Amqp1,
    };
    Some(Reading {
        origin: Some(Origin::queue(broker, queue)),
        reason: expired.map(|_| Reason::Expired),
        published_at: view.any_header(&["amqp1:creation-time", "stomp:timestamp"]).time(),
        ..Reading::default()
    })
}

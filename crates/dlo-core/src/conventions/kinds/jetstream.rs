//! NATS JetStream: the advisory that a message reached its last delivery or was terminated. It has no payload; stream and
//! sequence say where the message stands. Names are read from the JSON, since names with dots break the subject.
//! Libraries that republish write `x-dead-letter-reason`; the mapper knows those.

use super::super::Held;
use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "jetstream",
    writer: Writer::Transport,
    marks: &[Mark::Field("stream_seq")],
    strip: &[],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let kind = view.field("type");
    let reason = match kind.text()?.strip_prefix("io.nats.jetstream.advisory.v1.")? {
        "max_deliver" => Reason::DeliveryLimit,
        "terminated" => Reason::Rejected,
        _ => return None,
    };
    let sequence = view.field("stream_seq").decimal().filter(|sequence| *sequence > 0)?;
    let origin = Origin::sequence(BrokerKind::Nats, view.field("stream").name()?, sequence);
    Some(Reading {
        held: Held::Pointer(origin.clone()),
        origin: Some(origin),
        consumer: view.field("consumer").name(),
        reason: Some(reason),
        error_message: view.field("reason").message(),
        attempts: view.field("deliveries").count(),
        failed_at: view.field("timestamp").time(),
        ..Reading::default()
    })
}

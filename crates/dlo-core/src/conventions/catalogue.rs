//! The list of all conventions. A new one is a file in `kinds/`, a line here, and a golden case.

use super::Reading;
use super::kinds;
use super::view::View;

/// One convention: how it is known, how it is read, what a replay takes off.
pub(super) struct Convention {
    pub(super) id: &'static str,
    pub(super) writer: Writer,
    /// Any of these makes it worth asking.
    pub(super) marks: &'static [Mark],
    /// The headers that tell of a failure, and only those: a business header stays.
    pub(super) strip: &'static [Mark],
    /// What it tells, or `None` if the mark was a coincidence.
    pub(super) read: fn(&View<'_>) -> Option<Reading>,
}

/// Who wrote it, which says what can stand over it; see `order.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// The broker, about this message in this queue.
    Transport,
    /// A client that published the message again.
    Client,
    /// A broker, on the message, which carries it on when a client publishes it again.
    Carried,
}

/// A sign of a convention.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    /// A header's name.
    Name(&'static str),
    /// What a header's name begins with.
    Prefix(&'static str),
    /// A part of the dead-letter queue's name.
    Queue(&'static str),
    /// A field of the payload.
    Field(&'static str),
}

impl Mark {
    /// Whether a header's name is this mark.
    pub(super) fn is(self, name: &str, exact: bool) -> bool {
        let head = match self {
            Self::Name(known) if known.len() == name.len() => name.as_bytes(),
            Self::Prefix(known) if known.len() <= name.len() => &name.as_bytes()[..known.len()],
            Self::Name(_) | Self::Prefix(_) | Self::Queue(_) | Self::Field(_) => return false,
        };
        let (Self::Name(known) | Self::Prefix(known)) = self else { return false };
        if exact { head == known.as_bytes() } else { head.eq_ignore_ascii_case(known.as_bytes()) }
    }
}

pub(super) const ALL: &[Convention] = &[
    kinds::dlo::CONVENTION,
    kinds::spring_dlt::CONVENTION,
    kinds::spring_retrytopic::CONVENTION,
    kinds::scs_kafka::CONVENTION,
    kinds::spring_amqp::CONVENTION,
    kinds::connect::CONVENTION,
    kinds::streams::CONVENTION,
    kinds::share_group::CONVENTION,
    kinds::smallrye::CONVENTION,
    kinds::micronaut::CONVENTION,
    kinds::uforwarder::CONVENTION,
    kinds::karafka::CONVENTION,
    kinds::silverback::CONVENTION,
    kinds::brighter::CONVENTION,
    kinds::wolverine::CONVENTION,
    kinds::masstransit::CONVENTION,
    kinds::nservicebus::CONVENTION,
    kinds::rebus::CONVENTION,
    kinds::watermill::CONVENTION,
    kinds::knative::CONVENTION,
    kinds::dapr::CONVENTION,
    kinds::rabbitmq::CONVENTION,
    kinds::jetstream::CONVENTION,
    kinds::redis::CONVENTION,
    kinds::servicebus::CONVENTION,
    kinds::pubsub::CONVENTION,
    kinds::sqs::CONVENTION,
    kinds::lambda_esm::CONVENTION,
    kinds::lambda_async::CONVENTION,
    kinds::activemq::CONVENTION,
    kinds::artemis::CONVENTION,
    kinds::pulsar::CONVENTION,
    kinds::rocketmq::CONVENTION,
    kinds::benthos::CONVENTION,
    kinds::celery::CONVENTION,
    kinds::sidekiq::CONVENTION,
    kinds::resque::CONVENTION,
    kinds::bullmq::CONVENTION,
    kinds::oban::CONVENTION,
];

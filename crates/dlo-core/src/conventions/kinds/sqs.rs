//! Amazon SQS: the redrive policy moved it, which leaves the source's ARN and nothing of a reason. The receive count may have
//! begun anew, and counts the dead-letter queue's own receives, of which the one that brought it here is one.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "sqs",
    writer: Writer::Transport,
    marks: &[Mark::Name("sqs:DeadLetterQueueSourceArn"), Mark::Name("DeadLetterQueueSourceArn")],
    strip: &[Mark::Name("DeadLetterQueueSourceArn")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let fact = |name: &str| view.prefixed("sqs:", name).or(view.header(name));
    let arn = fact("DeadLetterQueueSourceArn");
    // `arn:aws:sqs:region:account:queue`
    let queue = arn.text()?.rsplit(':').next().filter(|queue| !queue.is_empty())?;
    let message_id = view.any_header(&["sqs:MessageId", "sqs:message-id"]).id();
    Some(Reading {
        origin: (queue.len() <= crate::limits::NAME)
            .then(|| Origin { message_id, ..Origin::queue(BrokerKind::Sqs, queue) }),
        reason: Some(Reason::DeliveryLimit),
        attempts: fact("ApproximateReceiveCount")
            .count()
            .map(|count| count.saturating_sub(1))
            .filter(|n| *n > 0),
        published_at: fact("SentTimestamp").millis(),
        ..Reading::default()
    })
}

//! SmallRye and Quarkus. Their headers go before the others, so that of two sets the first is the newer one. The hop of a
//! delayed retry tells the same under other names, and the number of tries.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::limits;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "smallrye",
    writer: Writer::Client,
    marks: &[
        Mark::Name("dead-letter-topic"),
        Mark::Name("dead-letter-reason"),
        Mark::Name("delayed-retry-count"),
    ],
    strip: &[Mark::Prefix("dead-letter-"), Mark::Prefix("delayed-retry-")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| {
        view.first_header(&format!("dead-letter-{name}"))
            .or(view.first_header(&format!("delayed-retry-{name}")))
    };
    let reason = header("reason").message();
    let cause = header("cause").message();
    let class = header("exception-class-name").class();
    let cause_class = header("cause-class-name").class();
    Some(Reading {
        origin: view.kafka(
            header("topic").name(),
            header("partition").partition(),
            header("offset").decimal(),
        ),
        error_class: cause_class.or(class),
        error_message: match (reason, cause) {
            (Some(reason), Some(cause)) if reason != cause => Some(joined(reason, &cause)),
            (reason, cause) => reason.or(cause),
        },
        // A count of retries: the first try was none.
        attempts: view.first_header("delayed-retry-count").count().map(|retries| retries.saturating_add(1)),
        published_at: view.first_header("delayed-retry-original-timestamp").millis(),
        first_failed_at: view.first_header("delayed-retry-first-processing-timestamp").millis(),
        ..Reading::default()
    })
}

/// Both texts as one. Each fits by itself; together they may not.
fn joined(mut reason: String, cause: &str) -> String {
    reason.push_str("; ");
    reason.push_str(cause);
    limits::cut(&mut reason, limits::ERROR_MESSAGE);
    reason
}

//! Sidekiq's dead set: the job as JSON with its last error. `retry_count` is zero at the first failure; times are float
//! seconds before 8.0 and milliseconds since. The backtrace is compressed and stays as it is.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention =
    Convention { id: "sidekiq", writer: Writer::Client, marks: &[Mark::Field("jid")], strip: &[], read };

fn read(view: &View<'_>) -> Option<Reading> {
    let class = view.field("class").name()?;
    let job = view.field("jid").id()?;
    view.body()?.field("args")?;
    Some(Reading {
        origin: view.queue(view.field("queue").name()),
        message_id: Some(job),
        consumer: Some(class.clone()),
        event_type: Some(class),
        error_class: view.field("error_class").class(),
        error_message: view.field("error_message").message(),
        attempts: view.field("retry_count").count().map(|retries| retries.saturating_add(1)),
        published_at: view.field("created_at").or(view.field("enqueued_at")).time(),
        first_failed_at: view.field("failed_at").time(),
        failed_at: view.field("retried_at").or(view.field("failed_at")).time(),
        ..Reading::default()
    })
}

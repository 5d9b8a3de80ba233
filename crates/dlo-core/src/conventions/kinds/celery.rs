//! Celery: a task that was rejected into a dead-letter queue. Its headers tell the task and its retries; the failure itself
//! lives in the result backend only.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "celery",
    writer: Writer::Carried,
    marks: &[Mark::Name("task")],
    // They are the task itself: nothing of a failure is there to be taken off.
    strip: &[],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let retries = view.header("retries").count()?;
    let id = view.header("id").id()?;
    Some(Reading {
        attempts: Some(retries.saturating_add(1)),
        event_type: view.header("task").name(),
        correlation_id: view.header("root_id").id().or(Some(id)),
        ..Reading::default()
    })
}

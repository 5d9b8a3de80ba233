//! Oban: a row of its jobs table. Every failure is kept, with its attempt and its time; the last one speaks.

use super::super::Reading;
use super::super::body::{inside, list};
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::attempt::{AttemptRecord, History};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "oban",
    writer: Writer::Client,
    marks: &[Mark::Field("max_attempts")],
    strip: &[],
    read,
};

/// Failures of one job that are read.
const ERRORS: usize = 100;

fn read(view: &View<'_>) -> Option<Reading> {
    let body = view.body()?;
    let worker = view.field("worker").name()?;
    let errors = list(body.field("errors")?, ERRORS)?;
    let mut history = History::default();
    let mut last = None;
    for error in errors.into_iter().filter_map(inside) {
        let message = view.raw(error.field("error")).message();
        let at = view.raw(error.field("at")).time();
        if let Some(at) = at {
            let number = view.raw(error.field("attempt")).count().unwrap_or(0);
            let message = message.clone();
            history.push(AttemptRecord {
                number,
                at,
                error_class: None,
                message,
                verdict: None,
                delay_ms: None,
            });
        }
        last = Some((message, at));
    }
    let (message, failed_at) = last.unwrap_or_default();
    Some(Reading {
        origin: view.queue(view.field("queue").name()),
        message_id: view.field("id").id(),
        consumer: Some(worker.clone()),
        event_type: Some(worker),
        consumer_id: body
            .field("attempted_by")
            .and_then(|by| list(by, 1))
            .and_then(|by| view.raw(by.first().copied()).id()),
        error_class: message.as_deref().and_then(class),
        error_message: message,
        reason: match view.field("state").text() {
            Some("discarded") => Some(Reason::MaxRetriesExceeded),
            Some("cancelled") => Some(Reason::Rejected),
            Some(_) | None => None,
        },
        attempts: view.field("attempt").count(),
        first_failed_at: history.records().first().map(|record| record.at),
        failed_at,
        history,
        published_at: view.field("inserted_at").time(),
        ..Reading::default()
    })
}

/// The module of `** (MyApp.Error) text`.
fn class(message: &str) -> Option<String> {
    let (class, _) = message.strip_prefix("** (")?.split_once(')')?;
    (class.len() <= crate::limits::NAME).then(|| class.to_owned())
}

//! Resque's failure list: the job as JSON with its exception; the job itself is the payload inside.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::message::{Message, Payload};

pub(in super::super) const CONVENTION: Convention =
    Convention { id: "resque", writer: Writer::Client, marks: &[Mark::Field("backtrace")], strip: &[], read };

fn read(view: &View<'_>) -> Option<Reading> {
    let worker = view.field("worker").id()?;
    let body = view.body()?;
    let job = body.field("payload")?;
    Some(Reading {
        origin: view.queue(view.field("queue").name()),
        unwrapped: Some(Message {
            payload: Payload::from(job.get().as_bytes().to_vec()),
            ..view.message.clone()
        }),
        consumer_id: Some(worker),
        event_type: view.field("payload.class").name(),
        error_class: view.field("exception").class(),
        error_message: view.field("error").message(),
        error_stack: view.stack(body.field("backtrace")),
        failed_at: view.field("failed_at").time(),
        ..Reading::default()
    })
}

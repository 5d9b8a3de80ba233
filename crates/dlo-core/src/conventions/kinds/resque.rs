//! Resque's failure list: the job as JSON with its exception; the job itself is the payload inside.

use super::super::Reading;
use super::super::body::list;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::message::{Message, Payload};

pub(in super::super) const CONVENTION: Convention =
    Convention { id: "resque", writer: Writer::Client, marks: &[Mark::Field("backtrace")], strip: &[], read };

/// Lines of a backtrace that are read.
const LINES: usize = 500;

fn read(view: &View<'_>) -> Option<Reading> {
    let worker = view.field("worker").id()?;
    let body = view.body()?;
    let job = body.field("payload")?;
    let lines = body.field("backtrace").and_then(|lines| list(lines, LINES)).unwrap_or_default();
    let stack: Vec<String> = lines.into_iter().filter_map(|line| view.raw(Some(line)).stack()).collect();
    let mut stack = stack.join("\n");
    crate::limits::cut(&mut stack, crate::limits::ERROR_STACK);
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
        error_stack: (!stack.is_empty()).then_some(stack),
        failed_at: view.field("failed_at").time(),
        ..Reading::default()
    })
}

//! BullMQ: the fields of a failed job. The stack trace is a JSON list inside a text; the last one is the last failure.

use super::super::Reading;
use super::super::body::plain;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::message::{Message, Payload};

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "bullmq",
    writer: Writer::Client,
    marks: &[Mark::Field("failedReason")],
    strip: &[],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let name = view.field("name").name()?;
    let data = view.body()?.field("data")?;
    let stacks = view.field("stacktrace");
    let stack = stacks
        .text()
        .and_then(|text| serde_json::from_str::<Vec<String>>(text).ok())
        .and_then(|mut all| all.pop());
    Some(Reading {
        unwrapped: Some(Message { payload: Payload::from(plain(data).into_owned()), ..view.message.clone() }),
        event_type: Some(name),
        error_class: stack.as_deref().and_then(class),
        error_message: view.field("failedReason").message(),
        error_stack: stack.map(|mut stack| {
            crate::limits::cut(&mut stack, crate::limits::ERROR_STACK);
            stack
        }),
        attempts: view.field("atm").or(view.field("attemptsMade")).count(),
        published_at: view.field("timestamp").time(),
        failed_at: view.field("finishedOn").time(),
        ..Reading::default()
    })
}

/// `TypeError` of `TypeError: x is undefined`.
fn class(stack: &str) -> Option<String> {
    let (class, _) = stack.lines().next()?.split_once(':')?;
    (!class.contains(' ') && class.len() <= crate::limits::NAME).then(|| class.to_owned())
}

//! AWS Lambda's asynchronous invocation: a destination record with the event inside, or the older dead-letter queue, which has
//! the event as it was and three attributes.

use super::super::Reading;
use super::super::body::plain;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::lambda_esm::function;
use crate::message::{Message, Payload};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "lambda.async",
    writer: Writer::Client,
    marks: &[Mark::Field("requestPayload"), Mark::Name("ErrorCode")],
    strip: &[Mark::Name("RequestID"), Mark::Name("ErrorCode"), Mark::Name("ErrorMessage")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    if view.has("RequestID") && view.has("ErrorCode") {
        return Some(Reading {
            consumer_id: view.header("RequestID").id(),
            error_code: view.header("ErrorCode").class(),
            error_message: view.header("ErrorMessage").message(),
            reason: Some(Reason::MaxRetriesExceeded),
            ..Reading::default()
        });
    }
    let condition = view.field("requestContext.condition").class()?;
    let event = view.body()?.field("requestPayload")?;
    Some(Reading {
        unwrapped: Some(Message {
            payload: Payload::from(plain(event).into_owned()),
            ..view.message.clone()
        }),
        consumer: function(view.field("requestContext.functionArn").text()),
        consumer_version: view.field("responseContext.executedVersion").name(),
        consumer_id: view.field("requestContext.requestId").id(),
        reason: match condition.as_str() {
            "RetriesExhausted" => Some(Reason::MaxRetriesExceeded),
            "EventAgeExceeded" => Some(Reason::Expired),
            _ => None,
        },
        error_code: Some(condition),
        error_class: view
            .field("responsePayload.errorType")
            .or(view.field("responseContext.functionError"))
            .class(),
        error_message: view.field("responsePayload.errorMessage").message(),
        error_stack: view.stack(view.body()?.at("responsePayload.stackTrace")),
        attempts: view.field("requestContext.approximateInvokeCount").count(),
        failed_at: view.field("timestamp").time(),
        ..Reading::default()
    })
}

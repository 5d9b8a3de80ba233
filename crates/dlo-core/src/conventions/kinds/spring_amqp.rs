//! Spring AMQP's `RepublishMessageRecoverer` and the Rabbit binder of Spring Cloud Stream. They name the exchange and the
//! routing key, not the queue, which are the same only on the default exchange. Often `x-death` lies under it.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::origin::{BrokerKind, Origin};

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "spring.amqp",
    writer: Writer::Client,
    marks: &[Mark::Name("x-original-exchange"), Mark::Name("x-original-routingKey")],
    strip: &[
        Mark::Name("x-original-exchange"),
        Mark::Name("x-original-routingKey"),
        Mark::Name("x-exception-message"),
        Mark::Name("x-exception-stacktrace"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let message = view.header("x-exception-message").message();
    let stack = view.header("x-exception-stacktrace").stack();
    if message.is_none() && stack.is_none() {
        return None;
    }
    let exchange = view.header("x-original-exchange");
    let exchange = exchange.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
    let routing_key = view.header("x-original-routingKey").name();
    Some(Reading {
        origin: routing_key.clone().map(|key| Origin::queue(BrokerKind::Rabbitmq, key)),
        exchange: exchange.filter(|exchange| exchange.len() <= crate::limits::NAME),
        routing_key,
        error_class: stack.as_deref().and_then(class_of),
        error_message: message,
        error_stack: stack,
        ..Reading::default()
    })
}

/// The class at the root of a Java trace: of the last `Caused by:`, or of its first line.
fn class_of(stack: &str) -> Option<String> {
    let line = match stack.rfind("Caused by: ") {
        Some(at) => &stack[at + "Caused by: ".len()..],
        None => stack,
    };
    let class = line.lines().next()?.split([':', ' ']).next()?;
    let is_class = class.contains('.')
        && class.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$'));
    (is_class && class.len() <= crate::limits::NAME).then(|| class.to_owned())
}

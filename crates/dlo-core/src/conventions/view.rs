//! A message as a detector sees it: its headers by name, its payload as JSON, opened once and only if somebody asks.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::value::RawValue;

use super::Found;
use super::body::{Body, list, plain};
use super::value::{Flags, Value};
use crate::message::{Header, Message};
use crate::origin::{BrokerKind, Origin};

/// Lines of a stack that are read.
const LINES: usize = 500;

pub(super) struct View<'a> {
    pub(super) message: &'a Message,
    pub(super) found: Found<'a>,
    /// Kafka and AMQP tell upper from lower case in header names; HTTP, NATS and proxies do not keep it.
    pub(super) exact: bool,
    pub(super) flags: Flags,
    body: OnceCell<Option<Body<'a>>>,
}

impl<'a> View<'a> {
    pub(super) fn new(message: &'a Message, found: Found<'a>) -> Self {
        let exact = matches!(found.broker, BrokerKind::Kafka | BrokerKind::Rabbitmq | BrokerKind::Amqp1);
        Self { message, found, exact, flags: Flags::default(), body: OnceCell::new() }
    }

    fn is(&self, header: &Header, name: &str) -> bool {
        if self.exact { header.name == name } else { header.name.eq_ignore_ascii_case(name) }
    }

    fn value<'v>(&'v self, header: Option<&'a Header>) -> Value<'v> {
        Value::new(header.and_then(|header| header.value.as_deref()).map(Cow::Borrowed), &self.flags)
    }

    /// The last header of that name, which is the current one.
    pub(super) fn header<'v>(&'v self, name: &str) -> Value<'v> {
        self.value(self.message.headers.0.iter().rev().find(|header| self.is(header, name)))
    }

    /// The last header whose name is `prefix` and `name`, without putting them together: this is asked of every letter.
    pub(super) fn prefixed<'v>(&'v self, prefix: &str, name: &str) -> Value<'v> {
        let same = |a: &str, b: &str| if self.exact { a == b } else { a.eq_ignore_ascii_case(b) };
        let is = |header: &&Header| {
            header.name.len() == prefix.len() + name.len()
                && header
                    .name
                    .split_at_checked(prefix.len())
                    .is_some_and(|(head, tail)| same(tail, name) && same(head, prefix))
        };
        self.value(self.message.headers.0.iter().rev().find(is))
    }

    /// The first header of that name, for the one writer that puts its own before the others.
    pub(super) fn first_header<'v>(&'v self, name: &str) -> Value<'v> {
        self.value(self.message.headers.0.iter().find(|header| self.is(header, name)))
    }

    /// The last header of the first of these names that has a value.
    pub(super) fn any_header<'v>(&'v self, names: &[&str]) -> Value<'v> {
        names
            .iter()
            .map(|name| self.header(name))
            .find(Value::is_some)
            .unwrap_or_else(|| Value::new(None, &self.flags))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.message.headers.0.iter().any(|header| self.is(header, name))
    }

    /// The payload, if it is a JSON object.
    pub(super) fn body(&self) -> Option<&Body<'a>> {
        self.body.get_or_init(|| Body::open(&self.message.payload.0)).as_ref()
    }

    /// A field of the payload by its dotted path.
    pub(super) fn field<'v>(&'v self, path: &str) -> Value<'v> {
        self.raw(self.body().and_then(|body| body.at(path)))
    }

    /// A value inside a JSON document.
    pub(super) fn raw<'v>(&'v self, value: Option<&'v RawValue>) -> Value<'v> {
        Value::new(value.map(plain), &self.flags)
    }

    /// A stack that is written as a list of its lines, or as one text.
    pub(super) fn stack(&self, value: Option<&RawValue>) -> Option<String> {
        let Some(lines) = value.and_then(|value| list(value, LINES)) else { return self.raw(value).stack() };
        let lines: Vec<String> = lines.into_iter().filter_map(|line| self.raw(Some(line)).stack()).collect();
        Value::new(Some(Cow::Owned(lines.join("\n").into_bytes())), &self.flags).stack()
    }

    /// A record of a Kafka log, as far as it is told: nothing without a topic.
    pub(super) fn kafka(
        &self,
        topic: Option<String>,
        partition: Option<i32>,
        offset: Option<i64>,
    ) -> Option<Origin> {
        let offset = offset.filter(|offset| *offset >= 0);
        Some(Origin { partition, offset, ..Origin::queue(BrokerKind::Kafka, topic?) })
    }

    /// A queue of the broker where the letter was found.
    pub(super) fn queue(&self, queue: Option<String>) -> Option<Origin> {
        queue.map(|queue| Origin::queue(self.found.broker, queue))
    }
}

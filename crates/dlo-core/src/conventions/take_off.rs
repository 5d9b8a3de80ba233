//! Takes off what a failing consumer added: headers, and fields of a Redis entry that has no payload field.
//!
//! Our runtime adds no such names, so on a letter that it parked they are the producer's. Of these only the ones that a
//! user named are taken off.

use std::borrow::Cow;

use super::added::Judged;
use super::body::Body;
use super::mapper::{Mapper, tells_of_a_failure as is_home_made};
use super::tells_of_a_failure;
use crate::envelope::{is_parked, is_reserved};
use crate::message::{Headers, Message, Payload, is_transport};
use crate::origin::BrokerKind;

/// Takes off the fields that a failing consumer added to an entry of Redis whose payload is made of its fields.
pub(crate) fn take_off_fields(message: &mut Message, mapper: &Mapper) {
    if let Some(fields) = without_added(message, mapper) {
        message.payload = Payload::from(fields);
    }
}

/// Whether there is anything that a failing consumer added under names that an application may use.
pub(crate) fn has_added(message: &Message, broker: BrokerKind, mapper: &Mapper) -> bool {
    let headers = &message.headers.0;
    let is_others = |at: &usize| headers.get(*at).is_some_and(|header| !tells_of_a_failure(&header.name));
    added_headers(&message.headers, broker, mapper).iter().any(is_others)
        || without_added(message, mapper).is_some()
}

/// Whether a replay takes a header off that home-made consumers write, such as `x-source-queue`. Where nobody told of an
/// error, it may be the producer's own.
pub(crate) fn has_doubtful(headers: &Headers, mapper: &Mapper) -> bool {
    headers.iter().any(|header| is_home_made(&header.name) && !mapper.keeps(&header.name))
}

/// The places of headers that were added. Facts of the transport and our own headers are no part of the message.
pub(crate) fn added_headers(headers: &Headers, broker: BrokerKind, mapper: &Mapper) -> Vec<usize> {
    let ordered = !matches!(broker, BrokerKind::Rabbitmq | BrokerKind::Amqp1);
    let written = headers
        .iter()
        .enumerate()
        .filter(|(_, header)| !is_transport(&header.name) && !is_reserved(&header.name));
    let (places, names): (Vec<usize>, Vec<&str>) =
        written.map(|(at, header)| (at, header.name.as_str())).unzip();
    let judged = Judged::of(names.into_iter(), &judging(headers, mapper), ordered);
    places.into_iter().enumerate().filter(|(at, _)| judged.is_added(*at)).map(|(_, place)| place).collect()
}

/// How the names are judged: on a letter that our runtime parked, only by the names that a user gave.
fn judging<'m>(headers: &Headers, mapper: &'m Mapper) -> Cow<'m, Mapper> {
    match mapper.builtin && is_parked(headers) {
        true => Cow::Owned(Mapper { builtin: false, ..mapper.clone() }),
        false => Cow::Borrowed(mapper),
    }
}

/// The payload that is made of the fields of a Redis entry, without those that were added. `None`: nothing was added, or
/// nothing else is there.
fn without_added(message: &Message, mapper: &Mapper) -> Option<String> {
    if message.headers.transport(BrokerKind::Redis, "layout") != Some("object") {
        return None;
    }
    let body = Body::open(&message.payload.0)?;
    let judged = Judged::of(body.fields().map(|(name, _)| name), &judging(&message.headers, mapper), true);
    if !judged.any() {
        return None;
    }
    let kept: Vec<String> = body
        .fields()
        .enumerate()
        .filter(|(at, _)| !judged.is_added(*at))
        .map(|(_, (name, value))| Some(format!("{}:{}", serde_json::to_string(name).ok()?, value.get())))
        .collect::<Option<_>>()?;
    (!kept.is_empty()).then(|| format!("{{{}}}", kept.join(",")))
}

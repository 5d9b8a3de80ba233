//! Google Pub/Sub: attributes on the copy that it forwards. Message id and publish time of the copy are its own; only the
//! original publish time is told. The body of a push is unwrapped.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::super::Reading;
use super::super::body::{inside, plain};
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::last_segment;
use crate::message::{Headers, Message, Payload};
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "pubsub",
    writer: Writer::Carried,
    marks: &[Mark::Name("CloudPubSubDeadLetterSourceSubscription"), Mark::Field("subscription")],
    strip: &[Mark::Prefix("CloudPubSubDeadLetterSource"), Mark::Name("googclient_deliveryattempt")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let Some(pushed) = pushed(view) else { return forwarded(view) };
    let inner = View::new(&pushed, view.found);
    let mut reading = forwarded(&inner).unwrap_or_default();
    reading.attempts = reading.attempts.or_else(|| view.field("deliveryAttempt").count());
    reading.consumer = reading.consumer.or_else(|| short(view.field("subscription").text()));
    reading.published_at = reading.published_at.or_else(|| view.field("message.publishTime").time());
    reading.unwrapped = Some(pushed);
    Some(reading)
}

fn forwarded(view: &View<'_>) -> Option<Reading> {
    let attribute = |name: &str| view.prefixed("CloudPubSubDeadLetterSource", name);
    let subscription = short(attribute("Subscription").text())?;
    Some(Reading {
        // The topic is not told; the subscription is where it was before it died.
        origin: Some(Origin::queue(BrokerKind::Pubsub, subscription.clone())),
        consumer: Some(subscription),
        error_message: attribute("DeliveryErrorMessage").message(),
        reason: Some(Reason::DeliveryLimit),
        attempts: attribute("DeliveryCount").count(),
        published_at: attribute("TopicPublishTime").time(),
        ..Reading::default()
    })
}

/// The name without `projects/…/subscriptions/`.
fn short(subscription: Option<&str>) -> Option<String> {
    subscription
        .map(last_segment)
        .filter(|name| !name.is_empty() && name.len() <= crate::limits::NAME)
        .map(str::to_owned)
}

/// The message inside the body of a push.
fn pushed(view: &View<'_>) -> Option<Message> {
    view.field("subscription").text().filter(|path| path.starts_with("projects/"))?;
    let message = inside(view.body()?.at("message")?)?;
    let data = message.field("data").map(|data| BASE64_STANDARD.decode(plain(data).as_ref()));
    let mut headers = Headers::new();
    if let Some(attributes) = message.field("attributes").and_then(inside) {
        for (name, value) in attributes.fields() {
            headers.push(name, Some(plain(value).into_owned().into()));
        }
    }
    let key = message.field("orderingKey").map(|key| Payload::from(plain(key).into_owned()));
    Some(Message { key, headers, payload: Payload::from(data.unwrap_or(Ok(Vec::new())).ok()?) })
}

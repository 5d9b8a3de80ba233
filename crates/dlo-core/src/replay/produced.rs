//! From a dead letter to the message that its producer sent: what is sent, how it gets there, and what differs.
//!
//! The envelope and the fields of the failing side are taken off. On RabbitMQ, what a replay leaves out on purpose is a
//! setting of the source: the exchange, the copies of `CC`, the expiration. Each difference can be counted before
//! anything is sent.

use serde::Serialize;

use super::{Settings, Target, Via};
use crate::broker::Route;
use crate::conventions::{self, Found, Mapper, Reading};
use crate::envelope::{self, Published};
use crate::message::{Headers, Message};
use crate::origin::BrokerKind;

const RABBITMQ: BrokerKind = BrokerKind::Rabbitmq;
const EXPIRATION: &str = "rabbitmq:expiration";
const DELIVERY_MODE: &str = "rabbitmq:delivery-mode";
const PERSISTENT: &str = "2";

/// Where and how letters of one source are read and sent.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub dead: Found<'a>,
    pub mapper: &'a Mapper,
    /// The queue that a letter is sent to: that of its source, unless the letter or the replay names another.
    pub queue: &'a str,
}

/// What a replay sends of a letter that is no envelope any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    pub message: Message,
    /// `None`: straight to the queue, without copies.
    pub route: Option<Box<Route>>,
}

/// The exchange of a letter is not known, and its source wants it to go through that exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its exchange is not known: neither `x-death` nor our headers tell it; send it with `replay.via = \"queue\"` of its source"
)]
pub struct UnknownExchange;

/// How a replay differs from what was produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    Straight,
    Copies,
    Expiration,
    Envelope,
    TakenOff,
}

impl Difference {
    /// The setting that changes it. What the source already asks for is left out because another queue is named.
    pub fn setting(self, settings: &Settings) -> &'static str {
        match self {
            Self::Straight if settings.via == Via::Exchange => "replay.target",
            Self::Copies if settings.keep_cc => "replay.target",
            Self::Expiration if settings.keep_expiration => "replay.target",
            Self::Straight => "replay.via",
            Self::Copies => "replay.keep_cc",
            Self::Expiration => "replay.keep_expiration",
            Self::Envelope => "mapper.builtin",
            Self::TakenOff => "mapper.keep",
        }
    }
}

/// How its producer published a message to RabbitMQ, as far as the dead letter tells.
#[derive(Debug, Default)]
struct Publishing {
    exchange: Option<String>,
    routing_key: String,
    copies: Vec<String>,
    expiration: Option<String>,
}

/// The message of a letter whose envelope is off, as its producer sent it. `captured` are the headers of the letter; they
/// are read only where the settings [`needs_captured`].
pub fn produced(
    captured: &Headers,
    mut message: Message,
    place: Place<'_>,
    settings: &Settings,
) -> Result<Produced, UnknownExchange> {
    let route = match place.dead.broker {
        RABBITMQ => publish_as(captured, &mut message, place, settings)?,
        _ => None,
    };
    envelope::strip_message(&mut message, place.dead.broker, place.mapper);
    Ok(Produced { message, route })
}

/// Whether a replay with these settings must know how a letter was published.
pub fn needs_captured(settings: &Settings) -> bool {
    settings.via == Via::Exchange || settings.keep_cc || settings.keep_expiration
}

/// Whether letters go back to where they came from. Only there is a message published as its producer did.
const fn goes_home(settings: &Settings) -> bool {
    matches!(settings.target, Target::Original | Target::FailedGroup)
}

/// Sets expiration and delivery mode of the producer, and says through which exchange the message goes. In another queue
/// than its own a message must not expire or be lost at a restart: there it is persistent.
fn publish_as(
    captured: &Headers,
    message: &mut Message,
    place: Place<'_>,
    settings: &Settings,
) -> Result<Option<Box<Route>>, UnknownExchange> {
    let headers = &mut message.headers;
    if !goes_home(settings) {
        headers.remove_where(|name| matches!(name, EXPIRATION | DELIVERY_MODE));
        headers.push_text(DELIVERY_MODE, PERSISTENT);
        return Ok(None);
    }
    match Published::delivery_mode_of(headers) {
        Some(0) => headers.remove_where(|name| name == DELIVERY_MODE),
        Some(mode) => {
            headers.remove_where(|name| name == DELIVERY_MODE);
            headers.push_text(DELIVERY_MODE, mode.to_string());
        }
        None => {}
    }
    if !needs_captured(settings) {
        headers.remove_where(|name| name == EXPIRATION);
        return Ok(None);
    }
    let told = publishing(captured, place);
    headers.remove_where(|name| name == EXPIRATION);
    if let Some(expiration) = told.expiration.filter(|_| settings.keep_expiration) {
        headers.push_text(EXPIRATION, expiration);
    }
    let copies = if settings.keep_cc { told.copies } else { Vec::new() };
    let exchange = match settings.via {
        Via::Exchange => told.exchange.ok_or(UnknownExchange)?,
        Via::Queue => String::new(),
    };
    // The default exchange takes the name of a queue for its key, and several queues may share one dead-letter queue.
    let routing_key = match exchange.is_empty() {
        true if copies.is_empty() => return Ok(None),
        true => place.queue.to_owned(),
        false => told.routing_key,
    };
    Ok(Some(Box::new(Route { exchange, routing_key, copies })))
}

/// What a dead letter tells of its first publishing.
fn publishing(captured: &Headers, place: Place<'_>) -> Publishing {
    let message = Message { headers: captured.clone(), ..Message::default() };
    let reading = conventions::read_with(&message, place.dead, place.mapper);
    let listed = captured.text("CC").and_then(|list| serde_json::from_str::<Vec<String>>(list).ok());
    Publishing {
        exchange: reading.exchange,
        routing_key: reading.routing_key.unwrap_or_default(),
        copies: listed.unwrap_or(reading.copies),
        expiration: captured.text(EXPIRATION).map(str::to_owned).or(reading.expiration),
    }
}

/// How a replay of this letter differs from what was produced, and the exchange that it does not go through.
pub fn differences(
    letter: &Message,
    place: Place<'_>,
    settings: &Settings,
) -> (Vec<Difference>, Option<String>) {
    let mut differences = Vec::new();
    let mut passed_by = None;
    if place.dead.broker == RABBITMQ {
        let told = publishing(&letter.headers, place);
        let goes_home = goes_home(settings);
        let (keep_cc, keep_expiration) =
            (settings.keep_cc && goes_home, settings.keep_expiration && goes_home);
        let straight = told.exchange.filter(|exchange| !exchange.is_empty());
        if let Some(exchange) = straight.filter(|_| settings.via == Via::Queue || !goes_home) {
            differences.push(Difference::Straight);
            passed_by = Some(exchange);
        }
        if !told.copies.is_empty() && !keep_cc {
            differences.push(Difference::Copies);
        }
        if told.expiration.is_some() && !keep_expiration {
            differences.push(Difference::Expiration);
        }
    }
    let ours = envelope::is_parked(&letter.headers);
    let reading = (!ours).then(|| conventions::read_with(letter, place.dead, place.mapper));
    let untold = reading.as_ref().is_some_and(|reading| !tells_an_error(reading));
    let inside = reading.and_then(|reading| reading.unwrapped);
    if inside.is_some() {
        differences.push(Difference::Envelope);
    }
    let sent = inside.as_ref().unwrap_or(letter);
    if conventions::has_added(sent, place.dead.broker, place.mapper)
        || untold && conventions::has_doubtful(&sent.headers, place.mapper)
    {
        differences.push(Difference::TakenOff);
    }
    (differences, passed_by)
}

fn tells_an_error(reading: &Reading) -> bool {
    reading.error_class.is_some() || reading.error_message.is_some() || reading.error_stack.is_some()
}

/// What is inside, where somebody wrapped an envelope around the message. Our own story is in headers, never around it.
pub fn unwrapped(letter: &Message, place: Place<'_>) -> Option<Message> {
    if envelope::is_parked(&letter.headers) {
        return None;
    }
    conventions::read_with(letter, place.dead, place.mapper).unwrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_may_be_the_producers_own_is_listed_where_nobody_told_of_an_error() {
        let listed = |names: &[&str], mapper: &Mapper| {
            let mut letter = Message::default();
            names.iter().for_each(|name| letter.headers.push_text(*name, "orders"));
            let dead = Found { broker: RABBITMQ, queue: "orders.dlq" };
            differences(&letter, Place { dead, mapper, queue: "orders" }, &Settings::default()).0
        };
        let usual = Mapper::default();
        for name in ["x-source-queue", "x-consumer-group", "x-attempts"] {
            assert_eq!(listed(&["x-first-death-queue", name], &usual), [Difference::TakenOff], "{name}");
            assert_eq!(listed(&["x-error-message", name], &usual), [], "{name}");
            let keep = crate::conventions::OneOrMany(vec![name.to_owned()]);
            assert_eq!(listed(&["x-first-death-queue", name], &Mapper { keep, ..usual.clone() }), []);
        }
        assert_eq!(listed(&["x-first-death-queue", "x-tenant"], &usual), []);
    }
}

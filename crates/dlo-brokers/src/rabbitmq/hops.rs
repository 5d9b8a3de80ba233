//! Delays by queues: a message waits in `<queue>.retry.<delay>` until its time to live is over, and the server moves it
//! back. The server calls that move a death; here it is undone, so that a hop leaves no trace in a message.
//!
//! The copy that waits carries what the hop would lose or spoil, under names that only this adapter reads: its deaths so
//! far, its route, its count of deliveries. The deaths must not travel as `x-death`: the server drops a message that
//! died of time in the queue it returns to, taking it for a cycle. Headers that make the server send further copies
//! (`CC`, `BCC`) are taken off, or every retry would send them again.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};

use super::table::long_string;

/// One delay for which there is a queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tier {
    pub(super) name: &'static str,
    pub(super) delay: Duration,
}

pub(super) const TIERS: [Tier; 5] = [
    Tier { name: "1s", delay: Duration::from_secs(1) },
    Tier { name: "5s", delay: Duration::from_secs(5) },
    Tier { name: "30s", delay: Duration::from_secs(30) },
    Tier { name: "2m", delay: Duration::from_secs(120) },
    Tier { name: "10m", delay: LONGEST },
];
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// On the copy that waits, and nowhere else.
const DEATHS: &str = "dlo-retry-deaths";
const DELIVERIES: &str = "dlo-retry-deliveries";
const EXCHANGE: &str = "dlo-retry-exchange";
const ROUTING_KEY: &str = "dlo-retry-routing-key";

const X_DEATH: &str = "x-death";
/// The server's count of a quorum queue. It changes from delivery to delivery, so it is no header of the message.
pub(super) const X_DELIVERY_COUNT: &str = "x-delivery-count";
/// The server's summaries of the oldest and of the newest death.
const SUMMARIES: [[&str; 3]; 2] = [
    ["x-first-death-queue", "x-first-death-reason", "x-first-death-exchange"],
    ["x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"],
];
const PARTS: [&str; 3] = ["queue", "reason", "exchange"];

impl Tier {
    /// The shortest delay that is not shorter than asked; the longest where none is.
    pub(super) fn for_delay(delay: Duration) -> &'static Self {
        TIERS.iter().find(|tier| tier.delay >= delay).unwrap_or(&TIERS[TIERS.len() - 1])
    }

    pub(super) fn queue(&self, queue: &str) -> String {
        format!("{queue}.retry.{}", self.name)
    }

    /// A durable quorum queue that gives everything back to `queue`, and keeps it until that has it.
    pub(super) fn arguments(&self, queue: &str) -> FieldTable {
        let mut arguments = FieldTable::default();
        let ttl = i64::try_from(self.delay.as_millis()).unwrap_or(i64::MAX);
        for (name, value) in [
            ("x-queue-type", long_string(b"quorum")),
            ("x-message-ttl", AMQPValue::LongLongInt(ttl)),
            ("x-dead-letter-exchange", long_string(b"")),
            ("x-dead-letter-routing-key", long_string(queue.as_bytes())),
            ("x-dead-letter-strategy", long_string(b"at-least-once")),
            ("x-overflow", long_string(b"reject-publish")),
        ] {
            arguments.insert(ShortString::from(name), value);
        }
        arguments
    }
}

/// What a hop had put aside, for the one delivery it belongs to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Aside {
    /// Deliveries before the hop.
    pub(super) deliveries: u32,
    /// Exchange and routing key of the first publish.
    pub(super) route: Option<(String, String)>,
}

/// Undoes a hop: the headers as they were before it. `None`: there was no hop.
pub(super) fn undo(headers: &FieldTable) -> Option<(FieldTable, Aside)> {
    let hopped = entries(headers, X_DEATH).iter().any(is_hop);
    if !hopped && !headers.contains_key(DELIVERIES) {
        return None;
    }
    let text =
        |name: &str| headers.inner().get(name).and_then(AMQPValue::as_long_string).map(ToString::to_string);
    let aside = Aside {
        deliveries: headers
            .inner()
            .get(DELIVERIES)
            .and_then(whole)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(0),
        route: text(EXCHANGE).zip(text(ROUTING_KEY)),
    };
    let mut deaths: Vec<AMQPValue> =
        entries(headers, X_DEATH).iter().filter(|entry| !is_hop(entry)).cloned().collect();
    deaths.extend(entries(headers, DEATHS).iter().cloned());
    let mut table = headers.inner().clone();
    table.retain(|name, _| !is_aside(name.as_str()) && !is_death(name.as_str()));
    let summaries = [deaths.last(), deaths.first()];
    for (names, summary) in SUMMARIES.iter().zip(summaries) {
        // The server writes the last one only since 3.13: not more than it wrote.
        let wrote = headers.contains_key(names[0]);
        for (name, part) in names.iter().zip(PARTS).filter(|_| wrote) {
            if let Some(value) = summary.and_then(|death| field(death, part)) {
                table.insert(ShortString::from(*name), value.clone());
            }
        }
    }
    if !deaths.is_empty() {
        table.insert(ShortString::from(X_DEATH), AMQPValue::FieldArray(FieldArray::from(deaths)));
    }
    Some((FieldTable::from(table), aside))
}

/// The copy of a delivery that is to come again later. `counted`: how often it was delivered, where the server counts.
pub(super) fn again(
    came: &BasicProperties,
    counted: Option<u32>,
    exchange: &str,
    routing_key: &str,
) -> BasicProperties {
    let undone = came.headers().as_ref().and_then(undo);
    let (before, aside) = match undone {
        Some((table, aside)) => (came.clone().with_headers(table), aside),
        None => (came.clone(), Aside::default()),
    };
    let deliveries = counted.unwrap_or(aside.deliveries.saturating_add(1));
    let route = aside.route.as_ref().map_or((exchange, routing_key), |(e, key)| (e.as_str(), key.as_str()));
    waiting(&before, deliveries, Some(route))
}

/// The properties of a copy that waits. `deliveries`: how often the message was delivered so far.
pub(super) fn waiting(
    properties: &BasicProperties,
    deliveries: u32,
    route: Option<(&str, &str)>,
) -> BasicProperties {
    let mut table = properties.headers().as_ref().map(|headers| headers.inner().clone()).unwrap_or_default();
    let deaths = table.get(X_DEATH).filter(|deaths| deaths.as_array().is_some()).cloned();
    table.retain(|name, _| {
        !is_aside(name.as_str()) && !is_death(name.as_str()) && !is_of_the_server(name.as_str())
    });
    if let Some(deaths) = deaths {
        table.insert(ShortString::from(DEATHS), deaths);
    }
    table.insert(ShortString::from(DELIVERIES), AMQPValue::LongLongInt(i64::from(deliveries)));
    if let Some((exchange, routing_key)) = route {
        table.insert(ShortString::from(EXCHANGE), long_string(exchange.as_bytes()));
        table.insert(ShortString::from(ROUTING_KEY), long_string(routing_key.as_bytes()));
    }
    without_expiration(properties).with_headers(FieldTable::from(table))
}

/// Its own expiration would end the wait early. The server takes it off a dead letter for the same reason. The name of
/// its user only that user may send.
fn without_expiration(properties: &BasicProperties) -> BasicProperties {
    let mut kept = BasicProperties::default();
    macro_rules! keep {
        ($($get:ident => $with:ident),+ $(,)?) => {
            $( if let Some(value) = properties.$get() { kept = kept.$with(value.clone()); } )+
        };
    }
    keep!(
        content_type => with_content_type,
        content_encoding => with_content_encoding,
        priority => with_priority,
        correlation_id => with_correlation_id,
        reply_to => with_reply_to,
        message_id => with_message_id,
        timestamp => with_timestamp,
        kind => with_type,
        app_id => with_app_id,
        cluster_id => with_cluster_id,
    );
    kept.with_delivery_mode(2)
}

/// Headers that are the server's business of the moment: never sent.
pub(super) fn is_of_the_server(name: &str) -> bool {
    matches!(name, X_DELIVERY_COUNT | "CC" | "BCC")
}

/// Headers of the copy that waits.
pub(super) fn is_aside(name: &str) -> bool {
    matches!(name, DEATHS | DELIVERIES | EXCHANGE | ROUTING_KEY)
}

fn is_death(name: &str) -> bool {
    name == X_DEATH || SUMMARIES.iter().any(|names| names.contains(&name))
}

fn entries<'a>(headers: &'a FieldTable, name: &str) -> &'a [AMQPValue] {
    headers.inner().get(name).and_then(AMQPValue::as_array).map_or(&[], FieldArray::as_slice)
}

fn field<'a>(death: &'a AMQPValue, name: &str) -> Option<&'a AMQPValue> {
    death.as_field_table().and_then(|table| table.inner().get(name))
}

/// Whether a death was only the end of a wait in one of our queues.
fn is_hop(death: &AMQPValue) -> bool {
    let text = |name| field(death, name).and_then(AMQPValue::as_long_string).map(ToString::to_string);
    let Some(queue) = text("queue") else { return false };
    let ours =
        queue.rsplit_once(".retry.").is_some_and(|(_, name)| TIERS.iter().any(|tier| tier.name == name));
    ours && text("reason").as_deref() == Some("expired")
}

/// A whole number, whatever its width.
pub(super) fn whole(value: &AMQPValue) -> Option<i64> {
    match value {
        AMQPValue::ShortShortInt(v) => Some(i64::from(*v)),
        AMQPValue::ShortShortUInt(v) => Some(i64::from(*v)),
        AMQPValue::ShortInt(v) => Some(i64::from(*v)),
        AMQPValue::ShortUInt(v) => Some(i64::from(*v)),
        AMQPValue::LongInt(v) => Some(i64::from(*v)),
        AMQPValue::LongUInt(v) => Some(i64::from(*v)),
        AMQPValue::LongLongInt(v) => Some(*v),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(queue: &str, reason: &str) -> AMQPValue {
        let mut table = FieldTable::default();
        table.insert("queue".into(), long_string(queue.as_bytes()));
        table.insert("reason".into(), long_string(reason.as_bytes()));
        table.insert("exchange".into(), long_string(b""));
        AMQPValue::FieldTable(table)
    }

    fn table(entries: Vec<(&str, AMQPValue)>) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in entries {
            table.insert(name.into(), value);
        }
        table
    }

    #[test]
    fn delays_are_rounded_up_to_a_queue_that_is_there() {
        let name = |millis| Tier::for_delay(Duration::from_millis(millis)).name;
        assert_eq!(
            [name(1), name(1_000), name(1_001), name(120_000), name(9_999_999)],
            ["1s", "1s", "5s", "2m", "10m"]
        );
    }

    #[test]
    fn a_hop_leaves_no_trace() {
        let old = vec![death("orders", "rejected"), death("parking", "maxlen")];
        let before = table(vec![
            ("tenant", long_string(b"acme")),
            ("x-death", AMQPValue::FieldArray(old.into())),
            ("x-first-death-queue", long_string(b"parking")),
            ("x-first-death-reason", long_string(b"maxlen")),
            ("x-first-death-exchange", long_string(b"")),
        ]);
        let properties = BasicProperties::default().with_headers(before.clone()).with_expiration("50".into());
        let sent = again(&properties, Some(3), "events", "order.created");
        assert_eq!(sent.expiration(), &None);
        let sent = sent.headers().clone().unwrap();
        assert!(!sent.contains_key("x-death"), "the server would take it for a cycle");
        // What the server adds when the time is over.
        let mut came = sent;
        came.insert(
            "x-death".into(),
            AMQPValue::FieldArray(vec![death("orders.retry.5s", "expired")].into()),
        );
        for (name, value) in [("queue", "orders.retry.5s"), ("reason", "expired"), ("exchange", "")] {
            came.insert(format!("x-first-death-{name}").as_str().into(), long_string(value.as_bytes()));
        }
        let (after, aside) = undo(&came).unwrap();
        assert_eq!(after, before);
        let route = Some(("events".to_owned(), "order.created".to_owned()));
        assert_eq!(aside, Aside { deliveries: 3, route });
        // A second hop keeps what the first one kept.
        let second = again(&BasicProperties::default().with_headers(came), None, "", "orders");
        let (after, aside) = undo(second.headers().as_ref().unwrap()).unwrap();
        assert_eq!(aside.route.map(|(_, key)| key).as_deref(), Some("order.created"));
        assert_eq!((aside.deliveries, entries(&after, "x-death").len()), (4, 2));
    }

    #[test]
    fn a_death_after_a_hop_is_the_only_one() {
        let came = table(vec![
            ("dlo-retry-deliveries", AMQPValue::LongLongInt(1)),
            (
                "x-death",
                AMQPValue::FieldArray(
                    vec![death("orders", "rejected"), death("orders.retry.1s", "expired")].into(),
                ),
            ),
            ("x-first-death-queue", long_string(b"orders.retry.1s")),
            ("x-first-death-reason", long_string(b"expired")),
            ("x-first-death-exchange", long_string(b"")),
        ]);
        let (after, _) = undo(&came).unwrap();
        assert_eq!(entries(&after, "x-death"), [death("orders", "rejected")]);
        assert_eq!(after.inner().get("x-first-death-queue"), Some(&long_string(b"orders")));
        assert_eq!(after.inner().get("x-first-death-reason"), Some(&long_string(b"rejected")));
    }

    #[test]
    fn other_peoples_deaths_are_left_alone() {
        let dead =
            table(vec![("x-death", AMQPValue::FieldArray(vec![death("q.retry.7s", "expired")].into()))]);
        assert_eq!(undo(&dead), None);
    }
}

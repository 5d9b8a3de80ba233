//! The message that everybody handles: a kilobyte of JSON and two headers. A poisoned one is no JSON: its first byte says
//! so, and a handler that does nothing looks at no more than that.

use std::sync::Arc;

use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::message::{Message, Payload};

const TYPES: [&str; 4] = ["order.placed", "order.paid", "order.shipped", "order.returned"];
/// Bytes of a body.
const SIZE: usize = 1_024;
/// Messages of one publish.
const AT_ONCE: u64 = 1_000;

/// Every which message is poisoned; `None`: none.
pub(crate) fn every(percent: u64) -> Option<u64> {
    (percent > 0).then(|| 100 / percent)
}

/// Messages at the end of a queue with poison in it, for ours and the bare loop: more than are received and not settled at
/// once. Behind the last poisoned one the brake waits for a second for others to end, which a queue that goes on does not show.
pub(crate) fn healthy(percent: u64) -> u64 {
    if percent > 0 { 3_000 } else { 0 }
}

/// How many of `count` are.
pub(crate) fn poisoned(count: u64, percent: u64) -> u64 {
    every(percent).map_or(0, |every| count.div_ceil(every))
}

/// What a handler finds.
pub(crate) fn is_poison(body: &[u8]) -> bool {
    body.first() != Some(&b'{')
}

pub(crate) fn body(n: u64, poison: bool) -> String {
    let first = if poison { '!' } else { '{' };
    let mut body = format!(
        r#"{first}"id":{n},"order":"ORD-{n:09}","customer":{{"id":{},"tier":"gold"}},"note":""#,
        n % 9_973
    );
    while body.len() < SIZE - 2 {
        body.push(char::from(b'a' + ((n as usize + body.len()) % 26) as u8));
    }
    body.push_str("\"}");
    body
}

fn message(n: u64, percent: u64) -> Message {
    let poison = every(percent).is_some_and(|every| n.is_multiple_of(every));
    let mut message = Message {
        key: Some(Payload::from(format!("C-{}", n % 9_973))),
        payload: Payload::from(body(n, poison)),
        ..Message::default()
    };
    message.headers.push_text("event_type", TYPES[n as usize % TYPES.len()]);
    message.headers.push_text("x-tenant", "acme");
    message
}

/// The broker that a `[brokers.x]` section describes.
pub(crate) async fn broker(section: &str) -> Arc<dyn Broker> {
    let config: dlo_brokers::BrokerConfig = toml::from_str(section).expect("settings of a broker");
    dlo_brokers::connect(&config, Arc::new(dlo_runtime::SystemClock)).await.expect("a broker")
}

/// Publishes `count` messages and demands that each is confirmed.
pub(crate) async fn fill(broker: &Arc<dyn Broker>, queue: &str, count: u64, percent: u64) {
    let publisher = broker.publisher();
    let mut next = 0;
    while next < count {
        let until = (next + AT_ONCE).min(count);
        let batch = (next..until)
            .map(|n| Outgoing { to: Destination::queue(queue), message: message(n, percent), delay: None })
            .collect();
        for result in publisher.publish(batch).await {
            result.expect("a message is confirmed");
        }
        next = until;
    }
}

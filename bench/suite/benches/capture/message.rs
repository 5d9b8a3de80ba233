//! The dead letter that everybody drains: a kilobyte of JSON and four headers, as a hand-written consumer parks it.

use std::sync::Arc;

use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::message::{Message, Payload};

const TYPES: [&str; 8] = [
    "order.placed",
    "order.paid",
    "user.joined",
    "invoice.sent",
    "mail.bounced",
    "stock.low",
    "cart.left",
    "refund.made",
];
const CLASSES: [&str; 5] = ["TimeoutError", "ValidationError", "HttpError", "DecodeError", "KeyError"];
/// Messages of one publish.
const AT_ONCE: u64 = 1_000;

fn message(n: u64) -> Message {
    let at = n as usize;
    let class = CLASSES[at % CLASSES.len()];
    let mut body = format!(
        r#"{{"id":{n},"type":"{}","order":"ORD-{n:09}","customer":{{"id":{},"tier":"gold"}},"note":""#,
        TYPES[at % TYPES.len()],
        n % 9_973
    );
    while body.len() < 1_022 {
        body.push(char::from(b'a' + ((at + body.len()) % 26) as u8));
    }
    body.push_str("\"}");
    let mut message = Message {
        key: Some(Payload::from(format!("C-{}", n % 9_973))),
        payload: Payload::from(body),
        ..Message::default()
    };
    message.headers.push_text("event_type", TYPES[at % TYPES.len()]);
    message.headers.push_text("error_class", class);
    message.headers.push_text("error_message", format!("{class} while handling order ORD-{n:09}"));
    message.headers.push_text("attempts", "3");
    message
}

/// Publishes `count` dead letters and demands that each is confirmed.
pub(crate) async fn fill(broker: &Arc<dyn Broker>, queue: &str, count: u64) {
    let publisher = broker.publisher();
    let mut next = 0;
    while next < count {
        let until = (next + AT_ONCE).min(count);
        let batch = (next..until)
            .map(|n| Outgoing { to: Destination::queue(queue), message: message(n), delay: None })
            .collect();
        for result in publisher.publish(batch).await {
            result.expect("a dead letter is confirmed");
        }
        next = until;
    }
}

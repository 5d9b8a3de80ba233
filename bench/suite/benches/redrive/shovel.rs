//! RabbitMQ's own shovel, from the dead-letter queue to its queue, acknowledging on confirm.
//!
//! It runs inside the server, so its end is seen from outside. It reaches the queues directly or over TCP, as the address
//! that it is given says.

use crate::done::{Clock, Done, LOOK};
use crate::place::{DEAD, Place, QUEUE};
use crate::usage::{Usage, servers};

/// Messages in its hands at once, as it has by default.
const PREFETCH: u64 = 1_000;
/// An address without a host: the shovel calls the server that it runs in, and nothing goes over a wire. This is what the
/// form for a shovel stands at, and what the button that moves the messages of a queue makes, in RabbitMQ's own pages.
pub(crate) const DIRECT: &str = "amqp://";

/// Moves `count` messages. `management` is the address of the server's HTTP API, `url` that by which the shovel reaches the
/// server.
pub(crate) async fn run(place: &Place, management: &str, url: &str, count: u64) -> Done {
    let before = servers(None);
    let value = serde_json::json!({ "value": {
        "src-protocol": "amqp091", "src-uri": url, "src-queue": DEAD, "src-prefetch-count": PREFETCH,
        "src-delete-after": count, "dest-protocol": "amqp091", "dest-uri": url, "dest-queue": QUEUE,
        "ack-mode": "on-confirm",
    }});
    // Who asks stands in a header: not every client reads it from the address.
    let address = management.replace("guest:guest@", "");
    let parameter = format!("{address}/api/parameters/shovel/%2f/redrive");
    let authorization = "Basic Z3Vlc3Q6Z3Vlc3Q=";
    let mut clock = Clock::asked(count);
    tokio::task::block_in_place(|| {
        ureq::put(&parameter).header("authorization", authorization).send_json(&value).expect("a shovel");
    });
    let spent = loop {
        if let Some(spent) = clock.look(place.depth(QUEUE).await) {
            break spent;
        }
        tokio::time::sleep(LOOK).await;
    };
    let server = servers(None).saturating_sub(before);
    // It ends by itself; what is not there any more need not be taken away.
    let _ = tokio::task::block_in_place(|| {
        ureq::delete(&parameter).header("authorization", authorization).call()
    });
    Done { moved: count, spent, client: Usage::default(), server }
}

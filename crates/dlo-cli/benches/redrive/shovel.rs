//! RabbitMQ's own shovel, from the dead-letter queue to its queue, acknowledging on confirm.
//!
//! It runs inside the server, so its end is seen from outside: the clock runs from the first look that finds something
//! moved until the look that finds all of it.

use std::time::{Duration, Instant};

use crate::done::Done;
use crate::place::{DEAD, Place, QUEUE};
use crate::usage::{Usage, servers};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(300);
/// Messages in its hands at once.
const PREFETCH: u64 = 1_000;

/// Moves `count` messages. `management` is the address of the server's HTTP API, `url` that of the server.
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
    tokio::task::block_in_place(|| {
        ureq::put(&parameter).header("authorization", authorization).send_json(&value).expect("a shovel");
    });
    let (asked, mut first) = (Instant::now(), None);
    let spent = loop {
        let moved = place.depth(QUEUE).await;
        let (began, at_first) = *first.get_or_insert((Instant::now(), moved));
        if moved == 0 {
            first = None;
        } else if moved >= count {
            // What was there at the first look is not part of the rate.
            break began.elapsed().mul_f64(count as f64 / (count - at_first).max(1) as f64);
        }
        assert!(asked.elapsed() < PATIENCE, "the shovel moved {moved} of {count}");
        tokio::time::sleep(LOOK).await;
    };
    let server = servers(None).saturating_sub(before);
    // It ends by itself; what is not there any more need not be taken away.
    let _ = tokio::task::block_in_place(|| {
        ureq::delete(&parameter).header("authorization", authorization).call()
    });
    Done { moved: count, spent, client: Usage::default(), server }
}

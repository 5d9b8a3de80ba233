//! Dollars that should have been cents: repaired on the way, with the original kept.

use std::sync::Arc;

use dlo_core::failure::Failure;
use dlo_core::message::{Message, Payload};

use super::shop::{Shop, number};
use crate::stories::redis;

const CENTS: &str = ".amount = (.amount * 100 | round)";

/// An order whose producer wrote dollars.
fn dollars(n: u64) -> Message {
    let body = format!("{{\"number\":{n},\"amount\":{}.25,\"big\":12345678901234567890}}", 10 + n);
    let mut message = Message {
        key: Some(Payload::from(format!("C-{n}"))),
        payload: Payload::from(body),
        ..Message::default()
    };
    message.headers.push_text("event-type", "order.placed");
    message.headers.push_text("content-type", "application/json");
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn dollars_are_repaired_to_cents_on_their_way_and_the_originals_stay() {
    let whole = Arc::new(|order: &serde_json::Value| {
        (!order["amount"].is_u64()).then(|| Failure::new("ValueError", "amount is not a number of cents"))
    });
    let source = "replay = { pace = { rate = 200 }, window = \"30s\", ramp = 1 }";
    let shop = Shop::open(redis().await, "dollars", source, whole).await;
    shop.line.publish((0..40).map(dollars)).await;
    shop.until_open(40).await;

    let preview = shop.dlo(&["repair", "preview", "class:ValueError", "--jq", CENTS]).ok();
    let lines = |sign: &str| preview.lines().filter(|line| line.trim_start().starts_with(sign)).count();
    assert_eq!((lines("-  \"amount\": "), lines("+  \"amount\": ")), (5, 5), "{preview}");
    let plan =
        shop.plan(&["class:ValueError", "--jq", CENTS, "--reason", "dollars were sent", "--cause", "data"]);
    shop.start(&plan);
    let done = shop.until_state(&plan, "completed").await;
    assert_eq!((number(&done, "confirmed"), number(&done, "returned")), (40, 0), "{done}");
    let letters = shop.dlo(&["letters", "list", "status:recovered", "--json"]).json();
    let first = letters["letters"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    let original = shop.dlo(&["letters", "payload", &first]).ok();
    assert!(original.contains(".25") && original.contains("12345678901234567890"), "{original}");
    shop.verify();
    shop.close().await;
}

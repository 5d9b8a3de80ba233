//! A queue that takes nothing: a handful of letters is refused, the rest is left as it was, and the reason says so.

use std::sync::Arc;

use super::shop::{Shop, id, key_error, number};
use crate::stories::{order, rabbitmq};

const ORDERS: u64 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_refuses_everything_stops_the_replay_after_a_few() {
    let broken = Arc::new(|_: &serde_json::Value| Some(key_error("no tax table")));
    let source = "replay = { pace = \"max\", window = \"1s\", ramp = 1, canary = 0 }";
    let shop = Shop::open(rabbitmq().await, "refused", source, broken).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(ORDERS).await;
    shop.deploy(|_| None);

    let nowhere = format!("nowhere-{}", std::process::id());
    let plan = shop.plan(&["class:KeyError", "--to", &nowhere]);
    assert_eq!(number(&plan, "total"), ORDERS);
    shop.start(&plan);
    let stopped = shop.until_state(&plan, "stopped").await;
    let why = stopped["stop_reason"].as_str().unwrap();
    assert!(why.starts_with("10 letters were refused one after the other"), "{why}");
    assert!(why.contains(&nowhere), "{why}");
    let refused = number(&stopped, "refused");
    assert_eq!((refused, number(&stopped, "sent")), (10, 0), "{stopped}");
    assert_eq!(number(&stopped, "waiting"), ORDERS - refused, "{stopped}");

    // Given back, all of them are there for the plan that names the right queue.
    shop.dlo(&["replay", "cancel", id(&plan), "--yes"]).ok();
    shop.until_open(ORDERS).await;
    let right = shop.plan(&["class:KeyError"]);
    shop.start(&right);
    let done = shop.until_state(&right, "completed").await;
    assert_eq!(number(&done, "sent"), ORDERS, "{done}");
    shop.until("every order is priced", || shop.priced().len() as u64 == ORDERS).await;
    shop.verify();
    shop.close().await;
}

//! The consumer's downstream goes away in the middle of a replay: the replay waits, says for what, and goes on when it is back.

use std::sync::Arc;

use dlo_core::failure::Failure;

use super::shop::{Shop, id, key_error, number};
use crate::stories::{order, redis};

const ORDERS: u64 = 400;

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_waits_while_the_breaker_of_its_consumer_is_open() {
    let broken = Arc::new(|_: &serde_json::Value| Some(key_error("no tax table")));
    let source = "replay = { pace = { rate = 50 }, window = \"1s\", ramp = 1, canary = 0 }";
    let shop = Shop::open(redis().await, "breaker", source, broken).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(ORDERS).await;
    shop.deploy(|_| {
        let down = Failure::new("ServiceUnavailable", "503");
        Some(Failure { http_status: Some(503), dependency: Some("tax".to_owned()), ..down })
    });

    let plan = shop.plan(&["class:KeyError", "--reason", "the table is there"]);
    shop.start(&plan);
    let waits = || shop.replay(&plan)["waits"].as_str().is_some_and(|why| why.contains("breaker for tax"));
    shop.until("it waits for the consumer", waits).await;
    let waiting = shop.replay(&plan);
    assert_eq!(waiting["state"], "running", "nobody has to do anything: {waiting}");
    assert!(number(&waiting, "sent") < ORDERS / 2, "{waiting}");
    let shown = shop.dlo(&["replay", "show", id(&plan)]).ok();
    assert!(shown.contains("waits: the consumer is paused (its breaker for tax is open)"), "{shown}");

    shop.deploy(|_| None);
    let done = shop.until_state(&plan, "completed").await;
    assert_eq!((number(&done, "sent"), number(&done, "returned")), (ORDERS, 0), "{done}");
    shop.until("every order is priced", || shop.priced().len() as u64 == ORDERS).await;
    assert!(shop.priced().values().all(|times| *times == 1));
    shop.verify();
    shop.close().await;
}

//! A poison pill in a bulk replay: the rest goes through, and the pill comes back a few times and no more.

use std::sync::Arc;

use super::shop::{Shop, key_error, number};
use crate::stories::{order, redis};

const ORDERS: u64 = 120;
const PILL: u64 = 77;

#[tokio::test(flavor = "multi_thread")]
async fn a_pill_in_a_bulk_replay_does_not_loop() {
    let broken = Arc::new(|_: &serde_json::Value| Some(key_error("no tax table")));
    let guards = "guards = { recurrence = \"0s\", refill = false, failures = 0.5 }";
    let source = format!("replay = {{ pace = {{ rate = 500 }}, window = \"30s\", ramp = 1, {guards} }}");
    let shop = Shop::open(redis().await, "bulk-pill", &source, broken).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(ORDERS).await;
    shop.deploy(|order| (order["number"] == PILL).then(|| key_error("no tax table")));

    let plan = shop.plan(&["class:KeyError"]);
    shop.start(&plan);
    let done = shop.until_state(&plan, "completed").await;
    assert_eq!((number(&done, "sent"), number(&done, "returned")), (ORDERS, 1), "{done}");
    let watched = shop.dlo(&["replay", "watch", super::shop::id(&plan)]);
    assert!(watched.code == 6 && watched.err.contains("1 letter died again"), "{watched:?}");
    assert!(watched.err.contains("dlo groups show "), "{watched:?}");
    // Somebody tries again and again: after three replays it is exhausted.
    for _ in 0..2 {
        let again = shop.plan(&["class:KeyError"]);
        assert_eq!(number(&again, "total"), 1);
        shop.start(&again);
        shop.until("the pill came back", || number(&shop.replay(&again), "returned") == 1).await;
        shop.dlo(&["replay", "cancel", super::shop::id(&again), "--yes"]);
    }
    let last = shop.plan(&["class:KeyError"]);
    assert_eq!(number(&last, "total"), 0);
    assert!(last["excluded"].as_array().unwrap().iter().any(|one| one["why"] == "exhausted"), "{last}");
    let exhausted = shop.dlo(&["letters", "list", "status:open", "is:exhausted", "--json"]).json();
    assert_eq!(exhausted["letters"].as_array().unwrap().len(), 1, "{exhausted}");
    assert_eq!((shop.letters("open"), shop.letters("recovered")), (1, ORDERS - 1));
    let priced = shop.priced();
    assert!(priced.len() as u64 == ORDERS - 1 && priced.values().all(|times| *times == 1));
    shop.verify();
    shop.close().await;
}

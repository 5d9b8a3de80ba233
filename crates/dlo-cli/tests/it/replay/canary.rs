//! A fix that does not work: the canary stops it after five, and says so.

use std::sync::Arc;

use super::shop::{Shop, key_error, number};
use crate::stories::{kafka, order};

const ORDERS: u64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_fix_that_does_not_work_is_stopped_after_five_letters() {
    let broken = Arc::new(|_: &serde_json::Value| Some(key_error("pin 560001 not in tax table")));
    let source = "replay = { pace = { rate = 500 }, window = \"30s\", ramp = 1 }";
    let shop = Shop::open(kafka().await, "canary", source, broken).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(ORDERS).await;
    let calls = shop.calls();

    let plan = shop.plan(&["class:KeyError", "--reason", "deployed 2.1.4"]);
    shop.start(&plan);
    let stopped = shop.until_state(&plan, "stopped").await;
    let why = stopped["stop_reason"].as_str().unwrap();
    assert!(why.contains("KeyError"), "{why}");
    assert!(!stopped["stop_letters"].as_array().unwrap().is_empty());
    assert_eq!(number(&stopped, "sent"), 5, "{stopped}");
    shop.until("all five came back", || number(&shop.replay(&plan), "returned") == 5).await;
    assert_eq!(shop.calls(), calls + 5);
    // They are the same letters, with one more death.
    let again = shop.dlo(&["letters", "list", "replays:>0", "--json"]).json();
    assert_eq!(again["letters"].as_array().unwrap().len(), 5);
    assert!(again["letters"].as_array().unwrap().iter().all(|letter| letter["death_count"] == 2));

    // The real fix: the same replay goes on, with a canary again.
    shop.deploy(|_| None);
    shop.dlo(&["replay", "resume", super::shop::id(&plan)]).ok();
    let done = shop.until_state(&plan, "completed").await;
    assert_eq!((number(&done, "sent"), number(&done, "returned")), (ORDERS, 5), "{done}");
    let rest = shop.plan(&["class:KeyError"]);
    assert_eq!(number(&rest, "total"), 5);
    shop.start(&rest);
    shop.until_state(&rest, "completed").await;
    assert_eq!((shop.letters("open"), shop.letters("recovered")), (0, ORDERS));
    shop.verify();
    shop.close().await;
}

//! The deleted product that was restored: orders of it failed, then it is there again.

use std::sync::Arc;

use super::shop::{Shop, key_error, number};
use crate::stories::{order, rabbitmq};

const ORDERS: u64 = 600;
/// Orders of the product that somebody deleted.
const DELETED: u64 = 60;

fn is_of_it(number: u64) -> bool {
    number.is_multiple_of(10)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deleted_product_was_restored_and_its_orders_are_sent_on() {
    let deleted = Arc::new(|order: &serde_json::Value| {
        is_of_it(order["number"].as_u64().unwrap()).then(|| key_error("no product TEA-250"))
    });
    let source = "replay = { pace = { rate = 200 }, window = \"30s\", ramp = 1 }";
    let shop = Shop::open(rabbitmq().await, "restored", source, deleted).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{}", n % 7)))).await;
    shop.until_open(DELETED).await;

    // The plan says what it would do, and does nothing.
    let plan = shop.plan(&["class:KeyError source:orders", "--reason", "TEA-250 is back", "--cause", "data"]);
    assert_eq!((number(&plan, "total"), &plan["state"]), (DELETED, &"planned".into()));
    assert_eq!(plan["by_class"][0]["error_class"], "KeyError");
    assert_eq!(shop.letters("open"), DELETED);

    shop.deploy(|_| None);
    shop.start(&plan);
    let done = shop.until_state(&plan, "completed").await;
    assert_eq!((number(&done, "sent"), number(&done, "confirmed")), (DELETED, DELETED), "{done}");
    assert_eq!((shop.letters("recovered"), shop.letters("open")), (DELETED, 0));
    assert!(shop.priced().len() as u64 == ORDERS && shop.priced().values().all(|times| *times == 1));

    // A second plan finds nothing left.
    let again = shop.plan(&["class:KeyError source:orders"]);
    assert_eq!(number(&again, "total"), 0);
    assert_eq!(again["excluded"][0]["why"], "not_open");
    shop.verify();
    shop.close().await;
}

//! Letters that a rule sends to the queue for permanent failures: they are closed, and the office says where they are.

use std::sync::Arc;

use dlo_core::broker::TopologySpec;

use super::shop::{Shop, number};
use crate::stories::{order, redis};

const ORDERS: u64 = 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_a_rule_routes_ends_as_routed_with_its_destination() {
    let broken = Arc::new(|_: &serde_json::Value| {
        Some(dlo_core::failure::Failure::new("Spam", "nobody can price this"))
    });
    let queue = format!("failed-for-good-{}", std::process::id());
    let source = format!(
        "replay = {{ pace = {{ rate = 500 }}, window = \"60s\", ramp = 1, canary = 0 }}\n\
         [[rules.automation]]\nname = \"spam\"\nquery = \"class:Spam\"\naction = {{ route = \"{queue}\" }}\n"
    );
    let shop = Shop::open(redis().await, "routed", &source, broken).await;
    let spec = TopologySpec::new(&queue, format!("{queue}-dlq"), 5);
    shop.line.broker.topology().apply(&spec).await.unwrap();
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    // Well before a window of the outcome would be over: there is nothing to wait for.
    shop.until("every letter is routed", || shop.letters("routed") == ORDERS).await;
    assert_eq!((shop.letters("sent"), shop.letters("open"), shop.letters("recovered")), (0, 0, 0));

    let routed = shop.dlo(&["letters", "list", "status:routed", "--json"]).json();
    let id = routed["letters"][0]["id"].as_str().unwrap().to_owned();
    let letter = shop.office.get(&format!("/api/v1/letters/{id}"));
    assert_eq!(letter["routed_to"], queue.as_str(), "{letter:#}");
    let replay = shop.office.get("/api/v1/replays?limit=1")["replays"][0].clone();
    assert_eq!(
        (number(&replay, "routed"), number(&replay, "presumed")),
        (number(&replay, "total"), 0),
        "{replay}"
    );
    assert!(replay["success_rate"].is_null(), "routed is no success: {replay}");
    let metrics = ureq::get(format!("{}/metrics", shop.office.address)).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    assert!(metrics.contains("routed"), "{metrics}");
    shop.verify();
    shop.close().await;
}

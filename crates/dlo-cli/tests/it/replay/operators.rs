//! Two operators start overlapping replays: every letter goes once, and each is told what the other took.

use std::sync::Arc;

use super::shop::{Shop, key_error, number};
use crate::stories::{order, redis};

const ORDERS: u64 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_with_overlapping_replays_send_every_letter_once() {
    let broken = Arc::new(|_: &serde_json::Value| Some(key_error("no tax table")));
    let source = "replay = { pace = { rate = 300 }, window = \"1s\", ramp = 1, canary = 0 }";
    let shop = Shop::open(redis().await, "operators", source, broken).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(ORDERS).await;
    shop.deploy(|_| None);

    let (one, other) = (shop.plan(&["class:KeyError"]), shop.plan(&["source:orders"]));
    assert_eq!((number(&one, "total"), number(&other, "total")), (ORDERS, ORDERS));
    shop.start(&one);
    shop.start(&other);
    let (one, other) =
        (shop.until_state(&one, "completed").await, shop.until_state(&other, "completed").await);
    let sent = number(&one, "sent") + number(&other, "sent");
    let short = number(&one, "short") + number(&other, "short");
    assert_eq!((sent, short), (ORDERS, ORDERS), "{one} {other}");
    assert!(shop.priced().len() as u64 == ORDERS && shop.priced().values().all(|times| *times == 1));
    shop.verify();
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_critical_source_is_sent_on_only_when_somebody_else_approved() {
    let broken = Arc::new(|_: &serde_json::Value| Some(key_error("no tax table")));
    let server = "[server.tokens]\nalice = \"alice-token-0123456789\"\nbob = \"bob-token-0123456789ab\"";
    let source = "critical = true\nreplay = { window = \"1s\" }";
    let shop = Shop::with(redis().await, "critical", server, source, broken).await;
    shop.line.publish((0..3).map(|n| order(n, "C-1"))).await;
    let as_person = |token: &str, args: &[&str]| {
        let mut words = args.to_vec();
        words.extend(["--token", token]);
        shop.dlo(&words)
    };
    let alice = |args: &[&str]| as_person("alice-token-0123456789", args);
    let bob = |args: &[&str]| as_person("bob-token-0123456789ab", args);
    let open =
        || alice(&["letters", "list", "status:open", "--json"]).json()["letters"].as_array().unwrap().len();
    shop.until("three letters are open", || open() == 3).await;

    let plan = alice(&["replay", "plan", "class:KeyError", "--json"]).json();
    let id = super::shop::id(&plan);
    assert_eq!((number(&plan, "approvals_needed"), &plan["author"]), (1, &"alice".into()));
    let refused = alice(&["replay", "start", id, "--yes"]);
    assert!(refused.code == 4 && refused.err.contains("dlo replay approve"), "{refused:?}");
    let own = alice(&["replay", "approve", id]);
    assert!(own.code == 4 && own.err.contains("somebody else must approve"), "{own:?}");
    bob(&["replay", "approve", id]).ok();
    alice(&["replay", "start", id, "--yes"]).ok();
    shop.close().await;
}

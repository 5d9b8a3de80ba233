//! The backlog of an outage, sent on without a second outage: paced, and slower while the consumer is behind.
//!
//! The story is told of 41,000 letters at 50 a second; here time runs forty times as fast, with a tenth of the letters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::failure::Failure;

use super::shop::{Shop, number};
use crate::stories::{order, redis};

const ORDERS: u64 = 4_100;
const RATE: u64 = 400;

#[tokio::test(flavor = "multi_thread")]
async fn the_backlog_of_an_outage_is_sent_on_at_its_pace() {
    let away = Arc::new(|_: &serde_json::Value| Some(Failure::new("LedgerClosed", "the ledger was closed")));
    let source = format!(
        "replay = {{ pace = {{ rate = {RATE} }}, window = \"30s\", ramp = 1, guards = {{ lag = 500 }} }}"
    );
    let shop = Shop::open(redis().await, "backlog", &source, away).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(ORDERS).await;
    shop.deploy(|_| None);

    let plan =
        shop.plan(&["class:LedgerClosed", "--cause", "dependency", "--reason", "the ledger is open again"]);
    assert_eq!(number(&plan, "total"), ORDERS);
    let began = Instant::now();
    shop.start(&plan);
    shop.until("everything is sent", || number(&shop.replay(&plan), "sent") == ORDERS).await;
    let took = began.elapsed();
    let done = shop.until_state(&plan, "completed").await;
    eprintln!("{ORDERS} letters at {RATE}/s were sent in {:.1} s", took.as_secs_f64());
    // The canary waits for its receipts; the rest cannot be faster than its pace.
    assert!(took >= Duration::from_secs((ORDERS - RATE) / RATE), "{took:?}");
    assert_eq!((number(&done, "confirmed"), number(&done, "returned")), (ORDERS, 0), "{done}");
    assert!(shop.priced().len() as u64 == ORDERS && shop.priced().values().all(|times| *times == 1));
    shop.verify();
    shop.close().await;
}

/// A pause is obeyed at once, a change of pace is taken up, and what was not sent is given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_replay_is_paused_changed_and_cancelled() {
    let away = Arc::new(|_: &serde_json::Value| Some(Failure::new("LedgerClosed", "the ledger was closed")));
    let source = "replay = { pace = { rate = 100 }, window = \"30s\", ramp = 1, canary = 0 }";
    let shop = Shop::open(redis().await, "steered", source, away).await;
    shop.line.publish((0..1_000).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(1_000).await;
    shop.deploy(|_| None);
    let plan = shop.plan(&["class:LedgerClosed"]);
    shop.start(&plan);
    shop.until("some are sent", || number(&shop.replay(&plan), "sent") > 50).await;
    let id = super::shop::id(&plan);
    let paused = shop.dlo(&["replay", "pause", id, "--json"]).json();
    assert_eq!(paused["state"], "paused");
    // What was under way when the pause came is recorded; then the office lets go of it, and nothing moves.
    shop.until("nobody has it in hand", || shop.replay(&plan)["in_hand"] == false).await;
    let rest = number(&shop.replay(&plan), "sent");
    assert!(rest < number(&paused, "sent") + 20, "{rest} were sent, {paused}");
    shop.dlo(&["replay", "pace", id, "--rate", "250"]).ok();
    shop.dlo(&["replay", "resume", id]).ok();
    shop.until("it goes on", || number(&shop.replay(&plan), "sent") > rest + 100).await;
    let cancelled = shop.dlo(&["replay", "cancel", id, "--yes", "--json"]).json();
    assert_eq!(cancelled["state"], "cancelled");
    shop.until("the rest is open again", || {
        let replay = shop.replay(&plan);
        number(&replay, "waiting") == 0 && shop.letters("claimed") == 0
    })
    .await;
    let replay = shop.replay(&plan);
    assert_eq!(number(&replay, "sent") + number(&replay, "released"), 1_000, "{replay}");
    assert_eq!(shop.letters("open"), number(&replay, "released"));
    shop.verify();
    shop.close().await;
}

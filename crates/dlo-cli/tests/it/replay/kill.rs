//! A server is struck at a random instant in the middle of a replay, and another finishes it. Lost: none. Twice: none where
//! the broker can tell what became of a send; elsewhere nothing but what was listed as in doubt, and no more of that than may
//! be in flight.
//!
//! Killed, it leaves everything to the next one on its own files. Stopped, it wakes up when another server has long taken over
//! from the database that they share, and must not send anything more. `DLO_REPLAY_ROUNDS` says how often each (1 by
//! default); the bar of the project is 50.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::LostConfirm;
use dlo_core::replay::run::in_flight;
use dlo_testkit::harness::postgres::Postgres;
use rand::RngExt;
use serde_json::Value;

use super::shop::{Shop, id, key_error, number};
use crate::office::Office;
use crate::stories::{kafka, nats, order, rabbitmq, redis, sqs};

const LETTERS: u64 = 2_000;
/// Another server takes over within this.
const TAKEN_OVER: Duration = Duration::from_secs(15);

/// Messages a second. Slower where the server of the tests is: its FIFO queues would be what is measured.
fn rate(name: &str) -> u32 {
    if name.ends_with(".fifo") { 200 } else { 1_500 }
}

fn source(name: &str) -> String {
    let rate = rate(name);
    format!("replay = {{ pace = {{ rate = {rate} }}, window = \"2s\", ramp = 1, canary = 0 }}")
}

fn rounds() -> u64 {
    std::env::var("DLO_REPLAY_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Whether the broker can tell what became of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knows {
    Everything,
    Nothing,
}

/// A shop whose letters are all open, its service mended, and a plan for all of them.
async fn filled(section: &str, name: &str, server: &str) -> (Shop, Value) {
    let broken = Arc::new(|_: &Value| Some(key_error("no tax table")));
    let shop = Shop::with(section.to_owned(), name, server, &source(name), broken).await;
    shop.line.publish((0..LETTERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until_open(LETTERS).await;
    shop.deploy(|_| None);
    let plan = shop.plan(&["class:KeyError"]);
    (shop, plan)
}

/// Waits for a random instant in the middle of the replay that `office` runs.
async fn until_in_the_middle(shop: &Shop, office: &Office, plan: &Value) {
    let struck = rand::rng().random_range(100..LETTERS - 300);
    let path = format!("/api/v1/replays/{}", id(plan));
    shop.until("it is in the middle", || number(&office.get(&path), "sent") >= struck).await;
    tokio::time::sleep(Duration::from_millis(rand::rng().random_range(0..30))).await;
}

/// Orders whose letters are listed as in doubt.
fn doubted(shop: &Shop, plan: &Value) -> BTreeSet<u64> {
    let mut orders = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/replays/{}/items?state=in_doubt&limit=500{cursor}", id(plan));
        let page = shop.office.get(&path);
        for item in page["items"].as_array().unwrap_or_else(|| panic!("{page}")) {
            let letter = shop.office.get(&format!("/api/v1/letters/{}", item["letter"].as_str().unwrap()));
            let key = letter["key"].as_str().unwrap_or_else(|| panic!("{letter}"));
            orders.insert(key.trim_start_matches("C-").parse().unwrap());
        }
        let Some(next) = page["next_cursor"].as_str() else { return orders };
        cursor = format!("&cursor={next}");
    }
}

/// Sees the replay to its end, with a person where one is needed, and returns the orders that may be there twice.
async fn finish(shop: &Shop, plan: &Value) -> BTreeSet<u64> {
    let stands = |state: &str| shop.replay(plan)["state"] == state;
    shop.until("it is done, or waits for a person", || stands("completed") || stands("paused")).await;
    let doubts = doubted(shop, plan);
    if !doubts.is_empty() {
        let settle = ["replay", "settle", id(plan), "--as", "again", "--yes"];
        shop.dlo(&[&settle[..], &["--reason", "consumers cope with duplicates"]].concat()).ok();
        shop.dlo(&["replay", "resume", id(plan)]).ok();
    }
    let done = shop.until_state(plan, "completed").await;
    assert_eq!(number(&done, "sent"), LETTERS, "{done}");
    doubts
}

/// Nothing is lost, and nothing is twice that was not listed.
async fn count(shop: &Shop, name: &str, knows: Knows, doubts: &BTreeSet<u64>) {
    shop.until_drained().await;
    assert_eq!(shop.priced().len() as u64, LETTERS, "every order is priced");
    let priced = shop.priced();
    let twice: BTreeSet<u64> = priced.iter().filter(|(_, times)| **times > 1).map(|(n, _)| *n).collect();
    eprintln!("{name}: {} of {LETTERS} listed as in doubt, {} twice", doubts.len(), twice.len());
    assert!(twice.is_subset(doubts), "twice and not listed: {:?}", twice.difference(doubts));
    let window = in_flight(Some(f64::from(rate(name))), LostConfirm::Unknown);
    assert!(doubts.len() as u64 <= window, "{} in doubt, at most {window} may be in flight", doubts.len());
    if knows == Knows::Everything {
        assert!(doubts.is_empty(), "{doubts:?}");
    }
    shop.verify();
}

async fn killed(section: String, name: &str, knows: Knows) {
    for round in 0..rounds() {
        let (mut shop, plan) = filled(&section, &format!("killed-{round}-{name}"), "").await;
        shop.start(&plan);
        until_in_the_middle(&shop, &shop.office, &plan).await;
        shop.kill_office();
        let doubts = finish(&shop, &plan).await;
        count(&shop, &format!("killed on {name}, round {round}"), knows, &doubts).await;
        shop.close().await;
    }
}

async fn stopped(section: String, name: &str, knows: Knows) {
    for round in 0..rounds() {
        let database = Postgres::shared().await.database().await;
        let server = format!("database = \"{}\"", database.url);
        let (shop, plan) = filled(&section, &format!("stopped-{round}-{name}"), &server).await;
        let first = shop.second_office();
        // The one that is stopped must be the one that has it in hand.
        shop.office.signal("-STOP");
        first.dlo(&["replay", "start", id(&plan), "--yes"]).ok();
        let of = |office: &Office| office.get(&format!("/api/v1/replays/{}", id(&plan)));
        shop.until("the first has it in hand", || of(&first)["in_hand"] == true).await;
        shop.office.signal("-CONT");
        until_in_the_middle(&shop, &first, &plan).await;
        first.signal("-STOP");
        let stopped = Instant::now();
        let taken_over = |replay: Value| replay["in_hand"] == true || replay["state"] != "running";
        shop.until("the other took over", || taken_over(shop.replay(&plan))).await;
        let took = stopped.elapsed();
        eprintln!("stopped on {name}: another server took over after {:.1} s", took.as_secs_f64());
        assert!(took <= TAKEN_OVER, "{took:?}");
        first.signal("-CONT");
        let doubts = finish(&shop, &plan).await;
        // It ends when everything that it had under way is over.
        let log = first.end();
        assert!(log.contains("another server took the replay over"), "{log}");
        count(&shop, &format!("stopped on {name}, round {round}"), knows, &doubts).await;
        shop.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_kafka_nothing_is_lost_and_nothing_is_sent_twice() {
    killed(kafka().await, "kafka", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_redis_nothing_is_lost_and_nothing_is_sent_twice() {
    killed(redis().await, "redis", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_nats_nothing_is_lost_and_nothing_is_sent_twice() {
    killed(nats().await, "nats", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_rabbitmq_nothing_is_lost_and_what_may_be_twice_is_listed() {
    killed(rabbitmq().await, "rabbitmq", Knows::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_sqs_nothing_is_lost_and_what_may_be_twice_is_listed() {
    killed(sqs().await, "sqs", Knows::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_on_a_fifo_queue_nothing_is_lost_and_nothing_is_sent_twice() {
    killed(sqs().await, "sqs.fifo", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_kafka_nothing_is_lost_and_nothing_is_sent_twice() {
    stopped(kafka().await, "kafka", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_redis_nothing_is_lost_and_nothing_is_sent_twice() {
    stopped(redis().await, "redis", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_nats_nothing_is_lost_and_nothing_is_sent_twice() {
    stopped(nats().await, "nats", Knows::Everything).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_rabbitmq_nothing_is_lost_and_what_may_be_twice_is_listed() {
    stopped(rabbitmq().await, "rabbitmq", Knows::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_sqs_nothing_is_lost_and_what_may_be_twice_is_listed() {
    stopped(sqs().await, "sqs", Knows::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_a_fifo_queue_nothing_is_lost_and_nothing_is_sent_twice() {
    stopped(sqs().await, "sqs.fifo", Knows::Everything).await;
}

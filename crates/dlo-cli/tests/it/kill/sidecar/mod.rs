//! `dlo consume` is killed at random instants while its handler lives on. No message is lost, no healthy one is parked, and
//! each second copy of a dead letter says that it may be one.
//!
//! `DLO_SIDECAR_ROUNDS` says how often (40 by default); the bar of the project is 100.

mod handler;
mod shop;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use dlo_core::envelope::{Envelope, decode};
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use rand::RngExt;

use self::handler::{Fate, PILLS, fate};
use self::shop::Shop;
use crate::stories::{rabbitmq, redis};

/// Orders before the first kill and after the last one: nothing of them is delivered twice.
const QUIET: u64 = 60;
/// Orders of each round.
const ORDERS: u64 = 150;

fn rounds() -> u64 {
    std::env::var("DLO_SIDECAR_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// What must not have happened, counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wrong {
    lost: usize,
    healthy_parked: usize,
    handled_and_parked: usize,
    parked_by_the_broker: usize,
    second_copies_unmarked: usize,
    marked_without_redelivery: usize,
}

fn order(letter: &Message) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(&letter.payload.0).unwrap();
    body["order"].as_u64().unwrap()
}

fn is_parked(order: u64) -> bool {
    matches!(fate(order), Fate::Parked | Fate::ParkedLater | Fate::Pill)
}

/// Whether the office recognises a second copy, because the broker names the message.
fn is_named(envelope: &Envelope) -> bool {
    envelope.origin.origin().is_some_and(|origin| origin.has_coordinates())
}

/// Reads the result. `orders` were published; no kill disturbed those in `quiet`.
fn judge(shop: &Shop, orders: u64, quiet: &BTreeSet<u64>) -> (Wrong, String) {
    let mut wrong = Wrong::default();
    let mut copies: BTreeMap<u64, Vec<Option<Envelope>>> = BTreeMap::new();
    for letter in &shop.letters {
        copies.entry(order(letter)).or_default().push(decode(&letter.headers));
    }
    let done = shop.handler.done().clone();
    wrong.lost = (0..orders).filter(|n| !done.handled.contains_key(n) && !copies.contains_key(n)).count();
    let mut marked = 0;
    for (order, copies) in &copies {
        let told: Vec<&Envelope> = copies.iter().flatten().collect();
        let unmarked = told.iter().filter(|one| !one.redelivered && !is_named(one)).count();
        wrong.parked_by_the_broker += copies.len() - told.len();
        wrong.healthy_parked += usize::from(!is_parked(*order));
        wrong.handled_and_parked += usize::from(done.handled.contains_key(order));
        wrong.second_copies_unmarked += unmarked.saturating_sub(1);
        let marks = told.iter().filter(|one| one.redelivered).count();
        marked += marks;
        wrong.marked_without_redelivery +=
            told.iter().filter(|one| one.redelivered && (quiet.contains(order) || is_named(one))).count();
    }
    let twice = copies.values().filter(|copies| copies.len() > 1).count();
    let handled_twice = done.handled.values().filter(|times| **times > 1).count();
    let counts = format!(
        "{orders} orders, {} handled ({handled_twice} more than once), {} parked ({twice} more than once, {marked} copies marked)",
        done.handled.len(),
        copies.len()
    );
    (wrong, counts)
}

/// One life of the sidecar: it is killed after a random while, before its first request or in the middle of them.
async fn one_round(shop: &Shop) {
    let sidecar = shop.sidecar();
    if rand::rng().random_range(0..4) > 0 {
        shop.until_asked(1).await;
    }
    tokio::time::sleep(Duration::from_millis(rand::rng().random_range(0..200))).await;
    sidecar.kill();
}

/// Orders that no kill disturbs.
async fn quiet_hour(shop: &mut Shop, orders: std::ops::Range<u64>) {
    let sidecar = shop.sidecar();
    shop.publish(orders).await;
    shop.until_empty(&sidecar).await;
    sidecar.end();
}

async fn killed(name: &str, section: String) {
    let (rounds, begun) = (rounds(), Instant::now());
    let mut shop = Shop::open(section, "").await;
    quiet_hour(&mut shop, 0..QUIET).await;
    for round in 0..rounds {
        let first = QUIET + round * ORDERS;
        shop.publish(first..first + ORDERS).await;
        one_round(&shop).await;
    }
    let killed = begun.elapsed();
    let sidecar = shop.sidecar();
    shop.until_empty(&sidecar).await;
    sidecar.end();
    let last = QUIET + rounds * ORDERS;
    quiet_hour(&mut shop, last..last + QUIET).await;
    let quiet: BTreeSet<u64> = (0..QUIET).chain(last..last + QUIET).collect();
    let (wrong, counts) = judge(&shop, last + QUIET, &quiet);
    println!(
        "{name}: {rounds} kills in {:.0} s, {:.0} s in all: {counts}; {wrong:?}",
        killed.as_secs_f64(),
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(wrong, Wrong::default(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_the_sidecar_on_rabbitmq_park_no_healthy_message_and_mark_second_copies() {
    killed("rabbitmq", rabbitmq().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_the_sidecar_on_redis_park_no_healthy_message() {
    killed("redis", redis().await).await;
}

/// The handler goes away with the pill three times. In between its sidecar is killed twice, with the pill in the handler.
async fn pill(section: String) {
    let mut shop = Shop::open(section, "poison = { crashes = 3, window = \"1h\" }").await;
    shop.publish(PILLS..PILLS + 1).await;
    let mut asked = 0;
    for _ in 0..2 {
        let sidecar = shop.sidecar();
        asked = shop.until_next_request(PILLS, asked).await;
        shop.handler.die(asked);
        asked = shop.until_next_request(PILLS, asked).await;
        sidecar.kill();
    }
    let sidecar = shop.sidecar();
    asked = shop.until_next_request(PILLS, asked).await;
    shop.handler.die(asked);
    shop.until_empty(&sidecar).await;
    let letters: Vec<Envelope> = shop.letters.iter().filter_map(|letter| decode(&letter.headers)).collect();
    println!("3 deaths of the handler, 2 of the sidecar: {} requests, {} letters", asked, letters.len());
    assert_eq!((asked, letters.len(), letters[0].reason), (5, 1, Some(Reason::Poison)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pill_on_rabbitmq_is_found_within_three_deaths_of_its_handler_although_the_sidecar_is_killed() {
    pill(rabbitmq().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pill_on_redis_is_found_within_three_deaths_of_its_handler_although_the_sidecar_is_killed() {
    pill(redis().await).await;
}

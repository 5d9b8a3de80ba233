//! The brake: when nearly everything fails for one cause, messages wait and nothing is parked.

use std::time::Duration;

use dlo_core::brake::BrakeMode;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use tokio::time::Instant;

use crate::shop::{Shop, body, calm};

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

/// What a framework says of anything.
fn bare_500() -> Failure {
    Failure { http_status: Some(500), ..Failure::new("", "Internal Server Error") }
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_is_reported_as_bare_500s_parks_nothing() {
    let shop = Shop::open();
    let orders = bodies(500);
    shop.orders(orders.iter().map(String::as_str)).await;
    let began = Instant::now();
    let consumer = shop.consumer().concurrency(16).handler(move |_: Message| async move {
        if began.elapsed() < Duration::from_secs(90) { Err(bare_500()) } else { Ok(()) }
    });
    shop.run_until(consumer, |seen| seen.handled() == 500).await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (0, 0));
    assert_eq!(shop.seen.story(), ["braked", "released"]);
}

#[tokio::test(start_paused = true)]
async fn one_handler_at_a_time_parks_nothing_either() {
    let shop = Shop::open();
    let orders = bodies(100);
    shop.orders(orders.iter().map(String::as_str)).await;
    let began = Instant::now();
    let consumer = shop.consumer().concurrency(1).handler(move |_: Message| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if began.elapsed() < Duration::from_secs(90) { Err(bare_500()) } else { Ok(()) }
    });
    shop.run_until(consumer, |seen| seen.handled() == 100).await;
    assert_eq!(shop.letters().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn bad_messages_among_good_ones_are_parked_and_the_good_ones_flow() {
    let shop = Shop::open();
    let orders = bodies(1_000);
    shop.orders(orders.iter().map(String::as_str)).await;
    let consumer = shop.consumer().handler(|order: Message| async move {
        let number: u32 = body(&order).parse().unwrap();
        if number.is_multiple_of(10) { Err(Failure::new("KeyError", "no such pin")) } else { Ok(()) }
    });
    shop.run_until(consumer, |seen| seen.handled() == 900 && seen.parked() == 100).await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (100, 0));
    assert_eq!(shop.seen.story(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn where_the_policy_only_warns_everything_is_parked_and_said_once() {
    let shop = Shop::open();
    let orders = bodies(100);
    shop.orders(orders.iter().map(String::as_str)).await;
    let mut policy = calm();
    policy.brake.mode = BrakeMode::Warn;
    let consumer = shop.consumer().policy(policy).handler(|_: Message| async { Err::<(), _>(bare_500()) });
    shop.run_until(consumer, |seen| seen.parked() == 100).await;
    assert_eq!(shop.seen.story(), ["mass death"]);
}

#[tokio::test(start_paused = true)]
async fn a_person_may_take_the_brake_off_and_everything_is_parked() {
    let shop = Shop::open();
    let orders = bodies(60);
    shop.orders(orders.iter().map(String::as_str)).await;
    let mut policy = calm();
    policy.brake.least = 40;
    let consumer = shop.consumer().policy(policy).handler(|_: Message| async { Err::<(), _>(bare_500()) });
    let stop = tokio_util::sync::CancellationToken::new();
    let consumer = consumer.build().unwrap();
    let controls = consumer.controls();
    let running = tokio::spawn(consumer.run(stop.clone().cancelled_owned()));
    crate::shop::wait_for(|| controls.braked().is_some()).await;
    assert_eq!(shop.seen.parked(), 0);
    assert!(controls.release_brake().is_some());
    crate::shop::wait_for(|| shop.seen.parked() == 60).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (60, 0));
}

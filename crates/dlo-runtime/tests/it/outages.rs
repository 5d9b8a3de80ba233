//! A dependency that is down: messages wait at no charge, one probe at a time goes through, and nothing is parked.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_core::brake::BrakeMode;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_runtime::{Policy, Receipt, Receipts, Standing, WhenOpen};
use tokio::time::Instant;

use crate::shop::{Shop, calm, story};

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

fn tax_is_down() -> Failure {
    Failure {
        http_status: Some(503),
        dependency: Some("tax".to_owned()),
        ..Failure::new("ServiceUnavailable", "503")
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_ninety_seconds_parks_nothing() {
    let shop = Shop::open();
    let orders = bodies(200);
    shop.orders(orders.iter().map(String::as_str)).await;
    let (began, calls) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let counted = calls.clone();
    let consumer = shop.consumer().concurrency(16).handler(move |_: Message| {
        let counted = counted.clone();
        async move {
            if began.elapsed() < Duration::from_secs(90) {
                counted.fetch_add(1, Ordering::SeqCst);
                return Err(tax_is_down());
            }
            Ok(())
        }
    });
    shop.run_until(consumer, |seen| seen.handled() == 200).await;
    assert_eq!((shop.letters().await.len(), shop.unsettled().await), (0, 0));
    assert_eq!(shop.seen.story(), ["paused tax", "resumed tax"]);
    let during = calls.load(Ordering::SeqCst);
    assert!(during < 60, "{during} calls reached a dependency that was down");
}

#[tokio::test(start_paused = true)]
async fn one_message_alone_survives_an_outage_as_its_own_probe() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let began = Instant::now();
    let mut policy = calm();
    policy.breaker.in_a_row = 1;
    let consumer = shop.consumer().policy(policy).handler(move |_: Message| async move {
        if began.elapsed() < Duration::from_secs(300) { Err(tax_is_down()) } else { Ok(()) }
    });
    shop.run_until(consumer, |seen| seen.handled() == 1).await;
    assert_eq!(shop.letters().await.len(), 0, "a probe that fails costs its message nothing");
}

#[tokio::test(start_paused = true)]
async fn where_the_policy_parks_what_waits_is_parked_as_circuit_open() {
    let shop = Shop::open();
    let orders = bodies(50);
    shop.orders(orders.iter().map(String::as_str)).await;
    let policy = Policy { when_open: WhenOpen::Park, ..calm() };
    let down = |_: Message| async { Err::<(), _>(tax_is_down()) };
    let consumer = shop.consumer().policy(policy).concurrency(5).handler(down);
    shop.run_until(consumer, |seen| seen.parked() == 50).await;
    let letters = shop.letters().await;
    let open = letters.iter().filter(|letter| story(letter).reason == Some(Reason::CircuitOpen)).count();
    assert!(open >= 45, "{open} of 50");
    assert_eq!(story(&letters[49]).error_message.as_deref(), Some("dependency `tax` is down"));
    assert_eq!(shop.unsettled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn bad_messages_do_not_open_a_breaker() {
    let shop = Shop::open();
    let orders = bodies(30);
    shop.orders(orders.iter().map(String::as_str)).await;
    let bad = |_: Message| async {
        Err::<(), _>(Failure {
            dependency: Some("tax".to_owned()),
            ..Failure::new("ValidationError", "no pin")
        })
    };
    let mut policy = calm();
    policy.brake.mode = BrakeMode::Off;
    shop.run_until(shop.consumer().policy(policy).handler(bad), |seen| seen.parked() == 30).await;
    assert_eq!(shop.seen.story(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_that_names_no_dependency_everything_flows_within_seconds() {
    let shop = Shop::open();
    let began = Instant::now();
    let outage = Duration::from_secs(3)..Duration::from_secs(93);
    let consumer = shop.consumer().policy(Policy::default()).handler(move |_: Message| {
        let down = outage.contains(&began.elapsed());
        let away = Failure { http_status: Some(503), ..Failure::new("", "Service Unavailable") };
        async move { if down { Err(away) } else { Ok(()) } }
    });
    let running = shop.consumer_begun(consumer);
    for batch in 0..400 {
        let orders: Vec<String> = (0..10).map(|n| format!("{batch}-{n}")).collect();
        shop.orders(orders.iter().map(String::as_str)).await;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    crate::shop::wait_for(|| shop.seen.handled() == 4_000).await;
    let took = began.elapsed();
    running.stop().await;
    assert_eq!(shop.letters().await.len(), 0);
    assert!(took < Duration::from_secs(130), "the last order was handled after {took:?}");
}

/// What the office hears, and when.
#[derive(Default)]
struct Heard(Mutex<Vec<(Option<String>, Instant)>>);

impl Receipts for Heard {
    fn take(&self, _: Receipt) {}

    fn hear(&self, standing: Standing) {
        assert_eq!((standing.queue.as_str(), standing.consumer.as_str()), ("orders", "pricing"));
        self.0.lock().unwrap().push((standing.halted, Instant::now()));
    }
}

impl Heard {
    fn words(&self) -> Vec<Option<String>> {
        self.0.lock().unwrap().iter().map(|(word, _)| word.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn while_messages_wait_the_office_hears_it_again_and_again_and_then_that_they_do_not() {
    let shop = Shop::open();
    let orders = bodies(50);
    shop.orders(orders.iter().map(String::as_str)).await;
    let (began, heard) = (Instant::now(), Arc::new(Heard::default()));
    let consumer = shop.consumer().receipts(heard.clone()).handler(move |_: Message| async move {
        if began.elapsed() < Duration::from_secs(40) { Err(tax_is_down()) } else { Ok(()) }
    });
    shop.run_until(consumer, |seen| seen.handled() == 50 && heard.words().last() == Some(&None)).await;
    let words = heard.words();
    let (open, last) = words.split_at(words.len() - 1);
    assert_eq!(last, [None]);
    assert!((4..10).contains(&open.len()), "{words:?}");
    assert!(open.iter().all(|word| word.as_deref() == Some("its breaker for tax is open")), "{words:?}");
    let times: Vec<Instant> = heard.0.lock().unwrap().iter().map(|(_, at)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= Duration::from_secs(11)), "{times:?}");
}

/// Otherwise whoever waits for the consumer, and the consumer that waits for a message to probe with, wait for ever.
#[tokio::test(start_paused = true)]
async fn when_nothing_is_left_to_probe_with_the_office_hears_that_it_may_send() {
    let shop = Shop::open();
    let orders = bodies(5);
    shop.orders(orders.iter().map(String::as_str)).await;
    let heard = Arc::new(Heard::default());
    let down = |_: Message| async { Err::<(), _>(tax_is_down()) };
    let policy = Policy { when_open: WhenOpen::Park, ..calm() };
    let consumer = shop.consumer().policy(policy).concurrency(1).receipts(heard.clone()).handler(down);
    shop.run_until(consumer, |seen| seen.parked() == 5 && heard.words().last() == Some(&None)).await;
    assert_eq!(heard.words(), [Some("its breaker for tax is open".to_owned()), None]);
}

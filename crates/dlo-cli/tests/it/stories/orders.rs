//! The tax rule that broke one order in 8,000: the others flow as if nothing were, and each bad one has its whole story.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::envelope::decode;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::reason::Reason;

use super::{Counts, GROUP, Line, kafka, number, order, rabbitmq, redis, run_until};

/// One in so many has a district that is missing in the tax table.
const RARE: u64 = 8_000;
const PATIENCE: Duration = Duration::from_secs(300);

fn day() -> u64 {
    std::env::var("DLO_STORY_ORDERS").ok().and_then(|orders| orders.parse().ok()).unwrap_or(24_000)
}

fn is_bad(number: u64) -> bool {
    number % RARE == RARE / 2
}

/// Prices the day's orders and tells how many a second. `poisoned`: with the bad ones failing.
async fn price(line: &Line, orders: u64, poisoned: bool) -> f64 {
    let counts = Arc::new(Counts::default());
    line.publish((0..orders).map(|n| order(n, &format!("C-{}", n % 997)))).await;
    let consumer = line.consumer().await.watch(counts.clone()).handler(move |order: Message| async move {
        let number = number(&order);
        if poisoned && is_bad(number) {
            return Err(Failure::new("KeyError", format!("pin {number} not in tax table")));
        }
        Ok(())
    });
    let bad = if poisoned { (0..orders).filter(|n| is_bad(*n)).count() as u64 } else { 0 };
    let good = orders - bad;
    let all = || Counts::of(&counts.handled) >= good && Counts::of(&counts.parked) >= bad;
    let took = run_until(consumer, PATIENCE, all).await;
    assert_eq!((Counts::of(&counts.handled), Counts::of(&counts.parked)), (good, bad));
    orders as f64 / took.as_secs_f64()
}

async fn story(name: &str, section: String) {
    let line = Line::open(section, &format!("tax-{name}"), None).await;
    let orders = day();
    // Once to warm up, then in turns: what else the machine does falls on both.
    price(&line, orders / 4, false).await;
    let mut ratios = Vec::new();
    let (mut best_without, mut best_with) = (0.0_f64, 0.0_f64);
    for _ in 0..3 {
        let (without, with) = (price(&line, orders, false).await, price(&line, orders, true).await);
        eprintln!("{name}: {without:.0}/s without bad orders, {with:.0}/s with one in {RARE}");
        ratios.push(with / without);
        (best_without, best_with) = (best_without.max(without), best_with.max(with));
    }
    ratios.sort_by(f64::total_cmp);
    let expected = 3 * (0..orders).filter(|n| is_bad(*n)).count();
    let letters = line.letters(expected).await;
    eprintln!(
        "{name}: ratio {:.2} ({:.2} to {:.2}); {} letters",
        ratios[1],
        ratios[0],
        ratios[2],
        letters.len()
    );
    assert_eq!(letters.len(), expected);
    for letter in &letters {
        let told = decode(&letter.headers).unwrap();
        assert!(is_bad(number(letter)));
        assert_eq!(told.reason, Some(Reason::ProcessingError));
        assert_eq!(told.error_class.as_deref(), Some("KeyError"));
        assert_eq!((told.attempts, told.history.records().len()), (Some(1), 1));
        assert_eq!(told.consumer_group.as_deref(), Some(GROUP));
        assert_eq!(told.origin.origin().map(|origin| origin.queue), Some(line.queue.clone()));
        assert!(told.death_id.is_some() && told.dead_at.is_some());
    }
    // A few percent is the promise; what is asserted leaves room for a machine that does other things as well, and a run
    // lasts half a second: the best of each tells more of the consumer than of the machine.
    let ratio = best_with / best_without;
    assert!(ratio > 0.6, "one bad order in {RARE} slowed the others: {ratio:.2}, {ratios:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_in_eight_thousand_on_rabbitmq_slows_nobody_and_is_parked_with_its_story() {
    story("rabbitmq", rabbitmq().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_in_eight_thousand_on_redis_slows_nobody_and_is_parked_with_its_story() {
    story("redis", redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_order_in_eight_thousand_on_kafka_slows_nobody_and_is_parked_with_its_story() {
    story("kafka", kafka().await).await;
}

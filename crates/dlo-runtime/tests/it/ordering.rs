//! Order per key and per partition: what is behind waits or is parked, other keys flow.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlo_brokers::memory::QueueOptions;
use dlo_core::failure::Failure;
use dlo_core::message::{Message, Payload};
use dlo_core::reason::Reason;
use dlo_runtime::{Behind, OrderBy};

use crate::shop::{Shop, body, order, out, story, transient};

/// What handlers saw, in order.
type Log = Arc<Mutex<Vec<String>>>;

async fn publish(shop: &Shop, orders: &[(&'static str, &str)]) {
    let keyed =
        |(key, text): &(&'static str, &str)| out(Message { key: Some(Payload::from(*key)), ..order(text) });
    use dlo_core::broker::Publisher as _;
    let sent = shop.broker.publish(orders.iter().map(keyed).collect()).await;
    assert!(sent.iter().all(Result::is_ok));
}

fn of_key(log: &Log, first: char) -> Vec<String> {
    log.lock().unwrap().iter().filter(|text| text.starts_with(first)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_handled_in_order_though_its_first_message_is_tried_again_and_others_flow() {
    let shop = Shop::open();
    publish(&shop, &[("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3"), ("b", "b2")]).await;
    let log = Log::default();
    let (seen, tries) = (log.clone(), Arc::new(Mutex::new(0)));
    let consumer = shop.consumer().order(OrderBy::Key, Behind::Wait).handler(move |order: Message| {
        let (seen, tries) = (seen.clone(), tries.clone());
        async move {
            if body(&order) == "a1" {
                *tries.lock().unwrap() += 1;
                if *tries.lock().unwrap() < 4 {
                    return Err(transient());
                }
            }
            seen.lock().unwrap().push(body(&order));
            Ok(())
        }
    });
    shop.run_until(consumer, |seen| seen.handled() == 5).await;
    assert_eq!(of_key(&log, 'a'), ["a1", "a2", "a3"]);
    assert_eq!(log.lock().unwrap()[..2], ["b1", "b2"], "other keys did not wait");
    assert_eq!(shop.unsettled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn with_park_everything_behind_a_message_that_waits_is_parked_with_its_reason() {
    let shop = Shop::open();
    publish(&shop, &[("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]).await;
    let fails = |order: Message| async move { if body(&order) == "a1" { Err(transient()) } else { Ok(()) } };
    let consumer = shop.consumer().order(OrderBy::Key, Behind::Park).handler(fails);
    shop.run_until(consumer, |seen| seen.parked() == 3 && seen.handled() == 1).await;
    let letters = shop.letters().await;
    let behind: Vec<_> =
        letters.iter().filter(|letter| story(letter).reason == Some(Reason::Rejected)).collect();
    assert_eq!(behind.iter().map(|letter| body(letter)).collect::<Vec<_>>(), ["a2", "a3"]);
    assert_eq!(story(behind[0]).rule.as_deref(), Some("policy:parked_behind"));
    assert_eq!(shop.unsettled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_handled_one_message_after_the_other() {
    let shop = Shop::open();
    shop.broker.declare(
        "lines",
        QueueOptions { partitions: std::num::NonZero::new(2).unwrap(), ..QueueOptions::default() },
    );
    use dlo_core::broker::{Destination, Outgoing, Publisher as _};
    let to = |n: usize| Outgoing {
        to: Destination { partition: Some((n % 2) as i32), ..Destination::queue("lines") },
        message: order(&n.to_string()),
        delay: None,
    };
    shop.broker.publish((0..20).map(to).collect()).await;
    let log = Log::default();
    let seen = log.clone();
    let source = Box::new(shop.broker.join("lines", "pricing").unwrap());
    let consumer =
        shop.consumer_of(source).order(OrderBy::Partition, Behind::Wait).handler(move |order: Message| {
            let seen = seen.clone();
            async move {
                let number: u64 = body(&order).parse().unwrap();
                tokio::time::sleep(Duration::from_millis(20 - number)).await;
                seen.lock().unwrap().push(body(&order));
                Ok::<(), Failure>(())
            }
        });
    shop.run_until(consumer, |seen| seen.handled() == 20).await;
    let log = log.lock().unwrap();
    let even: Vec<u32> =
        log.iter().map(|n| n.parse().unwrap()).filter(|n: &u32| n.is_multiple_of(2)).collect();
    assert!(even.is_sorted(), "{even:?}");
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_the_key_goes_on_where_it_was() {
    let shop = Shop::open();
    publish(&shop, &[("a", "a1"), ("a", "a2"), ("a", "a3")]).await;
    let busy = |_: Message| async { Err::<(), _>(transient()) };
    let consumer = shop.consumer().order(OrderBy::Key, Behind::Wait).handler(busy);
    let retried = |seen: &crate::shop::Seen| seen.retried.load(std::sync::atomic::Ordering::SeqCst) >= 2;
    shop.run_until(consumer, retried).await;
    let log = Log::default();
    let seen = log.clone();
    let consumer = shop.consumer().order(OrderBy::Key, Behind::Wait).handler(move |order: Message| {
        seen.lock().unwrap().push(body(&order));
        async { Ok::<(), Failure>(()) }
    });
    shop.run_until(consumer, |seen| seen.handled() == 3).await;
    assert_eq!(*log.lock().unwrap(), ["a1", "a2", "a3"]);
}

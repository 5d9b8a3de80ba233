//! Shutdown: what is done is settled, everything else goes back as it came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dlo_core::failure::Failure;
use dlo_core::message::Message;
use tokio_util::sync::CancellationToken;

use crate::shop::{Shop, body, transient, wait_for};

/// Starts a consumer whose handlers wait for a word, and shuts it down when `count` of them have begun.
async fn shut_down_with_in_flight(shop: &Shop, count: u32, ending: Ending) {
    let begun = Arc::new(AtomicU32::new(0));
    let (counted, stop) = (begun.clone(), CancellationToken::new());
    let stopping = stop.clone();
    let consumer = shop.consumer().drain(Duration::from_secs(10)).handler(move |_: Message| {
        counted.fetch_add(1, Ordering::SeqCst);
        let stopping = stopping.clone();
        async move {
            stopping.cancelled().await;
            match ending {
                Ending::Finishes => Ok(()),
                Ending::Fails => Err(Failure::new("ConnectionClosed", "we are shutting down")),
                Ending::Hangs => std::future::pending().await,
            }
        }
    });
    let running = tokio::spawn(consumer.build().unwrap().run(stop.clone().cancelled_owned()));
    wait_for(|| begun.load(Ordering::SeqCst) == count).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[derive(Clone, Copy)]
enum Ending {
    Finishes,
    Fails,
    Hangs,
}

#[tokio::test(start_paused = true)]
async fn what_finishes_during_the_shutdown_is_settled() {
    let shop = Shop::open();
    shop.orders(["a", "b", "c"]).await;
    shut_down_with_in_flight(&shop, 3, Ending::Finishes).await;
    assert_eq!((shop.unsettled().await, shop.seen.handled()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn what_fails_during_the_shutdown_is_neither_charged_nor_parked() {
    let shop = Shop::open();
    shop.orders(["a", "b", "c"]).await;
    shut_down_with_in_flight(&shop, 3, Ending::Fails).await;
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (3, 0));
    assert_eq!(shop.seen.handed_back.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_finish_in_time_goes_back() {
    let shop = Shop::open();
    shop.orders(["a", "b", "c"]).await;
    shut_down_with_in_flight(&shop, 3, Ending::Hangs).await;
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (3, 0));
    let mut next = shop.source();
    assert_eq!(next.receive(10, Duration::ZERO).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_dead_letters_nothing_however_often_it_happens() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    for _ in 0..20 {
        shut_down_with_in_flight(&shop, 1, Ending::Hangs).await;
    }
    // Its first true failure, at the twenty-first delivery, is not its last attempt.
    let failed = Arc::new(AtomicU32::new(0));
    let counted = failed.clone();
    let consumer = shop.consumer().handler(move |_: Message| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { Err(transient()) } else { Ok(()) } }
    });
    shop.run_until(consumer, |seen| seen.handled() == 1).await;
    assert_eq!(shop.letters().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_retry_here_does_not_delay_the_shutdown() {
    let shop = Shop::open();
    shop.orders(["a"]).await;
    let mut policy = crate::shop::calm();
    policy.retry.cap = Duration::from_secs(3_600);
    let source = dlo_testkit::faults::WeakSource::new(
        shop.source(),
        |able| (able.delay, able.delayed_publish) = (None, None),
        Default::default(),
    );
    let consumer = shop.consumer_of(Box::new(source)).policy(policy).handler(|_: Message| async {
        Err::<(), _>(Failure { retry_after: Some(Duration::from_secs(3_000)), ..transient() })
    });
    let began = tokio::time::Instant::now();
    shop.run_until(consumer, |seen| seen.retried.load(Ordering::SeqCst) == 1).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((shop.unsettled().await, shop.letters().await.len()), (1, 0));
    assert_eq!(body(&shop.source().receive(1, Duration::ZERO).await.unwrap()[0].message), "a");
}

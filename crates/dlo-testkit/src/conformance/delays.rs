//! Waiting: redeliveries put off, publishes put off, and calls that wait as long as they were told.

use std::time::Duration;

use dlo_core::broker::{Outgoing, PublishError, Settlement};
use tokio::time::Instant;

use super::{Bench, Lab, keyed, settle, text, texts};

pub async fn what_comes_again_later_does_not_come_before_its_time(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let delay = bench.patience().delay;
    let mut source = bench.join("g").await;
    bench.publish(vec![text("m")]).await;
    let first = bench.receive(&mut source, 1).await;
    let settled_at = Instant::now();
    settle(&*source, first, Settlement::Again { after: delay }).await;
    let again = bench.receive(&mut source, 1).await;
    let waited = settled_at.elapsed();
    assert_eq!(texts(&again), ["m"]);
    match bench.capabilities().delay {
        // Brokers count in milliseconds, and round down.
        Some(_) => {
            assert!(waited + Duration::from_millis(2) >= delay, "came after {waited:?}, not {delay:?}")
        }
        None => assert!(waited < delay, "a broker without delays delivers at once, this took {waited:?}"),
    }
}

pub async fn what_waits_does_not_hold_up_what_is_behind(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    // What is behind must come before it: the longest time there is, unless it has to be waited for.
    let keeps_order = bench.capabilities().waiting_keeps_order;
    let delay = if keeps_order { bench.patience().delay } else { bench.patience().arrival };
    let mut source = bench.join("g").await;
    bench.publish(vec![keyed("k", "slow")]).await;
    let first = bench.receive(&mut source, 1).await;
    settle(&*source, first, Settlement::Again { after: delay }).await;
    let published_at = Instant::now();
    bench.publish(vec![keyed("k", "quick 1"), keyed("k", "quick 2")]).await;
    let mut came = Vec::new();
    while came.len() < 2 {
        let next = bench.receive(&mut source, 1).await;
        came.extend(texts(&next).into_iter().filter(|name| name.starts_with("quick")));
        settle(&*source, next, Settlement::Done).await;
    }
    let took = published_at.elapsed();
    assert_eq!(took >= delay, keeps_order, "what is behind came after {took:?}");
}

pub async fn a_delayed_publish_is_invisible_until_its_time(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let delay = bench.patience().delay;
    let mut source = bench.join("g").await;
    let later = Outgoing { delay: Some(delay), ..bench.outgoing(keyed("k", "later")) };
    let published_at = Instant::now();
    if bench.capabilities().delayed_publish.is_none() {
        let refusal = bench.broker.publisher().publish(vec![later]).await.remove(0);
        assert!(matches!(refusal, Err(PublishError::Refused(_))), "a delay that is not kept must be refused");
        return;
    }
    bench.publish_as_is(vec![later, bench.outgoing(keyed("k", "now"))]).await;
    assert_eq!(texts(&bench.receive(&mut source, 1).await), ["now"]);
    assert_eq!(texts(&bench.receive(&mut source, 1).await), ["later"]);
    assert!(published_at.elapsed() + Duration::from_millis(2) >= delay);
}

pub async fn a_receive_waits_no_longer_than_told(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let silence = bench.patience().silence;
    let began = Instant::now();
    bench.expect_silence(&mut source).await;
    assert!(began.elapsed() >= silence / 2, "returned after {:?}, told {silence:?}", began.elapsed());
    assert!(began.elapsed() <= silence + bench.patience().arrival);
}

pub async fn a_receive_wakes_when_something_comes(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let arrival = bench.patience().arrival;
    let began = Instant::now();
    let waiting = tokio::spawn(async move {
        let came = source.receive(10, arrival).await.expect("the broker is up");
        texts(&came)
    });
    tokio::task::yield_now().await;
    bench.publish(vec![text("m")]).await;
    assert_eq!(waiting.await.expect("no panic"), ["m"]);
    assert!(began.elapsed() < arrival, "it waited for the end of its time");
}

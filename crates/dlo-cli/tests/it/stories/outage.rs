//! The blip that must not park anything: a dependency is away for ninety seconds, told as it should be and told badly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::failure::Failure;
use dlo_core::message::Message;

use super::{Counts, Line, order, redis, run_until};

const OUTAGE: Duration = Duration::from_secs(90);
/// Orders come all the while: so many a second, before, during and after.
const RATE: u64 = 40;
const DAY: u64 = RATE * 100;

async fn survives(name: &str, told: fn() -> Failure) {
    let line = Arc::new(Line::open(redis().await, name, None).await);
    let counts = Arc::new(Counts::default());
    let began = Instant::now();
    let shop = line.clone();
    let selling = tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        for batch in 0..DAY / (RATE / 4) {
            tick.tick().await;
            let first = batch * (RATE / 4);
            shop.publish((first..first + RATE / 4).map(|n| order(n, &format!("C-{n}")))).await;
        }
    });
    // The first seconds are calm.
    let outage = Duration::from_secs(3)..Duration::from_secs(3) + OUTAGE;
    let consumer = line.consumer().await.watch(counts.clone()).handler(move |_: Message| {
        let down = outage.contains(&began.elapsed());
        async move { if down { Err(told()) } else { Ok(()) } }
    });
    let all = || Counts::of(&counts.handled) >= DAY;
    run_until(consumer, Duration::from_secs(300), all).await;
    selling.await.unwrap();
    let letters = line.letters(0).await;
    eprintln!(
        "{name}: {DAY} orders through an outage of {} s: {} handled, {} parked, {} pauses, {} tries in vain",
        OUTAGE.as_secs(),
        Counts::of(&counts.handled),
        letters.len(),
        Counts::of(&counts.paused),
        Counts::of(&counts.retried),
    );
    assert_eq!((Counts::of(&counts.handled), letters.len()), (DAY, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_told_as_503_parks_nothing() {
    survives("blip-503", || Failure {
        http_status: Some(503),
        dependency: Some("tax".to_owned()),
        ..Failure::new("ServiceUnavailable", "tax-service is away")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_told_as_503_without_a_name_parks_nothing() {
    survives("blip-anonymous", || Failure {
        http_status: Some(503),
        ..Failure::new("", "Service Unavailable")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_a_framework_tells_as_bare_500s_parks_nothing() {
    survives("blip-500", || Failure { http_status: Some(500), ..Failure::new("", "Internal Server Error") })
        .await;
}

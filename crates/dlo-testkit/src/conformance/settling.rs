//! Nothing acknowledged comes again, nothing unacknowledged is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use dlo_core::broker::Settlement;

use super::{Bench, Lab, numbered, settle, sorted, text, text_of, texts};

const AT_ONCE: Settlement = Settlement::Again { after: Duration::ZERO };

pub async fn what_is_done_is_not_delivered_again(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(numbered(10)).await;
    let deliveries = bench.receive(&mut source, 10).await;
    settle(&*source, deliveries, Settlement::Done).await;
    bench.expect_silence(&mut source).await;
    source.close().await.expect("closing works");
    let mut next = bench.join("g").await;
    bench.expect_silence(&mut next).await;
}

pub async fn what_is_dropped_unsettled_comes_again_when_its_source_goes(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(numbered(10)).await;
    let first = sorted(texts(&bench.receive(&mut source, 10).await));
    drop(source);
    let mut next = bench.join("g").await;
    assert_eq!(sorted(texts(&bench.receive(&mut next, 10).await)), first);
}

pub async fn closing_hands_back_what_is_in_flight(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(numbered(10)).await;
    let mut deliveries = bench.receive(&mut source, 10).await;
    let open = deliveries.split_off(4);
    settle(&*source, deliveries, Settlement::Done).await;
    source.close().await.expect("closing works");
    let mut next = bench.join("g").await;
    let again = bench.receive(&mut next, 6).await;
    assert_eq!(sorted(texts(&again)), sorted(texts(&open)));
    bench.expect_silence(&mut next).await;
}

pub async fn a_cancelled_receive_loses_nothing(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let mut seen = BTreeSet::new();
    for n in 0..20 {
        bench.publish(vec![text(format!("m{n}"))]).await;
        // Given up at an instant that is sometimes before and sometimes after the message came.
        let given_up = Duration::from_micros(n * 50);
        if let Ok(came) = tokio::time::timeout(given_up, source.receive(10, bench.patience().arrival)).await {
            let came = came.expect("the broker is up");
            seen.extend(texts(&came));
            settle(&*source, came, Settlement::Done).await;
        }
    }
    // What a cancelled call had taken may come with the next source only.
    source.close().await.expect("closing works");
    let mut next = bench.join("g").await;
    let rest = bench.receive(&mut next, 20 - seen.len()).await;
    seen.extend(texts(&rest));
    assert_eq!(seen.len(), 20, "lost by cancelling: only {seen:?} came");
}

pub async fn a_settlement_after_the_source_is_gone_settles_nothing(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut first = bench.join("g").await;
    bench.publish(vec![text("m")]).await;
    let late = bench.receive(&mut first, 1).await;
    let settler = first.settler();
    first.close().await.expect("closing works");
    let mut second = bench.join("g").await;
    let held = bench.receive(&mut second, 1).await;
    let settled = late.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
    settler.settle(settled).await.expect("it is no error");
    drop((held, second));
    let mut third = bench.join("g").await;
    assert_eq!(texts(&bench.receive(&mut third, 1).await), ["m"]);
}

pub async fn what_is_refused_is_not_delivered_again(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(vec![text("m")]).await;
    let refused = bench.receive(&mut source, 1).await;
    settle(&*source, refused, Settlement::Refuse).await;
    source.close().await.expect("closing works");
    let mut next = bench.join("g").await;
    bench.expect_silence(&mut next).await;
}

pub async fn a_message_in_flight_is_in_one_hand_only(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(numbered(10)).await;
    let held = bench.receive(&mut source, 10).await;
    bench.expect_silence(&mut source).await;
    let mut other = bench.join("g").await;
    bench.expect_silence(&mut other).await;
    assert_eq!(held.len(), 10);
}

pub async fn deliveries_are_counted_where_the_broker_counts(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let counts = bench.capabilities().delivery_count;
    let mut source = bench.join("g").await;
    bench.publish(vec![text("m")]).await;
    for expected in 1..=3 {
        let delivery = bench.receive(&mut source, 1).await;
        assert_eq!(delivery[0].delivery_count, counts.then_some(expected));
        settle(&*source, delivery, AT_ONCE).await;
    }
    let in_flight = bench.receive(&mut source, 1).await;
    source.close().await.expect("closing works");
    drop(in_flight);
    let mut next = bench.join("g").await;
    let delivery = bench.receive(&mut next, 1).await;
    assert_eq!(delivery[0].delivery_count, counts.then_some(5), "handing back does not undo the count");
}

pub async fn nothing_confirmed_is_lost_in_a_rough_life(lab: &dyn Lab) {
    const COUNT: usize = 500;
    let bench = Bench::new(lab).await;
    let mut done = BTreeSet::new();
    let mut source = bench.join("g").await;
    bench.publish(numbered(COUNT)).await;
    let mut turn = 0_usize;
    while done.len() < COUNT {
        let came = source.receive(37, bench.patience().arrival).await.expect("the broker is up");
        assert!(!came.is_empty(), "{} of {COUNT} came, then nothing", done.len());
        let mut settled = Vec::new();
        for delivery in came {
            turn += 1;
            let name = text_of(&delivery);
            match turn % 11 {
                0 => drop(delivery),
                1 => settled.push(delivery.settle(AT_ONCE)),
                _ => {
                    assert!(done.insert(name), "settled as done and delivered again");
                    settled.push(delivery.settle(Settlement::Done));
                }
            }
        }
        source.settler().settle(settled).await.expect("the broker is up");
        if turn.is_multiple_of(3) || done.len() + 60 > COUNT {
            source.close().await.expect("closing works");
            source = bench.join("g").await;
        }
    }
    bench.expect_silence(&mut source).await;
}

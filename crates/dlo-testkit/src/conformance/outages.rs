//! The server goes and comes back, the wire is cut: nothing confirmed is lost, and everybody goes on by themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use dlo_core::broker::{BrokerError, Delivery, Settlement, Source};
use tokio::time::Instant;

use super::{Bench, Outages, keyed, settle, text, text_of};

/// Receives, riding out an outage, until `enough` says so.
async fn receive_until(
    bench: &Bench<'_>,
    source: &mut Box<dyn Source>,
    mut enough: impl FnMut(&Delivery) -> bool,
) {
    let deadline = Instant::now() + 4 * bench.patience().arrival;
    loop {
        assert!(Instant::now() < deadline, "what was confirmed did not come");
        match source.receive(10, Duration::from_millis(500)).await {
            Ok(came) => {
                let mut done = false;
                for delivery in &came {
                    done |= enough(delivery);
                }
                let settled = came.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
                // An answer that did not get through is a delivery that comes again.
                let _ = source.settler().settle(settled).await;
                if done {
                    return;
                }
            }
            Err(error) => {
                assert!(matches!(error, BrokerError::Unavailable(_)), "an outage is not {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Publishes what is not confirmed yet, over and over, until all is.
async fn publish_stubbornly(bench: &Bench<'_>, bodies: &[String]) {
    let deadline = Instant::now() + 4 * bench.patience().arrival;
    let mut left: Vec<String> = bodies.to_vec();
    let mut why = None;
    while !left.is_empty() {
        assert!(Instant::now() < deadline, "{} messages were never confirmed: {why:?}", left.len());
        let outgoing = left.iter().map(|body| bench.outgoing(keyed("k", body))).collect();
        let results = bench.broker.publisher().publish(outgoing).await;
        let mut results = results.into_iter();
        left.retain(|_| match results.next() {
            Some(Ok(_)) => false,
            Some(Err(error)) => {
                why = Some(error);
                true
            }
            None => true,
        });
    }
}

pub async fn nothing_confirmed_is_lost_when_the_server_stops_in_the_middle(lab: &dyn Outages) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let bodies: Vec<String> = (0..200).map(|n| format!("m{n}")).collect();
    publish_stubbornly(&bench, &bodies[..100]).await;
    // Half of it is in hand, unsettled, when the server goes.
    let held = source.receive(50, bench.patience().arrival).await.expect("the broker is up");
    lab.stop().await;
    drop(held);
    lab.start().await;
    publish_stubbornly(&bench, &bodies[100..]).await;
    let mut missing: BTreeSet<String> = bodies.into_iter().collect();
    // Some brokers give back what was in hand with the connection's end, so the same source must find it. In a log it
    // stays with its member, which outlives the connection: its successor finds it.
    if bench.capabilities().groups {
        source.close().await.expect("closing works");
        source = bench.join("g").await;
    }
    receive_until(&bench, &mut source, |delivery| {
        missing.remove(&text_of(delivery));
        missing.is_empty()
    })
    .await;
}

pub async fn a_source_goes_on_after_the_server_was_away(lab: &dyn Outages) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(vec![text("before")]).await;
    let before = bench.receive(&mut source, 1).await;
    settle(&*source, before, Settlement::Done).await;
    lab.stop().await;
    let away = source.receive(1, Duration::from_millis(300)).await;
    if let Err(error) = &away {
        assert!(matches!(error, BrokerError::Unavailable(_)), "away is not {error}");
    }
    lab.start().await;
    publish_stubbornly(&bench, &["after".to_owned()]).await;
    receive_until(&bench, &mut source, |delivery| text_of(delivery) == "after").await;
}

pub async fn a_source_goes_on_after_its_connection_was_cut(lab: &dyn Outages) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(vec![text("held")]).await;
    let held = bench.receive(&mut source, 1).await;
    lab.cut().await;
    // The answer of a delivery whose connection is gone may fail or not; the message must not get lost by it.
    drop(held);
    publish_stubbornly(&bench, &["after".to_owned()]).await;
    let mut missing = BTreeSet::from(["held".to_owned(), "after".to_owned()]);
    if !bench.capabilities().groups {
        receive_until(&bench, &mut source, |delivery| {
            missing.remove(&text_of(delivery));
            missing.is_empty()
        })
        .await;
        return;
    }
    // In a log what is held stays held by its member as long as that lives: its successor has it.
    receive_until(&bench, &mut source, |delivery| {
        missing.remove(&text_of(delivery));
        missing.is_empty() || text_of(delivery) == "after"
    })
    .await;
}

pub async fn a_publisher_confirms_nothing_while_the_server_is_away_and_goes_on_after(lab: &dyn Outages) {
    let bench = Bench::new(lab).await;
    bench.publish(vec![text("before")]).await;
    lab.stop().await;
    let patience = 4 * bench.patience().arrival;
    let publisher = bench.broker.publisher();
    let results = tokio::time::timeout(patience, publisher.publish(vec![bench.outgoing(text("lost"))]))
        .await
        .expect("a publish to a server that is away ends by itself");
    assert!(results[0].is_err(), "nobody was there to confirm");
    lab.start().await;
    publish_stubbornly(&bench, &["after".to_owned()]).await;
}

pub async fn a_reader_goes_on_after_the_server_was_away(lab: &dyn Outages) {
    let bench = Bench::new(lab).await;
    if !bench.capabilities().looking_is_free {
        return;
    }
    let partition = bench.publish(vec![keyed("k", "before")]).await[0].partition.unwrap_or(0);
    let mut reader = bench.broker.reader(&bench.queue, partition, None).await.expect("looking is free");
    let look = reader.read(10, bench.patience().arrival).await.expect("the broker is up");
    assert_eq!(look.seen.len(), 1);
    lab.stop().await;
    lab.start().await;
    publish_stubbornly(&bench, &["after".to_owned()]).await;
    let deadline = Instant::now() + 4 * bench.patience().arrival;
    loop {
        assert!(Instant::now() < deadline, "the reader did not go on");
        match reader.read(10, Duration::from_millis(500)).await {
            Ok(look) if look.seen.iter().any(|one| *one.message.payload.0 == *b"after") => return,
            Ok(_) => {}
            Err(error) => assert!(matches!(error, BrokerError::Unavailable(_)), "an outage is not {error}"),
        }
    }
}

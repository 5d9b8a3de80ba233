//! Sends that were under way when the server went or the wire was cut: each is known afterwards, by the means that the
//! broker declares. Nothing is lost, nothing is there twice, and nothing comes later behind the back of who looked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{Broker, LostConfirm, Outgoing, Position, PublishError, Publisher, Settlement};
use dlo_core::message::Message;
use tokio::time::Instant;

use super::replaying::send;
use super::{Bench, Outages, keyed, sorted, text_of};

const SENDS: usize = 600;
/// Of one call.
const BATCH: usize = 20;

pub async fn sends_in_doubt_are_known_after_the_server_was_away(lab: &dyn Outages) {
    sends_in_doubt_are_known_after(lab, async {
        lab.stop().await;
        lab.start().await;
    })
    .await;
}

pub async fn sends_in_doubt_are_known_after_the_wire_was_cut(lab: &dyn Outages) {
    sends_in_doubt_are_known_after(lab, lab.cut()).await;
}

async fn sends_in_doubt_are_known_after(lab: &dyn Outages, trouble: impl Future<Output = ()>) {
    let bench = Bench::new(lab).await;
    match bench.capabilities().lost_confirm {
        LostConfirm::SendAgain | LostConfirm::SendAgainInWindow => send_again(&bench, lab, trouble).await,
        LostConfirm::ReadBack => read_back(&bench, lab, trouble).await,
        LostConfirm::Unknown => {}
    }
}

fn sends(bench: &Bench<'_>) -> Vec<(String, Message)> {
    let made = |n: usize| {
        let body = format!("m{n:04}");
        (body.clone(), send(&bench.group(&body), keyed(&format!("k{}", n % 7), body)))
    };
    (0..SENDS).map(made).collect()
}

/// What a publisher said of each body, batch after batch, until it is over or all are sent.
async fn publish_all(
    bench: &Bench<'_>,
    publisher: &Arc<dyn Publisher>,
) -> Vec<(String, Result<(), PublishError>)> {
    let mut said = Vec::new();
    for batch in sends(bench).chunks(BATCH) {
        let outgoing: Vec<Outgoing> =
            batch.iter().map(|(_, message)| bench.outgoing(message.clone())).collect();
        let results = publisher.publish(outgoing).await;
        assert_eq!(results.len(), batch.len());
        for ((body, _), result) in batch.iter().zip(results) {
            said.push((body.clone(), result.map(drop)));
        }
        if said.iter().any(|(_, result)| matches!(result, Err(PublishError::Fenced(_)))) {
            break;
        }
    }
    said
}

/// Lets trouble come when some of the sends are confirmed and more are under way.
async fn publish_in_trouble(
    bench: &Bench<'_>,
    publisher: &Arc<dyn Publisher>,
    trouble: impl Future<Output = ()>,
) -> Vec<(String, Result<(), PublishError>)> {
    let late = async {
        tokio::time::sleep(Duration::from_millis(15)).await;
        trouble.await;
    };
    let (said, ()) = tokio::join!(publish_all(bench, publisher), late);
    said
}

/// A publisher by another handle, as soon as the server lets it be made.
async fn successor(bench: &Bench<'_>, broker: &Arc<dyn Broker>, name: &str) -> Arc<dyn Publisher> {
    let deadline = Instant::now() + 4 * bench.patience().arrival;
    loop {
        match broker.fenced_publisher(name).await {
            Ok(publisher) => return publisher,
            Err(error) => assert!(error.is_transient() && Instant::now() < deadline, "{error}"),
        }
    }
}

async fn ends(bench: &Bench<'_>) -> Vec<Position> {
    bench.broker.ends(&bench.queue).await.expect("queues can be read back")
}

async fn send_again(bench: &Bench<'_>, lab: &dyn Outages, trouble: impl Future<Output = ()>) {
    let name = bench.group("r");
    let first = successor(bench, &bench.broker, &name).await;
    publish_in_trouble(bench, &first, trouble).await;
    let second = successor(bench, &lab.another().await, &name).await;
    let deadline = Instant::now() + 4 * bench.patience().arrival;
    loop {
        // Whatever was said before, everything is sent again until all of it is confirmed.
        let said = publish_all(bench, &second).await;
        match said.iter().find_map(|(_, result)| result.as_ref().err()) {
            None => break,
            Some(error) => assert!(Instant::now() < deadline, "never confirmed: {error}"),
        }
    }
    let mut source = bench.join("g").await;
    let mut came = Vec::new();
    while came.len() < SENDS {
        assert!(Instant::now() < deadline, "{} of {SENDS} came", came.len());
        let some = source.receive(100, bench.patience().silence).await.expect("the broker is up");
        came.extend(some.iter().map(text_of));
        super::settle(&*source, some, Settlement::Done).await;
    }
    bench.expect_silence(&mut source).await;
    let all: Vec<String> = sends(bench).into_iter().map(|(body, _)| body).collect();
    assert_eq!(sorted(came), all, "each of them once");
}

async fn read_back(bench: &Bench<'_>, lab: &dyn Outages, trouble: impl Future<Output = ()>) {
    let name = bench.group("r");
    let before = ends(bench).await;
    let first = successor(bench, &bench.broker, &name).await;
    let said = publish_in_trouble(bench, &first, trouble).await;
    let _second = successor(bench, &lab.another().await, &name).await;
    let seen = bench.read_since(&before).await;
    let there: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(there.len(), seen.len(), "each of them once");
    for (body, result) in &said {
        match result {
            Ok(()) => assert!(there.contains(body), "{body} was confirmed and is not there"),
            Err(PublishError::Unconfirmed(_) | PublishError::Fenced(_)) => {}
            Err(certain) => assert!(!there.contains(body), "{body} is there in spite of: {certain}"),
        }
    }
    let late = publish_all(bench, &first).await;
    assert!(late.iter().all(|(_, result)| result.is_err()), "the first one is fenced");
    tokio::time::sleep(bench.patience().silence).await;
    assert_eq!(bench.read_since(&before).await, seen, "nothing comes behind the back of who looked");
}

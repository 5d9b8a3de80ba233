//! Confirms really confirm, one by one.

use dlo_core::broker::{Destination, Outgoing};

use super::{Bench, Lab, numbered, sorted, text, texts};

pub async fn each_message_has_its_own_result(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let nowhere = Destination::queue(lab.fresh_name());
    let lost = Outgoing { to: nowhere, message: text("lost"), delay: None };
    let outgoing = vec![bench.outgoing(text("a")), lost, bench.outgoing(text("b"))];
    let results = bench.broker.publisher().publish(outgoing).await;
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(sorted(texts(&bench.receive(&mut source, 2).await)), ["a", "b"]);
    bench.expect_silence(&mut source).await;
}

pub async fn what_is_confirmed_is_there(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    // Nobody listens yet: a confirm does not depend on a consumer.
    let joined = bench.join("g").await;
    joined.close().await.expect("closing works");
    let confirmed = bench.publish(numbered(200)).await;
    assert_eq!(confirmed.len(), 200);
    let mut source = bench.join("g").await;
    let mut names = sorted(texts(&bench.receive(&mut source, 200).await));
    names.dedup();
    assert_eq!(names.len(), 200);
}

pub async fn a_queue_that_does_not_exist_confirms_nothing(lab: &dyn Lab) {
    let broker = lab.broker();
    let outgoing = Outgoing { to: Destination::queue(lab.fresh_name()), message: text("m"), delay: None };
    let results = broker.publisher().publish(vec![outgoing]).await;
    assert!(results.len() == 1 && results[0].is_err(), "{results:?}");
}

//! Groups: each on its own; inside one, every message in one hand.

use dlo_core::broker::Settlement;
use tokio::time::Instant;

use super::{Bench, Lab, numbered, settle, sorted, texts};

pub async fn groups_are_independent_as_declared(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut pricing = bench.join("pricing").await;
    let mut mail = bench.join("mail").await;
    bench.publish(numbered(20)).await;
    let priced = bench.receive(&mut pricing, if bench.capabilities().groups { 20 } else { 1 }).await;
    let names = sorted(texts(&priced));
    settle(&*pricing, priced, Settlement::Done).await;
    if bench.capabilities().groups {
        let mailed = bench.receive(&mut mail, 20).await;
        assert_eq!(sorted(texts(&mailed)), names, "what one group settled the other still gets");
    } else {
        let mailed = bench.receive(&mut mail, 1).await;
        assert!(!names.contains(&texts(&mailed)[0]), "without groups every message has one receiver");
    }
}

pub async fn consumers_of_one_group_divide_the_messages(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut one = bench.join("g").await;
    let mut two = bench.join("g").await;
    bench.publish(numbered(100)).await;
    let mut all = Vec::new();
    let wait = bench.patience().silence;
    let deadline = Instant::now() + 4 * bench.patience().arrival;
    while all.len() < 100 {
        for source in [&mut one, &mut two] {
            let came = source.receive(9, wait).await.expect("the broker is up");
            all.extend(texts(&came));
            settle(&**source, came, Settlement::Done).await;
        }
        assert!(Instant::now() < deadline, "{} of 100 came, then nothing", all.len());
    }
    let mut names = sorted(all);
    names.dedup();
    assert_eq!(names.len(), 100, "each message went to one of them");
}

pub async fn a_consumer_that_leaves_hands_its_share_to_the_others(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut stays = bench.join("g").await;
    let mut leaves = bench.join("g").await;
    bench.publish(numbered(60)).await;
    let taken = leaves.receive(60, bench.patience().silence).await.expect("the broker is up");
    leaves.close().await.expect("closing works");
    drop(taken);
    let mut names = sorted(texts(&bench.receive(&mut stays, 60).await));
    names.dedup();
    assert_eq!(names.len(), 60);
}

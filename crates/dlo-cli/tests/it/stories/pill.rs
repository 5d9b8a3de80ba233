//! The pill that kills the process: found without the handler's help, parked as poison, and nobody else pays for it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dlo_core::envelope::decode;
use dlo_core::reason::Reason;

use super::child::Job;
use super::{Line, kafka, number, order, rabbitmq, redis};

const ORDERS: u64 = 2_000;
const PILL: u64 = 777;

/// A supervisor as every platform has one: what dies is started again.
async fn story(name: &str, section: String) {
    let line = Line::open(section, &format!("pill-{name}"), Some(4)).await;
    let scratch = tempfile::tempdir().unwrap();
    let job = Job {
        section: line.section.clone(),
        queue: line.queue.clone(),
        dlq: line.dlq.clone(),
        log: scratch.path().join("done"),
        state: scratch.path().join("state"),
        pill: Some(PILL),
        fails: None,
        ordered: false,
        concurrency: 32,
    };
    line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    let (began, mut crashes) = (Instant::now(), 0);
    let mut child = job.start();
    let finished = || job.finished().into_iter().map(|(_, number)| number).collect::<BTreeSet<u64>>();
    while finished().len() < ORDERS as usize - 1 {
        let (late, done) = (began.elapsed() > Duration::from_secs(120), finished().len());
        assert!(!late, "{name}: {done} done, {crashes} crashes\n{}", job.told());
        if child.try_wait().unwrap().is_some() {
            crashes += 1;
            assert!(crashes < 12, "{name}: the pill was not found");
            child = job.start();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let letters = line.letters(1).await;
    child.kill().unwrap();
    child.wait().unwrap();
    let told = decode(&letters[0].headers).unwrap();
    eprintln!(
        "{name}: {crashes} crashes in {:.1} s; parked: {}",
        began.elapsed().as_secs_f64(),
        told.error_message.as_deref().unwrap_or_default()
    );
    assert_eq!((letters.len(), number(&letters[0]), told.reason), (1, PILL, Some(Reason::Poison)));
    assert!(!finished().contains(&PILL));
    assert!((3..=4).contains(&crashes), "{name}: {crashes} crashes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pill_on_rabbitmq_is_parked_and_its_neighbours_are_not() {
    story("rabbitmq", rabbitmq().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pill_on_redis_is_parked_and_its_neighbours_are_not() {
    story("redis", redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pill_on_kafka_is_parked_and_its_neighbours_are_not() {
    story("kafka", kafka().await).await;
}

//! Order per key over three instances, with failures, kills, deployments and the rebalances they bring, checked by a model:
//! of one key, a message is never finished for the first time before the one before it.

use std::collections::HashMap;
use std::process::Child;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::child::Job;
use super::{Line, kafka, order};

const KEYS: u64 = 40;
const EACH: u64 = 60;

fn stop(child: &mut Child, graceful: bool) {
    if graceful {
        let pid = child.id().to_string();
        std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    } else {
        child.kill().unwrap();
    }
    child.wait().unwrap();
}

/// The model: first completions of each key, in order and complete.
fn check(finished: &[(String, u64)]) {
    let mut last: HashMap<&str, u64> = HashMap::new();
    for (key, number) in finished {
        let expected = last.get(key.as_str()).map_or(0, |last| last + 1);
        // A repeat of something that was finished before is what "at least once" means.
        assert!(*number <= expected, "key {key}: {number} was finished before {expected}");
        if *number == expected {
            last.insert(key, *number);
        }
    }
    assert_eq!(last.len() as u64, KEYS);
    assert!(last.values().all(|last| *last == EACH - 1), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_in_order_over_three_instances_that_fail_die_and_are_deployed() {
    let line = Line::open(kafka().await, "keys", Some(6)).await;
    let scratch = tempfile::tempdir().unwrap();
    let job = Job {
        section: line.section.clone(),
        queue: line.queue.clone(),
        dlq: line.dlq.clone(),
        log: scratch.path().join("done"),
        state: scratch.path().join("state"),
        pill: None,
        fails: Some(23),
        ordered: true,
        concurrency: 16,
    };
    let mut random = StdRng::seed_from_u64(7);
    let mut instances: Vec<Child> = (0..3).map(|_| job.start()).collect();
    let began = Instant::now();
    // The number of an order is its place among those of its key.
    let orders = (0..EACH).flat_map(|n| (0..KEYS).map(move |key| (n, key)));
    let mut orders: Vec<_> = orders.map(|(n, key)| order(n, &format!("C-{key}"))).collect();
    let mut strikes = 0;
    let all = (KEYS * EACH) as usize;
    loop {
        let batch = orders.len().min(200);
        line.publish(orders.drain(..batch)).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut distinct = job.finished();
        distinct.sort();
        distinct.dedup();
        if orders.is_empty() && distinct.len() == all {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(150), "{} of {all} finished", distinct.len());
        if strikes < 6 {
            strikes += 1;
            let one = random.random_range(0..instances.len());
            stop(&mut instances[one], random.random());
            instances[one] = job.start();
        }
    }
    instances.iter_mut().for_each(|instance| stop(instance, true));
    let finished = job.finished();
    check(&finished);
    eprintln!(
        "keys: {all} messages of {KEYS} keys in order over 3 instances, {strikes} kills and deployments, {} repeats, {:.0} s",
        finished.len() - all,
        began.elapsed().as_secs_f64()
    );
    assert!(line.letters(0).await.is_empty());
}

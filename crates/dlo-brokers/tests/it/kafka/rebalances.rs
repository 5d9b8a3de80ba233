//! Members come and go while messages flow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use dlo_core::broker::{Settlement, Source};

use super::{body, done, lab, message, publish, to};

const KEYS: usize = 12;
const COUNT: usize = 1_200;

#[tokio::test(flavor = "multi_thread")]
async fn members_that_come_and_go_lose_nothing_and_keep_the_order_of_each_key() {
    let lab = lab().await;
    let queue = lab.topic(6, &[]).await;
    let all = (0..COUNT).map(|n| to(&queue, None, message(&format!("k{}", n % KEYS), &format!("{n:05}"))));
    publish(&lab.broker, all.collect()).await;
    let mut members: Vec<Box<dyn Source>> = vec![lab.broker.source(&queue, "g").await.unwrap()];
    let mut came: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut turn, mut seen) = (0, BTreeSet::new());
    let deadline = Instant::now() + Duration::from_secs(90);
    while seen.len() < COUNT {
        assert!(Instant::now() < deadline, "{} of {COUNT} came", seen.len());
        turn += 1;
        match turn {
            4 | 8 => members.push(lab.broker.source(&queue, "g").await.unwrap()),
            20 => members.remove(0).close().await.unwrap(),
            24 => drop(members.remove(0)),
            _ => {}
        }
        for member in &mut members {
            let deliveries = member.receive(20, Duration::from_millis(200)).await.unwrap();
            for delivery in &deliveries {
                let key = String::from_utf8_lossy(&delivery.message.key.as_ref().unwrap().0).into_owned();
                // What is settled before it is handed over is never seen twice.
                assert!(seen.insert(body(delivery)), "{} came twice", body(delivery));
                came.entry(key).or_default().push(body(delivery));
            }
            done(&**member, deliveries).await;
        }
    }
    assert_eq!(came.len(), KEYS);
    for (key, of_key) in came {
        assert!(of_key.is_sorted() && of_key.len() == COUNT / KEYS, "{key}: {of_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_above_what_is_open_does_not_come_again() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    publish(&lab.broker, (0..20).map(|n| to(&queue, None, message("k", &format!("{n:02}")))).collect()).await;
    let mut first = lab.broker.source(&queue, "g").await.unwrap();
    let mut held = Vec::new();
    while held.len() < 20 {
        held.extend(first.receive(20, Duration::from_secs(10)).await.unwrap());
    }
    // Every third is left open.
    let (open, settled): (Vec<_>, Vec<_>) = held.into_iter().enumerate().partition(|(at, _)| at % 3 == 0);
    let expected: Vec<String> = open.iter().map(|(_, delivery)| body(delivery)).collect();
    done(&*first, settled.into_iter().map(|(_, delivery)| delivery).collect()).await;
    let depth = lab.broker.inspector().inspect(&queue, Some("g")).await.unwrap().depth;
    assert_eq!(depth, Some(expected.len() as u64), "what is done does not wait");
    first.close().await.unwrap();
    let mut next = lab.broker.source(&queue, "g").await.unwrap();
    let mut again = Vec::new();
    while again.len() < expected.len() {
        again.extend(next.receive(20, Duration::from_secs(10)).await.unwrap());
    }
    assert_eq!(again.iter().map(body).collect::<Vec<_>>(), expected);
    done(&*next, again).await;
    assert!(next.receive(20, Duration::from_secs(1)).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_back_comes_again_before_what_is_behind_it() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    publish(&lab.broker, (0..6).map(|n| to(&queue, None, message("k", &n.to_string()))).collect()).await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut held = Vec::new();
    while held.len() < 3 {
        held.extend(source.receive(3 - held.len(), Duration::from_secs(10)).await.unwrap());
    }
    let at_once = Settlement::Again { after: Duration::ZERO };
    let settled = held.into_iter().rev().map(|delivery| delivery.settle(at_once)).collect();
    source.settler().settle(settled).await.unwrap();
    let mut all = Vec::new();
    while all.len() < 6 {
        all.extend(source.receive(6, Duration::from_secs(10)).await.unwrap());
    }
    assert_eq!(all.iter().map(body).collect::<Vec<_>>(), ["0", "1", "2", "3", "4", "5"]);
    assert!(all[0].redelivered && !all[3].redelivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_waits_survives_its_member_and_keeps_its_first_place() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    publish(&lab.broker, vec![to(&queue, None, message("k", "later"))]).await;
    let mut first = lab.broker.source(&queue, "g").await.unwrap();
    let held = first.receive(1, Duration::from_secs(20)).await.unwrap().remove(0);
    let (origin, sent, published_at) = (held.origin.clone(), held.message.clone(), held.published_at);
    let again = held.settle(Settlement::Again { after: Duration::from_secs(3) });
    let settled_at = Instant::now();
    first.settler().settle(vec![again]).await.unwrap();
    first.close().await.unwrap();
    // The original is done: what comes now is its copy, which waited in its topic.
    let mut next = lab.broker.source(&queue, "g").await.unwrap();
    let came = next.receive(1, Duration::from_secs(30)).await.unwrap().remove(0);
    assert!(settled_at.elapsed() >= Duration::from_secs(3), "it came after {:?}", settled_at.elapsed());
    assert_eq!((&came.origin, &came.message, came.published_at), (&origin, &sent, published_at));
    assert!(came.redelivered);
    done(&*next, vec![came]).await;
    next.close().await.unwrap();
    let retries = lab.broker.inspector().inspect(&format!("{queue}.retry.g.5s"), Some("g")).await.unwrap();
    assert_eq!(retries.depth, Some(0));
}

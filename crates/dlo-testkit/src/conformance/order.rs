//! Order, where it is promised, and coordinates that mean what they say.

use std::collections::BTreeMap;

use dlo_core::broker::{Destination, Order, Outgoing, Settlement};

use super::{Bench, Lab, keyed, numbered, settle, text, text_of, texts};

const KEYS: usize = 5;
const EACH: usize = 40;

fn interleaved() -> Vec<dlo_core::message::Message> {
    (0..KEYS * EACH)
        .map(|n| keyed(&format!("k{}", n % KEYS), format!("k{}:{:04}", n % KEYS, n / KEYS)))
        .collect()
}

fn by_key(all: Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in all {
        let key = one.split(':').next().unwrap_or_default().to_owned();
        keys.entry(key).or_default().push(one);
    }
    keys
}

pub async fn messages_of_one_key_come_in_their_order(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let sent: Vec<String> =
        interleaved().iter().map(|m| String::from_utf8_lossy(&m.payload.0).into_owned()).collect();
    for part in interleaved().chunks(33) {
        bench.publish(part.to_vec()).await;
    }
    let mut all = Vec::new();
    while all.len() < KEYS * EACH {
        let came = bench.receive(&mut source, 10).await;
        all.extend(texts(&came));
        settle(&*source, came, Settlement::Done).await;
    }
    match bench.capabilities().order {
        Order::WholeQueue => assert_eq!(all, sent),
        Order::PerPartition => assert_eq!(by_key(all), by_key(sent)),
        Order::None => {
            all.sort();
            assert_eq!(by_key(all), by_key(sent), "without order, still each one once");
        }
    }
}

pub async fn what_is_handed_back_keeps_its_order(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(interleaved()).await;
    let half = bench.receive(&mut source, KEYS * EACH / 2).await;
    source.close().await.expect("closing works");
    drop(half);
    let mut next = bench.join("g").await;
    let all = texts(&bench.receive(&mut next, KEYS * EACH).await);
    let ordered = by_key(all).into_values().all(|of_key| of_key.len() == EACH && of_key.is_sorted());
    assert!(ordered || bench.capabilities().order == Order::None);
}

pub async fn offsets_are_where_the_confirm_said(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    let confirmed = bench.publish(numbered(30)).await;
    let mut came = BTreeMap::new();
    for delivery in bench.receive(&mut source, 30).await {
        came.insert(text_of(&delivery), (delivery.origin.partition, delivery.origin.offset));
    }
    for (n, place) in confirmed.iter().enumerate() {
        let found = came[&format!("m{n}")];
        match bench.capabilities().offsets {
            true => {
                // A stream with one sequence has no partitions to tell.
                assert!(place.offset.is_some(), "message {n} has no coordinates");
                assert_eq!(found, (place.partition, place.offset), "message {n}");
            }
            false => assert_eq!(place.offset, None, "offsets that are given must be declared"),
        }
    }
}

pub async fn a_partition_that_is_told_is_honoured(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if !bench.capabilities().offsets {
        let confirmed = bench.publish(vec![text("m")]).await;
        assert_eq!(confirmed[0].partition, None, "partitions that are given must be declared");
        return;
    }
    let partitions = bench.broker.partitions(&bench.queue).await.expect("the queue is there");
    let mut source = bench.join("g").await;
    let told: Vec<Outgoing> = partitions
        .iter()
        .take(2)
        .copied()
        .flat_map(|partition| numbered(3).into_iter().map(move |message| (partition, message)))
        .map(|(partition, message)| {
            let to = Destination { partition: Some(partition), ..Destination::queue(&bench.queue) };
            Outgoing { to, message, delay: None }
        })
        .collect();
    let mut expected: Vec<i32> = told.iter().filter_map(|outgoing| outgoing.to.partition).collect();
    bench.publish_as_is(told).await;
    let came = bench.receive(&mut source, expected.len()).await;
    // Where there is one partition only, messages need not say that they are in it.
    let mut found: Vec<i32> =
        came.iter().map(|delivery| delivery.origin.partition.unwrap_or(partitions[0])).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

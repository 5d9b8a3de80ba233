//! Looking without taking, by position; and its opposite, draining, after which nothing is there.
//!
//! Where looking is not free a reader must be refused with a reason: mirroring would spend deliveries or hide messages.

use dlo_core::broker::{BrokerError, Position, Seen, Settlement};

use super::{Bench, Lab, keyed, numbered, settle, sorted, text, texts};

/// Reads every partition to its end.
async fn read_all(bench: &Bench<'_>, from: &[Position]) -> (Vec<Seen>, Vec<Position>) {
    let (mut all, mut positions) = (Vec::new(), Vec::new());
    for partition in bench.broker.partitions(&bench.queue).await.expect("the queue is there") {
        let from = from.iter().find(|position| position.partition == partition);
        let mut reader = bench.broker.reader(&bench.queue, partition, from).await.expect("looking is free");
        loop {
            let look = reader.read(7, bench.patience().silence).await.expect("the broker is up");
            assert_eq!(look.skipped, 0, "nothing was removed");
            if look.seen.is_empty() {
                positions.push(look.position);
                break;
            }
            all.extend(look.seen);
        }
    }
    (all, positions)
}

fn bodies(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|one| String::from_utf8_lossy(&one.message.payload.0).into_owned()).collect()
}

/// Where looking is not free, says so and is done.
async fn refused(bench: &Bench<'_>) -> bool {
    if bench.capabilities().looking_is_free {
        return false;
    }
    let reader = bench.broker.reader(&bench.queue, 0, None).await;
    let refusal = reader.expect_err("looking is not free");
    assert!(matches!(&refusal, BrokerError::Refused(why) if !why.is_empty()), "{refusal}");
    true
}

pub async fn a_reader_sees_everything_in_order_and_takes_nothing(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if refused(&bench).await {
        return;
    }
    bench.publish((0..20).map(|n| keyed("one-key", format!("{n:02}"))).collect()).await;
    let (seen, _) = read_all(&bench, &[]).await;
    let expected: Vec<_> = (0..20).map(|n| format!("{n:02}")).collect();
    assert_eq!(bodies(&seen), expected);
    let mut source = bench.join("g").await;
    let came = bench.receive(&mut source, 20).await;
    assert!(came.iter().all(|delivery| delivery.delivery_count.is_none_or(|count| count == 1)));
}

pub async fn a_reader_goes_on_where_its_position_says(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if refused(&bench).await {
        return;
    }
    bench.publish(numbered(10)).await;
    let (_, positions) = read_all(&bench, &[]).await;
    bench.publish(vec![keyed("k1", "new 1"), keyed("k2", "new 2")]).await;
    let (seen, _) = read_all(&bench, &positions).await;
    assert_eq!(sorted(bodies(&seen)), ["new 1", "new 2"]);
}

pub async fn a_reader_wakes_when_something_comes(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if refused(&bench).await {
        return;
    }
    let arrival = bench.patience().arrival;
    let partition = bench.publish(vec![keyed("k", "first")]).await[0].partition.unwrap_or(0);
    let mut reader = bench.broker.reader(&bench.queue, partition, None).await.expect("looking is free");
    assert_eq!(bodies(&reader.read(10, arrival).await.expect("the broker is up").seen), ["first"]);
    let began = tokio::time::Instant::now();
    let waiting = tokio::spawn(async move {
        let mut seen = Vec::new();
        // A position may move without a record, past a marker.
        while seen.is_empty() && began.elapsed() < arrival {
            seen = reader.read(10, arrival).await.expect("the broker is up").seen;
        }
        seen
    });
    tokio::task::yield_now().await;
    bench.publish(vec![keyed("k", "second")]).await;
    assert_eq!(bodies(&waiting.await.expect("no panic")), ["second"]);
    assert!(began.elapsed() < arrival, "it waited for the end of its time");
}

pub async fn a_record_is_fetched_by_its_coordinates(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if refused(&bench).await {
        return;
    }
    bench.publish(numbered(5)).await;
    let (seen, _) = read_all(&bench, &[]).await;
    for one in &seen {
        let found = bench.broker.fetch(&one.origin).await.expect("the broker is up").expect("it is there");
        assert_eq!((&found.message, &found.origin), (&one.message, &one.origin));
    }
    let mut nowhere = seen[0].origin.clone();
    match (&mut nowhere.offset, &mut nowhere.message_id) {
        (Some(offset), _) => *offset += 1_000_000,
        (None, Some(id)) => *id = "9999999999999-0".to_owned(),
        (None, None) => panic!("a record that is read by position has coordinates"),
    }
    assert_eq!(bench.broker.fetch(&nowhere).await.expect("the broker is up"), None);
}

pub async fn a_queue_created_anew_is_another_incarnation(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    if !bench.capabilities().looking_is_free || !bench.capabilities().offsets {
        return;
    }
    bench.publish(vec![text("old")]).await;
    let (old, positions) = read_all(&bench, &[]).await;
    lab.recreate(&bench.queue).await;
    bench.publish(vec![text("new")]).await;
    let (new, _) = read_all(&bench, &positions).await;
    assert_eq!(bodies(&new), ["new"], "the old position does not hide what is new");
    assert_ne!(old[0].origin.incarnation, new[0].origin.incarnation);
    assert!(new[0].origin.incarnation.is_some());
}

pub async fn what_is_drained_is_gone_as_declared(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    bench.publish(numbered(12)).await;
    let mut drain = bench.broker.drain(&bench.queue).await.expect("the queue is there");
    let all = bench.receive(&mut drain, 12).await;
    assert_eq!(texts(&all).len(), 12);
    settle(&*drain, all, Settlement::Done).await;
    drain.close().await.expect("closing works");
    // Whoever comes later and was never here finds it empty, or finds everything.
    let mut later = bench.join("came-later").await;
    if bench.capabilities().drain_removes || !bench.capabilities().groups {
        bench.expect_silence(&mut later).await;
    } else {
        assert_eq!(bench.receive(&mut later, 12).await.len(), 12);
    }
}

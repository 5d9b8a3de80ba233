//! A look from outside: true numbers, and nothing is taken.

use dlo_core::broker::{BrokerError, Settlement};

use super::{Bench, Lab, numbered, settle, texts};

pub async fn depth_counts_what_waits_and_what_is_in_flight(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    // Another group that reads nothing changes nothing of what this one sees.
    let bystander = if bench.capabilities().groups { Some(bench.join("bystander").await) } else { None };
    bench.publish(numbered(20)).await;
    let look = async || {
        bench
            .broker
            .inspector()
            .inspect(&bench.queue, Some(&bench.group("g")))
            .await
            .expect("the queue is there")
    };
    let full = look().await;
    // A broker may count nothing at all; then it must not say so of one thing and count another.
    if full.depth.is_none() {
        assert_eq!(
            (full.in_flight, full.deliveries),
            (None, None),
            "who does not know what waits counts nothing"
        );
        return;
    }
    assert_eq!(full.depth, Some(20));
    let mut held = bench.receive(&mut source, 8).await;
    let state = look().await;
    // Where the broker does not say what is in flight, it counts it as waiting until it is settled.
    match state.in_flight {
        Some(in_flight) => assert_eq!((in_flight, state.depth), (8, Some(12))),
        None => assert_eq!(state.depth, Some(20)),
    }
    let back = held.split_off(5);
    settle(&*source, held, Settlement::Done).await;
    source.close().await.expect("closing works");
    drop(back);
    // A broker of several nodes agrees on what was handed back in its own time.
    let deadline = tokio::time::Instant::now() + bench.patience().arrival;
    loop {
        let state = look().await;
        if (state.depth, state.in_flight.unwrap_or(0)) == (Some(15), 0) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "15 were handed back, seen: {state:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    drop(bystander);
}

pub async fn looking_takes_nothing(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(numbered(5)).await;
    for _ in 0..3 {
        bench
            .broker
            .inspector()
            .inspect(&bench.queue, Some(&bench.group("g")))
            .await
            .expect("the queue is there");
    }
    let came = bench.receive(&mut source, 5).await;
    assert!(came.iter().all(|delivery| delivery.delivery_count.is_none_or(|count| count == 1)));
    assert_eq!(texts(&came).len(), 5);
}

pub async fn a_missing_queue_is_said_to_be_missing(lab: &dyn Lab) {
    let name = lab.fresh_name();
    let broker = lab.broker();
    let looked = broker.inspector().inspect(&name, None).await;
    assert!(matches!(looked, Err(BrokerError::Missing(said)) if said == name));
    let joined = broker.source(&name, "g").await;
    assert!(matches!(joined, Err(BrokerError::Missing(said)) if said == name));
}

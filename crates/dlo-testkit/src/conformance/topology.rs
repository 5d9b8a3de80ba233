//! What should be there can be planned, created, and created again without harm.

use dlo_core::broker::{BrokerError, TopologySpec};

use super::{Bench, Lab, numbered, texts};

/// A name that every broker takes: not all of them allow a dot.
fn dlq(queue: &str) -> String {
    format!("{queue}-dlq")
}

fn spec(queue: &str) -> TopologySpec {
    TopologySpec::new(queue, dlq(queue), 5)
}

pub async fn a_plan_changes_nothing(lab: &dyn Lab) {
    let (broker, name) = (lab.broker(), lab.fresh_name());
    let plan = broker.topology().plan(&spec(&name)).await.expect("planning works");
    assert!(plan.iter().any(|change| change.appliable && change.what.contains(&name)), "{plan:?}");
    let looked = broker.inspector().inspect(&name, None).await;
    assert!(matches!(looked, Err(BrokerError::Missing(_))), "planning created the queue");
    assert_eq!(broker.topology().plan(&spec(&name)).await.expect("planning works"), plan);
}

pub async fn what_is_applied_is_there_and_applying_twice_finds_nothing(lab: &dyn Lab) {
    let (broker, name) = (lab.broker(), lab.fresh_name());
    let plan = broker.topology().plan(&spec(&name)).await.expect("planning works");
    let applied = broker.topology().apply(&spec(&name)).await.expect("applying works");
    assert_eq!(applied, plan);
    for queue in [name.clone(), dlq(&name)] {
        let state = broker.inspector().inspect(&queue, None).await.expect("it is there");
        // Unknown where the broker counts nothing.
        assert!(matches!(state.depth, None | Some(0)), "{queue}: {state:?}");
    }
    assert_eq!(broker.topology().apply(&spec(&name)).await.expect("applying works"), []);
    assert_eq!(broker.topology().plan(&spec(&name)).await.expect("planning works"), []);
}

pub async fn applying_to_what_is_there_deletes_nothing(lab: &dyn Lab) {
    let bench = Bench::new(lab).await;
    let mut source = bench.join("g").await;
    bench.publish(numbered(10)).await;
    bench.broker.topology().apply(&spec(&bench.queue)).await.expect("applying works");
    assert_eq!(texts(&bench.receive(&mut source, 10).await).len(), 10);
}

//! JetStream's own dead letters, made by the server itself: deliveries past their limit, and messages that were refused.
//! Each on a current server and on the one that Debian packages.

use std::time::Duration;

use dlo_core::broker::{Broker, OFFICE, Settlement, TopologySpec};
use dlo_core::conventions::{Found, Held, read};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_testkit::harness::nats::{Nats, Release};

use super::{body, broker, fresh_name, publish, receive, settings, settle, text};

const ADVISORIES: &str = "$JS.EVENT.ADVISORY.CONSUMER.>";
const AT_ONCE: Settlement = Settlement::Again { after: Duration::ZERO };

/// Drains the stream of advisories: one must be there, and point to a message that can be fetched.
async fn the_advisory_points_to(broker: &dyn Broker, expected: &str) -> serde_json::Value {
    let mut drain = broker.drain(ADVISORIES).await.unwrap();
    let advisory = receive(&mut drain, 1).await.remove(0);
    let json: serde_json::Value = serde_json::from_slice(&advisory.message.payload.0).unwrap();
    let found = Found { broker: BrokerKind::Nats, queue: ADVISORIES };
    let held = read(&advisory.message, found).held;
    let Held::Pointer(pointer) = held else { unreachable!("an advisory is a pointer, not {held:?}") };
    let whole = broker.fetch(&pointer).await.unwrap().unwrap();
    assert_eq!(body(&whole.message), expected);
    settle(&*drain, vec![advisory], Settlement::Done).await;
    let left = broker.inspector().inspect(ADVISORIES, Some(OFFICE)).await.unwrap();
    assert_eq!(left.depth, Some(0));
    json
}

async fn a_delivery_limit_leaves_an_advisory(release: Release) {
    let server = Nats::own(release, "").await;
    let (broker, queue) = (broker(settings(server.url())).await, fresh_name());
    let spec =
        TopologySpec { group: Some("g".to_owned()), ..TopologySpec::new(&queue, format!("{queue}.dlq"), 1) };
    broker.topology().apply(&spec).await.unwrap();
    publish(&*broker, &queue, vec![text("poison")]).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    for _ in 0..11 {
        let came = receive(&mut source, 1).await;
        settle(&*source, came, AT_ONCE).await;
    }
    let advisory = the_advisory_points_to(&*broker, "poison").await;
    assert_eq!(advisory["deliveries"], 11);
}

async fn a_refusal_leaves_an_advisory(release: Release) -> serde_json::Value {
    let server = Nats::own(release, "").await;
    let (broker, queue) = (broker(settings(server.url())).await, fresh_name());
    super::declare(&*broker, &queue).await;
    publish(&*broker, &queue, vec![text("refused")]).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    let came = receive(&mut source, 1).await;
    settle(&*source, came, Settlement::Refuse).await;
    the_advisory_points_to(&*broker, "refused").await
}

#[tokio::test]
async fn a_message_past_its_delivery_limit_is_found_by_its_advisory() {
    a_delivery_limit_leaves_an_advisory(Release::Newest).await;
}

#[tokio::test]
async fn a_message_past_its_delivery_limit_is_found_by_its_advisory_on_an_older_server() {
    a_delivery_limit_leaves_an_advisory(Release::System).await;
}

#[tokio::test]
async fn a_refused_message_is_found_by_its_advisory_which_says_why() {
    let advisory = a_refusal_leaves_an_advisory(Release::Newest).await;
    assert_eq!(advisory["reason"], "refused by its consumer");
}

#[tokio::test]
async fn a_refused_message_is_found_by_its_advisory_on_an_older_server() {
    a_refusal_leaves_an_advisory(Release::System).await;
}

#[tokio::test]
async fn a_pointer_to_a_message_that_is_gone_finds_nothing() {
    let lab = super::lab().await;
    let queue = dlo_testkit::conformance::Lab::fresh_queue(&lab).await;
    publish(&*lab.broker, &queue, vec![text("m")]).await;
    let gone = Origin::sequence(BrokerKind::Nats, &queue, 99);
    assert_eq!(lab.broker.fetch(&gone).await.unwrap(), None);
}

//! What is weaker in queues that others made, with and without the management plugin.

use std::sync::Arc;
use std::time::Duration;

use dlo_brokers::rabbitmq::RabbitmqConfig;
use dlo_brokers::secret::Secret;
use dlo_core::broker::{Broker, Gravity, TopologyChange, TopologySpec};
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::types::AMQPValue;

use super::{broker, client, config, declare, fresh, text};

/// The same server, seen without and with its management plugin.
async fn eyes() -> [Arc<dyn Broker>; 2] {
    let server = Rabbitmq::shared().await;
    let management = Some(Secret::new(server.management()));
    [broker(config(server.url())).await, broker(RabbitmqConfig { management, ..config(server.url()) }).await]
}

async fn plan(broker: &Arc<dyn Broker>, queue: &str) -> Vec<TopologyChange> {
    let spec = TopologySpec::new(queue, format!("{queue}.dlq"), 5);
    broker.topology().plan(&spec).await.unwrap()
}

fn about<'a>(changes: &'a [TopologyChange], what: &str) -> &'a TopologyChange {
    let found = changes.iter().find(|change| change.what.contains(what));
    assert!(found.is_some(), "nothing on {what}: {changes:?}");
    found.unwrap()
}

#[tokio::test]
async fn a_classic_queue_without_dead_letters_is_said_to_lose_them() {
    let channel = client(&Rabbitmq::shared().await.url()).await;
    let queue = fresh("weak");
    declare(&channel, &queue, &[("x-max-priority", AMQPValue::LongInt(3))]).await;
    for broker in eyes().await {
        let changes = plan(&broker, &queue).await;
        let lost = about(&changes, "no dead-letter exchange");
        assert_eq!((lost.gravity, lost.appliable), (Gravity::Missing, false));
        let command = lost.command.as_deref().unwrap();
        assert!(command.starts_with("rabbitmqctl set_policy") && command.contains(&queue), "{command}");
        assert_eq!(about(&changes, "classic queue").gravity, Gravity::Weak);
        assert!(about(&changes, "create the dead-letter queue").appliable);
    }
}

#[tokio::test]
async fn a_quorum_queue_that_may_lose_dead_letters_or_gives_up_early_is_weak() {
    let channel = client(&Rabbitmq::shared().await.url()).await;
    let queue = fresh("weak");
    let dlq = format!("{queue}.dlq");
    let forgetful = [
        ("x-queue-type", text("quorum")),
        ("x-delivery-limit", AMQPValue::LongInt(3)),
        ("x-message-ttl", AMQPValue::LongInt(1_000)),
    ];
    declare(&channel, &dlq, &forgetful).await;
    let hasty = [
        ("x-queue-type", text("quorum")),
        ("x-delivery-limit", AMQPValue::LongInt(3)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(&dlq)),
    ];
    declare(&channel, &queue, &hasty).await;
    for broker in eyes().await {
        let changes = plan(&broker, &queue).await;
        assert!(
            changes.iter().all(|change| !change.appliable && change.gravity == Gravity::Weak),
            "{changes:?}"
        );
        about(&changes, "at most once");
        about(&changes, "not above the 5 attempts");
        about(&changes, "has a delivery limit of 3");
        about(&changes, "drops letters after 1 seconds");
        assert_eq!(broker.topology().apply(&TopologySpec::new(&queue, &dlq, 5)).await.unwrap(), changes);
    }
}

#[tokio::test]
async fn a_dead_letter_exchange_that_is_missing_or_leads_nowhere_is_found() {
    let channel = client(&Rabbitmq::shared().await.url()).await;
    let (lost, unbound) = (fresh("weak"), fresh("weak"));
    declare(&channel, &lost, &[("x-dead-letter-exchange", text("no-such-exchange"))]).await;
    declare(&channel, &unbound, &[("x-dead-letter-exchange", text("amq.fanout"))]).await;
    let [_, seeing] = eyes().await;
    for broker in eyes().await {
        let changes = plan(&broker, &lost).await;
        assert_eq!(about(&changes, "`no-such-exchange`").gravity, Gravity::Missing);
    }
    about(&plan(&seeing, &unbound).await, "is not bound");
}

#[tokio::test]
async fn a_policy_counts_as_if_it_were_an_argument() {
    let server = Rabbitmq::shared().await;
    let channel = client(&server.url()).await;
    let queue = fresh("ruled");
    declare(&channel, &queue, &[("x-queue-type", text("quorum"))]).await;
    let [blind, seeing] = eyes().await;
    let spec = TopologySpec::new(&queue, format!("{queue}.dlq"), 5);
    seeing.topology().apply(&spec).await.unwrap();
    let command = about(&plan(&seeing, &queue).await, "no dead-letter exchange").command.clone().unwrap();
    // The command's own words, through the plugin: the tool takes seconds.
    let words: Vec<&str> = command.split('\'').collect();
    let policy = serde_json::json!({
        "pattern": words[5], "definition": serde_json::from_str::<serde_json::Value>(words[7]).unwrap(), "apply-to": "queues",
    });
    let put = server.put(&format!("/api/policies/%2f/{}", words[3]), &policy.to_string()).await;
    assert!(put.starts_with("HTTP/1.1 20"), "{put}");
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while !plan(&seeing, &queue).await.is_empty() {
        assert!(std::time::Instant::now() < patience, "{:?}", plan(&seeing, &queue).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    about(&plan(&blind, &queue).await, "configure `management` to see policies");
}

#[tokio::test]
async fn retry_queues_are_made_as_the_adapter_uses_them() {
    let [broker, _] = eyes().await;
    let queue = fresh("retried");
    let retry_delays = vec![Duration::from_secs(3), Duration::from_secs(4), Duration::from_secs(60)];
    let spec = TopologySpec {
        retry_delays,
        retention: Some(Duration::from_secs(86_400)),
        ..TopologySpec::new(&queue, format!("{queue}.dlq"), 5)
    };
    let applied = broker.topology().apply(&spec).await.unwrap();
    about(&applied, &format!("{queue}.retry.5s"));
    about(&applied, &format!("{queue}.retry.2m"));
    assert_eq!(applied.len(), 4, "{applied:?}");
    assert_eq!(broker.topology().plan(&spec).await.unwrap(), []);
}

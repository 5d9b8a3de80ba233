//! Topology on a server that knows retention and allowances.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Name;
use dlo_core::broker::{BrokerError, Gravity, TopologyChange, TopologySpec};

use super::*;

async fn attribute(client: &Client, queue: &str, name: Name) -> Option<String> {
    let url = client.get_queue_url().queue_name(queue).send().await.unwrap().queue_url.unwrap();
    let said = client.get_queue_attributes().queue_url(url).attribute_names(Name::All).send().await.unwrap();
    said.attributes.unwrap().remove(&name)
}

fn said(changes: &[TopologyChange]) -> String {
    changes.iter().map(|change| format!("{}\n", change.what)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fifo_queue_gets_a_fifo_dead_letter_queue_that_keeps_longest_and_a_limit_above_the_attempts() {
    let endpoint = &Sqs::localstack().await.endpoint;
    let (client, broker) = (client(endpoint), broker(config(endpoint, 30)).await);
    let spec = TopologySpec::new(name() + ".fifo", name() + ".fifo", 5);
    let plan = broker.topology().plan(&spec).await.unwrap();
    assert!(
        plan.iter().all(|change| change.command.as_deref().is_some_and(|line| line.starts_with("aws sqs ")))
    );
    broker.topology().apply(&spec).await.unwrap();
    assert_eq!(broker.topology().plan(&spec).await.unwrap(), []);
    assert_eq!(attribute(&client, &spec.dlq, Name::FifoQueue).await.as_deref(), Some("true"));
    assert_eq!(attribute(&client, &spec.dlq, Name::MessageRetentionPeriod).await.as_deref(), Some("1209600"));
    let policy = attribute(&client, &spec.queue, Name::RedrivePolicy).await.unwrap();
    assert!(policy.contains(&spec.dlq) && policy.contains("15"), "{policy}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_weaker_is_said_and_mended_and_nothing_becomes_weaker() {
    let endpoint = &Sqs::localstack().await.endpoint;
    let (client, broker, queue, dead) =
        (client(endpoint), broker(config(endpoint, 30)).await, name(), name());
    create(&client, &dead, &[(Name::MessageRetentionPeriod, "3600")]).await;
    let policy = format!(
        r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{dead}","maxReceiveCount":3}}"#
    );
    create(&client, &queue, &[(Name::RedrivePolicy, &policy), (Name::MessageRetentionPeriod, "864000")])
        .await;
    let asked =
        TopologySpec { retention: Some(Duration::from_secs(86_400)), ..TopologySpec::new(&queue, &dead, 5) };
    let plan = broker.topology().plan(&asked).await.unwrap();
    let words = said(&plan);
    assert!(
        words.contains("maxReceiveCount") && words.contains("from 3") && words.contains("14 days"),
        "{words}"
    );
    assert_eq!(plan.len(), 2, "{words}");
    broker.topology().apply(&asked).await.unwrap();
    assert_eq!(broker.topology().plan(&asked).await.unwrap(), []);
    assert_eq!(attribute(&client, &queue, Name::MessageRetentionPeriod).await.as_deref(), Some("864000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_queue_that_allows_only_others_is_opened_and_a_closed_one_is_left_to_a_person() {
    let endpoint = &Sqs::localstack().await.endpoint;
    let (client, broker) = (client(endpoint), broker(config(endpoint, 30)).await);
    let others =
        r#"{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:us-east-1:000000000000:other"]}"#;
    for (allows, appliable) in [(others, true), (r#"{"redrivePermission":"denyAll"}"#, false)] {
        let spec = TopologySpec::new(name(), name(), 5);
        broker.topology().apply(&spec).await.unwrap();
        let url = client.get_queue_url().queue_name(&spec.dlq).send().await.unwrap().queue_url.unwrap();
        client
            .set_queue_attributes()
            .queue_url(url)
            .attributes(Name::RedriveAllowPolicy, allows)
            .send()
            .await
            .unwrap();
        let plan = broker.topology().apply(&spec).await.unwrap();
        assert_eq!(plan.len(), 1, "{}", said(&plan));
        assert_eq!((plan[0].gravity, plan[0].appliable), (Gravity::Missing, appliable));
        assert!(plan[0].command.as_deref().is_some_and(|line| line.contains("RedriveAllowPolicy")));
        let left = broker.topology().plan(&spec).await.unwrap();
        assert_eq!(left.is_empty(), appliable, "{}", said(&left));
        let now = attribute(&client, &spec.dlq, Name::RedriveAllowPolicy).await.unwrap();
        assert_eq!(now.contains(&spec.queue), appliable && now.contains(":other"), "{now}");
    }
}

#[tokio::test]
async fn a_fifo_queue_with_a_standard_dead_letter_queue_is_refused_with_both_names() {
    let broker = broker(config("http://127.0.0.1:1", 30)).await;
    let refusal =
        broker.topology().plan(&TopologySpec::new("orders.fifo", "orders-dlq", 5)).await.unwrap_err();
    let BrokerError::Refused(why) = refusal else { panic!("{refusal}") };
    assert!(why.contains("orders.fifo") && why.contains("orders-dlq"), "{why}");
}

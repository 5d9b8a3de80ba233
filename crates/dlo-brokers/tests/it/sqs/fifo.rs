//! FIFO queues: order per key, groups that wait for their first message, one message per death.

use std::collections::BTreeMap;
use std::time::Duration;

use dlo_core::broker::{LostConfirm, Order, PublishError, Settlement};

use super::*;

async fn lab(endpoint: &str) -> (Arc<dyn Broker>, String) {
    let queue = format!("{}.fifo", name());
    create(&client(endpoint), &queue, &[]).await;
    (broker(config(endpoint, 30)).await, queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_key_come_in_their_order_and_all_of_them() {
    for endpoint in [&Sqs::elasticmq().await.endpoint, &Sqs::localstack().await.endpoint] {
        let (broker, queue) = lab(endpoint).await;
        let keys = ["plain", "with space", "schön", "again"];
        let all = (0..160).map(|n| keyed(keys[n % 4], &format!("{:03}", n / 4))).collect();
        publish(&*broker, &queue, all).await;
        let mut source = broker.source(&queue, "g").await.unwrap();
        assert_eq!(source.capabilities().order, Order::PerPartition);
        assert_eq!(source.capabilities().dedupe_window, Some(Duration::from_secs(300)));
        let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for _ in 0..200 {
            let came = source.receive(30, Duration::from_secs(3)).await.unwrap();
            for delivery in &came {
                let key =
                    delivery.message.key.as_ref().map(|key| String::from_utf8_lossy(&key.0).into_owned());
                by_key.entry(key.unwrap()).or_default().push(body(delivery));
            }
            settle(&*source, came, Settlement::Done).await;
            if by_key.values().map(Vec::len).sum::<usize>() == 160 {
                break;
            }
        }
        let expected: Vec<String> = (0..40).map(|n| format!("{n:03}")).collect();
        assert_eq!(by_key.len(), 4);
        assert!(by_key.values().all(|of_key| *of_key == expected), "{by_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_holds_up_its_own_group_and_no_other() {
    let (broker, queue) = lab(&Sqs::localstack().await.endpoint).await;
    publish(&*broker, &queue, vec![keyed("a", "a1")]).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    assert!(source.capabilities().waiting_keeps_order && !broker.capabilities().waiting_keeps_order);
    let first = receive(&mut source, 1).await;
    settle(&*source, first, Settlement::Again { after: Duration::from_secs(4) }).await;
    publish(&*broker, &queue, vec![keyed("a", "a2"), keyed("b", "b1")]).await;
    let other = receive(&mut source, 1).await;
    assert_eq!(body(&other[0]), "b1");
    let rest = receive(&mut source, 2).await;
    assert_eq!(rest.iter().map(body).collect::<Vec<_>>(), ["a1", "a2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_back_keeps_its_order() {
    for endpoint in [&Sqs::elasticmq().await.endpoint, &Sqs::localstack().await.endpoint] {
        let (broker, queue) = lab(endpoint).await;
        publish(&*broker, &queue, (0..15).map(|n| keyed("k", &format!("{n:02}"))).collect()).await;
        let mut source = broker.source(&queue, "g").await.unwrap();
        let held = receive(&mut source, 10).await;
        source.close().await.unwrap();
        drop(held);
        let mut next = broker.source(&queue, "g").await.unwrap();
        let again = receive(&mut next, 10).await;
        let expected: Vec<String> = (0..10).map(|n| format!("{n:02}")).collect();
        assert_eq!(again.iter().map(body).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_a_fifo_queue_can_be_repeated_for_five_minutes_and_one_to_a_standard_queue_cannot() {
    let (broker, fifo) = lab(&Sqs::elasticmq().await.endpoint).await;
    let (window, none) = (Duration::from_secs(300), Duration::ZERO);
    for queue in
        [fifo.as_str(), "https://sqs.eu-west-1.amazonaws.com/1/x.fifo", "arn:aws:sqs:eu-west-1:1:x.fifo"]
    {
        assert_eq!(broker.lost_confirm(queue), LostConfirm::SendAgainInWindow, "{queue}");
        assert_eq!(broker.remembers_sends(queue).await.unwrap(), window, "{queue}");
    }
    assert_eq!(broker.lost_confirm("orders"), LostConfirm::Unknown);
    assert_eq!(broker.remembers_sends("orders").await.unwrap(), none);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_death_sent_twice_is_one_message_and_equal_messages_are_two() {
    for endpoint in [&Sqs::elasticmq().await.endpoint, &Sqs::localstack().await.endpoint] {
        let (broker, queue) = lab(endpoint).await;
        let mut death = keyed("k", "dead");
        death.headers.push_text("dlo-death-id", "d-1");
        let mut replay = keyed("k", "dead");
        replay.headers.push_text("dlo-death-id", "d-1");
        replay.headers.push_text("dlo-replay-id", "r-1");
        let all = vec![death.clone(), death, replay, keyed("k", "same"), keyed("k", "same"), text("no key")];
        publish(&*broker, &queue, all).await;
        let mut source = broker.source(&queue, "g").await.unwrap();
        let came = receive(&mut source, 5).await;
        let mut bodies: Vec<String> = came.iter().map(body).collect();
        bodies.sort();
        assert_eq!(bodies, ["dead", "dead", "no key", "same", "same"]);
        let keyless = came.iter().find(|delivery| body(delivery) == "no key").unwrap();
        assert_eq!(keyless.message.key, None);
        settle(&*source, came, Settlement::Done).await;
        assert!(source.receive(10, Duration::from_secs(1)).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_of_a_single_message_is_refused_and_not_forgotten() {
    let (broker, queue) = lab(&Sqs::elasticmq().await.endpoint).await;
    let later = Outgoing { delay: Some(Duration::from_secs(5)), ..to(&queue, keyed("k", "later")) };
    let refusal = broker.publisher().publish(vec![later]).await.remove(0).unwrap_err();
    assert!(matches!(&refusal, PublishError::Refused(why) if why.contains("FIFO")), "{refusal}");
}

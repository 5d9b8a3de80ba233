//! What only JetStream has: subjects with wildcards, work queues, ids that make two sends one, streams that deny.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, RetentionPolicy};
use dlo_core::broker::{BrokerError, Destination, Gravity, Outgoing, PublishError, Settlement, TopologySpec};
use dlo_core::origin::BrokerKind;
use dlo_testkit::conformance::Lab;

use super::{body, fresh_name, jetstream_at, lab, publish, receive, settle, text};

#[tokio::test]
async fn a_queue_may_stand_for_many_subjects_and_each_message_goes_back_to_its_own() {
    let lab = lab().await;
    let (broker, base) = (lab.broker(), fresh_name());
    let pattern = format!("{base}.>");
    let spec = TopologySpec::new(&pattern, format!("dead.{base}"), 5);
    broker.topology().apply(&spec).await.unwrap();
    publish(&*broker, &format!("{base}.created"), vec![text("m")]).await;
    let mut source = broker.source(&pattern, "g").await.unwrap();
    let came = receive(&mut source, 1).await.remove(0);
    let subject = came.message.headers.transport(BrokerKind::Nats, "subject").unwrap().to_owned();
    assert_eq!(subject, format!("{base}.created"));
    publish(&*broker, &pattern, vec![came.message.clone()]).await;
    let again = receive(&mut source, 1).await.remove(0);
    assert_eq!(again.message.headers.transport(BrokerKind::Nats, "subject"), Some(subject.as_str()));
    let stray = Outgoing { to: Destination::queue(&pattern), message: text("stray"), delay: None };
    let refused = broker.publisher().publish(vec![stray]).await.remove(0);
    assert!(matches!(refused, Err(PublishError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_send_that_is_repeated_is_stored_once_and_a_producers_id_does_not_hide_a_replay() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), lab.fresh_queue().await);
    let mut replay = text("m");
    replay.headers.push_text("Nats-Msg-Id", "the producer's own");
    replay.headers.push_text("dlo-replay-id", "r-1");
    let send = |message| Outgoing { to: Destination::queue(&queue), message, delay: None };
    let first = broker.publisher().publish(vec![send(replay.clone())]).await.remove(0).unwrap();
    let same = broker.publisher().publish(vec![send(replay.clone())]).await.remove(0).unwrap();
    assert_eq!(first, same);
    replay.headers.remove_where(|name| name == "dlo-replay-id");
    replay.headers.push_text("dlo-replay-id", "r-2");
    let second = broker.publisher().publish(vec![send(replay)]).await.remove(0).unwrap();
    assert_ne!(first.offset, second.offset);
}

#[tokio::test]
async fn how_long_a_send_is_known_again_is_what_its_stream_says() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), fresh_name());
    let config = Config {
        name: queue.replace('.', "_"),
        subjects: vec![queue.clone()],
        duplicate_window: Duration::from_secs(30),
        ..Config::default()
    };
    jetstream_at(&lab.url).await.create_stream(config).await.unwrap();
    assert_eq!(broker.remembers_sends(&queue).await.unwrap(), Duration::from_secs(30));
    let ours = lab.fresh_queue().await;
    assert_eq!(broker.remembers_sends(&ours).await.unwrap(), Duration::from_secs(120));
}

#[tokio::test]
async fn a_work_queue_is_drained_by_acknowledging_and_has_one_group() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), fresh_name());
    let jetstream = jetstream_at(&lab.url).await;
    let config = Config {
        name: queue.replace('.', "_"),
        subjects: vec![queue.clone()],
        retention: RetentionPolicy::WorkQueue,
        ..Config::default()
    };
    let mut stream = jetstream.create_stream(config).await.unwrap();
    publish(&*broker, &queue, (0..5).map(|n| text(format!("m{n}"))).collect()).await;
    // Looking goes past the one consumer that a work queue allows.
    let mut reader = broker.reader(&queue, 0, None).await.unwrap();
    assert_eq!(reader.read(10, Duration::from_secs(5)).await.unwrap().seen.len(), 5);
    let mut drain = broker.drain(&queue).await.unwrap();
    let other = broker.source(&queue, "another").await;
    assert!(matches!(&other, Err(BrokerError::Refused(why)) if why.contains("work queue")), "{other:?}");
    let all = receive(&mut drain, 5).await;
    settle(&*drain, all, Settlement::Done).await;
    assert_eq!(stream.info().await.unwrap().state.messages, 0);
}

#[tokio::test]
async fn what_is_drained_out_of_order_is_removed_and_what_is_open_stays() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), lab.fresh_queue().await);
    publish(&*broker, &queue, (0..10).map(|n| text(format!("m{n}"))).collect()).await;
    let mut drain = broker.drain(&queue).await.unwrap();
    let mut all = receive(&mut drain, 10).await;
    let open: Vec<_> = vec![all.remove(6), all.remove(2)];
    settle(&*drain, all, Settlement::Done).await;
    drop(open);
    drain.close().await.unwrap();
    let mut reader = broker.reader(&queue, 0, None).await.unwrap();
    let look = reader.read(10, Duration::from_secs(5)).await.unwrap();
    let left: Vec<String> = look.seen.iter().map(|one| body(&one.message)).collect();
    assert_eq!(left, ["m2", "m6"]);
}

#[tokio::test]
async fn a_stream_that_lets_nobody_remove_is_not_drained() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), fresh_name());
    let jetstream = jetstream_at(&lab.url).await;
    let config = Config {
        name: queue.replace('.', "_"),
        subjects: vec![queue.clone()],
        deny_delete: true,
        ..Config::default()
    };
    jetstream.create_stream(config).await.unwrap();
    let refused = broker.drain(&queue).await;
    assert!(matches!(&refused, Err(BrokerError::Refused(why)) if why.contains("mirror")), "{refused:?}");
}

#[tokio::test]
async fn a_reader_says_what_was_removed_before_it_came() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), lab.fresh_queue().await);
    publish(&*broker, &queue, vec![text("a")]).await;
    let mut reader = broker.reader(&queue, 0, None).await.unwrap();
    let from = reader.read(10, Duration::from_secs(5)).await.unwrap().position;
    publish(&*broker, &queue, vec![text("b"), text("c"), text("d")]).await;
    let jetstream = jetstream_at(&lab.url).await;
    let stream = jetstream.stream_by_subject(&queue).await.unwrap();
    jetstream.get_stream(stream).await.unwrap().purge().sequence(4).await.unwrap();
    let mut reader = broker.reader(&queue, 0, Some(&from)).await.unwrap();
    let look = reader.read(10, Duration::from_secs(5)).await.unwrap();
    let seen: Vec<String> = look.seen.iter().map(|one| body(&one.message)).collect();
    assert_eq!((seen, look.skipped), (vec!["d".to_owned()], 2));
}

#[tokio::test]
async fn the_topology_limits_deliveries_above_the_attempts_and_warns_of_streams_that_drop() {
    let lab = lab().await;
    let (broker, queue) = (lab.broker(), fresh_name());
    let jetstream = jetstream_at(&lab.url).await;
    let config = Config {
        name: queue.replace('.', "_"),
        subjects: vec![queue.clone()],
        max_messages: 1_000,
        ..Config::default()
    };
    let stream = jetstream.create_stream(config).await.unwrap();
    let spec = TopologySpec {
        group: Some("pricing".to_owned()),
        ..TopologySpec::new(&queue, format!("{queue}.dlq"), 5)
    };
    let applied = broker.topology().apply(&spec).await.unwrap();
    let dropping = applied.iter().find(|change| change.what.contains("drops its oldest")).unwrap();
    assert_eq!((dropping.appliable, dropping.gravity), (false, Gravity::Weak));
    assert!(dropping.command.as_deref().is_some_and(|command| command.starts_with("nats stream edit")));
    let limit = async || {
        let names: Vec<String> = futures::TryStreamExt::try_collect(stream.consumer_names()).await.unwrap();
        stream.consumer_info(&names[0]).await.unwrap().config.max_deliver
    };
    assert_eq!(limit().await, 15);
    // The runtime was given more attempts: the limit follows, and a second time there is nothing to do.
    let spec = TopologySpec { attempts: 30, ..spec };
    assert!(broker.topology().apply(&spec).await.unwrap().iter().any(|change| change.what.contains("raise")));
    assert_eq!(limit().await, 40);
    assert!(broker.topology().plan(&spec).await.unwrap().iter().all(|change| !change.appliable));
    // Who joins takes the consumer as it stands.
    let source = broker.source(&queue, "pricing").await.unwrap();
    assert_eq!(limit().await, 40);
    drop(source);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_out_of_reach_and_said_by_name() {
    let broker = super::broker(super::settings("nats://127.0.0.1:9".to_owned())).await;
    let error = tokio::time::timeout(Duration::from_secs(30), broker.ping()).await.unwrap().unwrap_err();
    assert!(matches!(&error, BrokerError::Unavailable(why) if why.contains("127.0.0.1:9")), "{error}");
}

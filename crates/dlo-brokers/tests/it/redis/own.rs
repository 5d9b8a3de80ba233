//! What only Redis has: claims, renewals, delays in sorted sets, scripts that are forgotten, speed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dlo_brokers::redis::RedisConfig;
use dlo_core::broker::{BrokerError, Outgoing, PublishError, Settlement, TopologySpec};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::units::{ByteSize, HumanDuration};
use dlo_testkit::conformance::Lab as _;
use dlo_testkit::harness::redis::Redis;

use super::{LONG, Raw, body, broker, fresh_name, lab, message, one, own, publish, settle, to, valkey};

fn claiming_after(millis: u64) -> RedisConfig {
    RedisConfig { claim_after: HumanDuration(Duration::from_millis(millis)), ..RedisConfig::default() }
}

#[tokio::test]
async fn the_server_says_who_it_is() {
    assert!(lab().await.broker().ping().await.unwrap().unwrap().starts_with("Redis 7."));
    assert!(valkey().await.broker().ping().await.unwrap().unwrap().starts_with("Valkey 8."));
}

#[tokio::test]
async fn what_a_dead_consumer_held_is_claimed_when_it_idled_long_enough() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let broker = broker(claiming_after(3_000), &lab.url).await;
    publish(&broker, &queue, &["a"]).await;
    let mut raw = Raw::to(&lab.url).await;
    let () = raw.ask(&["XGROUP", "CREATE", &queue, "g", "0"]).await;
    // Somebody else's consumer takes it and is never heard of again.
    let _: ::redis::Value = raw.ask(&["XREADGROUP", "GROUP", "g", "gone", "STREAMS", &queue, ">"]).await;
    let began = Instant::now();
    let mut source = broker.source(&queue, "g").await.unwrap();
    let claimed = one(&mut source).await;
    assert_eq!((body(&claimed.message).as_str(), claimed.delivery_count), ("a", Some(2)));
    assert!(claimed.redelivered && began.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_consumer_that_works_long_keeps_what_it_holds() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let broker = broker(claiming_after(3_000), &lab.url).await;
    let mut slow = broker.source(&queue, "g").await.unwrap();
    let mut other = broker.source(&queue, "g").await.unwrap();
    publish(&broker, &queue, &["a"]).await;
    let held = one(&mut slow).await;
    assert!(other.receive(1, Duration::from_secs(9)).await.unwrap().is_empty(), "it was taken away");
    settle(&*slow, held, Settlement::Done).await;
}

#[tokio::test]
async fn the_names_of_consumers_that_died_do_not_pile_up() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let broker = broker(claiming_after(100), &lab.url).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    let mut raw = Raw::to(&lab.url).await;
    for name in ["dlo-1-dead", "dlo-2-dead", "somebody"] {
        let _: i64 = raw.ask(&["XGROUP", "CREATECONSUMER", &queue, "g", name]).await;
    }
    let began = Instant::now();
    loop {
        assert!(source.receive(1, Duration::from_millis(50)).await.unwrap().is_empty());
        let left: Vec<Vec<::redis::Value>> = raw.ask(&["XINFO", "CONSUMERS", &queue, "g"]).await;
        let left: Vec<String> =
            left.iter().map(|consumer| ::redis::from_redis_value_ref(&consumer[1]).unwrap()).collect();
        assert!(left.iter().any(|name| name == "somebody"), "only ours are cleared away: {left:?}");
        if !left.iter().any(|name| name.ends_with("-dead")) {
            break;
        }
        assert!(began.elapsed() < LONG, "{left:?}");
    }
    assert!(began.elapsed() >= Duration::from_millis(900), "they were not given their time");
}

#[tokio::test]
async fn a_settlement_that_was_not_answered_ends_in_another_delivery() {
    let lab = own().await;
    let queue = lab.fresh_queue().await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    publish(&lab.broker, &queue, &["a"]).await;
    let delivery = one(&mut source).await;
    lab.own.as_ref().unwrap().kill().await;
    let told = source.settler().settle(vec![delivery.settle(Settlement::Done)]).await;
    assert!(matches!(told, Err(BrokerError::Unavailable(_))), "{told:?}");
    lab.own.as_ref().unwrap().start().await;
    let again = one(&mut source).await;
    assert!(again.redelivered && body(&again.message) == "a");
    settle(&*source, again, Settlement::Done).await;
    assert!(source.receive(1, Duration::from_millis(400)).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_entry_deleted_while_it_was_pending_is_dropped_and_the_rest_flows_on() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    publish(&lab.broker, &queue, &["deleted", "kept"]).await;
    let both = source.receive(2, LONG).await.unwrap();
    let mut raw = Raw::to(&lab.url).await;
    let _: i64 = raw.ask(&["XDEL", &queue, both[0].origin.message_id.as_deref().unwrap()]).await;
    source.close().await.unwrap();
    let mut next = lab.broker.source(&queue, "g").await.unwrap();
    let kept = one(&mut next).await;
    assert_eq!(body(&kept.message), "kept");
    settle(&*next, kept, Settlement::Done).await;
    assert!(next.receive(1, Duration::from_millis(400)).await.unwrap().is_empty());
    let state = lab.broker.inspector().inspect(&queue, Some("g")).await.unwrap();
    assert_eq!((state.depth, state.in_flight), (Some(0), Some(0)));
}

#[tokio::test]
async fn a_retry_that_is_put_off_outlives_its_consumer_and_keeps_its_count() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    publish(&lab.broker, &queue, &["a"]).await;
    let first = one(&mut source).await;
    let began = Instant::now();
    settle(&*source, first, Settlement::Again { after: Duration::from_millis(700) }).await;
    source.close().await.unwrap();
    let state = lab.broker.inspector().inspect(&queue, Some("g")).await.unwrap();
    assert_eq!((state.depth, state.in_flight), (Some(1), Some(0)), "it waits in nobody's hand");
    let mut next = lab.broker.source(&queue, "g").await.unwrap();
    let again = one(&mut next).await;
    assert!(began.elapsed() >= Duration::from_millis(698));
    assert_eq!(again.delivery_count, Some(2));
}

#[tokio::test]
async fn a_retry_whose_time_was_lost_is_delivered_all_the_same() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let broker = broker(claiming_after(200), &lab.url).await;
    let mut source = broker.source(&queue, "g").await.unwrap();
    publish(&broker, &queue, &["a"]).await;
    let first = one(&mut source).await;
    settle(&*source, first, Settlement::Again { after: Duration::from_secs(3_600) }).await;
    let deleted: i64 = Raw::to(&lab.url).await.ask(&["DEL", &format!("{queue}:due:g")]).await;
    assert_eq!(deleted, 1);
    assert_eq!(body(&one(&mut source).await.message), "a");
}

#[tokio::test]
async fn publishes_put_off_arrive_whole_and_in_their_order() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut sent = Vec::new();
    for n in 0..20_u8 {
        let mut message = Message { payload: Payload(vec![n, 0, 255].into()), ..message("") };
        message.key = Some(Payload(vec![0, 254, n].into()));
        message.headers.push("h", Some(vec![255, n].into()));
        message.headers.push("absent", None);
        sent.push(message);
    }
    let delay = Some(Duration::from_millis(300));
    let all = sent.iter().map(|message| Outgoing { delay, ..to(&queue, message.clone()) }).collect();
    assert!(lab.broker.publisher().publish(all).await.iter().all(Result::is_ok));
    let mut came = Vec::new();
    while came.len() < sent.len() {
        let some = source.receive(20, LONG).await.unwrap();
        assert!(!some.is_empty());
        came.extend(some.into_iter().map(|delivery| delivery.message));
    }
    assert_eq!(came, sent);
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_told_again() {
    let lab = own().await;
    let queue = lab.fresh_queue().await;
    let mut raw = Raw::to(&lab.url).await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    for expected in 1..=3 {
        let () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        let later = Outgoing { delay: Some(Duration::from_millis(1)), ..to(&queue, message("a")) };
        lab.broker.publisher().publish(vec![later]).await.remove(0).unwrap();
        let () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        let delivery = one(&mut source).await;
        assert_eq!(delivery.delivery_count, Some(1), "round {expected}");
        let () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        settle(&*source, delivery, Settlement::Again { after: Duration::ZERO }).await;
        let again = one(&mut source).await;
        assert_eq!(again.delivery_count, Some(2), "round {expected}");
        settle(&*source, again, Settlement::Done).await;
        let () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        lab.broker.inspector().inspect(&queue, Some("g")).await.unwrap();
    }
    let () = raw.ask(&["SCRIPT", "FLUSH"]).await;
    source.close().await.unwrap();
}

#[tokio::test]
async fn a_server_killed_again_and_again_loses_nothing_that_it_confirmed() {
    let lab = own().await;
    let queue = lab.fresh_queue().await;
    let mut confirmed = BTreeSet::new();
    for round in 0..5 {
        let names: Vec<String> = (0..200).map(|n| format!("{round}/{n}")).collect();
        let all = names.iter().map(|name| to(&queue, message(name))).collect();
        let results = lab.broker.publisher().publish(all).await;
        confirmed.extend(
            names.into_iter().zip(&results).filter(|(_, result)| result.is_ok()).map(|(name, _)| name),
        );
        lab.own.as_ref().unwrap().kill().await;
        lab.own.as_ref().unwrap().start().await;
        // The first publish after it may find the broken connection.
        let _ = lab.broker.ping().await;
    }
    assert!(confirmed.len() >= 800, "only {} were confirmed", confirmed.len());
    let mut drain = lab.broker.drain(&queue).await.unwrap();
    while !confirmed.is_empty() {
        let came = drain.receive(500, LONG).await.unwrap();
        assert!(!came.is_empty(), "{} are lost", confirmed.len());
        for delivery in &came {
            confirmed.remove(&body(&delivery.message));
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_stream_is_refused_by_every_end() {
    let lab = lab().await;
    let name = fresh_name();
    let () = Raw::to(&lab.url).await.ask(&["SET", &name, "text"]).await;
    let result = lab.broker.publisher().publish(vec![to(&name, message("a"))]).await.remove(0);
    assert!(matches!(&result, Err(PublishError::Refused(why)) if why.contains("not a stream")), "{result:?}");
    let joined = lab.broker.source(&name, "g").await;
    assert!(matches!(&joined, Err(BrokerError::Refused(why)) if why.contains("not a stream")), "{joined:?}");
    let planned = lab.broker.topology().plan(&TopologySpec::new(&name, "x", 5)).await;
    assert!(matches!(&planned, Err(BrokerError::Refused(why)) if why.contains("string")), "{planned:?}");
}

#[tokio::test]
async fn a_stream_deleted_under_a_source_is_missing_and_one_created_again_is_joined_again() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut raw = Raw::to(&lab.url).await;
    let _: i64 = raw.ask(&["DEL", &queue]).await;
    let gone = source.receive(1, Duration::from_millis(300)).await;
    assert!(matches!(&gone, Err(BrokerError::Missing(name)) if *name == queue), "{gone:?}");
    raw.create(&queue).await;
    publish(&lab.broker, &queue, &["new"]).await;
    assert_eq!(body(&one(&mut source).await.message), "new");
}

#[tokio::test]
async fn a_reader_whose_place_lies_behind_a_stream_made_anew_begins_at_its_beginning() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    publish(&lab.broker, &queue, &["old"]).await;
    let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
    let place = reader.read(10, LONG).await.unwrap().position;
    lab.recreate(&queue).await;
    // A producer that chooses ids, smaller than the times before.
    let mut raw = Raw::to(&lab.url).await;
    let _: String = raw.ask(&["XADD", &queue, "5-1", "payload", "new"]).await;
    assert!(matches!(reader.read(10, Duration::ZERO).await, Err(BrokerError::Closed)));
    let mut reader = lab.broker.reader(&queue, 0, Some(&place)).await.unwrap();
    let look = reader.read(10, LONG).await.unwrap();
    assert_eq!(look.seen.iter().map(|seen| body(&seen.message)).collect::<Vec<_>>(), ["new"]);
}

#[tokio::test]
async fn without_memory_a_publish_is_not_confirmed_and_consuming_goes_on() {
    let server = Redis::with(&["--maxmemory-policy", "noeviction"]).await;
    let broker = broker(RedisConfig::default(), &server.url).await;
    let mut raw = Raw::to(&server.url).await;
    raw.create("orders").await;
    publish(&broker, "orders", &["a"]).await;
    let mut source = broker.source("orders", "g").await.unwrap();
    let () = raw.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let result = broker.publisher().publish(vec![to("orders", message("b"))]).await.remove(0);
    assert!(matches!(&result, Err(PublishError::Unconfirmed(why)) if why.contains("OOM")), "{result:?}");
    let delivery = one(&mut source).await;
    settle(&*source, delivery, Settlement::Done).await;
}

#[tokio::test]
async fn a_server_that_may_lose_letters_is_said_to_be_weak() {
    let server = Redis::with(&["--appendonly", "no", "--maxmemory-policy", "allkeys-lru"]).await;
    let broker = broker(RedisConfig::default(), &server.url).await;
    let spec =
        TopologySpec { group: Some("pricing".to_owned()), ..TopologySpec::new("orders", "orders:dlq", 5) };
    let plan = broker.topology().apply(&spec).await.unwrap();
    let commands: Vec<&str> = plan.iter().filter_map(|change| change.command.as_deref()).collect();
    assert_eq!(
        commands,
        [
            "redis-cli XGROUP CREATE 'orders' 'pricing' 0 MKSTREAM",
            "redis-cli XGROUP CREATE 'orders:dlq' 'dlo-office' 0 MKSTREAM",
            "redis-cli CONFIG SET appendonly yes",
            "redis-cli CONFIG SET maxmemory-policy noeviction",
        ]
    );
    let left = broker.topology().plan(&spec).await.unwrap();
    assert!(left.len() == 2 && left.iter().all(|change| !change.appliable), "{left:?}");
}

#[tokio::test]
async fn a_server_that_never_flushes_its_file_is_said_to_be_weak_where_settings_may_be_read() {
    let server = Redis::with(&["--appendonly", "yes", "--appendfsync", "no"]).await;
    let broker = broker(RedisConfig::default(), &server.url).await;
    let spec = TopologySpec::new("orders", "orders:dlq", 5);
    broker.topology().apply(&spec).await.unwrap();
    let commands = async || {
        let plan = broker.topology().plan(&spec).await.unwrap();
        plan.into_iter().map(|change| change.command.unwrap_or(change.what)).collect::<Vec<_>>()
    };
    assert_eq!(commands().await, ["redis-cli CONFIG SET appendfsync everysec"]);
    let mut raw = Raw::to(&server.url).await;
    let () = raw.ask(&["ACL", "SETUSER", "default", "-config"]).await;
    assert_eq!(commands().await, [""; 0]);
}

#[tokio::test]
async fn a_limit_of_our_own_bounds_messages() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let config = RedisConfig { max_message: ByteSize(1_024), ..RedisConfig::default() };
    let broker = broker(config, &lab.url).await;
    let large = Message { headers: Headers::new(), ..message(&"x".repeat(1_100)) };
    let results = broker.publisher().publish(vec![to(&queue, large), to(&queue, message("small"))]).await;
    assert!(matches!(results[0], Err(PublishError::TooLarge { limit: 1_024, .. })), "{results:?}");
    assert!(results[1].is_ok());
}

/// Not a bench: a floor far below what is usual, against reading or settling one by one.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_takes_tens_of_thousands_of_letters_a_second() {
    const COUNT: usize = 40_000;
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let letter = message(&"x".repeat(1_024));
    for _ in 0..COUNT / 1_000 {
        let all = (0..1_000).map(|_| to(&queue, letter.clone())).collect();
        assert!(lab.broker.publisher().publish(all).await.iter().all(Result::is_ok));
    }
    let mut drain = lab.broker.drain(&queue).await.unwrap();
    let (began, mut done) = (Instant::now(), 0);
    while done < COUNT {
        let came = drain.receive(1_000, LONG).await.unwrap();
        assert!(!came.is_empty(), "{done} of {COUNT} came");
        done += came.len();
        let settled = came.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
        drain.settler().settle(settled).await.unwrap();
    }
    let rate = COUNT as f64 / began.elapsed().as_secs_f64();

    assert!(rate > 500.0, "{rate:.0} letters a second");
}

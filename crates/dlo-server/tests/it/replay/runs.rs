//! What a run does to letters: byte for byte, once each, with an outcome; stopped, paused, cancelled, taken over.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dlo_brokers::memory::MemoryBroker;
use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::envelope::{Envelope, OriginHeaders, encode, replay_mark};
use dlo_core::message::{Message, Payload};
use dlo_core::reason::Reason;
use dlo_core::replay::{ItemState, Pace, Repairing, ReplayState, Settings, send_id};
use dlo_core::units::HumanDuration;
use dlo_store::replays::lease_name;
use tempfile::TempDir;

use crate::office::clock;

use super::shop::{DLQ, GROUP, Shop, broker, consume, count, payload, settings, take_all, until};

#[tokio::test(flavor = "multi_thread")]
async fn letters_go_back_byte_for_byte_with_their_marks_and_are_recovered() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    shop.die(30).await;
    let id = shop.plan(Settings { canary: 3, ..settings() }).await;
    shop.turn(id, ReplayState::Canary).await;
    let mut got = consume(&broker, 3).await;
    shop.until_state(id, ReplayState::Running).await;
    shop.until_sent(id, 30).await;
    got.extend(consume(&broker, 27).await);
    let replay = shop.until_state(id, ReplayState::Completed).await;
    assert_eq!(count(&replay, ItemState::Passed), 30, "{:?}", replay.counts);
    let mut seen = BTreeSet::new();
    for (message, origin) in &got {
        assert_eq!(origin.partition, Some(3), "where it came from");
        let mark = replay_mark(&message.headers).unwrap();
        assert_eq!(mark.count, 1);
        assert!(mark.letter.is_some() && seen.insert(mark.replay_id.clone()));
        assert_eq!(message.headers.text("event-type"), Some("order.placed"));
        assert_eq!(message.headers.text("dlo-error-class"), None, "the story of its death stays here");
    }
    assert_eq!(seen, (0..30).map(|number| send_id(id, number)).collect());
    let mut bodies: Vec<_> = got.iter().map(|(message, _)| message.payload.0.to_vec()).collect();
    bodies.sort();
    let mut sent: Vec<_> = (0..30).map(payload).collect();
    sent.sort();
    assert_eq!(bodies, sent);
    shop.conserved().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_tells_nothing_of_its_origin_goes_to_the_queue_of_its_source() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    shop.die_as(1, |n| Message { payload: Payload::from(payload(n)), ..Message::default() }).await;
    let id = shop.plan(settings()).await;
    shop.turn(id, ReplayState::Running).await;
    let (message, _) = consume(&broker, 1).await.remove(0);
    assert_eq!(message.payload.0, payload(0));
    shop.until_state(id, ReplayState::Completed).await;
    shop.conserved().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_that_others_wrapped_around_a_message_is_taken_off() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    let wrapped = r#"{"errorMessage":"no price","exception":"NoPrice","originalMessage":"{\"id\": 1}","originalKey":"k-17"}"#;
    shop.die_as(1, |_| Message { payload: Payload::from(wrapped), ..Message::default() }).await;
    let id = shop.plan(settings()).await;
    shop.turn(id, ReplayState::Running).await;
    let (message, _) = consume(&broker, 1).await.remove(0);
    assert_eq!(message.payload, Payload::from(r#"{"id": 1}"#));
    assert_eq!(message.key, Some(Payload::from("k-17")));
    shop.until_state(id, ReplayState::Completed).await;
    shop.close().await;
}

/// The consumer fails as before, and parks what it got.
async fn die_again(broker: &MemoryBroker, count: usize) {
    let dead = consume(broker, count).await.into_iter().map(|(message, origin)| {
        let envelope = Envelope {
            reason: Some(Reason::MaxRetriesExceeded),
            error_class: Some("KeyError".into()),
            error_message: Some("pin not in tax table".into()),
            attempts: Some(5),
            origin: OriginHeaders::new(&origin, None),
            consumer_group: Some(GROUP.into()),
            ..Envelope::default()
        };
        let message = encode(&message, &envelope, 1_000_000).unwrap();
        Outgoing { to: Destination::queue(DLQ), message, delay: None }
    });
    let parked = broker.publisher().publish(dead.collect()).await;
    assert!(parked.len() == count && parked.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_is_smaller_than_its_canary_is_stopped_as_well() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    shop.die(2).await;
    let window = HumanDuration(Duration::from_secs(20));
    let id = shop.plan(Settings { canary: 5, window, ..settings() }).await;
    shop.turn(id, ReplayState::Canary).await;
    die_again(&broker, 2).await;
    let stopped = shop.until_state(id, ReplayState::Stopped).await;
    let reason = stopped.stop_reason.clone().unwrap();
    assert!(reason.ends_with("nothing is left to send: mend it, then plan anew"), "{reason}");
    assert!(!stopped.stop_letters.is_empty());
    // Whoever resumes it all the same finds it done.
    shop.turn(id, ReplayState::Canary).await;
    shop.until_state(id, ReplayState::Completed).await;
    shop.conserved().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fix_that_does_not_work_is_stopped_after_the_canary() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    shop.die(40).await;
    let window = HumanDuration(Duration::from_secs(4));
    let id = shop.plan(Settings { canary: 5, window, ..settings() }).await;
    shop.turn(id, ReplayState::Canary).await;
    die_again(&broker, 5).await;
    let stopped = shop.until_state(id, ReplayState::Stopped).await;
    let reason = stopped.stop_reason.clone().unwrap();
    assert!(reason.contains("canary letters came back with KeyError within 30s"), "{reason}");
    assert!(!stopped.stop_letters.is_empty());
    assert_eq!(stopped.counts.sent(), 5, "nothing more went out");
    assert!(take_all(&broker).await.is_empty());
    // A person lets it go on: another canary, and what came back before does not stop it again.
    shop.turn(id, ReplayState::Canary).await;
    consume(&broker, 5).await;
    shop.until_state(id, ReplayState::Running).await;
    shop.turn(id, ReplayState::Cancelled).await;
    until("everything has an end", || async {
        let counts = shop.store.replay(id).await.unwrap().counts;
        counts.get(ItemState::Claimed) + counts.get(ItemState::Sent) + counts.get(ItemState::Intended) == 0
    })
    .await;
    shop.conserved().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_office_goes_on_where_one_stopped_and_nothing_is_sent_twice() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    shop.die(200).await;
    let id = shop.plan(Settings { pace: Pace::Rate(100.0), ..settings() }).await;
    shop.turn(id, ReplayState::Running).await;
    shop.until_sent(id, 40).await;
    shop.close().await;
    let shop = Shop::open(&data, &broker).await;
    shop.until_sent(id, 200).await;
    let got = take_all(&broker).await;
    let ids: BTreeSet<_> = got
        .iter()
        .filter_map(|(message, _)| replay_mark(&message.headers))
        .map(|mark| mark.replay_id)
        .collect();
    assert_eq!((got.len(), ids.len()), (200, 200));
    shop.until_state(id, ReplayState::Completed).await;
    shop.conserved().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_worker_that_does_not_start_pauses_the_replay_and_refuses_no_letter() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    // This office has no worker at all.
    let shop = Shop::open(&data, &broker).await;
    shop.die(30).await;
    let repair = Some(Repairing { expression: ".n += 1".to_owned() });
    let id = shop.plan(Settings { repair, ..settings() }).await;
    shop.turn(id, ReplayState::Running).await;
    let paused = shop.until_state(id, ReplayState::Paused).await;
    let reason = paused.stop_reason.clone().unwrap();
    assert!(reason.starts_with("the repair worker does not start"), "{reason}");
    until("what was in hand is put back", || async {
        let replay = shop.store.replay(id).await.unwrap();
        count(&replay, ItemState::Claimed) + count(&replay, ItemState::Frozen) == 30
    })
    .await;
    assert_eq!(take_all(&broker).await.len(), 0, "nothing goes out without its repair");
    shop.conserved().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_its_pace() {
    let (data, broker) = (TempDir::new().unwrap(), broker());
    let shop = Shop::open(&data, &broker).await;
    shop.die(150).await;
    let id = shop.plan(Settings { pace: Pace::Rate(50.0), ..settings() }).await;
    shop.turn(id, ReplayState::Running).await;
    shop.until_sent(id, 1).await;
    let began = Instant::now();
    shop.until_sent(id, 101).await;
    let took = began.elapsed();
    // A machine that is busy with other tests may be late; too early it never is.
    assert!((Duration::from_millis(1_800)..Duration::from_secs(25)).contains(&took), "{took:?}");
    shop.turn(id, ReplayState::Paused).await;
    // What was under way is recorded, and then the office lets go of it: nobody is left who could send.
    until("nobody has it in hand", || async {
        shop.store.leases(&lease_name(id), clock().now()).await.unwrap().is_empty()
    })
    .await;
    let paused = shop.store.replay(id).await.unwrap();
    assert!(count(&paused, ItemState::Intended) == 0 && count(&paused, ItemState::Claimed) > 0);
    shop.turn(id, ReplayState::Cancelled).await;
    until("the rest is given back", || async {
        shop.store.replay(id).await.unwrap().counts.get(ItemState::Claimed) == 0
    })
    .await;
    shop.conserved().await;
    shop.close().await;
}

//! Capture by delivery: insert, then settle.

use std::time::Duration;

use dlo_brokers::memory::MemoryBroker;
use dlo_core::broker::Broker;
use dlo_server::{CaptureLimits, CaptureSpec, Mode, ServerConfig};
use dlo_store::StoreLimits;
use dlo_testkit::faults::{Fault, Script};
use tempfile::TempDir;

use super::lab::{DLQ, Mortal, Weak, Weakness, office, parked, plain, until, until_letters};
use crate::office::Office;

#[tokio::test]
async fn parked_messages_become_letters_with_their_story_and_leave_the_queue() {
    let broker = Weak::new(Weakness::default());
    broker.publish((0..700).map(parked)).await;
    let office = office(broker.spec()).await;
    until_letters(&office, 700).await;
    let found = office.get("/api/v1/letters?q=offset:42").await.json();
    let letter = &found["letters"][0];
    assert_eq!(
        (&letter["queue"], &letter["partition"], &letter["broker"]),
        (&"orders".into(), &3.into(), &"memory".into())
    );
    assert_eq!((&letter["reason"], &letter["attempts"]), (&"max_retries_exceeded".into(), &5.into()));
    assert_eq!((&letter["consumer"], &letter["error_class"]), (&"pricing".into(), &"KeyError".into()));
    assert_eq!((&letter["event_type"], &letter["key"]), (&"order.placed".into(), &"C-42".into()));
    let id = letter["id"].as_str().unwrap();
    assert_eq!(office.get(&format!("/api/v1/letters/{id}/payload")).await.body, br#"{"n":42}"#);
    broker.until_empty().await;
    let sources = office.get("/api/v1/sources").await.json();
    let source = &sources["sources"][0];
    assert_eq!((&source["state"], &source["mode"]), (&"running".into(), &"drain".into()), "{source:#}");
    assert_eq!((&source["captured"], &source["captured_last_minute"]), (&700.into(), &700.into()));
    assert_eq!((&source["dlq"], &source["held"], &source["skipped"]), (&DLQ.into(), &1.into(), &0.into()));
    assert!(office.get("/metrics").await.text().contains("dlo_capture_running{source=\"orders\"} 1"));
}

#[tokio::test]
async fn a_message_that_is_parked_twice_is_one_letter() {
    let broker = Weak::new(Weakness::default());
    broker.publish([parked(1), parked(1), parked(2)]).await;
    let office = office(broker.spec()).await;
    until(&office, "/api/v1/sources", "/sources/0/duplicates", 1).await;
    until_letters(&office, 2).await;
}

#[tokio::test]
async fn an_office_starts_without_its_broker_and_says_so_until_it_comes_back() {
    let broker = Weak::new(Weakness::default());
    broker.set_away(true);
    let office = office(broker.spec()).await;
    until(&office, "/api/v1/sources", "/sources/0/state", "waiting").await;
    let source = office.get("/api/v1/sources").await.json();
    assert!(source["sources"][0]["problem"].as_str().unwrap().contains("restarting"), "{source:#}");
    broker.publish([plain(1)]).await;
    broker.set_away(false);
    until_letters(&office, 1).await;
    broker.set_away(true);
    until(&office, "/api/v1/sources", "/sources/0/state", "waiting").await;
    broker.publish([plain(2)]).await;
    broker.set_away(false);
    until_letters(&office, 2).await;
    until(&office, "/api/v1/sources", "/sources/0/state", "running").await;
    assert!(!office.get("/api/v1/sources").await.json()["sources"][0]["last_error"].is_null());
}

#[tokio::test]
async fn a_queue_that_is_missing_is_waited_for() {
    let broker = Weak::new(Weakness::default());
    broker.memory().delete(DLQ);
    let office = office(broker.spec()).await;
    until(&office, "/api/v1/sources", "/sources/0/state", "waiting").await;
    broker.memory().declare(DLQ, broker.memory().defaults());
    broker.publish([plain(1)]).await;
    until_letters(&office, 1).await;
}

/// Killed when the letters are stored and the broker was not told: they come again, and are known.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_insert_and_settle_makes_no_second_letter_without_coordinates() {
    let broker = Weak::bare(Script::default());
    // Equal messages are as many letters as they were messages.
    let messages = || (0..40).map(|n| plain(n / 2));
    broker.publish(messages()).await;
    let mut data = TempDir::new().unwrap();
    for _ in 0..3 {
        broker.set_deaf(true);
        let mortal = Mortal::start(data, broker.spec()).await;
        until(&mortal.office, "/api/v1/stats", "/letters/total", 40).await;
        data = mortal.kill().await;
    }
    broker.set_deaf(false);
    let mortal = Mortal::start(data, broker.spec()).await;
    broker.until_empty().await;
    until_letters(&mortal.office, 40).await;
    until(&mortal.office, "/api/v1/sources", "/sources/0/duplicates", 40).await;
    // The same bytes once more are new messages: nobody delivered them before.
    broker.publish(messages()).await;
    until_letters(&mortal.office, 80).await;
    mortal.kill().await;
}

#[tokio::test]
async fn a_settlement_that_is_lost_makes_no_second_letter_without_coordinates() {
    let script = Script::of([Fault::Unreachable, Fault::ConfirmLost, Fault::Unreachable]);
    let broker = Weak::bare(script.clone());
    let office = office(broker.spec()).await;
    for n in 0..4 {
        broker.publish([plain(n), plain(n)]).await;
        until(&office, "/api/v1/stats", "/letters/total", (n + 1) * 2).await;
    }
    assert!(script.is_played());
    until_letters(&office, 8).await;
}

#[tokio::test]
async fn a_store_that_is_overloaded_slows_capture_down_and_loses_nothing() {
    let broker = Weak::new(Weakness::default());
    broker.publish((0..3_000).map(plain)).await;
    let limits = StoreLimits { waiting_bytes: 1, ..StoreLimits::default() };
    let office = Office::start(ServerConfig::default(), limits, |server| server.capture(broker.spec())).await;
    until_letters(&office, 3_000).await;
    broker.until_empty().await;
}

#[tokio::test]
async fn a_rate_is_kept() {
    let broker = Weak::new(Weakness::default());
    broker.publish((0..400).map(plain)).await;
    let limits = CaptureLimits { rate: std::num::NonZeroU32::new(200), ..CaptureLimits::default() };
    let began = tokio::time::Instant::now();
    let office = office(CaptureSpec { limits, ..broker.spec() }).await;
    until(&office, "/api/v1/stats", "/letters/total", 400).await;
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_mirror_is_refused_where_looking_is_not_free() {
    let broker =
        Weak::new(Weakness { capabilities: |able| able.looking_is_free = false, ..Weakness::default() });
    let spec = CaptureSpec { mode: Mode::Mirror, ..broker.spec() };
    assert!(spec.check().unwrap_err().to_string().contains("use mode = \"drain\""));
    let office = office(spec).await;
    until(&office, "/api/v1/sources", "/sources/0/state", "ended").await;
    let problem = office.get("/api/v1/sources").await.json()["sources"][0]["problem"].clone();
    assert!(problem.as_str().unwrap().contains("cannot be mirrored"), "{problem}");
}

#[tokio::test]
async fn stopping_settles_what_is_stored() {
    let broker = Weak::bare(Script::default());
    broker.publish((0..100).map(plain)).await;
    let mut office = office(broker.spec()).await;
    until(&office, "/api/v1/stats", "/letters/total", 100).await;
    office.stop();
    (&mut office.running).await.unwrap().unwrap();
    let memory: &MemoryBroker = broker.memory();
    let state = memory.inspector().inspect(DLQ, Some(dlo_core::broker::OFFICE)).await.unwrap();
    assert_eq!((state.depth, state.in_flight), (Some(0), Some(0)));
}

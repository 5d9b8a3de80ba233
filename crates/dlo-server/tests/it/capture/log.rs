//! Capture by position: the place is stored with the letters.

use std::time::Duration;

use dlo_server::{CaptureSpec, Mode, ServerConfig};
use dlo_store::StoreLimits;
use tempfile::TempDir;

use super::lab::{DLQ, Mortal, Weak, Weakness, office, plain, until, until_letters};
use crate::office::Office;

#[tokio::test]
async fn a_log_is_read_partition_by_partition_and_stays() {
    let broker = Weak::log();
    broker.publish((0..2_000).map(plain)).await;
    let office = office(broker.spec()).await;
    until_letters(&office, 2_000).await;
    broker.publish((2_000..2_100).map(plain)).await;
    until_letters(&office, 2_100).await;
    let sources = office.get("/api/v1/sources").await.json();
    let source = &sources["sources"][0];
    assert_eq!((&source["partitions"], &source["held"]), (&8.into(), &8.into()), "{source:#}");
    assert_eq!((&source["duplicates"], &source["state"]), (&0.into(), &"running".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_goes_on_at_its_place_after_a_kill() {
    let broker = Weak::log();
    let mut data = TempDir::new().unwrap();
    let mut sent = 0;
    for round in 1..=4_u64 {
        broker.publish((sent..sent + 500).map(plain)).await;
        sent += 500;
        let mortal = Mortal::start(data, broker.spec()).await;
        if round % 2 == 0 {
            until(&mortal.office, "/api/v1/stats", "/letters/total", round * 500).await;
        }
        data = mortal.kill().await;
    }
    let mortal = Mortal::start(data, broker.spec()).await;
    until_letters(&mortal.office, 2_000).await;
    let source = mortal.office.get("/api/v1/sources").await.json();
    assert_eq!(source["sources"][0]["duplicates"], 0, "what is stored is not read again: {source:#}");
    mortal.kill().await;
}

#[tokio::test]
async fn partitions_that_are_added_are_read_too() {
    let broker = Weak::log();
    broker.tell_partitions(3);
    broker.publish((0..400).map(plain)).await;
    let office = office(broker.spec()).await;
    until(&office, "/api/v1/sources", "/sources/0/held", 3).await;
    broker.tell_partitions(8);
    until_letters(&office, 400).await;
    until(&office, "/api/v1/sources", "/sources/0/held", 8).await;
}

#[tokio::test]
async fn a_queue_that_was_made_anew_is_read_from_its_beginning() {
    let broker = Weak::log();
    broker.publish((0..100).map(plain)).await;
    let office = office(broker.spec()).await;
    until_letters(&office, 100).await;
    for life in 2..=3_u64 {
        broker.memory().delete(DLQ);
        broker.memory().declare(DLQ, broker.memory().defaults());
        // The same bytes at the same places: another life, and so other deaths.
        broker.publish((0..100).map(plain)).await;
        until_letters(&office, life * 100).await;
    }
}

#[tokio::test]
async fn a_mirror_leaves_everything_as_it_was() {
    let broker = Weak::new(Weakness::default());
    broker.publish((0..300).map(plain)).await;
    let office = office(CaptureSpec { mode: Mode::Mirror, ..broker.spec() }).await;
    until_letters(&office, 300).await;
    let mut other = broker.memory().join(DLQ, "somebody-else").unwrap();
    let mut seen = 0;
    while seen < 300 {
        let more = dlo_core::broker::Source::receive(&mut other, 500, Duration::from_secs(5)).await.unwrap();
        assert!(more.iter().all(|delivery| !delivery.redelivered));
        seen += more.len();
        assert!(!more.is_empty(), "{seen} of 300 were left");
    }
    assert_eq!(office.get("/api/v1/sources").await.json()["sources"][0]["mode"], "mirror");
}

#[tokio::test]
async fn records_that_were_removed_before_they_were_read_are_told() {
    let broker = Weak::log();
    broker.publish((0..100).map(plain)).await;
    let office = office(broker.spec()).await;
    until_letters(&office, 100).await;
    // The readers are kept out, and another group is handed what comes meanwhile: the log forgets it.
    broker.memory().delete(DLQ);
    broker.memory().declare(DLQ, broker.memory().defaults());
    broker.set_away(true);
    broker.publish((0..40).map(plain)).await;
    let mut other = broker.memory().join(DLQ, "reaper").unwrap();
    let mut taken = 0;
    while taken < 40 {
        let more = dlo_core::broker::Source::receive(&mut other, 500, Duration::from_secs(5)).await.unwrap();
        taken += more.len();
    }
    broker.set_away(false);
    until(&office, "/api/v1/sources", "/sources/0/skipped", 40).await;
    assert!(office.get("/metrics").await.text().contains("dlo_capture_skipped_total{source=\"orders\"} 40"));
}

#[tokio::test]
async fn an_overloaded_store_makes_a_log_wait_and_nothing_is_lost() {
    let broker = Weak::log();
    broker.publish((0..2_000).map(plain)).await;
    let limits = StoreLimits { waiting_bytes: 1, ..StoreLimits::default() };
    let office = Office::start(ServerConfig::default(), limits, |server| server.capture(broker.spec())).await;
    until_letters(&office, 2_000).await;
}

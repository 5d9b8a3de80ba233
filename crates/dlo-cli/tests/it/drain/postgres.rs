//! PostgreSQL goes and comes back in the middle of a drain; and of two offices on one of them, one dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_testkit::harness::postgres::OwnPostgres;
use rand::RngExt;

use super::brokers::{broker, far_redis};
use super::{Far, LETTERS, Life, Strike, endure, fill, kept, rounds};

/// An office waits for its database and goes on; the letters wait in the broker meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_repeated_when_postgresql_stops_and_starts_in_the_middle_of_a_drain() {
    let database = OwnPostgres::start_new().await;
    let far = far_redis().await;
    let broker = broker(&far.section()).await;
    let life = Life::begin(&far, &format!("database = \"{}\"", database.url));
    for round in 0..rounds() {
        let before = round * LETTERS;
        fill(&broker, &far.queues().1, before).await;
        life.until(before + rand::rng().random_range(1..LETTERS / 2)).await;
        database.stop();
        database.start().await;
        life.until(before + LETTERS).await;
    }
    let kept = kept(&life.office);
    assert!(kept.values().all(|count| *count == 1), "some letters are there more than once");
    assert_eq!(kept.len() as u64, rounds() * LETTERS, "letters are lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_office_on_postgresql_that_is_killed_loses_and_repeats_nothing() {
    let database = OwnPostgres::start_new().await;
    let far = far_redis().await;
    endure(&far, &format!("database = \"{}\"", database.url), Strike::Office, rounds()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_of_two_offices_dies_the_other_takes_over_within_seconds() {
    let database = OwnPostgres::start_new().await;
    let far = far_redis().await;
    let broker: Arc<_> = broker(&far.section()).await;
    let storage = format!("database = \"{}\"", database.url);
    let first = Life::begin(&far, &storage);
    fill(&broker, &far.queues().1, 0).await;
    first.until(LETTERS).await;
    let second = Life::begin(&far, &storage);
    fill(&broker, &far.queues().1, LETTERS).await;
    first.office.kill();
    let died = Instant::now();
    let so_far = second.total();
    second.until((so_far + 1).min(2 * LETTERS)).await;
    assert!(died.elapsed() < Duration::from_secs(15), "it took {:?}", died.elapsed());
    second.until(2 * LETTERS).await;
    let kept = kept(&second.office);
    assert!(kept.values().all(|count| *count == 1), "some letters are there more than once");
    assert_eq!(kept.len() as u64, 2 * LETTERS, "letters are lost");
}

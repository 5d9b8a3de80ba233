//! Deadlines of calls: a server that is slow, and connections that swallow bytes.

use std::time::{Duration, Instant};

use dlo_store::postgres::PostgresStore;
use dlo_store::{DynStore, Inserted, Page, StoreError, StoreLimits};
use dlo_testkit::harness::postgres::Database;
use dlo_testkit::harness::proxy::Proxy;
use tokio_postgres::Client;

use super::fresh;
use crate::letters::{NOW, batch, insert, letter, query};

const DEADLINE: Duration = Duration::from_secs(3);
/// What a busy machine adds to a deadline.
const SLACK: Duration = Duration::from_secs(2);

fn limits() -> StoreLimits {
    StoreLimits { deadline: DEADLINE, ..StoreLimits::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline_and_a_long_one_goes_on_while_the_server_works_on_it() {
    let database = fresh().await;
    let store: DynStore = PostgresStore::connect(&database.url, limits()).await.unwrap();
    insert(&store, vec![letter(1, |_| {})]).await;
    let raw = database.raw().await;
    raw.batch_execute("BEGIN; LOCK TABLE letters IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let (long, begun) = (store.clone(), Instant::now());
    let long = tokio::spawn(async move { long.verify().await });
    for _ in 0..2 {
        let begun = Instant::now();
        let late = store.letters(&query([]), &Page::first(1)).await;
        assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
        assert!(begun.elapsed() >= DEADLINE && begun.elapsed() < DEADLINE + SLACK, "{:?}", begun.elapsed());
    }
    assert!(!long.is_finished() && begun.elapsed() > DEADLINE, "the server works on it");
    raw.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(long.await.unwrap().unwrap().letters, 1);
    assert_eq!(store.letters(&query([]), &Page::first(1)).await.unwrap().letters.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_given_up_and_new_ones_take_their_place() {
    let (database, proxy, store) = behind_a_proxy().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    // Many are open and idle; one is in a long call.
    let calls: Vec<_> = (0..12).map(|_| tokio::spawn(all_pages(store.clone()))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let raw = database.raw().await;
    raw.batch_execute("BEGIN; LOCK TABLE letters IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let long = store.clone();
    let long = tokio::spawn(async move { long.verify().await });
    until_blocked(&raw).await;
    proxy.silence();
    raw.batch_execute("ROLLBACK").await.unwrap();
    // The server has answered, into a dead wire: it does not work on it any more.
    let begun = Instant::now();
    let lost = tokio::time::timeout(DEADLINE * 5, long).await.expect("given up").unwrap();
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    println!("a long call on a silent connection is given up after {:.1?}", begun.elapsed());
    let begun = Instant::now();
    store.ping().await.unwrap();
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
}

/// The server commits, and its answer is lost. Sent again, the letter is recognised.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_an_answer_is_unconfirmed_and_its_letters_are_known_again() {
    let (database, proxy, store) = behind_a_proxy().await;
    let raw = database.raw().await;
    let held = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                  'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
                CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON letters DEFERRABLE INITIALLY DEFERRED
                   FOR EACH ROW EXECUTE FUNCTION wait();
                SELECT pg_advisory_lock(7)";
    raw.batch_execute(held).await.unwrap();
    let writer = store.clone();
    let written = tokio::spawn(async move { writer.insert(batch(vec![letter(1, |_| {})]), NOW).await });
    until_blocked(&raw).await;
    proxy.silence();
    raw.batch_execute("SELECT pg_advisory_unlock(7)").await.unwrap();
    let answer = written.await.unwrap();
    assert!(matches!(answer, Err(StoreError::Unconfirmed(_))), "{answer:?}");
    let again = store.insert(batch(vec![letter(1, |_| {})]), NOW).await.unwrap();
    assert!(matches!(again[..], [Inserted::Duplicate(_)]), "{again:?}");
    assert_eq!(store.stats().await.unwrap().letters.total(), 1);
}

async fn behind_a_proxy() -> (Database, Proxy, DynStore) {
    let database = fresh().await;
    let at = database.url.find('@').unwrap() + 1;
    let end = at + database.url[at..].find('/').unwrap();
    let proxy = Proxy::before(database.url[at..end].parse().unwrap()).await;
    let url = format!("{}{}{}", &database.url[..at], proxy.address, &database.url[end..]);
    let store: DynStore = PostgresStore::connect(&url, limits()).await.unwrap();
    (database, proxy, store)
}

/// Waits until a statement waits for a lock.
async fn until_blocked(raw: &Client) {
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while raw.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

async fn all_pages(store: DynStore) -> Result<(), StoreError> {
    store.letters(&query([]), &Page::first(10)).await.map(drop)
}

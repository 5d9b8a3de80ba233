//! The shared store: the suite on a real PostgreSQL, and what is its own (several processes, storms, its schema).

use async_trait::async_trait;
use dlo_core::group::{Change, Condition};
use dlo_core::letter::{Status, Step};
use dlo_core::query::{Matcher, Query, Term};
use dlo_store::postgres::PostgresStore;
use dlo_store::triage::NewSplit;
use dlo_store::{DynStore, GroupFilter, Inserted, Page, Stepped, StoreError, StoreLimits};
use dlo_testkit::harness::postgres::{Database, Postgres};

use crate::conformance::Home;
use crate::letters::{NOW, at, batch, damaged_first, deed, find_all, insert, insert_one, letter, query};
use crate::property::random_stories_agree_with_the_model;
use crate::replay_stories::random_replays_keep_everything_consistent;

mod deadline;
mod upgrade;

#[async_trait]
impl Home for Database {
    async fn open_with(&self, limits: StoreLimits) -> Result<DynStore, StoreError> {
        Ok(PostgresStore::connect(&self.url, limits).await?)
    }
}

async fn fresh() -> Database {
    Postgres::shared().await.database().await
}

mod suite {
    crate::conformance::conformance!(crate::postgres::fresh);
}

#[test]
fn random_stories_agree_with_the_model_here() {
    random_stories_agree_with_the_model(24, fresh);
}

#[test]
fn random_replays_keep_everything_consistent_here() {
    random_replays_keep_everything_consistent(8, fresh);
}

/// Two offices read overlapping stretches of one log into one database, from both ends.
#[tokio::test(flavor = "multi_thread")]
async fn two_stores_on_one_database_are_exact_together() {
    let home = fresh().await;
    let stores = [home.open().await, home.open().await];
    let tasks: Vec<_> = (0..8_usize)
        .map(|task| {
            let store = stores[task % 2].clone();
            tokio::spawn(async move {
                let mut stored = 0;
                for round in 0..6_i64 {
                    let mut letters: Vec<_> = (round * 50..round * 50 + 100)
                        .map(|n| letter(n, |l| l.error_class = Some(format!("C{}", n % 9))))
                        .collect();
                    if task % 4 > 1 {
                        letters.reverse();
                    }
                    let answers = store.insert(batch(letters), NOW).await.unwrap();
                    stored += answers.iter().filter(|answer| matches!(answer, Inserted::Stored(_))).count();
                }
                stored
            })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        stored += task.await.unwrap();
    }
    assert_eq!(stored, 350);
    for store in &stores {
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.letters.total(), stats.groups, stats.sources[0].captured), (350, 9, 350));
        assert_eq!(find_all(store, &Query::default(), 100).await.len(), 350);
        assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_store_does_the_other_sees_at_once() {
    let home = fresh().await;
    let (one, two) = (home.open().await, home.open().await);
    let id = insert_one(&one, letter(1, |_| {})).await;
    assert_eq!(two.letter(id).await.unwrap().letter.status, Status::Open);
    let results = two.step(&[id], Step::Claim, &deed("ben"), NOW).await.unwrap();
    assert_eq!(results, [Stepped::Moved { from: Status::Open, to: Status::Claimed }]);
    let results = one.step(&[id], Step::Claim, &deed("ann"), NOW).await.unwrap();
    assert_eq!(results, [Stepped::Illegal { from: Status::Claimed }]);
    two.assign_owners(&|_| Some("tax-team".into())).await.unwrap();
    assert_eq!(one.letter(id).await.unwrap().letter.owner.as_deref(), Some("tax-team"));
    assert!(one.lease("capture", "one", std::time::Duration::from_secs(9), NOW).await.unwrap().is_some());
    assert_eq!(two.lease("capture", "two", std::time::Duration::from_secs(9), NOW).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_open_an_empty_database_at_once() {
    let home = std::sync::Arc::new(fresh().await);
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let home = home.clone();
            tokio::spawn(async move { home.open().await.ping().await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_cannot_be_read_does_not_hide_the_others() {
    let home = fresh().await;
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    let raw = home.raw().await;
    let data: Vec<u8> = raw.query_one("SELECT data FROM blocks", &[]).await.unwrap().get(0);
    raw.execute("UPDATE blocks SET data = $1", &[&damaged_first(&data)]).await.unwrap();
    assert!(matches!(store.letter(ids[0]).await, Err(StoreError::Unreadable(_))));
    let path = vec!["order".into(), "id".into()];
    let matcher = Matcher::Payload { path, value: "O-2".into() };
    let query = Query { terms: vec![Term { negated: true, matcher }] };
    let found: Vec<_> = find_all(&store, &query, 10).await.iter().map(|letter| letter.id).collect();
    assert_eq!(found, [ids[1]]);
    // A sample has it without its payload.
    let sample = store.sample(letter(1, |_| {}).fingerprint.group, 10).await.unwrap();
    let empty: Vec<bool> = sample.iter().map(|sampled| sampled.payload.is_empty()).collect();
    assert_eq!(empty, [false, true]);
}

/// Each version of a row is a write that others wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_does_not_write_a_group_that_it_does_not_change() {
    let home = fresh().await;
    let store = home.open().await;
    insert_one(&store, letter(1, |_| {})).await;
    let group = letter(1, |_| {}).fingerprint.group;
    let raw = home.raw().await;
    for change in [
        Change::Snooze { until: Some(at(60_000)), letters: None },
        Change::Resolve { in_version: Some("2.0".into()) },
    ] {
        store.change_groups(&[group], &change, &deed("ann"), at(1)).await.unwrap();
        let version = "SELECT xmin::text FROM groups";
        let before: String = raw.query_one(version, &[]).await.unwrap().get(0);
        for n in 2..5 {
            let old = letter(n * 10, |l| l.consumer_version = Some("1.0".into()));
            store.insert(batch(vec![old]), at(2)).await.unwrap();
        }
        let after: String = raw.query_one(version, &[]).await.unwrap().get(0);
        assert_eq!(after, before, "{change:?}");
    }
}

/// A storm of one cause from many writers: no writer waits for another one's row, and counts are exact.
#[tokio::test(flavor = "multi_thread")]
async fn counts_of_a_storm_are_spread_and_exact() {
    let home = fresh().await;
    let store = home.open().await;
    let tasks: Vec<_> = (0..12)
        .map(|task| {
            let store = store.clone();
            let letters: Vec<_> = (0..50).map(|n| letter(task * 50 + n, |_| {})).collect();
            tokio::spawn(async move { store.insert(batch(letters), NOW).await.map(|answers| answers.len()) })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 50);
    }
    let groups = store.groups(&GroupFilter::default(), &Page::first(5)).await.unwrap().groups;
    assert_eq!((groups.len(), groups[0].counts.get(Status::Open)), (1, 600));
    let shards: i64 = home.raw().await.query_one("SELECT count(*) FROM counts", &[]).await.unwrap().get(0);
    assert!((1..=8).contains(&shards), "{shards} shards");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_may_wait_is_refused_as_overloaded() {
    let home = fresh().await;
    let limits = StoreLimits { waiting_bytes: 1, ..StoreLimits::default() };
    let store = home.open_with(limits).await.unwrap();
    // Somebody holds the table: the first batch waits, and there is no room for a second.
    let mut raw = home.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("LOCK TABLE origins IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let first = {
        let store = store.clone();
        tokio::spawn(async move { store.insert(batch(vec![letter(1, |_| {})]), NOW).await })
    };
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'origins'::regclass";
    while lock.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    let refused = store.insert(batch(vec![letter(2, |_| {})]), NOW).await;
    assert!(matches!(refused, Err(StoreError::Overloaded)), "{refused:?}");
    lock.commit().await.unwrap();
    assert_eq!(first.await.unwrap().unwrap().len(), 1);
    assert_eq!(store.insert(batch(vec![letter(2, |_| {})]), NOW).await.unwrap().len(), 1);
    assert_eq!(store.stats().await.unwrap().letters.total(), 2);
}

/// A transaction that fails at its very end leaves nothing: neither letters nor keys, groups, counts or checkpoints.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_fails_leaves_nothing_behind() {
    let home = fresh().await;
    let store = home.open().await;
    let raw = home.raw().await;
    raw.batch_execute("ALTER TABLE sources ADD CONSTRAINT full_stop CHECK (captured < 3)").await.unwrap();
    let refused = store.insert(batch((0..3).map(|n| letter(n, |_| {})).collect()), NOW).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    for table in
        ["letters", "origins", "groups", "counts", "seen", "sources", "blocks", "quick", "unindexed", "audit"]
    {
        let left: i64 = raw.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0);
        assert_eq!(left, 0, "{table}");
    }
    raw.batch_execute("ALTER TABLE sources DROP CONSTRAINT full_stop").await.unwrap();
    let answers = store.insert(batch((0..3).map(|n| letter(n, |_| {})).collect()), NOW).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Inserted::Stored(_))), "{answers:?}");
}

/// The running number comes round after two million letters: a taken place is passed over, not overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_taken_is_passed_over() {
    let home = fresh().await;
    let store = home.open().await;
    let raw = home.raw().await;
    for round in 0..3 {
        raw.batch_execute("ALTER SEQUENCE running RESTART").await.unwrap();
        let letters = (0..20).map(|n| letter(round * 20 + n, |l| l.failed_at = NOW)).collect();
        insert(&store, letters).await;
    }
    assert_eq!(find_all(&store, &Query::default(), 7).await.len(), 60);
    raw.batch_execute("ALTER SEQUENCE running RESTART").await.unwrap();
    let id = find_all(&store, &Query::default(), 7).await[0].id;
    let back = letter(900, |l| {
        l.failed_at = NOW;
        l.replay_of = Some(id);
    });
    assert_eq!(store.insert(batch(vec![back]), NOW).await.unwrap(), [Inserted::DiedAgain(id)]);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let home = fresh().await;
    home.open().await.close().await.unwrap();
    let raw = home.raw().await;
    raw.execute("UPDATE meta SET schema_version = 1000", &[]).await.unwrap();
    let refusal = home.open_with(StoreLimits::default()).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Newer { found: 1_000, .. }), "{refusal}");
    let version: i64 = raw.query_one("SELECT schema_version FROM meta", &[]).await.unwrap().get(0);
    assert_eq!(version, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_finds_what_was_tampered_with() {
    for (sql, word) in [
        ("UPDATE counts SET n = n + 1", "counted"),
        ("UPDATE sources SET captured = captured + 1", "captured"),
        ("DELETE FROM letters WHERE place = (SELECT min(place) FROM letters)", "captured"),
        ("UPDATE letters SET status = 6 WHERE place = (SELECT min(place) FROM letters)", "group"),
        ("DELETE FROM blocks", "blocks"),
    ] {
        let home = fresh().await;
        let store = home.open().await;
        insert(&store, (0..3).map(|n| letter(n, |_| {})).collect()).await;
        assert!(home.raw().await.execute(sql, &[]).await.unwrap() > 0, "{sql}");
        let problems = store.verify().await.unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(word)), "{sql}: {problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_is_refused_with_directions() {
    let home = fresh().await;
    let url = format!("{}_nowhere", home.url);
    let refusal = PostgresStore::connect(&url, StoreLimits::default()).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Refused(_)), "{refusal}");
    assert!(refusal.to_string().contains("server.database"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_unavailable() {
    let answer = PostgresStore::connect("postgres://nobody@127.0.0.1:1/x", StoreLimits::default()).await;
    let refusal = answer.unwrap_err();
    assert!(refusal.is_transient(), "{refusal:?}");
}

/// A connection that is cut under the store is replaced by another one.
#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_are_replaced() {
    let home = fresh().await;
    let store = home.open().await;
    insert_one(&store, letter(1, |_| {})).await;
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(home.raw().await.query_one(cut, &[]).await.unwrap().get::<_, i64>(0) > 0);
    // What was in use may fail once as unavailable; after that everything works.
    while let Err(error) = store.ping().await {
        assert!(error.is_transient(), "{error:?}");
    }
    assert_eq!(store.stats().await.unwrap().letters.total(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_left_to_postgresql_with_directions() {
    let store = fresh().await.open().await;
    let somewhere = std::path::Path::new("office.backup");
    for answer in [store.backup(somewhere).await, store.restore(somewhere, &deed("ops"), NOW).await] {
        let refusal = answer.unwrap_err();
        assert!(matches!(&refusal, StoreError::Unsupported(text) if text.contains("pg_")), "{refusal}");
    }
}

/// One office splits a group while others, on the same database, store letters into it: each letter ends where it belongs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_is_seen_by_every_store_while_they_write() {
    let home = fresh().await;
    let stores = [home.open().await, home.open().await, home.open().await];
    let coded = |n: i64| letter(n, |l| l.error_code = Some(if n % 2 == 0 { "E0" } else { "E1" }.into()));
    let group = coded(1).fingerprint.group;
    insert(&stores[0], (0..100).map(coded).collect()).await;
    let writers: Vec<_> = (0..2_i64)
        .map(|task| {
            let store = stores[task as usize].clone();
            tokio::spawn(async move {
                for round in 0..40 {
                    let first = 1_000 + task * 10_000 + round * 20;
                    store.insert(batch((first..first + 20).map(coded).collect()), NOW).await.unwrap();
                }
            })
        })
        .collect();
    let split = NewSplit { condition: Condition::parse("code:E0").unwrap(), title: None };
    let made = stores[2].split_by(group, &split, &deed("ann"), NOW).await.unwrap().id;
    // Whoever gets to it moves; the others pass it by.
    let movers: Vec<_> = stores
        .iter()
        .cloned()
        .map(|store| tokio::spawn(async move { while store.move_split_letters(NOW).await.unwrap() {} }))
        .collect();
    for task in writers.into_iter().chain(movers) {
        task.await.unwrap();
    }
    for store in &stores {
        while store.splits(group).await.unwrap().iter().any(|split| split.moving) {
            store.move_split_letters(NOW).await.unwrap();
        }
        for (id, code) in [(made, "E0"), (group, "E1")] {
            let group = store.group(id).await.unwrap();
            assert_eq!(group.counts.total(), 850, "{code}");
            let found = find_all(store, &query([Matcher::Group(id)]), 200).await;
            assert!(
                found.len() == 850 && found.iter().all(|letter| letter.error_code.as_deref() == Some(code))
            );
        }
        assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
    }
}

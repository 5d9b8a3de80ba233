//! The embedded store: the suite, and what is its own (one process, its file, its schema).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use async_trait::async_trait;
use dlo_core::attempt::{AttemptRecord, History};
use dlo_core::message::Message;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::time::Timestamp;
use dlo_store::replays::Run;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{DynStore, NewRepair, StoreError, StoreLimits};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::conformance::Home;
use crate::letters::{NOW, damaged_first, deed, find_all, insert, letter};
use crate::property::random_stories_agree_with_the_model;
use crate::replay_stories::random_replays_keep_everything_consistent;
use crate::replaying::{conserved, intend, plan_orders, policy, running, states};

mod text_index;
mod upgrade;

struct Directory(TempDir);

#[async_trait]
impl Home for Directory {
    async fn open_with(&self, limits: StoreLimits) -> Result<DynStore, StoreError> {
        Ok(SqliteStore::open(self.0.path(), limits)?)
    }
}

async fn fresh() -> Directory {
    Directory(tempfile::tempdir().expect("a temporary directory"))
}

impl Directory {
    /// The database itself, past the store.
    fn raw(&self) -> Connection {
        Connection::open(self.0.path().join("office.db")).expect("opening the file")
    }
}

mod suite {
    crate::conformance::conformance!(crate::sqlite::fresh);
}

#[tokio::test]
async fn a_store_that_was_closed_has_everything_in_its_one_file() {
    let home = fresh().await;
    let store = home.open().await;
    let ids = insert(&store, (0..50).map(|n| letter(n, |_| {})).collect()).await;
    store.letter(ids[0]).await.unwrap();
    store.close().await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(home.0.path().join("office.db"), elsewhere.path().join("office.db")).unwrap();
    let copied = Connection::open(elsewhere.path().join("office.db")).unwrap();
    let letters: i64 = copied.query_row("SELECT count(*) FROM letters", [], |row| row.get(0)).unwrap();
    assert_eq!(letters, 50);
}

#[test]
fn random_stories_agree_with_the_model_here() {
    random_stories_agree_with_the_model(48, fresh);
}

#[test]
fn random_replays_keep_everything_consistent_here() {
    random_replays_keep_everything_consistent(60, fresh);
}

#[tokio::test]
async fn a_second_opening_is_refused_with_directions() {
    let home = fresh().await;
    let store = home.open().await;
    let refusal = home.open_with(StoreLimits::default()).await.unwrap_err();
    assert!(matches!(refusal, StoreError::InUse { .. }), "{refusal}");
    assert!(refusal.to_string().contains(&std::process::id().to_string()), "{refusal}");
    drop(store);
}

#[tokio::test]
async fn a_history_that_cannot_be_read_does_not_withhold_the_letter() {
    let home = fresh().await;
    let store = home.open().await;
    let beyond = letter(1, |l| {
        l.history = History::from_records([AttemptRecord {
            number: 1,
            at: Timestamp::from_micros(i64::MAX),
            error_class: None,
            message: None,
            verdict: None,
            delay_ms: None,
        }]);
    });
    let payload = beyond.message.payload.clone();
    let id = insert(&store, vec![beyond]).await[0];
    assert!(store.letter(id).await.unwrap().history.is_empty());
    assert_eq!(store.payload(id, None).await.unwrap().bytes, payload.0);
}

#[tokio::test]
async fn a_letter_that_cannot_be_read_does_not_hold_up_the_others() {
    let home = fresh().await;
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    let raw = home.raw();
    let data: Vec<u8> = raw.query_row("SELECT data FROM blocks", [], |row| row.get(0)).unwrap();
    raw.execute("UPDATE blocks SET data = ?1", [damaged_first(&data)]).unwrap();
    // As if the index had not come to it yet.
    raw.execute("INSERT OR IGNORE INTO unindexed (block) SELECT id FROM blocks", []).unwrap();

    assert!(matches!(store.letter(ids[0]).await, Err(StoreError::Unreadable(_))));
    for negated in [false, true] {
        let value = if negated { "O-2" } else { "O-1" };
        let matcher = Matcher::Payload { path: vec!["order".into(), "id".into()], value: value.into() };
        let query = Query { terms: vec![Term { negated, matcher }] };
        let found: Vec<_> = find_all(&store, &query, 10).await.iter().map(|letter| letter.id).collect();
        assert_eq!(found, [ids[1]], "negated: {negated}");
        assert_eq!(store.count(&query, 10).await.unwrap(), 1);
    }
    assert_eq!(find_all(&store, &Query::default(), 10).await.len(), 2);
    assert_eq!(store.index_payloads().await.unwrap(), 0);
    // A sample has it without its payload.
    let sample = store.sample(letter(1, |_| {}).fingerprint.group, 10).await.unwrap();
    let empty: Vec<bool> = sample.iter().map(|sampled| sampled.payload.is_empty()).collect();
    assert_eq!(empty, [false, true]);
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn what_the_store_makes_is_for_its_owner_alone() {
    let home = fresh().await;
    let data = home.0.path().join("office");
    let store = SqliteStore::open(&data, StoreLimits::default()).unwrap();
    let store: DynStore = store;
    insert(&store, vec![letter(1, |_| {})]).await;
    let copy = home.0.path().join("copy");
    store.backup(&copy).await.unwrap();
    assert_eq!((mode(&data), mode(&copy)), (0o700, 0o600));
    for file in ["office.lock", "office.db", "office.db-wal", "office.db-shm"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_directory_that_was_there_keeps_its_rights() {
    let home = fresh().await;
    std::fs::set_permissions(home.0.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
    home.open().await;
    assert_eq!(mode(home.0.path()), 0o750);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let home = fresh().await;
    home.open().await.close().await.unwrap();
    home.raw().pragma_update(None, "user_version", 1_000).unwrap();
    let refusal = home.open_with(StoreLimits::default()).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Newer { found: 1_000, .. }), "{refusal}");
    let version: i64 = home.raw().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 1_000);
}

#[tokio::test]
async fn a_copy_whose_groups_cannot_be_read_is_refused_before_anything_is_changed() {
    let home = fresh().await;
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let copy = home.0.path().join("copy");
    store.backup(&copy).await.unwrap();
    Connection::open(&copy).unwrap().execute("UPDATE groups SET status = 99", []).unwrap();
    let later = insert(&store, vec![letter(2, |_| {})]).await[0];
    let refusal = store.restore(&copy, &deed("ops"), NOW).await.unwrap_err();
    assert!(matches!(refusal, StoreError::BadBackup(_)), "{refusal}");
    assert_eq!(store.letter(later).await.unwrap().letter.id, later);
}

#[tokio::test]
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
        store.close().await.unwrap();
        drop(store);
        assert!(home.raw().execute(sql, []).unwrap() > 0, "{sql}");
        let problems = home.open().await.verify().await.unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(word)), "{sql}: {problems:?}");
    }
}

/// A process that dies while it writes a plan leaves members without a replay.
#[tokio::test]
async fn what_an_unfinished_plan_left_is_swept_when_the_store_is_opened() {
    let home = fresh().await;
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    let kept = plan_orders(&store, policy(&["orders"])).await;
    store.close().await.unwrap();
    drop(store);
    let raw = home.raw();
    raw.execute_batch(
        "INSERT INTO drafts VALUES (2, x'07');
         INSERT INTO replay_items (replay, number, letter, state, waits) VALUES (2, 0, x'00', 1, 0), (2, 1, x'01', 1, 0);",
    )
    .unwrap();
    drop(raw);
    let store = home.open().await;
    let left: i64 = home.raw().query_row("SELECT count(*) FROM replay_items", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
    assert_eq!(store.replay(kept.id).await.unwrap(), kept);
    let next = plan_orders(&store, policy(&["orders"])).await;
    assert_eq!(store.replay(next.id).await.unwrap().counts.total(), 1);
    conserved(&store).await;
}

#[tokio::test]
async fn a_backup_has_replays_and_repairs() {
    let home = fresh().await;
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 3).await;
    intend(&store, &Run { id: replay.id, lease: &lease }, 2, NOW).await;
    let free = insert(&store, vec![letter(9, |_| {})]).await[0];
    let message = Message { payload: "{}".into(), ..Message::default() };
    store.repair(free, NewRepair { message, expression: None }, &deed("eve"), NOW).await.unwrap();
    let kept = (store.replay(replay.id).await.unwrap(), states(&store, replay.id).await);
    let file = home.0.path().join("copy.db");
    store.backup(&file).await.unwrap();
    let elsewhere = fresh().await;
    let other = elsewhere.open().await;
    other.restore(&file, &deed("ops"), NOW).await.unwrap();
    assert_eq!((other.replay(replay.id).await.unwrap(), states(&other, replay.id).await), kept);
    assert_eq!(other.repairs(free).await.unwrap(), store.repairs(free).await.unwrap());
    let run = Run { id: replay.id, lease: &lease };
    assert_eq!(other.intend(&run, 9, NOW).await.unwrap()[0].letter, ids[2]);
    conserved(&other).await;
}

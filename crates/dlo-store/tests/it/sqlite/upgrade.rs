//! A database of an older version is brought up to this one with everything that it holds.

use std::collections::BTreeMap;

use dlo_core::group::{Condition, GroupStatus};
use dlo_core::query::Matcher;
use dlo_store::triage::NewSplit;
use rusqlite::Connection;

use super::fresh;
use super::text_index::all_indexed;
use crate::conformance::Home;
use crate::letters::{at, deed, find_all, full_letter, insert, letter, query};

/// The migrations up to version 3, as they were released.
const VERSION_3: [&str; 3] = [
    include_str!("../../../migrations/sqlite/0001_letters.sql"),
    include_str!("../../../migrations/sqlite/0002_marks.sql"),
    include_str!("../../../migrations/sqlite/0003_replays.sql"),
];

/// Takes back what versions 8 and 9 added.
const BACK_TO_7: &str = "
    DROP TABLE mark_batches; DROP TABLE suspects; DROP TABLE death_ids; DROP TABLE sent_marks; DROP INDEX items_came_back;
    CREATE INDEX items_returned ON replay_items (replay, at, number) WHERE state = 7;
    PRAGMA user_version = 7;";

/// Takes back what version 7 made of the index: one that does not know a number by what stands before it.
const BACK_TO_6: &str = "
    DELETE FROM grams; DROP TABLE leftovers; DROP TABLE segments;
    CREATE TABLE segments (id INTEGER PRIMARY KEY, low INTEGER NOT NULL, top INTEGER NOT NULL, blocks BLOB NOT NULL);
    PRAGMA user_version = 6;";

/// Takes back what version 6 added.
const BACK_TO_5: &str = "
    DROP TABLE splits;
    ALTER TABLE groups DROP COLUMN split_from; ALTER TABLE groups DROP COLUMN split_where;
    ALTER TABLE groups DROP COLUMN split_title;
    PRAGMA user_version = 5;";

/// Takes back what versions 4 and 5 added; the index of whole words holds one word.
const BACK_TO_3: &str = "
    DROP TABLE segments; DROP TABLE grams; DROP TABLE trend; DROP TABLE notes; DROP TABLE links; DROP TABLE runbooks;
    DROP TABLE deploys; DROP TABLE views; DROP INDEX audit_by_group;
    ALTER TABLE audit DROP COLUMN group_uid;
    ALTER TABLE groups DROP COLUMN since; ALTER TABLE groups DROP COLUMN resolved_in;
    ALTER TABLE groups DROP COLUMN regressed_at; ALTER TABLE groups DROP COLUMN snooze_until;
    ALTER TABLE groups DROP COLUMN snooze_letters; ALTER TABLE groups DROP COLUMN snooze_from;
    ALTER TABLE groups DROP COLUMN owner_by_hand; ALTER TABLE groups DROP COLUMN assignee;
    ALTER TABLE groups DROP COLUMN merged_into;
    CREATE VIRTUAL TABLE deep USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
    INSERT INTO deep (deep, rank) VALUES ('automerge', 8);
    INSERT INTO deep (deep, rank) VALUES ('crisismerge', 64);
    INSERT INTO deep (rowid, tokens) SELECT place, 'table' FROM letters;
    DELETE FROM unindexed;
    PRAGMA user_version = 3;";

/// Every table with its columns.
fn schema(db: &Connection) -> BTreeMap<String, Vec<String>> {
    let sql =
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'";
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    for (table, column) in columns.map(Result::unwrap) {
        tables.entry(table).or_default().push(column);
    }
    tables
}

#[tokio::test]
async fn a_database_of_version_3_is_brought_up_with_its_letters() {
    let home = fresh().await;
    let store = home.open().await;
    let first = insert(&store, vec![full_letter(1), letter(2, |_| {}), letter(3, |_| {})]).await;
    // A block of deaths, which no letter stands in.
    insert(&store, vec![letter(9, |l| l.replay_of = Some(first[1]))]).await;
    let before = store.stats().await.unwrap();
    store.close().await.unwrap();
    drop(store);

    home.raw().execute_batch(&[BACK_TO_7, BACK_TO_6, BACK_TO_5, BACK_TO_3].concat()).unwrap();
    let old = Connection::open_in_memory().unwrap();
    VERSION_3.iter().for_each(|sql| old.execute_batch(sql).unwrap());
    assert_eq!(schema(&home.raw()), schema(&old));

    let store = home.open().await;
    for (matcher, expected) in [
        (Matcher::Text("tax tab".into()), 3),
        (Matcher::Key("C-441".into()), 3),
        (Matcher::Payload { path: vec!["order".into(), "id".into()], value: "O-1".into() }, 3),
        (Matcher::Header { name: "x-tenant".into(), value: "acme".into() }, 1),
    ] {
        assert_eq!(find_all(&store, &query([matcher.clone()]), 10).await.len(), expected, "{matcher:?}");
    }
    all_indexed(&store).await;
    assert_eq!(find_all(&store, &query([Matcher::Text("tax tab".into())]), 10).await.len(), 3);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters, stats.groups, stats.unindexed), (before.letters, before.groups, 0));
    let group = store.group(letter(2, |_| {}).fingerprint.group).await.unwrap();
    assert_eq!((group.life.status, group.owner_by_hand, group.members), (GroupStatus::New, false, 0));
    assert_eq!(store.timeline(first[1]).await.unwrap().len(), 2);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
    let marks: i64 = home.raw().query_row("SELECT count(*) FROM unindexed", [], |row| row.get(0)).unwrap();
    assert_eq!(marks, 0);
}

#[tokio::test]
async fn a_database_of_version_5_is_brought_up_and_its_groups_can_be_split() {
    let home = fresh().await;
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {}), letter(2, |l| l.error_code = Some("E7".into()))]).await;
    store.close().await.unwrap();
    drop(store);

    home.raw().execute_batch(&[BACK_TO_7, BACK_TO_6, BACK_TO_5].concat()).unwrap();
    let store = home.open().await;
    let group = letter(1, |_| {}).fingerprint.group;
    assert_eq!(store.group(group).await.unwrap().split, None);
    assert_eq!(store.splits(group).await.unwrap(), []);
    let split = NewSplit { condition: Condition::parse("code:E7").unwrap(), title: None };
    let made = store.split_by(group, &split, &deed("ann"), at(10)).await.unwrap();
    while store.move_split_letters(at(11)).await.unwrap() {}
    assert_eq!(store.group(made.id).await.unwrap().counts.total(), 1);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_database_of_version_6_is_indexed_anew() {
    let home = fresh().await;
    let store = home.open().await;
    insert(&store, vec![letter(1, |l| l.error_message = "no limit for CUST-1234".into())]).await;
    all_indexed(&store).await;
    store.close().await.unwrap();
    drop(store);

    home.raw().execute_batch(&[BACK_TO_7, BACK_TO_6].concat()).unwrap();
    let store = home.open().await;
    all_indexed(&store).await;
    let found = find_all(&store, &query([Matcher::Text("cust-1234".into())]), 10).await;
    assert_eq!(found.len(), 1);
}

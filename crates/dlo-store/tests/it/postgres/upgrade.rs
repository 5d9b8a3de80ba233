//! A database of an older version is brought up to this one with everything that it holds, while an older server still runs.

use std::collections::BTreeMap;

use dlo_core::group::{Condition, GroupStatus};
use dlo_core::query::Matcher;
use dlo_store::triage::NewSplit;
use dlo_testkit::harness::postgres::Database;

use super::fresh;
use crate::conformance::Home;
use crate::letters::{at, deed, find_all, full_letter, insert, letter, query};

/// The migrations up to version 3, as they were released.
const VERSION_3: [&str; 3] = [
    include_str!("../../../migrations/postgres/0001_letters.sql"),
    include_str!("../../../migrations/postgres/0002_marks.sql"),
    include_str!("../../../migrations/postgres/0003_replays.sql"),
];

/// Takes back what version 7 added.
const BACK_TO_6: &str = "
    DROP TABLE suspects, death_ids, sent_marks;
    DROP INDEX items_came_back;
    CREATE INDEX items_returned ON replay_items (replay, at, number) WHERE state = 7;
    UPDATE meta SET schema_version = 6;";

/// Takes back what version 6 added.
const BACK_TO_5: &str = "
    DROP TABLE splits;
    ALTER TABLE groups DROP COLUMN split_from, DROP COLUMN split_where, DROP COLUMN split_title;
    UPDATE meta SET schema_version = 5;";

/// Takes back what versions 4 and 5 added; the index of whole words holds one word.
const BACK_TO_3: &str = "
    DROP TABLE grams, trend, notes, links, runbooks, deploys, views;
    ALTER TABLE audit DROP COLUMN group_uid;
    ALTER TABLE groups DROP COLUMN since, DROP COLUMN resolved_in, DROP COLUMN regressed_at, DROP COLUMN snooze_until,
        DROP COLUMN snooze_letters, DROP COLUMN snooze_from, DROP COLUMN owner_by_hand, DROP COLUMN assignee,
        DROP COLUMN merged_into;
    CREATE TABLE deep (place bigint PRIMARY KEY, words tsvector NOT NULL);
    CREATE INDEX deep_words ON deep USING gin (words) WITH (gin_pending_list_limit = 1024);
    INSERT INTO deep SELECT place, array_to_tsvector('{table}') FROM letters;
    DELETE FROM unindexed;
    UPDATE meta SET schema_version = 3;";

/// Every table of ours with its columns.
async fn schema(home: &Database) -> BTreeMap<String, Vec<String>> {
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
                WHERE table_schema = 'public' AND table_name <> 'meta' ORDER BY table_name, ordinal_position";
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in home.raw().await.query(sql, &[]).await.unwrap() {
        tables.entry(row.get(0)).or_default().push(row.get(1));
    }
    tables
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_version_3_is_brought_up_with_its_letters() {
    let home = fresh().await;
    let store = home.open().await;
    let first = insert(&store, vec![full_letter(1), letter(2, |_| {}), letter(3, |_| {})]).await;
    insert(&store, vec![letter(9, |l| l.replay_of = Some(first[1]))]).await;
    let before = store.stats().await.unwrap();
    store.close().await.unwrap();
    drop(store);

    let raw = home.raw().await;
    raw.batch_execute(BACK_TO_6).await.unwrap();
    raw.batch_execute(BACK_TO_5).await.unwrap();
    raw.batch_execute(BACK_TO_3).await.unwrap();
    let old = fresh().await;
    for sql in VERSION_3 {
        old.raw().await.batch_execute(sql).await.unwrap();
    }
    assert_eq!(schema(&home).await, schema(&old).await);

    let store = home.open().await;
    let texts = [Matcher::Text("tax tab".into()), Matcher::Key("C-441".into())];
    for matcher in &texts {
        assert_eq!(find_all(&store, &query([matcher.clone()]), 10).await.len(), 3, "{matcher:?}");
    }
    assert_eq!(store.index_payloads().await.unwrap(), 0);
    for matcher in &texts {
        assert_eq!(find_all(&store, &query([matcher.clone()]), 10).await.len(), 3, "{matcher:?}");
    }
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters, stats.groups), (before.letters, before.groups));
    let group = store.group(letter(2, |_| {}).fingerprint.group).await.unwrap();
    assert_eq!((group.life.status, group.owner_by_hand, group.members), (GroupStatus::New, false, 0));
    assert_eq!(store.timeline(first[1]).await.unwrap().len(), 2);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
    // An older server that still runs writes its whole words nowhere.
    assert!(raw.execute("INSERT INTO deep VALUES (1, 'table')", &[]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_version_5_is_brought_up_and_its_groups_can_be_split() {
    let home = fresh().await;
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {}), letter(2, |l| l.error_code = Some("E7".into()))]).await;
    store.close().await.unwrap();
    drop(store);

    home.raw().await.batch_execute(BACK_TO_6).await.unwrap();
    home.raw().await.batch_execute(BACK_TO_5).await.unwrap();
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

//! The index of texts in the embedded store: built behind the rows, merged, bounded, and mended where it is damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dlo_core::query::{Matcher, Query, Term};
use dlo_store::DynStore;

use super::{Directory, fresh};
use crate::conformance::Home;
use crate::letters::{find_all, insert, letter};

fn text(text: &str) -> Query {
    Query { terms: vec![Term { negated: false, matcher: Matcher::Text(text.into()) }] }
}

/// Letters in no order of time, each indexed by itself.
async fn indexed_one_by_one(store: &DynStore, count: i64) {
    for n in (0..count).map(|n| n * 37 % count) {
        insert(store, vec![letter(n, |l| l.error_message = format!("zebra{n:05} in the yard"))]).await;
        assert_eq!(store.index_payloads().await.unwrap(), 0);
    }
}

fn number(home: &Directory, sql: &str) -> i64 {
    home.raw().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Waits until the thread that indexes has nothing left.
pub(super) async fn all_indexed(store: &DynStore) {
    let done = async {
        while store.stats().await.unwrap().unindexed > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("texts are not indexed in a minute");
}

#[tokio::test]
async fn segments_are_merged_and_everything_is_still_found() {
    let home = fresh().await;
    let store = home.open().await;
    indexed_one_by_one(&store, 90).await;
    let segments = number(&home, "SELECT count(*) FROM segments");
    assert!(segments < 10, "{segments} segments");
    for n in 0..90 {
        assert_eq!(find_all(&store, &text(&format!("BRA{n:05} in")), 10).await.len(), 1, "{n}");
    }
    let all = find_all(&store, &text("the yar"), 7).await;
    assert_eq!(all.len(), 90);
    assert!(all.is_sorted_by(|a, b| a.failed_at >= b.failed_at));
    assert_eq!(find_all(&store, &text("yard the"), 7).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_misses_nothing_while_segments_are_merged() {
    let home = fresh().await;
    let store = home.open().await;
    let (stored, counting) = (Arc::new(AtomicU64::new(0)), store.clone());
    let known = Arc::clone(&stored);
    let counter = tokio::spawn(async move {
        while known.load(Ordering::SeqCst) < 120 {
            let before = known.load(Ordering::SeqCst);
            let counted = counting.count(&text("the yard"), 1_000).await.unwrap();
            assert!(counted >= before, "{counted} of {before}");
        }
    });
    for n in 0..120 {
        insert(&store, vec![letter(n, |l| l.error_message = format!("zebra{n:05} in the yard"))]).await;
        stored.fetch_add(1, Ordering::SeqCst);
        store.index_payloads().await.unwrap();
    }
    counter.await.unwrap();
}

/// Each death has the block of the letter, and its neighbours, indexed again.
#[tokio::test]
async fn letters_that_die_again_and_again_do_not_let_the_index_grow() {
    let home = fresh().await;
    let store = home.open().await;
    let ids = insert(&store, (0..20).map(|n| letter(n, |_| {})).collect()).await;
    let block = number(&home, "SELECT min(id) FROM blocks");
    for n in 0..24 {
        let again = letter(100 + n, |l| {
            l.replay_of = Some(ids[7]);
            l.error_message = format!("zebra{n:05} in the yard");
        });
        insert(&store, vec![again]).await;
        assert_eq!(store.index_payloads().await.unwrap(), 0);
    }
    let raw = home.raw();
    let mut segments = raw.prepare("SELECT blocks FROM segments").unwrap();
    let lists: Vec<Vec<u8>> =
        segments.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    // A run is its first block and how many there are, negative where they go down.
    let has = |run: &&[u8]| {
        let first = i64::from_le_bytes(run[..8].try_into().unwrap());
        let count = i64::from(i32::from_le_bytes(run[8..].try_into().unwrap()));
        let ends = [first, first + count - count.signum()];
        (ends[0].min(ends[1])..=ends[0].max(ends[1])).contains(&block)
    };
    let listed = lists.iter().flat_map(|list| list.chunks_exact(12)).filter(has);
    assert!((1..=4).contains(&listed.count()), "the block stands in every segment");
    assert_eq!(find_all(&store, &text("zebra00023"), 10).await.len(), 1);
    assert_eq!(find_all(&store, &text("zebra00022"), 10).await.len(), 0);
    assert_eq!(find_all(&store, &text("tax table"), 10).await.len(), 19);
}

#[tokio::test]
async fn a_damaged_index_finds_everything_still() {
    let home = fresh().await;
    let store = home.open().await;
    indexed_one_by_one(&store, 6).await;
    for damage in ["x'00'", "x'01ff'", "substr(data, 1, length(data) / 2)"] {
        home.raw().execute(&format!("UPDATE grams SET data = {damage}"), []).unwrap();
        assert_eq!(find_all(&store, &text("ebra00003"), 10).await.len(), 1, "{damage}");
    }
    insert(&store, vec![letter(9, |l| l.error_message = "another zebra".into())]).await;
    assert_eq!(find_all(&store, &text("zebra"), 10).await.len(), 7);
}

#[tokio::test]
async fn what_is_damaged_is_indexed_again_when_its_turn_to_be_merged_comes() {
    let home = fresh().await;
    let store = home.open().await;
    indexed_one_by_one(&store, 3).await;
    home.raw().execute("UPDATE grams SET data = x'00'", []).unwrap();
    insert(&store, vec![letter(9, |l| l.error_message = "another zebra".into())]).await;
    assert_eq!(store.index_payloads().await.unwrap(), 0);
    all_indexed(&store).await;
    assert_eq!(number(&home, "SELECT count(*) FROM grams WHERE data = x'00'"), 0);
    assert!(number(&home, "SELECT count(*) FROM segments") < 4);
    assert_eq!(find_all(&store, &text("zebra"), 10).await.len(), 4);
}

#[tokio::test]
async fn texts_are_indexed_behind_the_rows_without_being_asked() {
    let home = fresh().await;
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    all_indexed(&store).await;
    assert_eq!(number(&home, "SELECT count(*) FROM unindexed"), 0);
    assert!(number(&home, "SELECT count(*) FROM grams") > 0);
}

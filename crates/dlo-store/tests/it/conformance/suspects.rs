//! Letters that are perhaps another letter once more: marked, found, shown and left out of plans; never merged.

use dlo_core::id::{DeathId, LetterId};
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::replay::Exclusion;
use dlo_core::suspect::{DeathMark, Suspect, Suspicion};
use dlo_store::replays::PlanPolicy;
use dlo_store::{DynStore, Inserted};

use super::Home;
use crate::letters::{NOW, at, batch, deed, find_all, insert, insert_one, letter, query};
use crate::replaying::{conserved, new_replay, of_query, orders, policy};

/// A letter without coordinates, of the death `id`.
fn copy(n: i64, id: u128, redelivered: bool) -> NewLetter {
    letter(n, |l| {
        l.origin = Origin::queue(BrokerKind::Rabbitmq, "orders");
        l.death = Some(DeathMark { id: DeathId(uuid::Uuid::from_u128(id)), redelivered });
    })
}

fn duplicate_of(letter: LetterId) -> Option<Suspect> {
    Some(Suspect { kind: Suspicion::Duplicate, letter })
}

async fn suspect(store: &DynStore, id: LetterId) -> Option<Suspect> {
    store.letter(id).await.unwrap().letter.suspect
}

async fn suspected(store: &DynStore) -> Vec<LetterId> {
    let found = find_all(store, &query([Matcher::Suspected(Suspicion::Duplicate)]), 10).await;
    found.into_iter().map(|letter| letter.id).collect()
}

pub(crate) async fn a_copy_after_a_redelivery_is_a_letter_of_its_own_that_names_the_first(home: &dyn Home) {
    let store = home.open().await;
    let first = insert_one(&store, copy(1, 7, false)).await;
    let answers = store.insert(batch(vec![copy(2, 7, true)]), NOW).await.unwrap();
    let Inserted::Stored(second) = answers[0] else { panic!("{answers:?}") };
    assert_eq!((suspect(&store, first).await, suspect(&store, second).await), (None, duplicate_of(first)));
    let named = Suspect { kind: Suspicion::Duplicate, letter: second };
    assert_eq!(store.letter(first).await.unwrap().suspects, [named]);
    assert_eq!(store.letter(second).await.unwrap().suspects, []);
    let listed = find_all(&store, &Query::default(), 10).await;
    let listed: Vec<_> = listed.iter().map(|letter| (letter.id, letter.suspect)).collect();
    assert_eq!(listed, [(second, duplicate_of(first)), (first, None)]);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters.get(Status::Open), stats.sources[0].captured), (2, 2));
    conserved(&store).await;
}

pub(crate) async fn a_copy_that_is_stored_first_is_paired_with_its_original(home: &dyn Home) {
    let store = home.open().await;
    let marked = insert_one(&store, copy(1, 7, true)).await;
    let original = insert_one(&store, copy(2, 7, false)).await;
    let equal = insert_one(&store, copy(3, 7, false)).await;
    assert_eq!((suspect(&store, marked).await, suspect(&store, original).await), (None, duplicate_of(marked)));
    assert_eq!(suspect(&store, equal).await, None, "one copy has one original");
}

pub(crate) async fn copies_of_one_batch_are_told_apart_as_those_of_several(home: &dyn Home) {
    let store = home.open().await;
    let letters = vec![copy(1, 7, true), copy(2, 8, false), copy(3, 7, false), copy(4, 8, true), copy(5, 9, true)];
    let ids = insert(&store, letters).await;
    let mut found = Vec::new();
    for id in &ids {
        found.push(suspect(&store, *id).await);
    }
    assert_eq!(found, [None, None, duplicate_of(ids[0]), duplicate_of(ids[1]), None]);
}

pub(crate) async fn equal_bytes_are_no_copy_without_a_redelivery_or_in_another_source(home: &dyn Home) {
    let store = home.open().await;
    let elsewhere = NewLetter { source: "mail".into(), ..copy(3, 7, true) };
    insert(&store, vec![copy(1, 7, false), copy(2, 7, false)]).await;
    insert_one(&store, elsewhere).await;
    assert_eq!(suspected(&store).await, []);
}

pub(crate) async fn suspected_letters_are_found_whatever_becomes_of_them(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![copy(1, 7, false), copy(2, 7, true), copy(3, 8, false)]).await;
    assert_eq!(suspected(&store).await, [ids[1]]);
    store.index_payloads().await.unwrap();
    for step in [Step::Claim, Step::Send] {
        store.step(&[ids[1]], step, &deed("ann"), NOW).await.unwrap();
    }
    let back = letter(9, |l| l.replay_of = Some(ids[1]));
    assert_eq!(store.insert(batch(vec![back]), at(9)).await.unwrap(), [Inserted::DiedAgain(ids[1])]);
    assert_eq!(suspected(&store).await, [ids[1]]);
    let matcher = Matcher::Suspected(Suspicion::Duplicate);
    let others = Query { terms: vec![Term { negated: true, matcher }] };
    assert_eq!(find_all(&store, &others, 10).await.len(), 2);
    assert_eq!(find_all(&store, &query([Matcher::Suspected(Suspicion::Return)]), 10).await.len(), 0);
}

pub(crate) async fn a_plan_leaves_out_suspected_letters_unless_they_are_asked_for(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![copy(1, 7, false), copy(2, 7, true), copy(3, 8, false)]).await;
    let plan = async |include_suspected| {
        let policy = PlanPolicy { include_suspected, ..policy(&["orders"]) };
        let replay = store.plan(new_replay(of_query(orders()), policy), NOW).await.unwrap();
        let left_out: Vec<_> = replay.excluded.iter().map(|left| (left.why, left.count)).collect();
        (replay.counts.total(), left_out)
    };
    assert_eq!(plan(false).await, (2, vec![(Exclusion::Suspected, 1)]));
    assert_eq!(plan(true).await, (3, vec![]));
    conserved(&store).await;
}

pub(crate) async fn a_suspicion_is_kept_when_the_store_is_opened_again(home: &dyn Home) {
    let store = home.open().await;
    let first = insert_one(&store, copy(1, 7, false)).await;
    let second = insert_one(&store, copy(2, 7, true)).await;
    store.close().await.unwrap();
    drop(store);
    let store = home.open().await;
    let third = insert_one(&store, copy(3, 7, true)).await;
    assert_eq!(suspect(&store, second).await, duplicate_of(first));
    assert_eq!(suspect(&store, third).await, duplicate_of(first));
    assert_eq!(store.letter(first).await.unwrap().suspects.len(), 2);
}

pub(crate) async fn copies_that_several_tasks_store_at_once_have_one_first(home: &dyn Home) {
    let store = home.open().await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { insert(&store, vec![copy(n, 7, true), copy(100 + n, 8, true)]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let letters = find_all(&store, &Query::default(), 50).await;
    let firsts: Vec<LetterId> =
        letters.iter().filter(|letter| letter.suspect.is_none()).map(|letter| letter.id).collect();
    assert_eq!((letters.len(), firsts.len()), (16, 2));
    assert!(letters.iter().filter_map(|letter| letter.suspect).all(|first| firsts.contains(&first.letter)));
    conserved(&store).await;
}

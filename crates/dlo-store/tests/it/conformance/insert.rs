//! Inserting: idempotent by origin, answered in order, exact under concurrency, with checkpoints beside the letters.

use std::collections::HashSet;

use dlo_core::letter::{Status, Step};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::Query;
use dlo_store::{Batch, Checkpoint, Event, Inserted, StoreError, StoreLimits};

use super::Home;
use crate::letters::{NOW, batch, find_all, insert, insert_one, letter};

pub(crate) async fn a_batch_answers_for_each_letter_in_the_order_given(home: &dyn Home) {
    let store = home.open().await;
    let known = insert_one(&store, letter(2, |_| {})).await;
    let letters = (1..=3).map(|n| letter(n, |_| {})).collect();
    let answers = store.insert(batch(letters), NOW).await.unwrap();
    assert!(matches!(answers[0], Inserted::Stored(_)));
    assert_eq!(answers[1], Inserted::Duplicate(known));
    assert!(matches!(answers[2], Inserted::Stored(_)));
    for (answer, offset) in answers.iter().zip([1, 2, 3]) {
        assert_eq!(store.letter(answer.id()).await.unwrap().letter.origin.offset, Some(offset));
    }
}

pub(crate) async fn the_same_death_twice_is_one_letter(home: &dyn Home) {
    let store = home.open().await;
    let first = insert(&store, vec![letter(1, |_| {})]).await;
    // Read a second time, with another clock and text: the origin decides.
    let again = letter(1, |l| {
        l.error_message = "other words".into();
        l.failed_at = NOW;
    });
    let answers = store.insert(batch(vec![again]), NOW).await.unwrap();
    assert_eq!(answers, [Inserted::Duplicate(first[0])]);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters.total(), stats.groups, stats.sources[0].captured), (1, 1, 1));
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn the_same_death_twice_in_one_batch_is_one_letter(home: &dyn Home) {
    let store = home.open().await;
    let letters = [1, 2, 1, 1].map(|n| letter(n, |_| {})).to_vec();
    let answers = store.insert(batch(letters), NOW).await.unwrap();
    let Inserted::Stored(first) = answers[0] else { panic!("{answers:?}") };
    assert_eq!(answers[2..], [Inserted::Duplicate(first), Inserted::Duplicate(first)]);
    assert_eq!(store.stats().await.unwrap().letters.total(), 2);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn letters_without_coordinates_are_never_merged(home: &dyn Home) {
    let store = home.open().await;
    let alike = || letter(1, |l| l.origin = Origin::queue(BrokerKind::Http, "orders"));
    let ids = insert(&store, vec![alike(), alike(), alike()]).await;
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3);
    assert_eq!(find_all(&store, &Query::default(), 10).await.len(), 3);
}

pub(crate) async fn two_consumer_groups_failing_on_one_record_are_two_letters(home: &dyn Home) {
    let store = home.open().await;
    let letters = ["pricing", "mail"].map(|consumer| letter(1, |l| l.consumer = Some(consumer.into())));
    let answers = store.insert(batch(letters.to_vec()), NOW).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Inserted::Stored(_))), "{answers:?}");
}

fn checkpoint(source: &str, incarnation: &str, partition: i32, next: i64) -> Checkpoint {
    Checkpoint { source: source.into(), incarnation: incarnation.into(), partition, next, mark: None }
}

pub(crate) async fn checkpoints_move_with_their_letters(home: &dyn Home) {
    let store = home.open().await;
    for next in [10, 20] {
        let checkpoints = vec![checkpoint("orders", "a", 0, next)];
        store
            .insert(
                Batch { letters: vec![letter(next, |_| {})].into(), checkpoints, ..Batch::default() },
                NOW,
            )
            .await
            .unwrap();
        assert_eq!(store.checkpoints("orders").await.unwrap(), [checkpoint("orders", "a", 0, next)]);
    }
    assert_eq!(store.stats().await.unwrap().letters.total(), 2);
}

pub(crate) async fn checkpoints_move_without_letters_too(home: &dyn Home) {
    let store = home.open().await;
    let checkpoints = vec![checkpoint("orders", "a", 0, 7)];
    let answers = store.insert(Batch { checkpoints, ..Batch::default() }, NOW).await.unwrap();
    assert_eq!(answers, []);
    assert_eq!(store.checkpoints("orders").await.unwrap(), [checkpoint("orders", "a", 0, 7)]);
}

pub(crate) async fn checkpoints_are_kept_per_source_incarnation_and_partition(home: &dyn Home) {
    let store = home.open().await;
    let all = [
        checkpoint("orders", "a", 0, 1),
        checkpoint("orders", "a", 1, 2),
        checkpoint("orders", "b", 0, 3),
        checkpoint("mail", "a", 0, 4),
    ];
    store.insert(Batch { checkpoints: all.to_vec(), ..Batch::default() }, NOW).await.unwrap();
    let mut orders = store.checkpoints("orders").await.unwrap();
    orders.sort_by_key(|checkpoint| checkpoint.next);
    assert_eq!(orders, all[..3]);
    assert_eq!(store.checkpoints("mail").await.unwrap(), all[3..]);
    assert_eq!(store.checkpoints("nobody").await.unwrap(), []);
}

pub(crate) async fn a_mark_is_replaced_by_that_of_an_equal_or_later_checkpoint(home: &dyn Home) {
    let store = home.open().await;
    let marked = |next, mark: &str| Checkpoint {
        mark: Some(mark.to_string()).filter(|mark| !mark.is_empty()),
        ..checkpoint("orders", "a", 0, next)
    };
    for (given, kept) in [
        (marked(5, "5-0\0"), marked(5, "5-0\0")),
        (marked(4, "4-0"), marked(5, "5-0\0")),
        (marked(5, "5-1"), marked(5, "5-1")),
        (marked(6, ""), marked(6, "")),
    ] {
        store.insert(Batch { checkpoints: vec![given], ..Batch::default() }, NOW).await.unwrap();
        assert_eq!(store.checkpoints("orders").await.unwrap(), [kept]);
    }
    let long = marked(7, &"x".repeat(Checkpoint::MARK + 1));
    let refused = store.insert(Batch { checkpoints: vec![long], ..Batch::default() }, NOW).await;
    assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{refused:?}");
}

pub(crate) async fn what_the_runtime_discarded_is_stored_as_discarded(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |l| l.status = Status::Discarded)).await;
    assert_eq!(store.letter(id).await.unwrap().letter.status, Status::Discarded);
    assert_eq!(store.stats().await.unwrap().letters.get(Status::Discarded), 1);
    let told: Vec<_> = store.timeline(id).await.unwrap().iter().map(|entry| entry.what).collect();
    assert_eq!(told, [Event::Captured, Event::Step(Step::Discard)]);
}

/// Sixteen readers of overlapping stretches of one log: each record becomes one letter, and all agree on which.
pub(crate) async fn inserts_from_many_tasks_at_once_are_exact(home: &dyn Home) {
    let store = home.open().await;
    let tasks: Vec<_> = (0..16_i64)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut stored = 0;
                for round in 0..5 {
                    let start = task * 10 + round * 20;
                    let mut letters: Vec<_> = (start..start + 40)
                        .map(|n| letter(n, |l| l.error_class = Some(format!("Class{}", n % 7))))
                        .collect();
                    if task % 2 == 1 {
                        // The other way round, so that two writers meet from both ends.
                        letters.reverse();
                    }
                    let answers = store.insert(batch(letters), NOW).await.unwrap();
                    stored += answers.iter().filter(|a| matches!(a, Inserted::Stored(_))).count();
                }
                stored
            })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        stored += task.await.unwrap();
    }
    let records = 15 * 10 + 4 * 20 + 40;
    assert_eq!(stored, records);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters.get(Status::Open), stats.groups), (records as u64, 7));
    assert_eq!(find_all(&store, &Query::default(), 100).await.len(), records);
    let verification = store.verify().await.unwrap();
    assert_eq!((verification.letters, verification.problems), (records as u64, vec![]));
}

/// With room for hardly anything, each batch is either stored or refused; what was refused left nothing behind.
pub(crate) async fn a_batch_is_taken_whole_or_refused_as_overloaded(home: &dyn Home) {
    let limits = StoreLimits { waiting_bytes: 1, ..StoreLimits::default() };
    let store = home.open_with(limits).await.unwrap();
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let store = store.clone();
            let letters: Vec<_> = (0..5).map(|n| letter(task * 5 + n, |_| {})).collect();
            tokio::spawn(async move { store.insert(batch(letters), NOW).await })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(answers) => stored += answers.len(),
            Err(StoreError::Overloaded) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert!(stored > 0, "a store with nothing waiting takes a batch of any size");
    assert_eq!(store.stats().await.unwrap().letters.total(), stored as u64);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn an_empty_batch_changes_nothing(home: &dyn Home) {
    let store = home.open().await;
    assert_eq!(store.insert(Batch::default(), NOW).await.unwrap(), []);
    assert_eq!(store.stats().await.unwrap().sources, []);
    assert_eq!(store.audit(&dlo_store::Page::first(10)).await.unwrap().entries, []);
}

//! Leases: work is divided in the database, never by luck.

use std::time::Duration;

use dlo_store::{Batch, Checkpoint, Lease, StoreError};

use super::Home;
use crate::letters::{NOW, at, batch, letter};

/// Outlives a test.
const TTL: Duration = Duration::from_secs(60);
/// Runs out at once. The clock of a shared store is its own, so a test cannot move it.
const OVER: Duration = Duration::ZERO;

pub(crate) async fn a_lease_is_held_by_one_until_it_runs_out(home: &dyn Home) {
    let store = home.open().await;
    let first = store.lease("capture", "one", TTL, at(0)).await.unwrap().unwrap();
    assert_eq!((first.name.as_str(), first.holder.as_str(), first.until), ("capture", "one", at(60_000)));
    assert_eq!(store.lease("capture", "two", TTL, at(999)).await.unwrap(), None);
    // Another name is another lease.
    assert!(store.lease("replay", "two", TTL, at(999)).await.unwrap().is_some());
    store.lease("capture", "one", OVER, at(1_000)).await.unwrap().unwrap();
    let second = store.lease("capture", "two", TTL, at(1_001)).await.unwrap().unwrap();
    assert!(second.fence > first.fence, "{first:?} {second:?}");
    assert_eq!(store.lease("capture", "one", TTL, at(1_500)).await.unwrap(), None);
}

/// A clock was set back: nobody is given a lease for an hour who asks for a minute.
pub(crate) async fn a_lease_that_runs_out_later_than_it_can_is_not_held(home: &dyn Home) {
    let (store, hour) = (home.open().await, Duration::from_secs(3_600));
    let first = store.lease("capture", "one", hour, at(0)).await.unwrap().unwrap();
    assert_eq!(store.leases("capture", at(1)).await.unwrap(), []);
    let second = store.lease("capture", "two", TTL, at(1)).await.unwrap().unwrap();
    assert!(second.fence > first.fence, "{first:?} {second:?}");
    assert!(matches!(store.insert(under(&first, 1), at(2)).await, Err(StoreError::LeaseLost(_))));
    assert_eq!(store.lease("capture", "one", TTL, at(2)).await.unwrap(), None);
}

pub(crate) async fn keeping_a_lease_does_not_change_its_fence(home: &dyn Home) {
    let store = home.open().await;
    let first = store.lease("capture", "one", TTL, at(0)).await.unwrap().unwrap();
    let kept = store.lease("capture", "one", TTL, at(500)).await.unwrap().unwrap();
    assert_eq!((kept.fence, kept.until), (first.fence, at(60_500)));
    assert_eq!(store.lease("capture", "two", TTL, at(1_200)).await.unwrap(), None);
}

pub(crate) async fn a_lease_given_back_can_be_taken_at_once(home: &dyn Home) {
    let store = home.open().await;
    let first = store.lease("capture", "one", TTL, at(0)).await.unwrap().unwrap();
    store.release("capture", "one").await.unwrap();
    let second = store.lease("capture", "two", TTL, at(1)).await.unwrap().unwrap();
    assert!(second.fence > first.fence, "what the former holder still writes must be refusable");
}

pub(crate) async fn one_of_many_gets_the_lease(home: &dyn Home) {
    let store = home.open().await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(
                async move { store.lease("capture", &format!("holder {n}"), TTL, NOW).await.unwrap() },
            )
        })
        .collect();
    let mut held = 0;
    for task in tasks {
        held += usize::from(task.await.unwrap().is_some());
    }
    assert_eq!(held, 1);
}

pub(crate) async fn giving_back_what_one_does_not_hold_changes_nothing(home: &dyn Home) {
    let store = home.open().await;
    store.release("capture", "one").await.unwrap();
    store.lease("capture", "one", TTL, at(0)).await.unwrap().unwrap();
    store.release("capture", "two").await.unwrap();
    assert_eq!(store.lease("capture", "two", TTL, at(1)).await.unwrap(), None);
}

fn under(lease: &Lease, n: i64) -> Batch {
    let checkpoint =
        Checkpoint { source: "orders".into(), incarnation: "a".into(), partition: 0, next: n, mark: None };
    Batch { checkpoints: vec![checkpoint], leases: vec![lease.clone()], ..batch(vec![letter(n, |_| {})]) }
}

pub(crate) async fn what_is_written_under_a_lost_lease_is_refused_whole(home: &dyn Home) {
    let store = home.open().await;
    let first = store.lease("capture/orders", "one", TTL, at(0)).await.unwrap().unwrap();
    store.insert(under(&first, 1), at(999)).await.unwrap();
    // Run out, though nobody else has taken it.
    store.lease("capture/orders", "one", OVER, at(1_000)).await.unwrap().unwrap();
    let refused = store.insert(under(&first, 2), at(1_000)).await;
    assert!(matches!(&refused, Err(StoreError::LeaseLost(name)) if name == "capture/orders"), "{refused:?}");
    let second = store.lease("capture/orders", "two", TTL, at(1_001)).await.unwrap().unwrap();
    assert!(matches!(store.insert(under(&first, 2), at(500)).await, Err(StoreError::LeaseLost(_))));
    // The same holder again is another holding.
    store.release("capture/orders", "two").await.unwrap();
    let third = store.lease("capture/orders", "one", TTL, at(1_002)).await.unwrap().unwrap();
    assert!(third.fence > second.fence, "{third:?}");
    assert!(matches!(store.insert(under(&first, 2), at(1_003)).await, Err(StoreError::LeaseLost(_))));
    assert_eq!(store.stats().await.unwrap().letters.total(), 1);
    assert_eq!(store.checkpoints("orders").await.unwrap()[0].next, 1);
    store.insert(under(&third, 2), at(1_003)).await.unwrap();
    assert_eq!(store.stats().await.unwrap().letters.total(), 2);
}

pub(crate) async fn a_lost_lease_refuses_its_own_batch_only(home: &dyn Home) {
    let store = home.open().await;
    let held = store.lease("held", "one", TTL, at(0)).await.unwrap().unwrap();
    let lost = Lease { fence: held.fence + 1, ..held.clone() };
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let (store, lease) = (store.clone(), if n % 2 == 0 { held.clone() } else { lost.clone() });
            tokio::spawn(async move { store.insert(under(&lease, n), at(1)).await.is_ok() })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap(), n % 2 == 0, "batch {n}");
    }
    assert_eq!(store.stats().await.unwrap().letters.total(), 20);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn leases_that_are_held_are_listed_by_the_beginning_of_their_name(home: &dyn Home) {
    let store = home.open().await;
    for (name, holder) in [("a/2", "two"), ("a/1", "one"), ("b/1", "one"), ("a/3", "one"), ("A/1", "one")] {
        store.lease(name, holder, TTL, at(0)).await.unwrap().unwrap();
    }
    store.release("a/3", "one").await.unwrap();
    let names = |leases: Vec<Lease>| leases.into_iter().map(|l| (l.name, l.holder)).collect::<Vec<_>>();
    let listed = names(store.leases("a/", at(1)).await.unwrap());
    assert_eq!(listed, [("a/1".into(), "one".into()), ("a/2".into(), "two".into())]);
    for (name, holder) in [("a/2", "two"), ("a/1", "one")] {
        store.lease(name, holder, OVER, at(1)).await.unwrap().unwrap();
    }
    assert_eq!(names(store.leases("a/", at(2)).await.unwrap()), []);
}

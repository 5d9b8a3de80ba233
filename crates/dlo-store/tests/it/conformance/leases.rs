//! Leases: work is divided in the database, never by luck.

use std::time::Duration;

use super::Home;
use crate::letters::{NOW, at};

const TTL: Duration = Duration::from_millis(1_000);

pub(crate) async fn a_lease_is_held_by_one_until_it_runs_out(home: &dyn Home) {
    let store = home.open().await;
    let first = store.lease("capture", "one", TTL, at(0)).await.unwrap().unwrap();
    assert_eq!((first.name.as_str(), first.holder.as_str(), first.until), ("capture", "one", at(1_000)));
    assert_eq!(store.lease("capture", "two", TTL, at(999)).await.unwrap(), None);
    // Another name is another lease.
    assert!(store.lease("replay", "two", TTL, at(999)).await.unwrap().is_some());
    let second = store.lease("capture", "two", TTL, at(1_001)).await.unwrap().unwrap();
    assert!(second.fence > first.fence, "{first:?} {second:?}");
    assert_eq!(store.lease("capture", "one", TTL, at(1_500)).await.unwrap(), None);
}

pub(crate) async fn keeping_a_lease_does_not_change_its_fence(home: &dyn Home) {
    let store = home.open().await;
    let first = store.lease("capture", "one", TTL, at(0)).await.unwrap().unwrap();
    let kept = store.lease("capture", "one", TTL, at(500)).await.unwrap().unwrap();
    assert_eq!((kept.fence, kept.until), (first.fence, at(1_500)));
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

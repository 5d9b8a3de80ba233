//! Steps: the table of `dlo-core` and nothing else, each letter for itself, once under concurrency.

use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_store::{DynStore, Page, Stepped, StoreError};

use super::Home;
use crate::letters::{NOW, deed, insert, insert_one, letter, problems};

/// The way from open to a status.
const fn way_to(status: Status) -> &'static [Step] {
    match status {
        Status::Open => &[],
        Status::Claimed => &[Step::Claim],
        Status::Sent => &[Step::Claim, Step::Send],
        Status::InDoubt => &[Step::Claim, Step::Doubt],
        Status::Recovered => &[Step::Claim, Step::Send, Step::Confirm],
        Status::Discarded => &[Step::Discard],
        Status::Compensated => &[Step::Compensate],
        Status::Archived => &[Step::Archive],
        Status::Routed => &[Step::Claim, Step::Send, Step::Route],
    }
}

async fn walk(store: &DynStore, ids: &[LetterId], steps: &[Step]) {
    for step in steps {
        let results = store.step(ids, *step, &deed("ann"), NOW).await.unwrap();
        assert!(results.iter().all(|result| matches!(result, Stepped::Moved { .. })), "{step}: {results:?}");
    }
}

pub(crate) async fn every_step_from_every_status_obeys_the_table(home: &dyn Home) {
    let store = home.open().await;
    let each = Step::ALL.len();
    for (round, from) in Status::ALL.iter().enumerate() {
        let first = (round * each) as i64;
        let ids = insert(&store, (first..first + each as i64).map(|n| letter(n, |_| {})).collect()).await;
        walk(&store, &ids, way_to(*from)).await;
        for (id, step) in ids.iter().zip(Step::ALL) {
            let expected = match step.apply(*from) {
                Ok(to) => Stepped::Moved { from: *from, to },
                Err(_) => Stepped::Illegal { from: *from },
            };
            let result = store.step(&[*id], *step, &deed("ann"), NOW).await.unwrap();
            assert_eq!(result, [expected], "{step} from {from}");
            let stands = store.letter(*id).await.unwrap().letter.status;
            assert_eq!(stands, step.apply(*from).unwrap_or(*from), "{step} from {from}");
        }
    }
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn what_is_illegal_or_missing_does_not_stop_the_others(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    walk(&store, &ids[..1], &[Step::Claim]).await;
    let asked = [LetterId::new(NOW, [9; 10]), ids[0], ids[1]];
    let results = store.step(&asked, Step::Discard, &deed("ann"), NOW).await.unwrap();
    assert_eq!(
        results,
        [
            Stepped::Missing,
            Stepped::Illegal { from: Status::Claimed },
            Stepped::Moved { from: Status::Open, to: Status::Discarded },
        ]
    );
    assert_eq!(store.step(&[], Step::Discard, &deed("ann"), NOW).await.unwrap(), []);
}

pub(crate) async fn a_letter_named_twice_takes_the_step_once(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    let results = store.step(&[id, id], Step::Claim, &deed("ann"), NOW).await.unwrap();
    assert_eq!(
        results,
        [
            Stepped::Moved { from: Status::Open, to: Status::Claimed },
            Stepped::Illegal { from: Status::Claimed }
        ]
    );
    assert_eq!(store.timeline(id).await.unwrap().len(), 2);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn too_many_letters_in_one_call_are_refused(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    let many = vec![id; Page::MOST + 1];
    let refused = store.step(&many, Step::Discard, &deed("ann"), NOW).await;
    assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{refused:?}");
    assert_eq!(store.letter(id).await.unwrap().letter.status, Status::Open);
}

/// Two operators, or two servers, never replay the same letter twice (F7).
pub(crate) async fn one_of_many_claims_wins(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, (0..50).map(|n| letter(n, |_| {})).collect()).await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let store = store.clone();
            let mut ids = ids.clone();
            if task % 2 == 1 {
                ids.reverse();
            }
            tokio::spawn(async move {
                let results = store.step(&ids, Step::Claim, &deed("ann"), NOW).await.unwrap();
                results.iter().filter(|result| matches!(result, Stepped::Moved { .. })).count()
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += task.await.unwrap();
    }
    assert_eq!(won, ids.len());
    assert_eq!(store.stats().await.unwrap().letters.get(Status::Claimed), 50);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_send_counts_as_a_replay(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    for replays in 1..=2 {
        walk(&store, &[id], &[Step::Claim, Step::Send, Step::SettleOpen]).await;
        assert_eq!(store.letter(id).await.unwrap().letter.replays, replays);
    }
    // Read back after a crash: it had been sent.
    walk(&store, &[id], &[Step::Claim, Step::Doubt, Step::FoundSent]).await;
    assert_eq!(store.letter(id).await.unwrap().letter.replays, 3);
}

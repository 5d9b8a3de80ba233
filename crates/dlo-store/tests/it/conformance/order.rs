//! Order per key in a run, and letters that are in nobody's hand.

use dlo_core::letter::Step;
use dlo_core::replay::ItemState;
use dlo_store::replays::{Conclusion, Run, SendEnd};

use super::Home;
use crate::letters::{NOW, at, deed, insert, letter};
use crate::replaying::{
    come_back, conserved, intend, ordered, plan_orders, record_sent, running, started, states,
};

pub(crate) async fn a_key_goes_in_its_order_where_order_matters(home: &dyn Home) {
    let store = home.open().await;
    let keyed = |n: i64, key: &'static str| letter(n, |l| l.message.key = Some(key.into()));
    let ids =
        insert(&store, vec![keyed(1, "a"), keyed(2, "b"), keyed(3, "a"), keyed(4, "a"), keyed(5, "b")]).await;
    let (replay, lease) = started(&store, plan_orders(&store, ordered()).await).await;
    let run = Run { id: replay.id, lease: &lease };
    store.step(&ids[2..3], Step::Discard, &deed("ben"), NOW).await.unwrap();
    let next = async || {
        let items = intend(&store, &run, 9, NOW).await;
        items.iter().map(|item| item.number).collect::<Vec<_>>()
    };
    assert_eq!(next().await, [0, 1]);
    record_sent(&store, &run, &[0, 1], at(1)).await;
    assert_eq!(next().await, [0; 0], "nothing is known of the first ones");
    store.conclude(&run, &[0], Conclusion::Presumed, at(2)).await.unwrap();
    assert_eq!(next().await, [3], "the second of its key was discarded");
    come_back(&store, ids[1], replay.id, 1, at(3)).await;
    assert_eq!(next().await, [0; 0], "the first of the other key came back");
    store.record(&run, vec![(3, SendEnd::Unsent)], at(4)).await.unwrap();
    come_back(&store, ids[0], replay.id, 0, at(5)).await;
    assert_eq!(next().await, [0; 0], "what was presumed came back after all");
    conserved(&store).await;
}

pub(crate) async fn those_behind_letters_that_are_short_need_not_wait_for_them(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, (0..4).map(|n| letter(n, |_| {})).collect()).await;
    let (replay, lease) = started(&store, plan_orders(&store, ordered()).await).await;
    let run = Run { id: replay.id, lease: &lease };
    store.step(&ids[..2], Step::Discard, &deed("ben"), NOW).await.unwrap();
    let sent = intend(&store, &run, 9, NOW).await;
    assert_eq!(sent.iter().map(|item| item.number).collect::<Vec<_>>(), [2]);
    conserved(&store).await;
}

pub(crate) async fn a_letter_that_was_taken_away_is_not_sent(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 2).await;
    let run = Run { id: replay.id, lease: &lease };
    store.claim(&run, 2, NOW).await.unwrap();
    store.step(&ids[..1], Step::Release, &deed("ben"), NOW).await.unwrap();
    let sent = store.intend(&run, 9, NOW).await.unwrap();
    assert_eq!(sent.iter().map(|item| item.number).collect::<Vec<_>>(), [1]);
    assert_eq!(states(&store, replay.id).await, [ItemState::Short, ItemState::Intended]);
    conserved(&store).await;
}

pub(crate) async fn verification_sees_a_letter_that_is_in_no_hand(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 2).await;
    store.claim(&Run { id: replay.id, lease: &lease }, 1, NOW).await.unwrap();
    conserved(&store).await;
    store.step(&ids[1..], Step::Claim, &deed("ben"), NOW).await.unwrap();
    let problems = store.verify().await.unwrap().problems;
    assert_eq!(problems, ["1 letters are claimed or in doubt, and not in one replay each"]);
}

//! A run: what is claimed, intended, sent, doubted and given back, each with its letter, its counts and its audit row.

use dlo_core::letter::{Status, Step};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::replay::{ItemState, ReplayState, send_id};
use dlo_store::replays::{BYTES_AT_ONCE, Claimed, Conclusion, Run, SendEnd, Settling, ToSend};
use dlo_store::{DynStore, Event, Page, StoreError};

use super::Home;
use crate::letters::{NOW, at, batch, deed, full_letter, insert, letter};
use crate::replaying::{
    back, come_back, conserved, intend, lease, plan_orders, policy, record_sent, running, started, states,
    turn,
};

async fn status(store: &DynStore, id: dlo_core::id::LetterId) -> Status {
    store.letter(id).await.unwrap().letter.status
}

pub(crate) async fn a_claim_takes_open_letters_in_order_and_reports_the_others(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 5).await;
    let run = Run { id: replay.id, lease: &lease };
    store.step(&ids[1..2], Step::Discard, &deed("ben"), NOW).await.unwrap();
    let claimed = store.claim(&run, 3, NOW).await.unwrap();
    assert_eq!(claimed, Claimed { claimed: 2, short: 1, left: 2 });
    let claimed = store.claim(&run, 3, NOW).await.unwrap();
    assert_eq!(claimed, Claimed { claimed: 2, short: 0, left: 0 });
    use ItemState::{Claimed as C, Short as S};
    assert_eq!(states(&store, replay.id).await, [C, S, C, C, C]);
    assert_eq!(status(&store, ids[0]).await, Status::Claimed);
    assert_eq!(status(&store, ids[1]).await, Status::Discarded);
    assert_eq!(store.replay(replay.id).await.unwrap().counts.get(C), 4);
    // A claim is no outcome: one audit row for the batch says how many.
    let told = store.audit(&Page::first(9)).await.unwrap().entries;
    let claims = told.iter().filter(|entry| entry.what == Event::Step(Step::Claim));
    let claims: Vec<_> = claims.map(|entry| (entry.count, entry.letter, entry.reference.clone())).collect();
    let batch = (2, None, Some(replay.id.to_string()));
    assert_eq!(claims, [batch.clone(), batch]);
    conserved(&store).await;
}

pub(crate) async fn two_replays_never_claim_the_same_letter(home: &dyn Home) {
    let store = home.open().await;
    let (one, lease_one, _) = running(&store, 40).await;
    let (two, lease_two) = started(&store, plan_orders(&store, policy(&["orders"])).await).await;
    let tasks = [(one.id, lease_one), (two.id, lease_two)].map(|(id, lease)| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut taken = Claimed { left: 1, ..Claimed::default() };
            while taken.left > 0 {
                let claimed = store.claim(&Run { id, lease: &lease }, 3, NOW).await.unwrap();
                taken.claimed += claimed.claimed;
                taken.short += claimed.short;
                taken.left = claimed.left;
            }
            taken
        })
    });
    let mut claimed = 0;
    for task in tasks {
        let taken = task.await.unwrap();
        assert_eq!(taken.claimed + taken.short, 40);
        claimed += taken.claimed;
    }
    assert_eq!(claimed, 40);
    conserved(&store).await;
}

pub(crate) async fn what_is_intended_is_whole_and_byte_for_byte(home: &dyn Home) {
    let store = home.open().await;
    let mut headers = Headers::new();
    headers.push("x", None);
    headers.push_text("x", "1");
    let message = Message {
        key: Some(Payload::from(vec![0, 255])),
        headers,
        payload: Payload::from(vec![0, 159, 146]),
    };
    let odd = letter(2, |l| l.message = message.clone());
    let ids = insert(&store, vec![full_letter(1), odd, letter(3, |l| l.message.key = None)]).await;
    let class = store.letter(ids[0]).await.unwrap().letter;
    let (replay, lease) = started(&store, plan_orders(&store, policy(&["orders"])).await).await;
    let children = store.children(replay.id).await.unwrap();
    assert_eq!(children, [], "one class");
    let run = Run { id: replay.id, lease: &lease };
    let to_send = intend(&store, &run, 10, at(5)).await;
    assert_eq!(
        to_send.iter().map(|item| (item.number, item.letter)).collect::<Vec<_>>(),
        [(0, ids[0]), (1, ids[1]), (2, ids[2])]
    );
    assert_eq!((&to_send[1].message, to_send[1].repaired), (&message, false));
    assert_eq!(to_send[2].message.key, None);
    let expected = full_letter(1);
    assert_eq!(to_send[0].message, expected.message);
    assert_eq!((&to_send[0].origin, &to_send[0].consumer), (&class.origin, &class.consumer));
    assert_eq!((to_send[0].source.as_str(), to_send[0].replays), ("orders", 0));
    // It came beside the message: no header says it.
    assert_eq!(
        (to_send[0].event_type.as_deref(), to_send[0].message.headers.event_type()),
        (Some("OrderPlaced"), None)
    );
    let item = &store.items(replay.id, None, &Page::first(1)).await.unwrap().items[0];
    assert_eq!((item.state, item.at, item.sent_at), (ItemState::Intended, Some(at(5)), None));
    assert_eq!(status(&store, ids[0]).await, Status::Claimed);
    assert_eq!(store.intend(&run, 10, NOW).await.unwrap(), []);
    conserved(&store).await;
}

pub(crate) async fn what_is_intended_at_once_is_bounded_in_bytes(home: &dyn Home) {
    let store = home.open().await;
    let half = usize::try_from(BYTES_AT_ONCE / 2).unwrap();
    let large = |n| letter(n, |l| l.message.payload = vec![b'x'; half].into());
    insert(&store, (0..4).map(large).collect()).await;
    let (replay, lease) = started(&store, plan_orders(&store, policy(&["orders"])).await).await;
    let run = Run { id: replay.id, lease: &lease };
    store.claim(&run, 9, NOW).await.unwrap();
    let numbers = |items: Vec<ToSend>| items.iter().map(|item| item.number).collect::<Vec<_>>();
    assert_eq!(numbers(store.intend(&run, 9, NOW).await.unwrap()), [0, 1]);
    assert_eq!(numbers(store.intend(&run, 9, NOW).await.unwrap()), [2, 3]);
    conserved(&store).await;
}

pub(crate) async fn nothing_is_intended_unless_the_replay_runs(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 3).await;
    let run = Run { id: replay.id, lease: &lease };
    assert_eq!(intend(&store, &run, 1, NOW).await.len(), 1);
    turn(&store, replay.id, ReplayState::Paused).await;
    assert_eq!(store.intend(&run, 10, NOW).await.unwrap(), []);
    assert_eq!(store.doubt(&run, NOW).await.unwrap(), 1);
    assert_eq!(store.intend_again(&run, &[0], NOW).await.unwrap(), []);
    turn(&store, replay.id, ReplayState::Running).await;
    assert_eq!(store.intend(&run, 10, NOW).await.unwrap().len(), 2);
    assert_eq!(status(&store, ids[2]).await, Status::Claimed);
}

pub(crate) async fn every_end_of_a_send_is_recorded_with_its_letter(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 5).await;
    let run = Run { id: replay.id, lease: &lease };
    assert_eq!(intend(&store, &run, 4, at(1)).await.len(), 4);
    let ends = vec![
        (0, SendEnd::Sent { partition: Some(2), offset: Some(77) }),
        (1, SendEnd::Unsent),
        (2, SendEnd::Refused("larger than the queue takes".into())),
        (3, SendEnd::Doubtful),
        (4, SendEnd::Sent { partition: None, offset: None }),
        (99, SendEnd::Unsent),
    ];
    store.record(&run, ends, at(2)).await.unwrap();
    let items = store.items(replay.id, None, &Page::first(9)).await.unwrap().items;
    use ItemState::{Claimed, InDoubt, Refused, Sent};
    let told: Vec<_> = items.iter().map(|item| item.state).collect();
    assert_eq!(told, [Sent, Claimed, Refused, InDoubt, Claimed], "the last was never intended");
    assert_eq!((items[0].sent_at, items[0].partition, items[0].offset), (Some(at(2)), Some(2), Some(77)));
    assert_eq!(items[2].note.as_deref(), Some("larger than the queue takes"));
    assert_eq!(items[3].at, Some(at(1)), "in doubt since its intent");
    let mut stands = Vec::new();
    for id in &ids {
        stands.push(status(&store, *id).await);
    }
    assert_eq!(stands, [Status::Sent, Status::Claimed, Status::Open, Status::InDoubt, Status::Claimed]);
    assert_eq!(store.letter(ids[0]).await.unwrap().letter.replays, 1);
    let sent = store.timeline(ids[0]).await.unwrap().pop().unwrap();
    assert_eq!((sent.what, sent.author.as_str()), (Event::Step(Step::Send), "ann"));
    assert_eq!(sent.reference, Some(send_id(replay.id, 0)));
    store.record(&run, vec![(0, SendEnd::Unsent)], at(3)).await.unwrap();
    assert_eq!(states(&store, replay.id).await[0], Sent, "what is recorded stays");
    conserved(&store).await;
}

pub(crate) async fn a_run_that_lost_its_lease_writes_nothing(home: &dyn Home) {
    let store = home.open().await;
    let (replay, former, _) = running(&store, 4).await;
    let run = Run { id: replay.id, lease: &former };
    intend(&store, &run, 2, NOW).await;
    store.release(&former.name, &former.holder).await.unwrap();
    let latter = lease(&store, replay.id, "two").await;
    let before = (states(&store, replay.id).await, store.audit(&Page::first(50)).await.unwrap());
    let lost = [
        store.claim(&run, 1, NOW).await.err(),
        store.intend(&run, 1, NOW).await.err(),
        store.intend_again(&run, &[0], NOW).await.err(),
        store.record(&run, vec![(0, SendEnd::Unsent)], NOW).await.err(),
        store.doubt(&run, NOW).await.err(),
        store.mark(&run, "here".into(), NOW).await.err(),
        store.conclude(&run, &[0], Conclusion::Unknown, NOW).await.err(),
        store.give_back(&run, 1, NOW).await.err(),
    ];
    for error in lost {
        assert!(matches!(error, Some(StoreError::LeaseLost(_))), "{error:?}");
    }
    assert_eq!((states(&store, replay.id).await, store.audit(&Page::first(50)).await.unwrap()), before);
    let run = Run { id: replay.id, lease: &latter };
    assert_eq!(store.doubt(&run, NOW).await.unwrap(), 2);
    conserved(&store).await;
}

pub(crate) async fn items_in_doubt_keep_their_time_and_can_be_intended_again(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 4).await;
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 3, at(1)).await;
    assert_eq!(store.doubt(&run, at(2)).await.unwrap(), 3);
    assert_eq!(status(&store, ids[0]).await, Status::InDoubt);
    let again = store.intend_again(&run, &[2, 0, 3, 9], at(3)).await.unwrap();
    assert_eq!(again.iter().map(|item| item.number).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(again[0].letter, ids[0]);
    let items = store.items(replay.id, None, &Page::first(9)).await.unwrap().items;
    assert!(items[..3].iter().all(|item| item.at == Some(at(1))), "{items:?}");
    assert_eq!((items[0].state, items[1].state), (ItemState::Intended, ItemState::InDoubt));
    assert_eq!(status(&store, ids[0]).await, Status::Claimed);
    assert_eq!(store.doubt(&run, at(4)).await.unwrap(), 2);
    let items = store.items(replay.id, Some(ItemState::InDoubt), &Page::first(9)).await.unwrap().items;
    assert!(items.len() == 3 && items.iter().all(|item| item.at == Some(at(1))), "{items:?}");
    conserved(&store).await;
}

pub(crate) async fn doubts_are_settled_each_way(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 6).await;
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 6, NOW).await;
    record_sent(&store, &run, &[4, 5], at(1)).await;
    store.conclude(&run, &[5], Conclusion::Unknown, at(1)).await.unwrap();
    store.doubt(&run, at(2)).await.unwrap();
    let settle = async |numbers: &[u64], how| {
        store.settle(replay.id, numbers, how, &deed("eve"), at(3)).await.unwrap()
    };
    assert_eq!(settle(&[0, 4], Settling::FoundSent).await, 1);
    assert_eq!(settle(&[1, 4], Settling::FoundUnsent).await, 1);
    assert_eq!(settle(&[2, 4, 77, 2], Settling::Recovered).await, 2);
    assert_eq!(settle(&[3, 5, 2], Settling::Open).await, 2);
    use ItemState::{Claimed, Confirmed, Released, Sent};
    assert_eq!(states(&store, replay.id).await, [Sent, Claimed, Confirmed, Released, Confirmed, Released]);
    let mut stands = Vec::new();
    for id in &ids {
        stands.push(status(&store, *id).await);
    }
    use Status::{Open, Recovered};
    assert_eq!(stands, [Status::Sent, Status::Claimed, Recovered, Open, Recovered, Open]);
    let sent_at = store.items(replay.id, None, &Page::first(1)).await.unwrap().items[0].sent_at;
    assert_eq!(sent_at, Some(at(3)));
    let told = store.timeline(ids[2]).await.unwrap().pop().unwrap();
    assert_eq!((told.what, told.author.as_str()), (Event::Step(Step::SettleRecovered), "eve"));
    conserved(&store).await;
}

pub(crate) async fn a_mark_is_kept_until_the_next(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, _) = running(&store, 1).await;
    let run = Run { id: replay.id, lease: &lease };
    assert_eq!(store.marked(replay.id).await.unwrap(), None);
    for mark in ["0:17", "0:18\0"] {
        store.mark(&run, mark.into(), NOW).await.unwrap();
        assert_eq!(store.marked(replay.id).await.unwrap().as_deref(), Some(mark));
    }
}

pub(crate) async fn what_is_sent_waits_for_its_outcome_oldest_first(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 4).await;
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 4, NOW).await;
    record_sent(&store, &run, &[3], at(1)).await;
    record_sent(&store, &run, &[0, 1], at(2)).await;
    record_sent(&store, &run, &[2], at(3)).await;
    let waiting = async |before, most| {
        let items = store.waiting(replay.id, before, most).await.unwrap();
        items.iter().map(|item| item.number).collect::<Vec<_>>()
    };
    assert_eq!(waiting(at(2), 9).await, [3, 0, 1]);
    assert_eq!(waiting(at(9), 2).await, [3, 0]);
    assert_eq!(store.conclude(&run, &[0], Conclusion::Passed, at(9)).await.unwrap(), 1);
    assert_eq!(store.conclude(&run, &[3], Conclusion::Presumed, at(9)).await.unwrap(), 1);
    assert_eq!(store.conclude(&run, &[0, 1], Conclusion::Unknown, at(9)).await.unwrap(), 1);
    assert_eq!(waiting(at(9), 9).await, [2]);
    use ItemState::{Passed, Presumed, Sent, Unknown};
    assert_eq!(states(&store, replay.id).await, [Passed, Unknown, Sent, Presumed]);
    assert_eq!(status(&store, ids[0]).await, Status::Recovered);
    assert_eq!(status(&store, ids[1]).await, Status::Sent);
    assert_eq!(status(&store, ids[3]).await, Status::Sent, "probably handled is not recovered");
    conserved(&store).await;
}

pub(crate) async fn a_letter_that_comes_back_is_told_with_both_classes(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 8).await;
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 8, NOW).await;
    record_sent(&store, &run, &[1, 2, 3, 4], at(1)).await;
    store.conclude(&run, &[2], Conclusion::Presumed, at(2)).await.unwrap();
    store.conclude(&run, &[3], Conclusion::Unknown, at(2)).await.unwrap();
    store.receipts(&[(replay.id, 4)], &deed("pricing"), at(2)).await.unwrap();
    // Each from where it stands: intended, sent, presumed, unknown, confirmed.
    let deaths = (0..5).map(|n| back(100 + n, ids[n as usize], replay.id, n as u64, "Other")).collect();
    store.insert(batch(deaths), at(10)).await.unwrap();
    come_back(&store, ids[5], replay.id, 5, at(11)).await;
    let returns = store.returns(replay.id, at(9), 2).await.unwrap();
    assert_eq!(returns.iter().map(|back| back.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!((returns[1].letter, returns[1].sent_at, returns[1].at), (ids[1], Some(at(1)), at(10)));
    assert_eq!(returns[1].error_class.as_deref(), Some("Other"));
    assert_eq!(returns[1].former_class.as_deref(), Some("TaxRuleMissing"));
    let later = store.returns(replay.id, at(10), 9).await.unwrap();
    assert_eq!(later.iter().map(|back| back.number).collect::<Vec<_>>(), [5]);
    // Its record comes behind its death, and changes nothing.
    record_sent(&store, &run, &[0], at(12)).await;
    assert_eq!(states(&store, replay.id).await[0], ItemState::Returned);
    for id in &ids[..6] {
        assert_eq!(status(&store, *id).await, Status::Open);
    }
    assert_eq!(store.replay(replay.id).await.unwrap().counts.get(ItemState::Returned), 6);
    conserved(&store).await;
}

/// A message of an earlier replay dies late, while another replay has the letter in hand.
pub(crate) async fn a_late_death_does_not_take_a_letter_from_another_replay(home: &dyn Home) {
    let store = home.open().await;
    let (one, lease_one, ids) = running(&store, 1).await;
    let run = Run { id: one.id, lease: &lease_one };
    intend(&store, &run, 1, NOW).await;
    record_sent(&store, &run, &[0], at(1)).await;
    store.settle(one.id, &[0], Settling::Open, &deed("eve"), at(2)).await.unwrap();
    let (two, lease_two) = started(&store, plan_orders(&store, policy(&["orders"])).await).await;
    let second = Run { id: two.id, lease: &lease_two };
    assert_eq!(intend(&store, &second, 1, at(3)).await.len(), 1);
    come_back(&store, ids[0], one.id, 0, at(4)).await;
    let letter = store.letter(ids[0]).await.unwrap().letter;
    assert_eq!((letter.status, letter.deaths), (Status::Claimed, 2));
    record_sent(&store, &second, &[0], at(5)).await;
    assert_eq!(status(&store, ids[0]).await, Status::Sent);
    conserved(&store).await;
}

pub(crate) async fn what_is_given_back_is_open_again(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 5).await;
    let run = Run { id: replay.id, lease: &lease };
    store.claim(&run, 4, NOW).await.unwrap();
    store.intend(&run, 1, NOW).await.unwrap();
    turn(&store, replay.id, ReplayState::Cancelled).await;
    assert_eq!(store.give_back(&run, 2, at(1)).await.unwrap(), 2);
    assert_eq!(store.give_back(&run, 2, at(1)).await.unwrap(), 1);
    assert_eq!(store.give_back(&run, 2, at(1)).await.unwrap(), 0);
    use ItemState::{Frozen, Intended, Released};
    assert_eq!(states(&store, replay.id).await, [Intended, Released, Released, Released, Frozen]);
    assert_eq!(status(&store, ids[1]).await, Status::Open);
    let claimed = store.claim(&run, 9, NOW).await.unwrap();
    assert_eq!((claimed.claimed, claimed.left), (0, 1), "it is cancelled");
    conserved(&store).await;
}

pub(crate) async fn a_receipt_confirms_whatever_was_published(home: &dyn Home) {
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 6).await;
    let run = Run { id: replay.id, lease: &lease };
    store.claim(&run, 5, NOW).await.unwrap();
    store.intend(&run, 5, NOW).await.unwrap();
    record_sent(&store, &run, &[1, 2, 3], at(1)).await;
    store.conclude(&run, &[2], Conclusion::Presumed, at(2)).await.unwrap();
    store.conclude(&run, &[3], Conclusion::Unknown, at(2)).await.unwrap();
    store.record(&run, vec![(4, SendEnd::Doubtful)], at(2)).await.unwrap();
    let stranger = dlo_core::id::ReplayId::new(NOW, [3; 10]);
    let told: Vec<_> = (0..7).map(|n| (replay.id, n)).chain([(stranger, 0)]).collect();
    let known = store.receipts(&told, &deed("pricing"), at(3)).await.unwrap();
    assert_eq!(known, [true, true, true, true, true, true, false, false]);
    let mut expected = vec![ItemState::Confirmed; 5];
    expected.push(ItemState::Frozen);
    assert_eq!(states(&store, replay.id).await, expected);
    for id in &ids[..5] {
        assert_eq!(status(&store, *id).await, Status::Recovered);
    }
    let told = store.timeline(ids[1]).await.unwrap().pop().unwrap();
    assert_eq!((told.what, told.author.as_str()), (Event::Step(Step::Confirm), "pricing"));
    assert_eq!(store.receipts(&[(replay.id, 0)], &deed("pricing"), at(4)).await.unwrap(), [true]);
    conserved(&store).await;
}

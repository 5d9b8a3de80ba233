//! Repairs: beside the original, one of them active, and that one is sent.

use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::message::{Headers, Message, Payload};
use dlo_store::replays::{Members, Run};
use dlo_store::{AS_CAPTURED, Event, NewRepair, Repaired, StoreError};

use super::Home;
use crate::letters::{NOW, at, deed, insert, letter};
use crate::replaying::{conserved, intend, new_replay, plan_orders, policy, record_sent, started};

fn repair(payload: &str, expression: Option<&str>) -> NewRepair {
    let mut headers = Headers::new();
    headers.push_text("currency", "cents");
    headers.push("nothing", None);
    let payload = Payload::from(payload.to_string());
    let message = Message { key: Some(Payload::from(vec![9, 0])), headers, payload };
    NewRepair { message, expression: expression.map(str::to_string) }
}

pub(crate) async fn a_repair_stands_beside_the_original_and_is_sent(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    let original = store.payload(ids[0], None).await.unwrap();
    assert_eq!(store.repairs(ids[0]).await.unwrap(), []);
    store.repair(ids[0], repair("1", None), &deed("eve"), at(1)).await.unwrap();
    store.repair(ids[0], repair("2", Some(".x * 100")), &deed("ben"), at(2)).await.unwrap();
    let kept = store.repairs(ids[0]).await.unwrap();
    let told: Vec<_> = kept
        .iter()
        .map(|kept| (kept.number, kept.author.as_str(), kept.expression.as_deref(), kept.at, kept.active))
        .collect();
    assert_eq!(told, [(1, "eve", None, at(1), false), (2, "ben", Some(".x * 100"), at(2), true)]);
    assert_eq!((&kept[1].message, kept[1].reason.as_deref()), (&repair("2", None).message, Some("because")));
    assert_eq!(store.payload(ids[0], None).await.unwrap(), original);
    let entry = store.timeline(ids[0]).await.unwrap().pop().unwrap();
    assert_eq!((entry.what, entry.author.as_str()), (Event::Repaired, "ben"));
    let (replay, lease) = started(&store, plan_orders(&store, policy(&["orders"])).await).await;
    let sent = intend(&store, &Run { id: replay.id, lease: &lease }, 9, NOW).await;
    assert_eq!((&sent[0].message, sent[0].repaired), (&kept[1].message, true));
    assert!(!sent[1].repaired);
    conserved(&store).await;
}

pub(crate) async fn only_an_open_letter_is_repaired(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    store.step(&ids[1..], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let missing = LetterId::new(NOW, [5; 10]);
    let asked = [ids[0], ids[1], missing].map(|id| (id, repair("1", None)));
    let answers = store.repair_many(asked.to_vec(), &deed("eve"), NOW).await.unwrap();
    assert_eq!(answers, [Repaired::Stored, Repaired::NotOpen(Status::Discarded), Repaired::Missing]);
    assert_eq!(store.repairs(ids[1]).await.unwrap(), []);
    let refused = store.repair(ids[1], repair("1", None), &deed("eve"), NOW).await;
    assert!(matches!(refused, Err(StoreError::NotOpen { found: Status::Discarded, .. })), "{refused:?}");
    let refused = store.repair(missing, repair("1", None), &deed("eve"), NOW).await;
    assert!(matches!(refused, Err(StoreError::NoLetter(_))), "{refused:?}");
}

pub(crate) async fn a_plan_knows_when_one_of_its_letters_was_last_repaired(home: &dyn Home) {
    let store = home.open().await;
    let class = |n: i64, class: &'static str| letter(n, |l| l.error_class = Some(class.into()));
    let ids =
        insert(&store, vec![class(1, "A"), class(2, "B"), letter(3, |l| l.source = "mail".into())]).await;
    let plan = plan_orders(&store, policy(&["orders"])).await;
    assert_eq!(store.children(plan.id).await.unwrap().len(), 2);
    store.repair(ids[2], repair("1", None), &deed("eve"), at(1)).await.unwrap();
    assert_eq!(store.last_repaired(plan.id).await.unwrap(), None, "it is no part of the plan");
    store.repair(ids[1], repair("1", None), &deed("eve"), at(2)).await.unwrap();
    store.repair(ids[0], repair("1", None), &deed("eve"), at(3)).await.unwrap();
    assert_eq!(store.last_repaired(plan.id).await.unwrap(), Some(at(3)));
    let second = store.children(plan.id).await.unwrap().pop().unwrap();
    assert_eq!(store.last_repaired(second.id).await.unwrap(), Some(at(2)));
}

pub(crate) async fn a_plan_knows_how_many_of_its_letters_go_out_changed(home: &dyn Home) {
    let store = home.open().await;
    let class = |n: i64, class: &'static str| letter(n, |l| l.error_class = Some(class.into()));
    let ids = insert(&store, vec![class(1, "A"), class(2, "B"), class(3, "B")]).await;
    let plan = plan_orders(&store, policy(&["orders"])).await;
    assert_eq!(store.changed_members(plan.id).await.unwrap(), 0);
    for (id, expression) in [(ids[0], None), (ids[1], Some(".x * 100"))] {
        store.repair(id, repair("1", expression), &deed("eve"), at(1)).await.unwrap();
    }
    assert_eq!(store.changed_members(plan.id).await.unwrap(), 2);
    assert_eq!(store.changed(&ids[1..]).await.unwrap(), [(ids[1], at(1))]);
    let second = store.children(plan.id).await.unwrap().pop().unwrap();
    assert_eq!(store.changed_members(second.id).await.unwrap(), 1);
    // Taken back: the latest is the message as it was captured.
    store.repair(ids[1], repair("2", Some(AS_CAPTURED)), &deed("eve"), at(2)).await.unwrap();
    assert_eq!(store.changed_members(second.id).await.unwrap(), 0);
    assert_eq!(store.changed(&ids).await.unwrap(), [(ids[0], at(1))]);
    // What left is not still to go.
    let alone = new_replay(Members::Ids(vec![ids[0]]), policy(&["orders"]));
    let (replay, lease) = started(&store, store.plan(alone, NOW).await.unwrap()).await;
    assert_eq!(store.changed_members(replay.id).await.unwrap(), 1);
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 9, NOW).await;
    record_sent(&store, &run, &[0], NOW).await;
    assert_eq!(store.changed_members(replay.id).await.unwrap(), 0);
}

pub(crate) async fn many_repairs_at_once_are_each_their_own(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, (0..300).map(|n| letter(n, |_| {})).collect()).await;
    let twice = ids.iter().chain(&ids[..1]).enumerate();
    let asked = twice.map(|(n, id)| (*id, repair(&format!("{{\"n\":{n}}}"), None))).collect();
    let answers = store.repair_many(asked, &deed("eve"), NOW).await.unwrap();
    assert!(answers.len() == 301 && answers.iter().all(|answer| *answer == Repaired::Stored));
    let kept = store.repairs(ids[7]).await.unwrap();
    assert_eq!(kept[0].message.payload, Payload::from("{\"n\":7}"));
    let first = store.repairs(ids[0]).await.unwrap();
    assert_eq!(
        first.iter().map(|kept| (kept.number, kept.active)).collect::<Vec<_>>(),
        [(1, false), (2, true)]
    );
    assert_eq!(first[1].message.payload, Payload::from("{\"n\":300}"));
}

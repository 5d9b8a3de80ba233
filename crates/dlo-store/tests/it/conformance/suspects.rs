//! Letters that may repeat another letter: marked, found, shown and left out of plans; never merged.

use dlo_core::id::{DeathId, LetterId};
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::message::Payload;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::replay::{Exclusion, ItemState};
use dlo_core::suspect::{DeathMark, Suspect, Suspicion};
use dlo_store::replays::{Conclusion, PlanPolicy, Run, SendEnd, Settling};
use dlo_store::{DynStore, Inserted};

use super::Home;
use crate::letters::{NOW, at, batch, deed, find_all, insert, insert_one, letter, query};
use crate::replaying::{
    come_back, conserved, intend, new_replay, of_query, orders, plan_orders, policy, record_sent, started,
    states,
};

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
    assert_eq!(
        (suspect(&store, marked).await, suspect(&store, original).await),
        (None, duplicate_of(marked))
    );
    assert_eq!(suspect(&store, equal).await, None, "one copy has one original");
}

pub(crate) async fn copies_of_one_batch_are_told_apart_as_those_of_several(home: &dyn Home) {
    let store = home.open().await;
    let letters =
        vec![copy(1, 7, true), copy(2, 8, false), copy(3, 7, false), copy(4, 8, true), copy(5, 9, true)];
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

/// An order of RabbitMQ with a payload of its own, and the message id that its producer wrote.
fn order(n: i64, id: Option<&str>) -> NewLetter {
    foreign(n, id, n, "TaxRuleMissing")
}

/// What a foreign consumer parks of it: the same message and nothing of ours.
fn again(n: i64, id: Option<&str>, failed: i64) -> NewLetter {
    foreign(n, id, failed, "ValueError")
}

fn foreign(n: i64, id: Option<&str>, failed: i64, class: &str) -> NewLetter {
    letter(n, |l| {
        l.origin = Origin::queue(BrokerKind::Rabbitmq, "orders");
        l.origin.message_id = id.map(String::from);
        l.message.payload = Payload::from(format!(r#"{{"order":{n}}}"#));
        l.failed_at = at(failed);
        l.error_class = Some(class.into());
    })
}

struct Sent {
    store: DynStore,
    replay: dlo_core::id::ReplayId,
    lease: dlo_store::Lease,
    ids: Vec<LetterId>,
}

impl Sent {
    fn run(&self) -> Run<'_> {
        Run { id: self.replay, lease: &self.lease }
    }
}

/// Letters in a replay that runs, all of them intended, the first `recorded` sent.
async fn sent(home: &dyn Home, letters: Vec<NewLetter>, recorded: u64) -> Sent {
    let store = home.open().await;
    let ids = insert(&store, letters).await;
    let (replay, lease) = started(&store, plan_orders(&store, policy(&["orders"])).await).await;
    let sent = Sent { store, replay: replay.id, lease, ids };
    intend(&sent.store, &sent.run(), 100, NOW).await;
    let numbers: Vec<u64> = (0..recorded).collect();
    record_sent(&sent.store, &sent.run(), &numbers, NOW).await;
    sent
}

pub(crate) async fn a_message_that_comes_back_with_its_message_id_is_the_same_letter(home: &dyn Home) {
    let sent = sent(home, vec![order(1, Some("m-1")), order(2, Some("m-2"))], 2).await;
    let store = &sent.store;
    // With another payload: the message id is enough, because it was just sent.
    let back = NewLetter { message: order(9, None).message, ..again(2, Some("m-2"), 500) };
    assert_eq!(store.insert(batch(vec![back]), at(600)).await.unwrap(), [Inserted::DiedAgain(sent.ids[1])]);
    let detail = store.letter(sent.ids[1]).await.unwrap();
    assert_eq!((detail.letter.status, detail.letter.deaths), (Status::Open, 2));
    assert_eq!(detail.letter.error_class.as_deref(), Some("ValueError"));
    assert!(detail.deaths[1].replay_id.is_some(), "the timeline names the replay");
    assert_eq!(states(store, sent.replay).await, [ItemState::Sent, ItemState::Returned]);
    let returns = store.returns(sent.replay, NOW, 10).await.unwrap();
    assert_eq!((returns.len(), returns[0].letter), (1, sent.ids[1]));
    conserved(store).await;
}

pub(crate) async fn a_message_that_comes_back_with_payload_and_key_is_a_suspected_return(home: &dyn Home) {
    let sent = sent(home, vec![order(1, None), order(2, None)], 2).await;
    let store = &sent.store;
    let answers = store.insert(batch(vec![again(2, None, 500)]), at(600)).await.unwrap();
    let Inserted::Stored(new) = answers[0] else { panic!("{answers:?}") };
    let first = Suspect { kind: Suspicion::Return, letter: sent.ids[1] };
    assert_eq!(suspect(store, new).await, Some(first));
    let original = store.letter(sent.ids[1]).await.unwrap();
    assert_eq!((original.letter.status, original.letter.deaths), (Status::Sent, 1));
    assert_eq!(original.suspects, [Suspect { kind: Suspicion::Return, letter: new }]);
    assert_eq!(states(store, sent.replay).await, [ItemState::Sent, ItemState::SuspectedReturn]);
    let replay = store.replay(sent.replay).await.unwrap();
    assert_eq!((replay.counts.failed_again(), replay.counts.sent()), (1, 2));
    let returns = store.returns(sent.replay, NOW, 10).await.unwrap();
    assert_eq!((returns.len(), returns[0].error_class.as_deref()), (1, Some("ValueError")));
    let found = find_all(store, &query([Matcher::Suspected(Suspicion::Return)]), 10).await;
    assert_eq!(found.iter().map(|letter| letter.id).collect::<Vec<_>>(), [new]);
    // Its own letter is not open, so a plan sends it once.
    assert_eq!(plan_orders(store, policy(&["orders"])).await.counts.total(), 1);
    conserved(store).await;
}

pub(crate) async fn each_equal_message_comes_back_once(home: &dyn Home) {
    let sent = sent(home, vec![order(1, None), order(1, None), order(1, None)], 3).await;
    let store = &sent.store;
    let back = vec![again(1, None, 500), again(1, None, 501)];
    store.insert(batch(back), at(600)).await.unwrap();
    let count = async || store.replay(sent.replay).await.unwrap().counts.failed_again();
    assert_eq!(count().await, 2);
    store.insert(batch(vec![again(1, None, 502)]), at(601)).await.unwrap();
    store.insert(batch(vec![again(1, None, 503)]), at(602)).await.unwrap();
    assert_eq!(count().await, 3);
    let found = find_all(store, &query([Matcher::Suspected(Suspicion::Return)]), 10).await;
    assert_eq!(found.len(), 3, "the fourth is an order of its own");
    conserved(store).await;
}

pub(crate) async fn what_comes_back_before_its_send_is_recorded_is_recognised(home: &dyn Home) {
    let sent = sent(home, vec![order(1, Some("m-1")), order(2, None)], 0).await;
    let store = &sent.store;
    let back = vec![again(1, Some("m-1"), 5), again(2, None, 6)];
    store.insert(batch(back), at(7)).await.unwrap();
    record_sent(store, &sent.run(), &[0, 1], at(8)).await;
    assert_eq!(states(store, sent.replay).await, [ItemState::Returned, ItemState::SuspectedReturn]);
    assert_eq!(store.letter(sent.ids[1]).await.unwrap().letter.status, Status::Sent);
    conserved(store).await;
}

pub(crate) async fn what_our_runtime_parked_or_another_source_has_is_no_return(home: &dyn Home) {
    let sent = sent(home, vec![order(1, Some("m-1"))], 1).await;
    let mut ours = again(1, Some("m-1"), 500);
    ours.message.headers.push_text("dlo-version", "1");
    let elsewhere = NewLetter { source: "mail".into(), ..again(1, Some("m-1"), 501) };
    let answers = sent.store.insert(batch(vec![ours, elsewhere]), at(600)).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Inserted::Stored(_))), "{answers:?}");
    assert_eq!(states(&sent.store, sent.replay).await, [ItemState::Sent]);
}

pub(crate) async fn what_comes_long_after_its_window_is_a_letter_of_its_own(home: &dyn Home) {
    let sent = sent(home, vec![order(1, None), order(2, Some("m-2"))], 2).await;
    let late = at(2 * 3_600_000);
    let back = vec![again(1, None, 500), again(2, Some("m-2"), 501)];
    let answers = sent.store.insert(batch(back), late).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Inserted::Stored(_))), "{answers:?}");
    assert_eq!(states(&sent.store, sent.replay).await, [ItemState::Sent, ItemState::Sent]);
}

pub(crate) async fn a_receipt_or_a_proven_death_corrects_a_suspected_return(home: &dyn Home) {
    let sent = sent(home, vec![order(1, None), order(2, None)], 2).await;
    let store = &sent.store;
    store.insert(batch(vec![again(1, None, 500), again(2, None, 501)]), at(600)).await.unwrap();
    assert_eq!(states(store, sent.replay).await, [ItemState::SuspectedReturn; 2]);
    store.receipts(&[(sent.replay, 0)], &deed("shop"), at(700)).await.unwrap();
    come_back(store, sent.ids[1], sent.replay, 1, at(800)).await;
    assert_eq!(states(store, sent.replay).await, [ItemState::Confirmed, ItemState::Returned]);
    assert_eq!(store.letter(sent.ids[0]).await.unwrap().letter.status, Status::Recovered);
    assert_eq!(store.letter(sent.ids[1]).await.unwrap().letter.status, Status::Open);
    conserved(store).await;
}

/// Another payload, so that only the message id is equal.
fn with_id(n: i64, id: &str, failed: i64, consumer: Option<&str>) -> NewLetter {
    letter(n, |l| {
        l.origin = Origin::message(BrokerKind::Rabbitmq, "orders", id);
        l.message.payload = Payload::from(format!(r#"{{"changed":{n}}}"#));
        l.failed_at = at(failed);
        l.consumer = consumer.map(String::from);
    })
}

pub(crate) async fn a_message_id_proves_a_return_only_after_the_send_and_in_one_consumer(home: &dyn Home) {
    let letters = (1..=3).map(|n| order(n, Some(&format!("m-{n}")))).collect();
    let sent = sent(home, letters, 3).await;
    let store = &sent.store;
    let back = vec![
        with_id(11, "m-1", -6_000, Some("pricing")),
        with_id(12, "m-2", 500, Some("mail")),
        with_id(13, "m-3", -4_000, None),
    ];
    let answers = store.insert(batch(back), at(600)).await.unwrap();
    let [Inserted::Stored(earlier), Inserted::Stored(elsewhere), third] = answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(third, Inserted::DiedAgain(sent.ids[2]));
    for (new, letter) in [(earlier, sent.ids[0]), (elsewhere, sent.ids[1])] {
        assert_eq!(suspect(store, new).await, Some(Suspect { kind: Suspicion::Return, letter }));
        assert_eq!(store.letter(letter).await.unwrap().letter.deaths, 1);
    }
    let suspected = ItemState::SuspectedReturn;
    assert_eq!(states(store, sent.replay).await, [suspected, suspected, ItemState::Returned]);
    conserved(store).await;
}

pub(crate) async fn a_passed_message_does_not_hide_the_next_equal_one(home: &dyn Home) {
    let sent = sent(home, vec![order(1, None), order(1, None)], 2).await;
    let store = &sent.store;
    store.conclude(&sent.run(), &[0], Conclusion::Passed, at(100)).await.unwrap();
    store.insert(batch(vec![again(1, None, 500)]), at(600)).await.unwrap();
    assert_eq!(states(store, sent.replay).await, [ItemState::Passed, ItemState::SuspectedReturn]);
    conserved(store).await;
}

pub(crate) async fn an_equal_payload_leaves_a_doubt_a_doubt(home: &dyn Home) {
    let sent = sent(home, vec![order(1, None)], 0).await;
    let store = &sent.store;
    assert_eq!(store.doubt(&sent.run(), at(100)).await.unwrap(), 1);
    let answers = store.insert(batch(vec![again(1, None, 500)]), at(600)).await.unwrap();
    assert_eq!(suspect(store, answers[0].id()).await, None);
    assert_eq!(states(store, sent.replay).await, [ItemState::InDoubt]);
    assert_eq!(store.letter(sent.ids[0]).await.unwrap().letter.status, Status::InDoubt);
    assert_eq!(store.settle(sent.replay, &[0], Settling::Open, &deed("ann"), at(700)).await.unwrap(), 1);
    conserved(store).await;
}

pub(crate) async fn what_was_not_sent_after_a_suspicion_is_open_again(home: &dyn Home) {
    let sent = sent(home, (1..=3).map(|n| order(n, None)).collect(), 0).await;
    let store = &sent.store;
    let back = (1..=3).map(|n| again(n, None, 500 + n)).collect();
    store.insert(batch(back), at(600)).await.unwrap();
    assert_eq!(states(store, sent.replay).await, [ItemState::SuspectedReturn; 3]);
    let ends = vec![(0, SendEnd::Unsent), (1, SendEnd::Refused("too large".into())), (2, SendEnd::Doubtful)];
    for n in [700, 800] {
        store.record(&sent.run(), ends.clone(), at(n)).await.unwrap();
    }
    let released = ItemState::Released;
    assert_eq!(states(store, sent.replay).await, [released, released, ItemState::SuspectedReturn]);
    let mut statuses = Vec::new();
    for id in &sent.ids {
        statuses.push(store.letter(*id).await.unwrap().letter.status);
    }
    assert_eq!(statuses, [Status::Open, Status::Open, Status::Sent]);
    conserved(store).await;
}

pub(crate) async fn one_return_that_several_tasks_store_at_once_is_one_death(home: &dyn Home) {
    let sent = sent(home, vec![order(1, Some("m-1"))], 1).await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = sent.store.clone();
            tokio::spawn(async move {
                store.insert(batch(vec![with_id(n, "m-1", 500 + n, None)]), at(600)).await.unwrap()
            })
        })
        .collect();
    let mut deaths = 0;
    for task in tasks {
        deaths += usize::from(matches!(task.await.unwrap()[..], [Inserted::DiedAgain(_)]));
    }
    assert_eq!(deaths, 1);
    assert_eq!(sent.store.letter(sent.ids[0]).await.unwrap().letter.deaths, 2);
    conserved(&sent.store).await;
}

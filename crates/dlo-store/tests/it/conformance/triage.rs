//! The life of groups: changes by people, what letters make of them, snoozes that end, lists and tallies.

use std::sync::Mutex;
use std::time::Duration;

use dlo_core::group::{Change, Group, GroupDeed, GroupStatus, Illegal};
use dlo_core::id::GroupId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::query::Matcher;
use dlo_store::triage::{Changed, GroupOrder};
use dlo_store::{DynStore, Event, GroupFilter, Page};

use super::Home;
use crate::letters::{NOW, at, batch, deed, insert, letter, problems, query};

pub(crate) fn of_class(n: i64, class: &str) -> NewLetter {
    letter(n, |l| l.error_class = Some(class.into()))
}

fn of_version(n: i64, version: &str) -> NewLetter {
    letter(n, |l| l.consumer_version = Some(version.into()))
}

pub(crate) fn id_of(letter: &NewLetter) -> GroupId {
    letter.fingerprint.group
}

async fn change(store: &DynStore, id: GroupId, change: Change) -> Changed {
    store.change_groups(&[id], &change, &deed("ann"), at(1_000)).await.unwrap().pop().unwrap()
}

async fn status(store: &DynStore, id: GroupId) -> GroupStatus {
    store.group(id).await.unwrap().life.status
}

pub(crate) async fn a_change_is_kept_with_its_deed(home: &dyn Home) {
    let id = id_of(&letter(1, |_| {}));
    let before = {
        let store = home.open().await;
        insert(&store, vec![letter(1, |_| {})]).await;
        let resolve = Change::Resolve { in_version: Some("2.3".into()) };
        let Changed::Changed(group) = change(&store, id, resolve).await else { panic!("illegal") };
        assert_eq!((group.life.status, group.life.since), (GroupStatus::Resolved, Some(at(1_000))));
        assert_eq!(group.life.resolved_in.as_deref(), Some("2.3"));
        change(&store, id, Change::Assign { to: Some("bob".into()) }).await;
        let history = store.group_history(id, 10).await.unwrap();
        let told: Vec<_> =
            history.iter().map(|entry| (entry.what, entry.reference.as_deref(), entry.group)).collect();
        assert_eq!(
            told,
            [
                (Event::Group(GroupDeed::Assigned), Some("bob"), Some(id)),
                (Event::Group(GroupDeed::Resolved), Some("2.3"), Some(id)),
            ]
        );
        assert_eq!((history[0].author.as_str(), history[0].reason.as_deref()), ("ann", Some("because")));
        let before = store.group(id).await.unwrap();
        store.close().await.unwrap();
        before
    };
    let store = home.open().await;
    assert_eq!(store.group(id).await.unwrap(), before);
    assert_eq!(before.assignee.as_deref(), Some("bob"));
}

pub(crate) async fn each_group_of_a_bulk_change_stands_for_itself(home: &dyn Home) {
    let store = home.open().await;
    let letters = vec![of_class(1, "A"), of_class(2, "B")];
    let (a, b) = (id_of(&letters[0]), id_of(&letters[1]));
    let nowhere = id_of(&of_class(3, "C"));
    insert(&store, letters).await;
    change(&store, a, Change::Ignore).await;
    let results = store
        .change_groups(&[a, nowhere, b, b, a], &Change::Acknowledge, &deed("ann"), at(2_000))
        .await
        .unwrap();
    let illegal =
        Changed::Illegal { status: GroupStatus::Ignored, why: Illegal::Closed(GroupStatus::Ignored) };
    assert_eq!(&results[0], &illegal);
    assert_eq!(results[1], Changed::Missing);
    assert!(matches!(&results[2], Changed::Changed(group) if group.life.status == GroupStatus::Acknowledged));
    assert_eq!(results[3], results[2]);
    assert_eq!(results[4], illegal);
    assert_eq!(store.group_history(b, 10).await.unwrap().len(), 1);
    let too_many = vec![a; Page::MOST + 1];
    assert!(store.change_groups(&too_many, &Change::Fix, &deed("ann"), NOW).await.is_err());
}

pub(crate) async fn a_resolved_group_comes_back_by_a_letter_of_the_fixed_version_only(home: &dyn Home) {
    let store = home.open().await;
    let id = id_of(&letter(1, |_| {}));
    insert(&store, vec![of_version(1, "2.2.0")]).await;
    change(&store, id, Change::Resolve { in_version: Some("2.10".into()) }).await;
    store
        .insert(batch(vec![of_version(1_002, "2.9.3"), of_version(1_003, "2.2.0")]), at(2_000))
        .await
        .unwrap();
    assert_eq!(status(&store, id).await, GroupStatus::Resolved);
    store
        .insert(batch(vec![of_version(1_004, "2.9.3"), of_version(1_005, "2.10.1")]), at(3_000))
        .await
        .unwrap();
    let group = store.group(id).await.unwrap();
    assert_eq!((group.life.status, group.life.regressed_at), (GroupStatus::Regressed, Some(at(3_000))));
    assert_eq!(group.counts.get(Status::Open), 5);
    let history = store.group_history(id, 10).await.unwrap();
    assert_eq!((history[0].what, history[0].author.as_str()), (Event::Group(GroupDeed::Regressed), "office"));
    store.insert(batch(vec![of_version(1_006, "2.10.1")]), at(4_000)).await.unwrap();
    assert_eq!(store.group_history(id, 10).await.unwrap().len(), history.len());
}

pub(crate) async fn a_letter_that_dies_again_brings_a_resolved_group_back(home: &dyn Home) {
    let store = home.open().await;
    let id = id_of(&letter(1, |_| {}));
    let letters = insert(&store, vec![letter(1, |_| {})]).await;
    change(&store, id, Change::Resolve { in_version: None }).await;
    let again = letter(1_009, |l| l.replay_of = Some(letters[0]));
    store.insert(batch(vec![again]), at(5_000)).await.unwrap();
    assert_eq!(status(&store, id).await, GroupStatus::Regressed);
}

/// A backlog is captured long after its messages failed.
pub(crate) async fn what_failed_before_a_group_was_resolved_does_not_bring_it_back(home: &dyn Home) {
    let store = home.open().await;
    let id = id_of(&letter(1, |_| {}));
    insert(&store, vec![letter(1, |_| {})]).await;
    change(&store, id, Change::Resolve { in_version: None }).await;
    store.insert(batch(vec![letter(2, |_| {}), letter(999, |_| {})]), at(5_000)).await.unwrap();
    assert_eq!(status(&store, id).await, GroupStatus::Resolved);
    store.insert(batch(vec![letter(3, |_| {}), letter(1_000, |_| {})]), at(6_000)).await.unwrap();
    assert_eq!(status(&store, id).await, GroupStatus::Regressed);
}

pub(crate) async fn a_snooze_ends_by_its_letters_or_its_date(home: &dyn Home) {
    let store = home.open().await;
    let letters = vec![of_class(1, "A"), of_class(2, "B")];
    let (a, b) = (id_of(&letters[0]), id_of(&letters[1]));
    insert(&store, letters).await;
    change(&store, a, Change::Snooze { until: None, letters: Some(3) }).await;
    change(&store, b, Change::Snooze { until: Some(at(60_000)), letters: None }).await;
    store.insert(batch(vec![of_class(3, "A"), of_class(4, "A")]), at(2_000)).await.unwrap();
    let asleep = store.group(a).await.unwrap();
    assert_eq!(asleep.life.snooze.and_then(|snooze| snooze.letters), Some(1));
    assert_eq!(store.tend_groups(at(59_999)).await.unwrap(), 0);
    store.insert(batch(vec![of_class(5, "A"), of_class(6, "B")]), at(3_000)).await.unwrap();
    assert_eq!(status(&store, a).await, GroupStatus::New);
    assert_eq!(status(&store, b).await, GroupStatus::Snoozed);
    assert_eq!(store.tend_groups(at(60_000)).await.unwrap(), 1);
    assert_eq!(status(&store, b).await, GroupStatus::New);
    let history = store.group_history(b, 10).await.unwrap();
    assert_eq!(history[0].what, Event::Group(GroupDeed::Woken));
}

pub(crate) async fn an_owner_set_by_hand_is_not_overwritten_by_rules(home: &dyn Home) {
    let store = home.open().await;
    let letters = vec![of_class(1, "A"), of_class(2, "B")];
    let (a, b) = (id_of(&letters[0]), id_of(&letters[1]));
    insert(&store, letters).await;
    change(&store, a, Change::Own { team: Some("tax".into()) }).await;
    store.assign_owners(&|_| Some("rules".into())).await.unwrap();
    let owner = |group: dlo_core::group::Group| (group.owner, group.owner_by_hand);
    assert_eq!(owner(store.group(a).await.unwrap()), (Some("tax".into()), true));
    assert_eq!(owner(store.group(b).await.unwrap()), (Some("rules".into()), false));
    change(&store, a, Change::Own { team: None }).await;
    store.assign_owners(&|_| Some("rules".into())).await.unwrap();
    assert_eq!(owner(store.group(a).await.unwrap()), (Some("rules".into()), false));
}

/// Somebody takes a group while the rules are asked whose it is: what a person says stands.
pub(crate) async fn an_owner_set_while_rules_are_asked_stays(home: &dyn Home) {
    let store = home.open().await;
    let id = id_of(&letter(1, |_| {}));
    insert(&store, vec![letter(1, |_| {})]).await;
    let (here, other) = (tokio::runtime::Handle::current(), store.clone());
    let by_hand = Mutex::new(None);
    let owner_of = |_: &Group| {
        let (other, (done, wait)) = (other.clone(), std::sync::mpsc::channel());
        *by_hand.lock().unwrap() = Some(here.spawn(async move {
            change(&other, id, Change::Own { team: Some("tax".into()) }).await;
            // Nobody listens any more where the change has to wait for the rules.
            let _ = done.send(());
        }));
        let _ = wait.recv_timeout(Duration::from_millis(300));
        Some("rules".to_string())
    };
    store.assign_owners(&owner_of).await.unwrap();
    let task = by_hand.lock().unwrap().take().unwrap();
    task.await.unwrap();
    let group = store.group(id).await.unwrap();
    assert_eq!((group.owner.as_deref(), group.owner_by_hand), (Some("tax"), true));
}

async fn listed(store: &DynStore, filter: GroupFilter) -> Vec<String> {
    let mut page = Page::first(2);
    let mut seen = Vec::new();
    loop {
        let found = store.groups(&filter, &page).await.unwrap();
        seen.extend(found.groups.into_iter().filter_map(|group| group.error_class));
        match found.next {
            Some(next) => page.cursor = Some(next),
            None => return seen,
        }
    }
}

pub(crate) async fn groups_are_listed_in_each_order_and_by_what_people_said(home: &dyn Home) {
    let store = home.open().await;
    // First seen A B C D, last seen C B A D, most open B, oldest open: D's is discarded, A's first.
    for (n, class) in [(1, "A"), (2, "B"), (3, "C"), (4, "D"), (30, "A"), (40, "B"), (41, "B"), (50, "C")] {
        insert(&store, vec![of_class(n, class)]).await;
    }
    let of_d = query([Matcher::Class("D".into())]);
    let d = store.letters(&of_d, &Page::first(1)).await.unwrap().letters[0].id;
    store.step(&[d], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let by = |order| GroupFilter { order, ..GroupFilter::default() };
    assert_eq!(listed(&store, by(GroupOrder::LastSeen)).await, ["C", "B", "A", "D"]);
    assert_eq!(listed(&store, by(GroupOrder::FirstSeen)).await, ["D", "C", "B", "A"]);
    assert_eq!(listed(&store, by(GroupOrder::MostOpen)).await[0], "B");
    assert_eq!(listed(&store, by(GroupOrder::OldestOpen)).await, ["A", "B", "C"]);
    let a = id_of(&of_class(1, "A"));
    change(&store, a, Change::Assign { to: Some("bob".into()) }).await;
    change(&store, a, Change::Fix).await;
    let all = GroupFilter::default();
    for (filter, expected) in [
        (GroupFilter { statuses: vec![GroupStatus::Fixing], ..all.clone() }, vec!["A"]),
        (GroupFilter { statuses: vec![GroupStatus::New], ..all.clone() }, vec!["C", "B", "D"]),
        (GroupFilter { assignee: Some(Some("bob".into())), ..all.clone() }, vec!["A"]),
        (GroupFilter { assignee: Some(None), ..all.clone() }, vec!["C", "B", "D"]),
        (GroupFilter { text: Some("TABLE tax".into()), ..all.clone() }, vec!["C", "B", "A", "D"]),
        (GroupFilter { text: Some("nowhere".into()), ..all.clone() }, vec![]),
        (GroupFilter { open_since: Some(at(3)), ..all.clone() }, vec!["B", "A"]),
    ] {
        assert_eq!(listed(&store, filter.clone()).await, expected, "{filter:?}");
    }
    let tally = store.tally_groups(Some("bob")).await.unwrap();
    assert_eq!((tally.get(GroupStatus::New), tally.get(GroupStatus::Fixing), tally.total()), (2, 1, 3));
    assert_eq!((tally.mine, tally.unowned), (1, 3));
    // What was put off waits for nobody, and stays under its own name.
    change(&store, a, Change::Ignore).await;
    let tally = store.tally_groups(Some("bob")).await.unwrap();
    assert_eq!((tally.mine, tally.unowned, tally.get(GroupStatus::Ignored)), (0, 2, 1));
    let oldest = store.oldest_open(&[a, id_of(&of_class(1, "D"))]).await.unwrap();
    assert_eq!(oldest, [Some(at(1)), None]);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

//! Merging and splitting: remembered, summed, and letters are found by whichever id one has.

use dlo_core::group::{Change, GroupDeed, GroupStatus};
use dlo_core::id::GroupId;
use dlo_core::query::Matcher;
use dlo_core::trend::{Resolution, Window};
use dlo_store::triage::{Changed, NewLink};
use dlo_store::{DynStore, Event, GroupFilter, Page, StoreError, StoreLimits};

use super::Home;
use super::triage::{id_of, of_class};
use crate::letters::{NOW, at, batch, deed, find_all, insert, letter, problems, query};

/// Three groups of 2, 3 and 1 letters.
async fn three(store: &DynStore) -> [GroupId; 3] {
    let classes = ["A", "A", "B", "B", "B", "C"];
    insert(store, (1..).zip(classes).map(|(n, class)| of_class(n, class)).collect()).await;
    ["A", "B", "C"].map(|class| id_of(&of_class(1, class)))
}

async fn heads(store: &DynStore) -> Vec<(Option<String>, u64, u64)> {
    let page = store.groups(&GroupFilter::default(), &Page::first(50)).await.unwrap();
    let mut heads: Vec<_> = page
        .groups
        .into_iter()
        .map(|group| (group.error_class.clone(), group.counts.total(), group.members))
        .collect();
    heads.sort();
    heads
}

pub(crate) async fn merged_groups_are_one_and_stay_so(home: &dyn Home) {
    let [a, b, c] = {
        let store = home.open().await;
        let [a, b, c] = three(&store).await;
        let head = store.merge_groups(b, &[a], &deed("ann"), at(100)).await.unwrap();
        assert_eq!((head.id, head.counts.total(), head.members), (b, 5, 1));
        assert_eq!((head.first_seen, head.last_seen), (at(1), at(5)));
        assert_eq!(store.stats().await.unwrap().groups, 2);
        store.close().await.unwrap();
        [a, b, c]
    };
    let store = home.open().await;
    let class = |class: &str| Some(class.to_string());
    assert_eq!(heads(&store).await, [(class("B"), 5, 1), (class("C"), 1, 0)]);
    // What comes for the member later counts for the head.
    store.insert(batch(vec![of_class(50, "A")]), at(200)).await.unwrap();
    assert_eq!(store.group(a).await.unwrap(), store.group(b).await.unwrap());
    assert_eq!(store.group(b).await.unwrap().last_seen, at(50));
    for id in [a, b] {
        let found = find_all(&store, &query([Matcher::Group(id)]), 2).await;
        assert_eq!(found.len(), 6);
        assert!(found.iter().all(|letter| letter.group_id == b));
        assert_eq!(store.count(&query([Matcher::Group(id)]), 100).await.unwrap(), 6);
    }
    assert_eq!(find_all(&store, &query([Matcher::Group(a), Matcher::Class("A".into())]), 10).await.len(), 3);
    let window = Window::until(at(1_000), Resolution::Hour, 24);
    let trends = store.trends(&[a, b, c], window).await.unwrap();
    let sums: Vec<u64> = trends.iter().map(|counts| counts.iter().sum()).collect();
    assert_eq!(sums, [6, 6, 1]);
    assert_eq!(store.oldest_open(&[b]).await.unwrap(), [Some(at(1))]);
    assert_eq!(store.members(a).await.unwrap().iter().map(|group| group.id).collect::<Vec<_>>(), [a]);
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn members_of_a_merged_head_come_along_and_leave_alone(home: &dyn Home) {
    let store = home.open().await;
    let [a, b, c] = three(&store).await;
    store.merge_groups(b, &[a], &deed("ann"), at(100)).await.unwrap();
    let head = store.merge_groups(c, &[a, b], &deed("ann"), at(101)).await.unwrap();
    assert_eq!((head.id, head.counts.total(), head.members), (c, 6, 2));
    store.change_groups(&[c], &Change::Fix, &deed("ann"), at(102)).await.unwrap();
    let alone = store.split_group(a, &deed("ann"), at(103)).await.unwrap();
    assert_eq!((alone.id, alone.counts.total(), alone.life.status), (a, 2, GroupStatus::Fixing));
    let head = store.group(b).await.unwrap();
    assert_eq!((head.id, head.counts.total(), head.members), (c, 4, 1));
    assert_eq!(find_all(&store, &query([Matcher::Group(a)]), 10).await.len(), 2);
    let refused = store.split_group(a, &deed("ann"), at(104)).await;
    assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{refused:?}");
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn a_head_speaks_for_its_members(home: &dyn Home) {
    let store = home.open().await;
    let [a, b, _] = three(&store).await;
    store.add_note(a, "seen before", &deed("ann"), at(90)).await.unwrap();
    store.write_runbook(a, "# How", 0, &deed("ann"), at(91)).await.unwrap();
    let link = NewLink { title: "T".into(), url: "https://x/".into() };
    store.add_link(b, &link, &deed("ann"), at(92)).await.unwrap();
    store.merge_groups(b, &[a], &deed("ann"), at(100)).await.unwrap();
    assert_eq!(store.notes(b).await.unwrap()[0].group, a);
    assert_eq!(store.links(a).await.unwrap().len(), 1);
    assert_eq!(store.runbook(b).await.unwrap().unwrap().text, "# How");
    store.add_note(a, "after", &deed("ann"), at(101)).await.unwrap();
    assert_eq!(store.notes(b).await.unwrap().len(), 2);
    // A change of a member is a change of the head; a letter of a member brings the head back.
    store
        .change_groups(&[a], &Change::Own { team: Some("tax".into()) }, &deed("ann"), at(102))
        .await
        .unwrap();
    assert_eq!(find_all(&store, &query([Matcher::Owner(Some("tax".into()))]), 10).await.len(), 5);
    store.assign_owners(&|_| Some("rules".into())).await.unwrap();
    assert_eq!(find_all(&store, &query([Matcher::Owner(Some("tax".into()))]), 10).await.len(), 5);
    store.change_groups(&[b], &Change::Resolve { in_version: None }, &deed("ann"), at(103)).await.unwrap();
    store.insert(batch(vec![of_class(103, "A")]), at(104)).await.unwrap();
    assert_eq!(store.group(b).await.unwrap().life.status, GroupStatus::Regressed);
}

/// Whoever filters by a name that only a member has looks for the head that speaks for it.
pub(crate) async fn a_family_is_listed_by_what_names_any_of_it(home: &dyn Home) {
    let store = home.open().await;
    let [a, b, _] = three(&store).await;
    let mail = letter(70, |l| (l.source, l.consumer) = ("mail".into(), Some("mailer".into())));
    let of_mail = id_of(&mail);
    insert(&store, vec![mail]).await;
    store.merge_groups(b, &[a, of_mail], &deed("ann"), at(100)).await.unwrap();
    let all = GroupFilter::default();
    for (filter, expected) in [
        (GroupFilter { source: Some("mail".into()), ..all.clone() }, vec![b]),
        (GroupFilter { error_class: Some("A".into()), ..all.clone() }, vec![b]),
        (GroupFilter { consumer: Some("mailer".into()), ..all.clone() }, vec![b]),
        (GroupFilter { text: Some("mailer tax".into()), ..all.clone() }, vec![b]),
        // All of it is said of one group.
        (GroupFilter { source: Some("mail".into()), error_class: Some("A".into()), ..all.clone() }, vec![]),
        (GroupFilter { source: Some("stock".into()), ..all.clone() }, vec![]),
    ] {
        let found = store.groups(&filter, &Page::first(10)).await.unwrap().groups;
        assert_eq!(found.iter().map(|group| group.id).collect::<Vec<_>>(), expected, "{filter:?}");
    }
    let changed = store.change_groups(&[a, b], &Change::Acknowledge, &deed("ann"), at(101)).await.unwrap();
    let whole = store.group(b).await.unwrap();
    assert!(changed.iter().all(|one| *one == Changed::Changed(Box::new(whole.clone()))), "{changed:?}");
    let tally = store.tally_groups(None).await.unwrap();
    assert_eq!((tally.total(), tally.get(GroupStatus::Acknowledged), tally.unowned), (2, 1, 2));
}

pub(crate) async fn a_member_that_was_snoozed_sleeps_with_its_head(home: &dyn Home) {
    let store = home.open().await;
    let [a, b, _] = three(&store).await;
    let snooze = Change::Snooze { until: Some(at(60_000)), letters: None };
    store.change_groups(&[a], &snooze, &deed("ann"), at(50)).await.unwrap();
    store.merge_groups(b, &[a], &deed("ann"), at(100)).await.unwrap();
    assert_eq!(store.tend_groups(at(60_000)).await.unwrap(), 0);
    let woken = Event::Group(GroupDeed::Woken);
    assert!(store.group_history(b, 20).await.unwrap().iter().all(|entry| entry.what != woken));
}

pub(crate) async fn a_runbook_that_was_taken_away_is_not_replaced_by_that_of_a_member(home: &dyn Home) {
    let store = home.open().await;
    let [a, b, _] = three(&store).await;
    store.write_runbook(a, "of a", 0, &deed("ann"), at(1)).await.unwrap();
    store.merge_groups(b, &[a], &deed("ann"), at(100)).await.unwrap();
    let shown = store.runbook(b).await.unwrap().unwrap();
    assert_eq!((shown.group, shown.text.as_str()), (a, "of a"));
    let own = store.write_runbook(b, "of b", shown.version, &deed("ann"), at(101)).await.unwrap();
    store.write_runbook(b, "", own.version, &deed("ann"), at(102)).await.unwrap();
    assert_eq!(store.runbook(b).await.unwrap(), None);
    let anew = store.write_runbook(b, "anew", 0, &deed("ann"), at(103)).await.unwrap();
    assert!(anew.version > own.version);
}

pub(crate) async fn an_overflow_group_is_merged_with_none(home: &dyn Home) {
    let limits = StoreLimits { groups_per_source: 1, ..StoreLimits::default() };
    let store = home.open_with(limits).await.unwrap();
    let ids = insert(&store, vec![of_class(1, "A"), of_class(2, "B")]).await;
    let overflow = store.letter(ids[1]).await.unwrap().letter.group_id;
    let a = id_of(&of_class(1, "A"));
    for (head, member) in [(a, overflow), (overflow, a)] {
        let refused = store.merge_groups(head, &[member], &deed("ann"), NOW).await;
        assert!(matches!(refused, Err(StoreError::Unsupported(_))), "{refused:?}");
    }
    let nowhere = store.merge_groups(a, &[id_of(&of_class(9, "Z"))], &deed("ann"), NOW).await;
    assert!(matches!(nowhere, Err(StoreError::NoGroup(_))), "{nowhere:?}");
}

pub(crate) async fn groups_that_are_alike_are_named(home: &dyn Home) {
    let store = home.open().await;
    let near = letter(2, |l| l.error_message = "pin code not in tax table".into());
    let far = letter(3, |l| {
        l.error_class = Some("Timeout".into());
        l.error_message = "no answer from stock".into();
        l.consumer = Some("mail".into());
    });
    let (asked, like) = (id_of(&letter(1, |_| {})), id_of(&near));
    insert(&store, vec![letter(1, |_| {}), near, far]).await;
    let similar = store.similar_groups(asked).await.unwrap();
    assert_eq!(similar.iter().map(|(group, _)| group.id).collect::<Vec<_>>(), [like]);
    assert_eq!(similar[0].0, store.group(like).await.unwrap());
}

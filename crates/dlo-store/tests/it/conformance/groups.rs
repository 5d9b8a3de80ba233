//! Groups: one cause, one group; bounded, listed, filtered, owned.

use std::collections::HashSet;

use dlo_core::group::GroupStatus;
use dlo_core::id::GroupId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::query::{Matcher, Named, Query, Term};
use dlo_store::{GroupFilter, Page, StoreError, StoreLimits};

use super::Home;
use crate::letters::{NOW, at, batch, deed, find_all, insert, insert_one, letter, query};

fn of_class(n: i64, class: &str) -> NewLetter {
    letter(n, |l| l.error_class = Some(class.into()))
}

pub(crate) async fn letters_with_one_cause_form_one_group(home: &dyn Home) {
    let store = home.open().await;
    for n in [20, 10, 30] {
        store.insert(batch(vec![letter(n, |l| l.owner = Some("tax-team".into()))]), at(n)).await.unwrap();
    }
    let page = store.groups(&GroupFilter::default(), &Page::first(10)).await.unwrap();
    let [group] = &page.groups[..] else { panic!("{page:?}") };
    let sent = letter(1, |_| {});
    assert_eq!((group.id, group.fingerprint_version), (sent.fingerprint.group, sent.fingerprint.version));
    assert_eq!((&group.source, &group.queue), (&sent.source, &sent.origin.queue));
    assert_eq!(
        (&group.consumer, &group.event_type, &group.error_class),
        (&sent.consumer, &sent.event_type, &sent.error_class)
    );
    assert_eq!((&group.template, group.overflow), (&sent.fingerprint.template, false));
    assert_eq!((group.life.status, group.owner.as_deref()), (GroupStatus::New, Some("tax-team")));
    assert_eq!((group.first_seen, group.last_seen), (at(10), at(30)));
    assert_eq!((group.counts.get(Status::Open), group.counts.total()), (3, 3));
    assert_eq!(store.group(group.id).await.unwrap(), *group);
}

pub(crate) async fn a_group_is_told_apart_by_each_of_its_words(home: &dyn Home) {
    let store = home.open().await;
    let letters = vec![
        letter(1, |_| {}),
        letter(2, |l| l.source = "mail".into()),
        letter(3, |l| l.origin.queue = "returns".into()),
        letter(4, |l| l.consumer = None),
        letter(5, |l| l.event_type = Some("OrderPaid".into())),
        letter(6, |l| l.error_class = None),
        letter(7, |l| l.error_message = "quite another text".into()),
        letter(8, |_| {}),
    ];
    insert(&store, letters).await;
    assert_eq!(store.stats().await.unwrap().groups, 7);
}

fn capped(groups_per_source: usize) -> StoreLimits {
    StoreLimits { groups_per_source, ..StoreLimits::default() }
}

pub(crate) async fn past_the_cap_new_causes_go_to_one_group_that_says_so(home: &dyn Home) {
    let store = home.open_with(capped(3)).await.unwrap();
    insert(&store, (0..5).map(|n| of_class(n, &format!("C{n}"))).collect()).await;
    insert(&store, (5..9).map(|n| of_class(n, &format!("C{n}"))).collect()).await;
    // What is known stays where it is; another source has a cap of its own.
    insert(&store, vec![of_class(20, "C0"), letter(21, |l| l.source = "mail".into())]).await;
    let page = store.groups(&GroupFilter::default(), &Page::first(50)).await.unwrap();
    let mut shown: Vec<_> =
        page.groups.iter().map(|g| (g.source.as_str(), g.overflow, g.counts.total())).collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            ("mail", false, 1),
            ("orders", false, 1),
            ("orders", false, 1),
            ("orders", false, 2),
            ("orders", true, 6)
        ]
    );
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn letters_past_the_cap_keep_their_own_words(home: &dyn Home) {
    let store = home.open_with(capped(1)).await.unwrap();
    let odd = letter(2, |l| {
        l.origin.queue = "returns".into();
        l.consumer = None;
        l.event_type = Some("OrderReturned".into());
        l.error_class = Some("Odd".into());
    });
    let other = of_class(3, "Other");
    let ids = insert(&store, vec![letter(1, |_| {}), odd, other]).await;
    let found = store.letter(ids[1]).await.unwrap();
    assert_eq!((found.letter.origin.queue.as_str(), &found.letter.consumer), ("returns", &None));
    assert_eq!(found.letter.event_type.as_deref(), Some("OrderReturned"));
    assert_eq!(
        (&found.deaths[0].error_class, &found.deaths[0].origin),
        (&Some("Odd".into()), &found.letter.origin)
    );
    let group = store.group(found.letter.group_id).await.unwrap();
    assert!(group.overflow, "{group:?}");
    for (matcher, expected) in [
        (Matcher::Class("Odd".into()), vec![ids[1]]),
        (Matcher::Class("Other".into()), vec![ids[2]]),
        (Matcher::Class("TaxRuleMissing".into()), vec![ids[0]]),
        (Matcher::Queue("returns".into()), vec![ids[1]]),
        (Matcher::Type("OrderReturned".into()), vec![ids[1]]),
        (Matcher::Consumer("pricing".into()), vec![ids[2], ids[0]]),
        (Matcher::Group(group.id), vec![ids[2], ids[1]]),
    ] {
        let asked = query([matcher.clone()]);
        let got: Vec<_> = find_all(&store, &asked, 10).await.iter().map(|l| l.id).collect();
        assert_eq!(got, expected, "{matcher:?}");
        assert_eq!(store.count(&asked, 100).await.unwrap(), expected.len() as u64, "{matcher:?}");
        let others = Query { terms: vec![Term { negated: true, matcher: matcher.clone() }] };
        assert_eq!(store.count(&others, 100).await.unwrap(), 3 - expected.len() as u64, "not {matcher:?}");
        assert_eq!(find_all(&store, &others, 10).await.len(), 3 - expected.len(), "not {matcher:?}");
    }
}

pub(crate) async fn the_cap_holds_for_many_tasks_at_once(home: &dyn Home) {
    let store = home.open_with(capped(10)).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let store = store.clone();
            let letters = (0..20).map(|n| of_class(task * 100 + n, &format!("C{task}-{n}"))).collect();
            tokio::spawn(async move { insert(&store, letters).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let page = store.groups(&GroupFilter::default(), &Page::first(100)).await.unwrap();
    let (over, within): (Vec<_>, Vec<_>) = page.groups.iter().partition(|group| group.overflow);
    assert_eq!((over.len(), within.len()), (1, 10));
    assert_eq!(over[0].counts.total(), 150);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn groups_are_listed_last_seen_first_page_by_page(home: &dyn Home) {
    let store = home.open().await;
    let expected: Vec<String> = (0..25).rev().map(|n| format!("C{n}")).collect();
    for n in (0..25).rev().chain(0..25) {
        store.insert(batch(vec![of_class(n + 1, &format!("C{n}"))]), at(n + 1)).await.unwrap();
    }
    let mut page = Page::first(7);
    let mut seen = Vec::new();
    loop {
        let answer = store.groups(&GroupFilter::default(), &page).await.unwrap();
        assert!(answer.groups.len() <= 7);
        seen.extend(answer.groups.into_iter().filter_map(|group| group.error_class));
        match answer.next {
            Some(next) => page.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    page.cursor = Some(dlo_store::Cursor("not one of ours".into()));
    let refused = store.groups(&GroupFilter::default(), &page).await;
    assert!(matches!(refused, Err(StoreError::BadCursor)), "{refused:?}");
}

pub(crate) async fn groups_are_filtered_by_each_field(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(
        &store,
        vec![
            letter(1, |l| l.owner = Some("tax-team".into())),
            letter(2, |l| l.source = "mail".into()),
            letter(3, |l| l.event_type = Some("OrderPaid".into())),
            letter(4, |l| l.error_class = Some("Timeout".into())),
            letter(5, |l| l.consumer = Some("billing".into())),
        ],
    )
    .await;
    store.step(&ids[3..4], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let all = GroupFilter::default();
    for (filter, expected) in [
        (GroupFilter { source: Some("mail".into()), ..all.clone() }, vec![2]),
        (GroupFilter { event_type: Some("OrderPaid".into()), ..all.clone() }, vec![3]),
        (GroupFilter { error_class: Some("Timeout".into()), ..all.clone() }, vec![4]),
        (GroupFilter { consumer: Some("billing".into()), ..all.clone() }, vec![5]),
        (GroupFilter { owner: Some(Some("tax-team".into())), ..all.clone() }, vec![1]),
        (GroupFilter { owner: Some(None), ..all.clone() }, vec![5, 4, 3, 2]),
        (GroupFilter { holding: Some(Status::Discarded), ..all.clone() }, vec![4]),
        (GroupFilter { handled: true, ..all.clone() }, vec![4]),
        (GroupFilter { holding: Some(Status::Open), ..all.clone() }, vec![5, 3, 2, 1]),
        (
            GroupFilter { source: Some("mail".into()), consumer: Some("billing".into()), ..all.clone() },
            vec![],
        ),
        (GroupFilter { source: Some("nobody".into()), ..all.clone() }, vec![]),
    ] {
        let page = store.groups(&filter, &Page::first(10)).await.unwrap();
        let seen: Vec<i64> = page.groups.iter().map(|g| g.last_seen.as_millis() - NOW.as_millis()).collect();
        assert_eq!(seen, expected, "{filter:?}");
        assert_eq!(page.next, None, "{filter:?}");
    }
}

pub(crate) async fn a_group_that_is_not_here_is_said_to_be_missing(home: &dyn Home) {
    let store = home.open().await;
    let nowhere: GroupId = letter(1, |_| {}).fingerprint.group;
    let answer = store.group(nowhere).await;
    assert!(matches!(answer, Err(StoreError::NoGroup(id)) if id == nowhere), "{answer:?}");
}

pub(crate) async fn owners_are_assigned_anew(home: &dyn Home) {
    let store = home.open().await;
    let owned = |n: i64, class: &str| {
        letter(n, |l| {
            l.error_class = Some(class.into());
            l.owner = Some("before".into());
        })
    };
    insert(&store, vec![owned(1, "A"), owned(2, "B"), owned(3, "C")]).await;
    let changed = store
        .assign_owners(&|group| match group.error_class.as_deref() {
            Some("A") => Some("after".to_string()),
            Some("B") => Some("before".to_string()),
            _ => None,
        })
        .await
        .unwrap();
    assert_eq!(changed, 2);
    for (owner, class) in [(Some("after"), "A"), (Some("before"), "B"), (None, "C")] {
        let owner = owner.map(String::from);
        let found = find_all(&store, &query([Matcher::Owner(owner.clone())]), 10).await;
        assert_eq!(found.iter().map(|l| l.error_class.as_deref()).collect::<Vec<_>>(), [Some(class)]);
        assert_eq!(found[0].owner, owner);
    }
    let distinct: HashSet<_> = find_all(&store, &query([]), 10).await.into_iter().map(|l| l.owner).collect();
    assert_eq!(distinct.len(), 3);
    // A group keeps its owner when another letter arrives, whatever that one says.
    let id = insert_one(&store, owned(4, "A")).await;
    assert_eq!(store.letter(id).await.unwrap().letter.owner.as_deref(), Some("after"));
}

pub(crate) async fn names_are_offered_to_whoever_types_one(home: &dyn Home) {
    let store = home.open_with(capped(4)).await.unwrap();
    let letters = vec![
        of_class(1, "KeyError"),
        of_class(2, "MonKey"),
        of_class(3, "MonKey"),
        of_class(4, "keyhole"),
        of_class(5, "keyhole"),
        letter(6, |l| (l.source, l.owner) = ("Keys".into(), Some("payments".into()))),
    ];
    insert(&store, letters).await;
    // Past the cap: these words stand in letters alone.
    insert(&store, vec![of_class(7, "KeyA"), of_class(8, "KeyB"), of_class(9, "KeyC")]).await;
    let names = async |named: &[Named], typed: &str, most: usize| {
        let known = store.names(named, typed, None, most).await.unwrap();
        known.into_iter().map(|known| (known.name, known.open)).collect::<Vec<_>>()
    };
    let pairs = |pairs: &[(&str, u64)]| pairs.iter().map(|(n, c)| (n.to_string(), *c)).collect::<Vec<_>>();
    assert_eq!(
        names(&[Named::Class], "KEY", 3).await,
        pairs(&[("keyhole", 2), ("KeyA", 1), ("KeyError", 1)]),
        "the beginning counts first, then open letters, then the alphabet"
    );
    assert_eq!(names(&[Named::Class], "nkey", 9).await, pairs(&[("MonKey", 2)]));
    assert_eq!(
        names(&[Named::Source, Named::Owner], "", 9).await,
        pairs(&[("orders", 8), ("Keys", 1), ("payments", 1)])
    );
    assert_eq!(names(&[Named::Queue], "", 9).await.len(), 1);
    assert_eq!(names(&[Named::Class], "%", 9).await, []);
    // What is closed is still a name, behind those that are open.
    let found = find_all(&store, &query([Matcher::Class("keyhole".into())]), 10).await;
    let ids: Vec<_> = found.iter().map(|letter| letter.id).collect();
    store.step(&ids, Step::Discard, &deed("done"), NOW).await.unwrap();
    assert_eq!(names(&[Named::Class], "keyh", 9).await, pairs(&[("keyhole", 0)]));
}

//! Numbers: exact after every insert, duplicate and step, and found again when counted anew.

use dlo_core::group::StatusCounts;
use dlo_core::letter::{Status, Step};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::reason::Reason;
use dlo_store::{CauseCount, GroupFilter, Page, StoreError};

use super::Home;
use crate::letters::{NOW, at, batch, deed, insert, letter, problems, query};

pub(crate) async fn an_empty_office_has_nothing_and_says_so(home: &dyn Home) {
    let store = home.open().await;
    store.ping().await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!(
        (stats.letters, stats.groups, stats.unowned, stats.unindexed),
        (StatusCounts::default(), 0, 0, 0)
    );
    assert_eq!(stats.sources, []);
    let page = store.letters(&Query::default(), &Page::first(10)).await.unwrap();
    assert_eq!((page.letters, page.next), (vec![], None));
    let page = store.groups(&GroupFilter::default(), &Page::first(10)).await.unwrap();
    assert_eq!((page.groups, page.next), (vec![], None));
    assert_eq!(store.count(&Query::default(), 10).await.unwrap(), 0);
    assert_eq!(store.causes(None).await.unwrap(), []);
    assert_eq!(store.index_payloads().await.unwrap(), 0);
    let verification = store.verify().await.unwrap();
    assert_eq!((verification.letters, verification.problems), (0, vec![]));
    let nowhere = dlo_core::id::LetterId::new(NOW, [1; 10]);
    assert!(matches!(store.letter(nowhere).await, Err(StoreError::NoLetter(id)) if id == nowhere));
    assert!(matches!(store.timeline(nowhere).await, Err(StoreError::NoLetter(_))));
    assert!(matches!(store.payload(nowhere, None).await, Err(StoreError::NoLetter(_))));
}

pub(crate) async fn counts_follow_inserts_duplicates_and_steps(home: &dyn Home) {
    let store = home.open().await;
    let letters = || (0..10).map(|n| letter(n, |_| {})).collect::<Vec<_>>();
    let ids = insert(&store, letters()).await;
    insert(&store, letters()).await;
    store.step(&ids[..4], Step::Claim, &deed("ann"), NOW).await.unwrap();
    store.step(&ids[..2], Step::Send, &deed("ann"), NOW).await.unwrap();
    store.step(&ids[8..], Step::Discard, &deed("ann"), NOW).await.unwrap();
    // Illegal: changes nothing.
    store.step(&ids[8..], Step::Claim, &deed("ann"), NOW).await.unwrap();
    let mut expected = StatusCounts::default();
    for (status, count) in
        [(Status::Sent, 2), (Status::Claimed, 2), (Status::Open, 4), (Status::Discarded, 2)]
    {
        expected.set(status, count);
    }
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters, stats.sources[0].counts), (expected, expected));
    let group = store.group(letter(0, |_| {}).fingerprint.group).await.unwrap();
    assert_eq!(group.counts, expected);
    for status in Status::ALL {
        let counted = store.count(&query([Matcher::Status(*status)]), 100).await.unwrap();
        assert_eq!(counted, expected.get(*status), "{status}");
    }
    assert_eq!(problems(&store).await, Vec::<String>::new());
}

pub(crate) async fn stats_speak_for_each_source(home: &dyn Home) {
    let store = home.open().await;
    let mail = |n: i64| letter(n, |l| l.source = "mail".into());
    store.insert(batch(vec![letter(5, |_| {}), mail(3)]), at(100)).await.unwrap();
    store.insert(batch(vec![mail(4), mail(4)]), at(200)).await.unwrap();
    let stats = store.stats().await.unwrap();
    let mut sources: Vec<_> = stats
        .sources
        .iter()
        .map(|s| {
            (
                s.source.as_str(),
                s.captured,
                s.deaths,
                s.counts.total(),
                s.groups,
                s.oldest_open,
                s.last_captured,
            )
        })
        .collect();
    sources.sort();
    assert_eq!(
        sources,
        [
            ("mail", 2, 2, 2, 1, Some(at(3)), Some(at(200))),
            ("orders", 1, 1, 1, 1, Some(at(5)), Some(at(100))),
        ]
    );
    assert_eq!((stats.letters.total(), stats.groups), (3, 2));
}

pub(crate) async fn the_oldest_open_letter_is_known_after_steps(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, [3, 1, 2].map(|n| letter(n, |_| {})).to_vec()).await;
    let oldest = async || store.stats().await.unwrap().sources[0].oldest_open;
    assert_eq!(oldest().await, Some(at(1)));
    store.step(&ids[1..2], Step::Discard, &deed("ann"), NOW).await.unwrap();
    assert_eq!(oldest().await, Some(at(2)));
    store.step(&ids, Step::Archive, &deed("ann"), NOW).await.unwrap();
    assert_eq!(oldest().await, None);
    store.step(&ids[..1], Step::Restore, &deed("ann"), NOW).await.unwrap();
    assert_eq!(oldest().await, Some(at(3)));
}

pub(crate) async fn unowned_letters_are_counted_while_open(home: &dyn Home) {
    let store = home.open().await;
    let owned = |n: i64| {
        letter(n, |l| {
            l.owner = Some("tax-team".into());
            l.error_class = Some("Owned".into());
        })
    };
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {}), owned(3)]).await;
    assert_eq!(store.stats().await.unwrap().unowned, 2);
    store.step(&ids[..1], Step::Discard, &deed("ann"), NOW).await.unwrap();
    assert_eq!(store.stats().await.unwrap().unowned, 1);
    store.assign_owners(&|_| None).await.unwrap();
    assert_eq!(store.stats().await.unwrap().unowned, 2);
}

pub(crate) async fn causes_are_counted_by_type_class_and_status(home: &dyn Home) {
    let store = home.open().await;
    let caused = |n: i64, source: &str, class: Option<&str>, message: &str| {
        letter(n, |l| {
            l.source = source.into();
            l.error_class = class.map(String::from);
            l.error_message = message.into();
        })
    };
    let ids = insert(
        &store,
        vec![
            caused(1, "orders", Some("A"), "one text"),
            caused(2, "orders", Some("A"), "another text"),
            caused(3, "orders", None, "one text"),
            caused(4, "mail", Some("A"), "one text"),
        ],
    )
    .await;
    store.step(&ids[..1], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let sorted = |mut causes: Vec<CauseCount>| {
        causes.sort_by(|a, b| a.error_class.cmp(&b.error_class));
        causes
            .into_iter()
            .map(|c| {
                assert_eq!(c.event_type.as_deref(), Some("OrderPlaced"));
                (c.error_class, c.counts.get(Status::Open), c.counts.get(Status::Discarded))
            })
            .collect::<Vec<_>>()
    };
    let a = || Some("A".to_string());
    assert_eq!(sorted(store.causes(None).await.unwrap()), [(None, 1, 0), (a(), 2, 1)]);
    assert_eq!(sorted(store.causes(Some("orders")).await.unwrap()), [(None, 1, 0), (a(), 1, 1)]);
    assert_eq!(sorted(store.causes(Some("mail")).await.unwrap()), [(a(), 1, 0)]);
    assert_eq!(store.causes(Some("nobody")).await.unwrap(), []);
}

pub(crate) async fn matches_are_counted_up_to_a_bound(home: &dyn Home) {
    let store = home.open().await;
    let timed_out = |n: i64| {
        letter(n, |l| {
            if n % 3 == 0 {
                l.reason = Reason::Timeout;
            }
            l.error_class = Some(format!("C{}", n % 5));
        })
    };
    insert(&store, (0..60).map(timed_out).collect()).await;
    for (asked, exact) in [
        (Query::default(), 60),
        (query([Matcher::Reason(Reason::Timeout)]), 20),
        (query([Matcher::Class("C1".into())]), 12),
        (query([Matcher::Class("C1".into()), Matcher::Reason(Reason::Timeout)]), 4),
        (query([Matcher::Text("tax table".into())]), 60),
        (Query { terms: vec![Term { negated: true, matcher: Matcher::Source("orders".into()) }] }, 0),
    ] {
        for at_most in [0, 1, 3, 10, 1_000] {
            let counted = store.count(&asked, at_most).await.unwrap();
            assert_eq!(counted, exact.min(at_most), "{asked:?} up to {at_most}");
            let seen = store.glimpse(&asked, at_most).await.unwrap();
            assert_eq!(seen.letters, counted, "{asked:?} up to {at_most} at a glimpse");
            assert!(seen.whole || at_most <= exact, "{asked:?} up to {at_most} is all there is");
            assert!(!seen.whole || seen.letters == exact, "{asked:?} up to {at_most} is not all");
        }
    }
}

pub(crate) async fn verification_counts_what_is_there(home: &dyn Home) {
    let store = home.open().await;
    let mail = letter(9, |l| l.source = "mail".into());
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {}), mail]).await;
    store.step(&ids[..1], Step::Archive, &deed("ann"), NOW).await.unwrap();
    let verification = store.verify().await.unwrap();
    assert_eq!((verification.letters, &verification.problems), (3, &vec![]));
    let mut sources: Vec<_> = verification
        .sources
        .iter()
        .map(|s| {
            (s.source.as_str(), s.captured, s.counted.get(Status::Open), s.counted.get(Status::Archived))
        })
        .collect();
    sources.sort();
    assert_eq!(sources, [("mail", 1, 1, 0), ("orders", 2, 1, 1)]);
}

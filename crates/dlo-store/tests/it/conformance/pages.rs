//! Pages: newest failure first, each letter once, none skipped, bounded.

use std::collections::HashSet;

use dlo_core::query::{Matcher, Query};
use dlo_store::{Cursor, Page, StoreError};

use super::Home;
use crate::letters::{at, find_all, insert, letter, query};

pub(crate) async fn letters_come_newest_failure_first(home: &dyn Home) {
    let store = home.open().await;
    let order = [5, 1, 9, 3, 7, 2, 8];
    insert(&store, order.map(|n| letter(n, |l| l.error_class = Some(format!("C{}", n % 3)))).to_vec()).await;
    for asked in [
        Query::default(),
        query([Matcher::Source("orders".into())]),
        query([Matcher::Text("tax".into())]),
        query([Matcher::Key("C-441".into())]),
    ] {
        let seen: Vec<_> = find_all(&store, &asked, 2).await.iter().map(|l| l.origin.offset).collect();
        assert_eq!(seen, [9, 8, 7, 5, 3, 2, 1].map(Some), "{asked:?}");
    }
}

/// While one reader pages through, others insert newer and older letters: those that were there are each shown once.
pub(crate) async fn every_letter_is_shown_once_while_others_arrive(home: &dyn Home) {
    let store = home.open().await;
    let there: HashSet<_> =
        insert(&store, (0..100).map(|n| letter(n, |_| {})).collect()).await.into_iter().collect();
    for asked in [
        Query::default(),
        query([Matcher::Class("TaxRuleMissing".into())]),
        query([Matcher::Text("pin".into())]),
    ] {
        let mut seen = Vec::new();
        let mut page = Page::first(7);
        loop {
            let answer = store.letters(&asked, &page).await.unwrap();
            seen.extend(answer.letters.iter().map(|l| l.id));
            let n = 1_000 + (seen.len() * 2) as i64;
            insert(&store, vec![letter(n, |_| {}), letter(n + 1, |l| l.failed_at = at(50))]).await;
            match answer.next {
                Some(next) => page.cursor = Some(next),
                None => break,
            }
        }
        let distinct: HashSet<_> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "a letter was shown twice");
        assert_eq!(there.difference(&distinct).count(), 0, "a letter was skipped");
    }
}

pub(crate) async fn letters_of_one_millisecond_are_all_shown(home: &dyn Home) {
    let store = home.open().await;
    for batch in 0..4 {
        let letters = (0..150).map(|n| letter(batch * 150 + n, |l| l.failed_at = at(0))).collect();
        insert(&store, letters).await;
    }
    let seen: HashSet<_> = find_all(&store, &Query::default(), 11).await.iter().map(|l| l.id).collect();
    assert_eq!(seen.len(), 600);
}

pub(crate) async fn a_page_holds_as_many_as_asked(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, (0..10).map(|n| letter(n, |_| {})).collect()).await;
    for (limit, held, more) in
        [(1, 1, true), (9, 9, true), (10, 10, false), (11, 10, false), (Page::MOST, 10, false)]
    {
        let page = store.letters(&Query::default(), &Page::first(limit)).await.unwrap();
        assert_eq!(page.letters.len(), held, "limit {limit}");
        // A page that is just full may point to an empty one, never the other way round.
        assert!(page.next.is_some() || !more, "limit {limit}");
    }
}

/// The work for a page is bounded, but who looks for one letter behind many others sees it on the first page.
pub(crate) async fn a_page_goes_on_until_something_stands_on_it(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(0, |l| (l.attempts, l.failed_at) = (9, at(0)))]).await;
    // More than are looked at in one go, all newer.
    for batch in 0..11 {
        let letters = (0..2_000).map(|n| letter(1 + batch * 2_000 + n, |l| l.failed_at = at(1)));
        insert(&store, letters.collect()).await;
    }
    let query = Query::parse("attempts:9", at(2)).unwrap();
    let page = store.letters(&query, &Page::first(5)).await.unwrap();
    assert_eq!(page.letters.iter().map(|letter| letter.attempts).collect::<Vec<_>>(), [9]);
}

pub(crate) async fn a_foreign_cursor_is_refused(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, vec![letter(1, |_| {})]).await;
    for text in ["", "not hex", "-1", "'; DROP TABLE letters"] {
        let page = Page { limit: 10, cursor: Some(Cursor(text.into())) };
        let refused = store.letters(&Query::default(), &page).await;
        assert!(matches!(refused, Err(StoreError::BadCursor)), "{text}: {refused:?}");
    }
}

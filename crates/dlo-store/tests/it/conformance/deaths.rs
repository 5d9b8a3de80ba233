//! Dying again: a replayed letter that comes back is the same letter with one more chapter.

use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::message::Payload;
use dlo_core::query::{Matcher, Query};
use dlo_core::reason::Reason;
use dlo_store::{DynStore, Event, Inserted};

use super::Home;
use crate::letters::{NOW, at, batch, deed, find_all, full_letter, insert, insert_one, letter, query};

/// The letter `of` back from its replay, `n` milliseconds after [`NOW`].
fn comeback(n: i64, of: LetterId, change: impl FnOnce(&mut NewLetter)) -> NewLetter {
    letter(n, |l| {
        l.replay_of = Some(of);
        l.replay_id = Some(format!("r-{n}"));
        change(l);
    })
}

async fn send(store: &DynStore, id: LetterId) {
    store.step(&[id], Step::Claim, &deed("ann"), NOW).await.unwrap();
    store.step(&[id], Step::Send, &deed("ann"), NOW).await.unwrap();
}

pub(crate) async fn a_letter_that_dies_again_gets_one_more_death_and_is_open(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    send(&store, id).await;
    let back = comeback(500, id, |l| {
        l.reason = Reason::Timeout;
        l.error_stack = Some("second stack".into());
        l.attempts = 4;
    });
    let answers = store.insert(batch(vec![back]), at(600)).await.unwrap();
    assert_eq!(answers, [Inserted::DiedAgain(id)]);
    let detail = store.letter(id).await.unwrap();
    assert_eq!((detail.letter.status, detail.letter.deaths), (Status::Open, 2));
    assert_eq!((detail.letter.reason, detail.letter.attempts), (Reason::Timeout, 4));
    assert_eq!((detail.letter.failed_at, detail.letter.captured_at), (at(500), NOW));
    assert_eq!(detail.error_stack.as_deref(), Some("second stack"));
    let chapters: Vec<_> =
        detail.deaths.iter().map(|d| (d.number, d.at, d.origin.offset, d.reason)).collect();
    assert_eq!(
        chapters,
        [(1, at(1), Some(1), Reason::ProcessingError), (2, at(500), Some(500), Reason::Timeout)]
    );
    assert_eq!(detail.deaths[1].replay_id.as_deref(), Some("r-500"));
    assert_eq!((detail.deaths[0].captured_at, detail.deaths[1].captured_at), (NOW, at(600)));
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.letters.total(), stats.letters.get(Status::Open)), (1, 1));
    assert_eq!((stats.sources[0].captured, stats.sources[0].deaths), (1, 2));
    let timeline = store.timeline(id).await.unwrap();
    assert_eq!(timeline.last().map(|entry| entry.what), Some(Event::DiedAgain));
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn a_letter_that_comes_back_through_another_source_is_counted_there(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    store.insert(batch(vec![comeback(500, ids[0], |l| l.source = "refunds".into())]), at(600)).await.unwrap();
    let numbers = |stats: dlo_store::Stats| -> Vec<_> {
        let number =
            |s: dlo_store::SourceStats| (s.source, s.captured, s.deaths, s.counts.total(), s.last_captured);
        stats.sources.into_iter().map(number).collect()
    };
    let expected =
        [("orders".to_string(), 1, 2, 1, Some(NOW)), ("refunds".to_string(), 1, 1, 1, Some(at(600)))];
    assert_eq!(numbers(store.stats().await.unwrap()), expected);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
    drop(store);
    assert_eq!(numbers(home.open().await.stats().await.unwrap()), expected);
}

pub(crate) async fn a_letter_that_dies_again_keeps_what_it_was(home: &dyn Home) {
    let store = home.open().await;
    let original = full_letter(1);
    let id = insert_one(&store, original.clone()).await;
    send(&store, id).await;
    let back = comeback(500, id, |l| {
        l.message.payload = Payload::from("repaired");
        l.message.headers.push_text("x-replayed-from-dlq", "true");
    });
    insert_one(&store, back).await;
    let detail = store.letter(id).await.unwrap();
    assert_eq!(detail.headers, original.message.headers);
    assert_eq!(detail.letter.key.as_deref(), original.message.key.as_ref().map(|key| &key.0[..]));
    assert_eq!(detail.letter.payload_size, original.message.payload.0.len() as u64);
    assert_eq!(store.payload(id, None).await.unwrap().bytes, original.message.payload.0);
    assert_eq!(detail.letter.origin, original.origin);
    let first = &detail.deaths[0];
    assert_eq!((&first.error_stack, &first.history), (&original.error_stack, &original.history));
    assert_eq!(first.origin, original.origin);
    assert_eq!((first.attempts, &first.error_code), (5, &original.error_code));
}

/// What somebody closed stays closed: the death is on record, and the decision stands.
pub(crate) async fn a_closed_letter_that_dies_again_stays_closed(home: &dyn Home) {
    let store = home.open().await;
    for (n, close) in [(1, Step::Discard), (2, Step::Compensate), (3, Step::Archive)] {
        let id = insert_one(&store, letter(n, |_| {})).await;
        store.step(&[id], close, &deed("ann"), NOW).await.unwrap();
        let answers = store.insert(batch(vec![comeback(500 + n, id, |_| {})]), NOW).await.unwrap();
        assert_eq!(answers, [Inserted::DiedAgain(id)]);
        let detail = store.letter(id).await.unwrap();
        assert_eq!((Ok(detail.letter.status), detail.deaths.len()), (close.apply(Status::Open), 2));
    }
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn the_same_second_death_twice_is_one_death(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    send(&store, id).await;
    insert_one(&store, comeback(500, id, |_| {})).await;
    let answers = store.insert(batch(vec![comeback(500, id, |_| {})]), NOW).await.unwrap();
    assert_eq!(answers, [Inserted::Duplicate(id)]);
    assert_eq!(store.letter(id).await.unwrap().deaths.len(), 2);
}

pub(crate) async fn two_more_deaths_in_one_batch_are_two(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    send(&store, id).await;
    let backs = vec![comeback(500, id, |_| {}), letter(9, |_| {}), comeback(700, id, |_| {})];
    let answers = store.insert(batch(backs), NOW).await.unwrap();
    assert_eq!((answers[0], answers[2]), (Inserted::DiedAgain(id), Inserted::DiedAgain(id)));
    let detail = store.letter(id).await.unwrap();
    assert_eq!(detail.deaths.iter().map(|d| d.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((detail.letter.failed_at, detail.letter.deaths), (at(700), 3));
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn a_letter_that_is_not_here_is_stored_as_a_new_one(home: &dyn Home) {
    let store = home.open().await;
    let elsewhere = LetterId::new(NOW, [7; 10]);
    let answers = store.insert(batch(vec![comeback(5, elsewhere, |_| {})]), NOW).await.unwrap();
    let [Inserted::Stored(id)] = answers[..] else { panic!("{answers:?}") };
    assert_ne!(id, elsewhere);
    let detail = store.letter(id).await.unwrap();
    assert_eq!((detail.letter.deaths, detail.deaths.len()), (1, 1));
    assert_eq!(detail.deaths[0].replay_id.as_deref(), Some("r-5"));
}

pub(crate) async fn counts_follow_a_letter_that_dies_again_of_another_cause(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    send(&store, ids[0]).await;
    let former = store.letter(ids[0]).await.unwrap().letter.group_id;
    insert_one(&store, comeback(500, ids[0], |l| l.error_class = Some("Timeout".into()))).await;
    let moved = store.letter(ids[0]).await.unwrap().letter;
    assert_eq!(moved.error_class.as_deref(), Some("Timeout"));
    assert_ne!(moved.group_id, former);
    let totals = [former, moved.group_id].map(async |id| store.group(id).await.unwrap().counts.total());
    assert_eq!(futures_all(totals).await, [1, 1]);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

async fn futures_all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut values = Vec::new();
    for future in futures {
        values.push(future.await);
    }
    values
}

pub(crate) async fn a_letter_that_died_again_is_found_by_its_latest_words_only(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |l| l.error_message = "quince missing".into())).await;
    for indexed in [false, true] {
        if indexed {
            assert_eq!(store.index_payloads().await.unwrap(), 0);
        }
        send(&store, id).await;
        let words = if indexed { "cherry" } else { "walnut" };
        let n = if indexed { 700 } else { 500 };
        insert_one(&store, comeback(n, id, |l| l.error_message = format!("{words} missing"))).await;
        let found = async |text: &str| {
            find_all(&store, &query([Matcher::Text(text.into())]), 10)
                .await
                .iter()
                .map(|l| l.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(words).await, [id], "{words}");
        assert_eq!(found("quince").await, []);
        for matcher in [Matcher::Key("C-441".into()), Matcher::Version("2".into())] {
            assert_eq!(find_all(&store, &query([matcher.clone()]), 10).await.len(), 1, "{matcher:?}");
        }
        // The payload is still the first one, indexed or not.
        assert_eq!(found("O-1").await, [id], "{words}");
    }
}

pub(crate) async fn a_letter_that_dies_again_is_listed_at_its_latest_failure(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(&store, vec![letter(1, |_| {}), letter(2, |_| {})]).await;
    send(&store, ids[0]).await;
    insert_one(&store, comeback(500, ids[0], |_| {})).await;
    let order: Vec<_> = find_all(&store, &Query::default(), 1).await.iter().map(|l| l.id).collect();
    assert_eq!(order, [ids[0], ids[1]]);
}

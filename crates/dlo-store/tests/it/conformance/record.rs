//! The record: timelines, the audit log, and that a restart forgets nothing.

use dlo_core::letter::{Status, Step};
use dlo_core::query::{Matcher, Query};
use dlo_core::replay::{ItemState, send_id};
use dlo_store::replays::{Run, SendEnd};
use dlo_store::{AuditEntry, Batch, Checkpoint, Deed, DynStore, Event, GroupFilter, Page, StoreError};

use super::Home;
use crate::letters::{NOW, at, batch, deed, find_all, full_letter, insert, insert_one, letter, query};
use crate::replaying::{conserved, intend, running};

async fn audit(store: &DynStore) -> Vec<AuditEntry> {
    store.audit(&Page::first(500)).await.unwrap().entries
}

pub(crate) async fn a_timeline_begins_with_the_capture_and_is_oldest_first(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    let other = insert_one(&store, letter(2, |_| {})).await;
    store.step(&[id], Step::Claim, &deed("ann"), at(10)).await.unwrap();
    store.step(&[id, other], Step::Release, &deed("ben"), at(20)).await.unwrap();
    store.step(&[id], Step::Discard, &deed("ann"), at(30)).await.unwrap();
    let timeline = store.timeline(id).await.unwrap();
    let told: Vec<_> = timeline.iter().map(|entry| (entry.what, entry.at)).collect();
    assert_eq!(
        told,
        [
            (Event::Captured, NOW),
            (Event::Step(Step::Claim), at(10)),
            (Event::Step(Step::Release), at(20)),
            (Event::Step(Step::Discard), at(30)),
        ]
    );
    assert!(timeline.iter().all(|entry| !entry.author.is_empty()), "{timeline:?}");
    // What was illegal did not happen.
    assert_eq!(store.timeline(other).await.unwrap().len(), 1);
}

pub(crate) async fn a_step_is_in_timeline_and_audit_with_its_deed(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    let deed = Deed {
        author: "ann".into(),
        reason: Some("refunded\0by hand".into()),
        reference: Some("REF-1".into()),
    };
    store.step(&[id], Step::Compensate, &deed, at(5)).await.unwrap();
    let entry = store.timeline(id).await.unwrap().pop().unwrap();
    assert_eq!((entry.what, entry.author.as_str()), (Event::Step(Step::Compensate), "ann"));
    assert_eq!((&entry.reason, &entry.reference), (&deed.reason, &deed.reference));
    let row = &audit(&store).await[0];
    assert_eq!(
        (row.what, row.at, row.letter, row.count),
        (Event::Step(Step::Compensate), at(5), Some(id), 1)
    );
    assert_eq!((&row.author, &row.reason, &row.reference), (&deed.author, &deed.reason, &deed.reference));
}

pub(crate) async fn a_captured_batch_is_one_audit_row_per_source(home: &dyn Home) {
    let store = home.open().await;
    let mail = |n: i64| letter(n, |l| l.source = "mail".into());
    insert(&store, vec![letter(1, |_| {}), letter(2, |_| {}), mail(3), mail(3)]).await;
    // Only duplicates: nothing was captured, nothing is written.
    insert(&store, vec![letter(1, |_| {})]).await;
    let mut rows: Vec<_> = audit(&store)
        .await
        .into_iter()
        .map(|row| (row.source.unwrap_or_default(), row.what == Event::Captured, row.count, row.at))
        .collect();
    rows.sort();
    assert_eq!(rows, [("mail".to_string(), true, 1, NOW), ("orders".to_string(), true, 2, NOW)]);
}

pub(crate) async fn a_reading_of_a_payload_is_audited_if_a_reader_is_named(home: &dyn Home) {
    let store = home.open().await;
    let id = insert_one(&store, letter(1, |_| {})).await;
    let before = audit(&store).await.len();
    store.payload(id, None).await.unwrap();
    assert_eq!(audit(&store).await.len(), before);
    store.payload(id, Some((&deed("eve"), at(9)))).await.unwrap();
    let rows = audit(&store).await;
    assert_eq!(rows.len(), before + 1);
    assert_eq!((rows[0].what, rows[0].author.as_str()), (Event::PayloadRead, "eve"));
    assert_eq!((rows[0].letter, rows[0].at), (Some(id), at(9)));
}

pub(crate) async fn a_reading_of_nothing_is_not_audited(home: &dyn Home) {
    let store = home.open().await;
    let nowhere = dlo_core::id::LetterId::new(NOW, [3; 10]);
    let answer = store.payload(nowhere, Some((&deed("eve"), NOW))).await;
    assert!(matches!(answer, Err(StoreError::NoLetter(_))), "{answer:?}");
    assert_eq!(audit(&store).await, []);
}

pub(crate) async fn notes_are_in_the_audit_log(home: &dyn Home) {
    let store = home.open().await;
    store.note(Event::Exported, 42, &deed("ann"), at(1)).await.unwrap();
    store.note(Event::Restored, 7, &deed("ben"), at(2)).await.unwrap();
    let rows: Vec<_> =
        audit(&store).await.into_iter().map(|row| (row.what, row.count, row.author, row.letter)).collect();
    assert_eq!(
        rows,
        [(Event::Restored, 7, "ben".to_string(), None), (Event::Exported, 42, "ann".to_string(), None)]
    );
}

pub(crate) async fn the_audit_log_is_paged_newest_first(home: &dyn Home) {
    let store = home.open().await;
    for n in 0..23 {
        store.note(Event::Exported, n, &deed("ann"), NOW).await.unwrap();
    }
    let mut page = Page::first(5);
    let mut counts = Vec::new();
    let mut seqs = Vec::new();
    loop {
        let answer = store.audit(&page).await.unwrap();
        assert!(answer.entries.len() <= 5);
        counts.extend(answer.entries.iter().map(|entry| entry.count));
        seqs.extend(answer.entries.iter().map(|entry| entry.seq));
        match answer.next {
            Some(next) => page.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(counts, (0..23).rev().collect::<Vec<_>>());
    assert!(seqs.is_sorted_by(|a, b| a > b), "{seqs:?}");
    page.cursor = Some(dlo_store::Cursor("zz".into()));
    assert!(matches!(store.audit(&page).await, Err(StoreError::BadCursor)));
}

pub(crate) async fn a_reopened_store_has_everything(home: &dyn Home) {
    let store = home.open().await;
    let checkpoint = Checkpoint {
        source: "orders".into(),
        incarnation: "a".into(),
        partition: 1,
        next: 9,
        mark: Some("0-9".into()),
    };
    let letters: Vec<_> = (0..20).map(full_letter).collect();
    store
        .insert(
            Batch { letters: letters.into(), checkpoints: vec![checkpoint.clone()], ..Batch::default() },
            NOW,
        )
        .await
        .unwrap();
    let ids: Vec<_> = find_all(&store, &Query::default(), 50).await.iter().map(|l| l.id).collect();
    store.step(&ids[..5], Step::Discard, &deed("ann"), NOW).await.unwrap();
    let lease = store.lease("capture", "one", std::time::Duration::from_secs(60), NOW).await.unwrap();
    let before = (
        find_all(&store, &Query::default(), 50).await,
        store.stats().await.unwrap().letters,
        store.groups(&GroupFilter::default(), &Page::first(10)).await.unwrap(),
        audit(&store).await,
        store.timeline(ids[0]).await.unwrap(),
    );
    store.close().await.unwrap();
    drop(store);

    let store = home.open().await;
    let after = (
        find_all(&store, &Query::default(), 50).await,
        store.stats().await.unwrap().letters,
        store.groups(&GroupFilter::default(), &Page::first(10)).await.unwrap(),
        audit(&store).await,
        store.timeline(ids[0]).await.unwrap(),
    );
    assert_eq!(before, after);
    assert_eq!(before.1.get(Status::Discarded), 5);
    assert_eq!(store.checkpoints("orders").await.unwrap(), [checkpoint]);
    assert_eq!(store.payload(ids[3], None).await.unwrap().bytes, full_letter(1).message.payload.0);
    assert_eq!(store.lease("capture", "two", std::time::Duration::from_secs(60), NOW).await.unwrap(), None);
    assert!(lease.is_some());
    assert_eq!(find_all(&store, &query([Matcher::Text("tax table".into())]), 50).await.len(), 20);
    let answers = store.insert(batch((0..21).map(full_letter).collect()), NOW).await.unwrap();
    assert_eq!(answers.iter().filter(|a| matches!(a, dlo_store::Inserted::Duplicate(_))).count(), 20);
    assert_eq!(find_all(&store, &Query::default(), 50).await.len(), 21);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

/// Neighbours may be written together: with gaps, out of order, told alike or not, each has what was said of it.
pub(crate) async fn each_end_of_a_send_stands_at_its_own_item(home: &dyn Home) {
    use ItemState::{Intended, Refused, Sent};
    let store = home.open().await;
    let (replay, lease, ids) = running(&store, 9).await;
    let run = Run { id: replay.id, lease: &lease };
    intend(&store, &run, 9, at(1)).await;
    let sent = |offset: Option<i64>| SendEnd::Sent { partition: offset.map(|_| 3), offset };
    let refused = SendEnd::Refused("too large".into());
    let ends = [
        (8, sent(None)),
        (4, sent(Some(70))),
        (1, sent(Some(70))),
        (0, sent(Some(70))),
        (5, refused),
        (6, sent(None)),
    ];
    store.record(&run, ends.into(), at(2)).await.unwrap();
    let items = store.items(replay.id, None, &Page::first(9)).await.unwrap().items;
    let told: Vec<_> = items.iter().map(|item| (item.state, item.offset, item.note.as_deref())).collect();
    let placed = (Sent, Some(70), None);
    let (waits, unplaced) = ((Intended, None, None), (Sent, None, None));
    let refused = (Refused, None, Some("too large"));
    assert_eq!(told, [placed, placed, waits, waits, placed, refused, unplaced, waits, unplaced]);
    let at_items: Vec<_> = items.iter().filter(|item| item.state == Sent).map(|item| item.sent_at).collect();
    assert_eq!(at_items, [Some(at(2)); 5]);
    for (number, id) in ids.iter().enumerate() {
        let last = store.timeline(*id).await.unwrap().pop().unwrap();
        let reference = Some(send_id(replay.id, number as u64));
        match number {
            2 | 3 | 7 => assert_eq!(last.what, Event::Captured, "{number}"),
            5 => assert_eq!((last.what, last.reference), (Event::Step(Step::Release), reference)),
            _ => assert_eq!((last.what, last.reference), (Event::Step(Step::Send), reference), "{number}"),
        }
    }
    conserved(&store).await;
}

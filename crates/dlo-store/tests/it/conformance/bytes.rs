//! Byte for byte: what comes in comes out, and every field of the record with it.

use bytes::Bytes;
use dlo_core::letter::{LetterDetail, NewLetter};
use dlo_core::message::Payload;
use dlo_core::query::{Compare, Matcher, Op, Query};
use dlo_core::time::Timestamp;

use super::Home;
use crate::letters::{NOW, find_all, full_letter, insert, insert_one, letter, query};

pub(crate) async fn every_field_comes_back_as_it_was(home: &dyn Home) {
    let store = home.open().await;
    for sent in [full_letter(1), letter(2, bare)] {
        let id = insert_one(&store, sent.clone()).await;
        let detail = store.letter(id).await.unwrap();
        compare(&detail, &sent);
        let listed = find_all(&store, &query([Matcher::Id(id)]), 10).await;
        assert_eq!(listed, [detail.letter]);
    }
}

/// Nothing that can be absent is there.
fn bare(l: &mut NewLetter) {
    l.message = Default::default();
    l.content_type = None;
    l.event_type = None;
    l.event_version = None;
    l.consumer = None;
    l.consumer_id = None;
    l.error_class = None;
    l.error_message = String::new();
}

fn compare(detail: &LetterDetail, sent: &NewLetter) {
    let got = &detail.letter;
    assert_eq!((got.status, got.group_id, &got.owner), (sent.status, sent.fingerprint.group, &sent.owner));
    assert_eq!((&got.source, &got.origin), (&sent.source, &sent.origin));
    assert_eq!(got.key.as_deref(), sent.message.key.as_ref().map(|key| &key.0[..]));
    assert_eq!(
        [&got.content_type, &got.event_type, &got.event_version, &got.correlation_id, &got.trace_id],
        [&sent.content_type, &sent.event_type, &sent.event_version, &sent.correlation_id, &sent.trace_id]
    );
    assert_eq!(
        [
            &got.consumer,
            &got.consumer_id,
            &got.consumer_version,
            &got.error_class,
            &got.error_code,
            &got.rule
        ],
        [
            &sent.consumer,
            &sent.consumer_id,
            &sent.consumer_version,
            &sent.error_class,
            &sent.error_code,
            &sent.rule
        ]
    );
    assert_eq!((got.attempts, &got.error_message), (sent.attempts, &sent.error_message));
    assert_eq!((got.reason, got.verdict), (sent.reason, sent.verdict));
    assert_eq!(
        [got.published_at, got.received_at, got.first_failed_at, Some(got.failed_at), Some(got.captured_at)],
        [sent.published_at, sent.received_at, sent.first_failed_at, Some(sent.failed_at), Some(NOW)]
    );
    assert_eq!(got.payload_size, sent.message.payload.0.len() as u64);
    assert_eq!((got.replays, got.deaths), (0, 1));
    assert_eq!((&detail.headers, &detail.error_stack), (&sent.message.headers, &sent.error_stack));
    assert_eq!(detail.history, sent.history);
    let [death] = &detail.deaths[..] else { panic!("one death, found {}", detail.deaths.len()) };
    assert_eq!((death.number, death.at, death.captured_at), (1, sent.failed_at, NOW));
    assert_eq!(
        (&death.origin, &death.error_stack, &death.history),
        (&sent.origin, &sent.error_stack, &sent.history)
    );
    assert_eq!((&death.consumer, &death.error_class), (&sent.consumer, &sent.error_class));
}

pub(crate) async fn payload_key_and_headers_come_back_byte_for_byte(home: &dyn Home) {
    let store = home.open().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let id = insert_one(
        &store,
        letter(1, |l| {
            l.message.key = Some(Payload::from(every_byte.clone()));
            l.message.payload = Payload::from(every_byte.repeat(7));
            l.message.headers.push("x-all", Some(Bytes::from(every_byte.clone())));
            l.message.headers.push("x-all", None);
            l.message.headers.push("X-ALL", Some(Bytes::new()));
            l.message.headers.push("", Some(Bytes::from_static(b"no name")));
            l.message.headers.push("übrig\0", Some(Bytes::from_static(b"\0")));
        }),
    )
    .await;
    let detail = store.letter(id).await.unwrap();
    assert_eq!(detail.letter.key.as_deref(), Some(&every_byte[..]));
    let headers: Vec<_> = detail.headers.iter().map(|h| (h.name.as_str(), h.value.as_deref())).collect();
    assert_eq!(
        headers,
        [
            ("x-all", Some(&every_byte[..])),
            ("x-all", None),
            ("X-ALL", Some(&b""[..])),
            ("", Some(&b"no name"[..])),
            ("übrig\0", Some(&b"\0"[..])),
        ]
    );
    let payload = store.payload(id, None).await.unwrap();
    assert_eq!(payload.bytes, every_byte.repeat(7));
    assert_eq!(payload.content_type.as_deref(), Some("application/json"));
}

pub(crate) async fn an_absent_key_is_not_an_empty_one(home: &dyn Home) {
    let store = home.open().await;
    let keys = [None, Some(Payload::default())];
    for (n, key) in keys.into_iter().enumerate() {
        let id = insert_one(&store, letter(n as i64, |l| l.message.key = key.clone())).await;
        assert_eq!(store.letter(id).await.unwrap().letter.key, key.map(|key| key.0.to_vec()));
    }
}

/// More than one block's worth, with duplicates between them, so that slots and blocks are put to use.
pub(crate) async fn letters_of_one_batch_keep_their_own_payloads(home: &dyn Home) {
    let store = home.open().await;
    let payload = |n: i64| format!("payload {n} ").repeat(20 + n as usize % 50);
    let sent = |n: i64| letter(n, |l| l.message.payload = Payload::from(payload(n)));
    insert(&store, (0..300).step_by(7).map(sent).collect()).await;
    let ids = insert(&store, (0..300).map(sent).collect()).await;
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(store.payload(id, None).await.unwrap().bytes, payload(n as i64), "letter {n}");
    }
}

pub(crate) async fn a_large_payload_comes_back(home: &dyn Home) {
    let store = home.open().await;
    // Hardly compressible, so that it is as large on disk.
    let mut state = 7_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(8 * 1024 * 1024)
    .collect();
    let large = letter(2, |l| l.message.payload = Payload::from(noise.clone()));
    let ids = insert(&store, vec![letter(1, |_| {}), large, letter(3, |_| {})]).await;
    assert_eq!(store.payload(ids[1], None).await.unwrap().bytes, noise);
    assert_eq!(store.index_payloads().await.unwrap(), 0);
    assert_eq!(store.payload(ids[2], None).await.unwrap().bytes, letter(3, |_| {}).message.payload.0);
}

/// PostgreSQL's text knows no NUL; letters from the wire do.
pub(crate) async fn text_with_a_nul_character_comes_back(home: &dyn Home) {
    let store = home.open().await;
    let odd = "a\0b\u{1}c\u{10}d\u{10}0";
    let sent = letter(1, |l| {
        l.source = odd.into();
        l.origin.queue = odd.into();
        l.origin.message_id = Some(odd.into());
        l.event_type = Some(odd.into());
        l.error_class = Some(odd.into());
        l.error_message = odd.into();
        l.error_stack = Some(odd.into());
        l.correlation_id = Some(odd.into());
        l.content_type = Some(odd.into());
    });
    let id = insert_one(&store, sent.clone()).await;
    compare(&store.letter(id).await.unwrap(), &sent);
    let odd = || odd.to_string();
    for matcher in [Matcher::Source(odd()), Matcher::Class(odd()), Matcher::Correlation(odd())] {
        assert_eq!(find_all(&store, &query([matcher]), 10).await.len(), 1);
    }
    assert_eq!(
        store.groups(&Default::default(), &dlo_store::Page::first(5)).await.unwrap().groups[0].source,
        odd()
    );
    let clean = odd().replace('\0', "");
    assert_eq!(find_all(&store, &query([Matcher::Source(clean)]), 10).await, []);
    assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
}

pub(crate) async fn times_beyond_the_calendar_come_back(home: &dyn Home) {
    let store = home.open().await;
    let times = [i64::MIN / 2, -1, 0, 1, i64::MAX / 2].map(Timestamp::from_micros);
    let letters = times.iter().enumerate().map(|(n, at)| letter(n as i64, |l| l.failed_at = *at)).collect();
    let ids = insert(&store, letters).await;
    for (id, time) in ids.iter().zip(times) {
        assert_eq!(store.letter(*id).await.unwrap().letter.failed_at, time);
    }
    assert_eq!(find_all(&store, &Query::default(), 2).await.len(), times.len());
    for time in times {
        for op in [Op::Eq, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
            let compare = Compare { op, value: time };
            let expected = times.iter().filter(|at| compare.holds(**at)).count();
            let found = find_all(&store, &query([Matcher::Failed(compare)]), 2).await.len();
            assert_eq!(found, expected, "{op:?} {}", time.as_micros());
        }
    }
}

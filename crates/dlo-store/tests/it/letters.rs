//! Letters for tests: complete ones that differ where a test says so.

use bytes::Bytes;
use dlo_core::attempt::{AttemptRecord, History};
use dlo_core::fingerprint::{Fingerprint, Parts};
use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use dlo_store::{Batch, Deed, DynStore, Inserted, Page};

/// The office's clock in tests: a moment in 2026.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

/// `NOW`, so many milliseconds later.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

/// The dead letter of offset `n`, failed `n` milliseconds after [`NOW`], changed as the test needs it.
///
/// Fingerprint and dedupe key are made after the change, so that they are those of what is sent.
pub(crate) fn letter(n: i64, change: impl FnOnce(&mut NewLetter)) -> NewLetter {
    let mut letter = NewLetter {
        source: "orders".into(),
        origin: Origin::log(BrokerKind::Kafka, "orders", 3, n),
        message: Message {
            key: Some(Payload::from("C-441")),
            headers: Headers::new(),
            payload: Payload::from(r#"{"order":{"id":"O-1"}}"#),
        },
        content_type: Some("application/json".into()),
        event_type: Some("OrderPlaced".into()),
        event_version: Some("2".into()),
        correlation_id: None,
        trace_id: None,
        consumer: Some("pricing".into()),
        consumer_id: Some("pricing-7".into()),
        consumer_version: None,
        attempts: 1,
        history: History::default(),
        error_class: Some("TaxRuleMissing".into()),
        error_message: "pin not in tax table".into(),
        error_code: None,
        error_stack: None,
        reason: Reason::ProcessingError,
        verdict: VerdictKind::DeadLetter,
        rule: None,
        published_at: None,
        received_at: None,
        first_failed_at: None,
        failed_at: at(n),
        replay_id: None,
        replay_of: None,
        dedupe: None,
        death: None,
        fingerprint: Fingerprint::overflow(""),
        owner: None,
        status: Status::Open,
    };
    change(&mut letter);
    let parts = Parts {
        source: &letter.source,
        queue: &letter.origin.queue,
        consumer: letter.consumer.as_deref(),
        event_type: letter.event_type.as_deref(),
        error_class: letter.error_class.as_deref(),
    };
    letter.fingerprint = Fingerprint::of(parts, &letter.error_message);
    letter.dedupe =
        letter.origin.dedupe_key(&letter.source, letter.consumer.as_deref(), letter.replay_id.as_deref());
    letter
}

/// A letter with every field filled.
pub(crate) fn full_letter(n: i64) -> NewLetter {
    letter(n, |l| {
        l.origin = l.origin.clone().in_incarnation("topic-id-1");
        l.origin.message_id = Some("m-77".into());
        l.message.headers.push_text("x-tenant", "acme");
        l.message.headers.push("x-tenant", None);
        l.message.headers.push("X-Empty", Some(Bytes::new()));
        l.message.headers.push("x-raw", Some(Bytes::from_static(&[0, 159, 146, 150])));
        l.correlation_id = Some("corr-1".into());
        l.trace_id = Some("0af7651916cd43dd8448eb211c80319c".into());
        l.consumer_version = Some("1.4.2".into());
        l.attempts = 5;
        l.history = History::from_records([AttemptRecord {
            number: 1,
            at: at(n - 500),
            error_class: Some("Timeout".into()),
            message: Some("read timed out".into()),
            verdict: Some(VerdictKind::Retry),
            delay_ms: Some(200),
        }]);
        l.error_code = Some("TAX-17".into());
        l.error_stack = Some("at pricing.Tax.lookup(Tax.java:41)\n\tat main".into());
        l.reason = Reason::MaxRetriesExceeded;
        l.rule = Some("tax-rules".into());
        l.published_at = Some(at(n - 900));
        l.received_at = Some(at(n - 600));
        l.first_failed_at = Some(at(n - 500));
    })
}

pub(crate) fn batch(letters: Vec<NewLetter>) -> Batch {
    Batch { letters: letters.into(), ..Batch::default() }
}

/// Stores letters; their ids in the order given.
pub(crate) async fn insert(store: &DynStore, letters: Vec<NewLetter>) -> Vec<LetterId> {
    let inserted = store.insert(batch(letters), NOW).await.expect("insert");
    inserted.into_iter().map(Inserted::id).collect()
}

/// Stores one letter.
pub(crate) async fn insert_one(store: &DynStore, letter: NewLetter) -> LetterId {
    insert(store, vec![letter]).await[0]
}

pub(crate) fn query(matchers: impl IntoIterator<Item = Matcher>) -> Query {
    Query { terms: matchers.into_iter().map(|matcher| Term { negated: false, matcher }).collect() }
}

pub(crate) fn deed(author: &str) -> Deed {
    Deed { author: author.into(), reason: Some("because".into()), reference: None }
}

/// What does not hold, in tests that claim letters by single steps: only a replay claims them otherwise.
pub(crate) async fn problems(store: &DynStore) -> Vec<String> {
    let mut problems = store.verify().await.expect("verification").problems;
    problems.retain(|problem| !problem.ends_with("not in one replay each"));
    problems
}

/// Every match, page by page, in the order of the pages.
pub(crate) async fn find_all(store: &DynStore, query: &Query, limit: usize) -> Vec<dlo_core::letter::Letter> {
    let mut found = Vec::new();
    let mut page = Page::first(limit);
    loop {
        let answer = store.letters(query, &page).await.expect("letters");
        assert!(answer.letters.len() <= limit, "a page of {limit} held {}", answer.letters.len());
        found.extend(answer.letters);
        match answer.next {
            Some(next) => page.cursor = Some(next),
            None => return found,
        }
    }
}

/// A block whose first letter claims more headers than there are; the others stay whole.
pub(crate) fn damaged_first(block: &[u8]) -> Vec<u8> {
    let (size, packed) = block.split_at(4);
    let room = u32::from_le_bytes(size.try_into().unwrap()) as usize;
    let mut raw = zstd::bulk::decompress(packed, room).unwrap();
    // After the version and the length of the entry.
    raw[5..9].copy_from_slice(&[255; 4]);
    [size, &zstd::bulk::compress(&raw, 1).unwrap()].concat()
}

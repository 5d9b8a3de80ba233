//! Search: every matcher, alone, negated and in pairs, before and after payloads are indexed, against the model.

use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::message::Payload;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::{Compare, Matcher, Op, Query, Term};
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;
use dlo_store::DynStore;

use super::Home;
use crate::letters::{NOW, at, batch, deed, find_all, full_letter, insert, letter, query};
use crate::model::Model;

/// Letters that differ in every field that can be asked for.
fn corpus() -> Vec<NewLetter> {
    vec![
        full_letter(1),
        letter(2, |l| {
            l.source = "mail".into();
            l.origin.queue = "outbox".into();
            l.consumer = Some("mailer".into());
            l.consumer_id = Some("mailer-1".into());
            l.owner = Some("mail-team".into());
            l.error_message = "Tax office: pin 560001 unknown".into();
        }),
        letter(3, |l| {
            l.origin = Origin::message(BrokerKind::Sqs, "orders", "m-3");
            l.event_type = None;
            l.event_version = None;
            l.error_class = None;
            l.message.key = None;
            l.message.payload =
                Payload::from(r#"{"order":{"id":"O-2"},"lines":[{"sku":7},{"sku":8}],"paid":true}"#);
        }),
        letter(4, |l| {
            l.reason = Reason::DeserializationError;
            l.error_class = Some("ParseError".into());
            l.error_message = "unexpected token".into();
            l.message.payload = Payload::from("not json: the tax table is missing");
        }),
        letter(5, |l| {
            l.verdict = VerdictKind::Discard;
            l.status = Status::Discarded;
            l.error_code = Some("E5".into());
            l.rule = Some("drop-telemetry".into());
            l.message.payload = Payload::from(vec![0xff, 0xfe, 0, 1, 2]);
        }),
        letter(6, |l| {
            l.attempts = 9;
            l.message.headers.push_text("X-Tenant", "acme");
            l.message.headers.push_text("x-tenant", "other");
            l.message.payload = Payload::from(r#"{"a":{"b":[1.5,null,"x y"]},"pin":"table"}"#);
        }),
        letter(7, |l| {
            l.correlation_id = Some("corr-1".into());
            l.trace_id = Some("trace-7".into());
            l.message.payload = Payload::default();
            l.error_message = String::new();
        }),
        letter(8, |l| {
            l.message.key = Some(Payload::from(""));
            l.message.payload = Payload::from("word ".repeat(5_000));
        }),
    ]
}

fn compare<T>(op: Op, value: T) -> Compare<T> {
    Compare { op, value }
}

/// Every kind of matcher, each of which finds something in the corpus and leaves something out.
fn matchers(model: &Model) -> Vec<Matcher> {
    let some = |text: &str| text.to_string();
    let path = |text: &str| text.split('.').map(String::from).collect::<Vec<_>>();
    let (id, kept) = model.letters.iter().next().expect("a letter");
    let mut all = vec![
        Matcher::Source(some("mail")),
        Matcher::Queue(some("outbox")),
        Matcher::Group(kept.first.fingerprint.group),
        Matcher::Type(some("OrderPlaced")),
        Matcher::Class(some("ParseError")),
        Matcher::Consumer(some("mailer")),
        Matcher::Owner(Some(some("mail-team"))),
        Matcher::Owner(None),
        Matcher::Status(Status::Open),
        Matcher::Status(Status::Claimed),
        Matcher::Id(*id),
        Matcher::Broker(BrokerKind::Sqs),
        Matcher::Partition(3),
        Matcher::Version(some("2")),
        Matcher::Reason(Reason::DeserializationError),
        Matcher::Verdict(VerdictKind::Discard),
        Matcher::Rule(some("tax-rules")),
        Matcher::Code(some("E5")),
        Matcher::ConsumerId(some("mailer-1")),
        Matcher::Replays(compare(Op::Ge, 1)),
        Matcher::Size(compare(Op::Eq, 0)),
        Matcher::Captured(compare(Op::Gt, NOW)),
        Matcher::Key(some("C-441")),
        Matcher::Key(some("")),
        Matcher::Correlation(some("corr-1")),
        Matcher::Message(some("m-3")),
        Matcher::Trace(some("trace-7")),
        Matcher::Header { name: some("x-TENANT"), value: some("acme") },
        Matcher::Header { name: some("x-empty"), value: some("") },
        Matcher::Payload { path: path("order.id"), value: some("O-2") },
        Matcher::Payload { path: path("lines.sku"), value: some("8") },
        Matcher::Payload { path: path("paid"), value: some("true") },
        Matcher::Payload { path: path("a.b"), value: some("null") },
        Matcher::Payload { path: path("a.b"), value: some("1.5") },
        Matcher::Text(some("TAX")),
        Matcher::Text(some("tax table")),
        Matcher::Text(some("560001")),
        Matcher::Text(some("unexpected token")),
        Matcher::Text(some("word word word")),
        Matcher::Text(some("x y")),
        Matcher::Text(some("60001")),
        Matcher::Text(some("xpect")),
        Matcher::Text(some("ax tab")),
        Matcher::Text(some("d: t")),
    ];
    for op in [Op::Eq, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
        all.push(Matcher::Failed(compare(op, at(4))));
        all.push(Matcher::Offset(compare(op, 4)));
        all.push(Matcher::Attempts(compare(op, 5)));
    }
    all
}

async fn filled(store: &DynStore) -> Model {
    let mut model = Model::default();
    let letters = corpus();
    for (half, now) in [(&letters[..4], NOW), (&letters[4..], at(60))] {
        let answers = store.insert(batch(half.to_vec()), now).await.unwrap();
        model.insert(half, &answers, now);
    }
    let ids: Vec<_> = model.letters.keys().copied().collect();
    for (ids, step) in [(&ids[..2], Step::Claim), (&ids[..1], Step::Send), (&ids[6..7], Step::Archive)] {
        let answers = store.step(ids, step, &deed("ann"), NOW).await.unwrap();
        assert_eq!(answers, model.step(ids, step));
    }
    model
}

async fn agree(store: &DynStore, model: &Model, asked: &Query) -> usize {
    let expected = model.find(asked);
    let found = find_all(store, asked, 3).await;
    let ids: std::collections::BTreeSet<_> = found.iter().map(|l| l.id).collect();
    assert_eq!(ids.len(), found.len(), "found twice by {asked:?}");
    assert_eq!(ids, expected, "{asked:?}");
    assert!(found.is_sorted_by(|a, b| a.failed_at.as_millis() >= b.failed_at.as_millis()), "{asked:?}");
    assert_eq!(store.count(asked, 1_000).await.unwrap(), expected.len() as u64, "{asked:?}");
    expected.len()
}

pub(crate) async fn every_matcher_finds_what_it_names_before_and_after_indexing(home: &dyn Home) {
    let store = home.open().await;
    let model = filled(&store).await;
    for indexed in [false, true] {
        if indexed {
            assert_eq!(store.index_payloads().await.unwrap(), 0);
            assert_eq!(store.stats().await.unwrap().unindexed, 0);
        }
        for matcher in matchers(&model) {
            let found = agree(&store, &model, &query([matcher.clone()])).await;
            assert!(found > 0, "{matcher:?} finds nothing and so proves nothing");
            assert!(found < model.letters.len(), "{matcher:?} finds everything and so proves nothing");
        }
    }
}

pub(crate) async fn every_matcher_leaves_out_what_it_names_when_negated(home: &dyn Home) {
    let store = home.open().await;
    let model = filled(&store).await;
    for indexed in [false, true] {
        if indexed {
            assert_eq!(store.index_payloads().await.unwrap(), 0);
        }
        for matcher in matchers(&model) {
            agree(&store, &model, &Query { terms: vec![Term { negated: true, matcher }] }).await;
        }
    }
}

pub(crate) async fn terms_are_joined_by_and(home: &dyn Home) {
    let store = home.open().await;
    let model = filled(&store).await;
    // Half indexed: one more batch behind the indexed ones.
    assert_eq!(store.index_payloads().await.unwrap(), 0);
    let mut model = model;
    let more: Vec<_> = corpus()
        .into_iter()
        .enumerate()
        .map(|(n, mut l)| {
            l.dedupe = None;
            l.failed_at = at(100 + n as i64);
            l
        })
        .collect();
    let answers = store.insert(batch(more.clone()), NOW).await.unwrap();
    model.insert(&more, &answers, NOW);
    let all = matchers(&model);
    let mut found = 0;
    for (n, first) in all.iter().enumerate() {
        // Each with a few others, the partner negated every second time.
        for step in [1, 7, 13] {
            let second = all[(n + step) % all.len()].clone();
            let terms = vec![
                Term { negated: false, matcher: first.clone() },
                Term { negated: (n + step) % 2 == 0, matcher: second },
            ];
            found += agree(&store, &model, &Query { terms }).await;
        }
    }
    assert!(found > 100, "the pairs found only {found}");
}

pub(crate) async fn text_is_found_anywhere_in_error_text_and_payload(home: &dyn Home) {
    let store = home.open().await;
    let ids = insert(
        &store,
        vec![
            letter(1, |l| l.error_message = "red apple, Green-Pear".into()),
            letter(2, |l| l.message.payload = Payload::from("green apple red pear")),
            letter(3, |l| {
                l.error_message = "red".into();
                l.message.payload = Payload::from("apple");
            }),
        ],
    )
    .await;
    for indexed in [false, true] {
        if indexed {
            assert_eq!(store.index_payloads().await.unwrap(), 0);
        }
        for (text, expected) in [
            ("red apple", vec![ids[0]]),
            ("apple red", vec![ids[1]]),
            ("GREEN pear", vec![ids[0]]),
            ("app", vec![ids[2], ids[1], ids[0]]),
            ("n-Pea", vec![ids[0]]),
            ("een", vec![ids[1], ids[0]]),
            ("en pe", vec![ids[0]]),
            ("ed ap", vec![ids[0]]),
            ("r", vec![ids[2], ids[1], ids[0]]),
            ("green  --  pear", vec![ids[0]]),
            ("applered", vec![]),
            ("red", vec![ids[2], ids[1], ids[0]]),
            ("red pear apple", vec![]),
        ] {
            let found: Vec<_> = find_all(&store, &query([Matcher::Text(text.into())]), 10)
                .await
                .iter()
                .map(|l| l.id)
                .collect();
            assert_eq!(found, expected, "{text}, indexed: {indexed}");
        }
        // Two terms may be found in two places.
        let both = query(["red", "apple"].map(|word| Matcher::Text(word.into())));
        assert_eq!(find_all(&store, &both, 10).await.len(), 3);
    }
}

pub(crate) async fn a_text_without_words_is_found_nowhere(home: &dyn Home) {
    let store = home.open().await;
    let model = filled(&store).await;
    for negated in [false, true] {
        let asked = Query { terms: vec![Term { negated, matcher: Matcher::Text("--- !!".into()) }] };
        let found = agree(&store, &model, &asked).await;
        assert_eq!(found, if negated { model.letters.len() } else { 0 });
    }
}

pub(crate) async fn a_group_that_is_not_here_has_no_letters(home: &dyn Home) {
    let store = home.open().await;
    let model = filled(&store).await;
    let nowhere = letter(1, |l| l.error_class = Some("Nowhere".into())).fingerprint.group;
    for matcher in
        [Matcher::Group(nowhere), Matcher::Source("nobody".into()), Matcher::Class("Nowhere".into())]
    {
        assert_eq!(agree(&store, &model, &query([matcher])).await, 0);
    }
}

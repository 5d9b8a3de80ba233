//! At random: inserts, comebacks, steps and questions in any order, held against the model.

use dlo_core::automation::{Action, AutomationRule};
use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::message::Payload;
use dlo_core::query::{Compare, Expiry, Matcher, Op, Query, ReplayLimits, Term};
use dlo_core::reason::Reason;
use dlo_store::{DynStore, Inserted};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use crate::conformance::Home;
use crate::letters::{at, batch, deed, find_all, letter, problems};
use crate::model::Model;

/// What happens to a store; letters that are here are named by a number that is taken round.
#[derive(Debug, Clone)]
enum Act {
    Insert(Vec<Draft>),
    ComeBack { of: usize, draft: Draft },
    Step { of: Vec<usize>, step: Step },
    Index,
    Ask(Query),
}

#[derive(Debug, Clone)]
struct Draft {
    offset: i64,
    failed: i64,
    source: &'static str,
    class: Option<&'static str>,
    message: Vec<&'static str>,
    payload: Vec<u8>,
    key: Option<Vec<u8>>,
    discarded: bool,
}

impl Draft {
    fn letter(&self) -> NewLetter {
        letter(self.offset, |l| {
            l.failed_at = at(self.failed);
            l.source = self.source.into();
            l.error_class = self.class.map(String::from);
            l.error_message = self.message.join(" ");
            l.message.payload = Payload::from(self.payload.clone());
            l.message.key = self.key.clone().map(Payload::from);
            if self.discarded {
                l.status = Status::Discarded;
            }
        })
    }
}

const WORDS: &[&str] = &["apple", "pear", "Plum", "42", "zürich"];

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::collection::vec(select(WORDS), 0..6).prop_map(|words| words.join(" ").into_bytes()),
        select(WORDS).prop_map(|word| format!(r#"{{"fruit":{{"name":["{word}",7]}}}}"#).into_bytes()),
    ]
}

fn drafts() -> impl Strategy<Value = Draft> {
    (
        (0..40_i64, 0..20_i64, select(&["orders", "mail"][..]), select(&[None, Some("A"), Some("B")][..])),
        (
            proptest::collection::vec(select(WORDS), 0..4),
            payloads(),
            select(vec![None, Some(vec![]), Some(b"k".to_vec()), Some(vec![0, 255])]),
            proptest::bool::weighted(0.1),
        ),
    )
        .prop_map(|((offset, failed, source, class), (message, payload, key, discarded))| Draft {
            offset,
            failed,
            source,
            class,
            message,
            payload,
            key,
            discarded,
        })
}

/// Rules that hold one class, and discard what the query finds when it is a day and so many seconds old.
fn expiry(query: &str, seconds: i64, held: &str) -> Expiry {
    let rule = |query: String, action| AutomationRule { name: "old".into(), query, action };
    let rules = [
        rule(format!("class:{held}"), Action::Hold),
        rule(format!("{query} age:>1d{seconds}s"), Action::Discard),
    ];
    Expiry::new(&rules, &ReplayLimits::default()).as_of(at(15))
}

fn matchers() -> impl Strategy<Value = Matcher> {
    let ops = || select(&[Op::Eq, Op::Lt, Op::Le, Op::Gt, Op::Ge][..]);
    prop_oneof![
        select(&["orders", "mail"][..]).prop_map(|s| Matcher::Source(s.into())),
        select(&["A", "B", "C"][..]).prop_map(|s| Matcher::Class(s.into())),
        select(Status::ALL).prop_map(Matcher::Status),
        select(&[Reason::ProcessingError, Reason::Timeout][..]).prop_map(Matcher::Reason),
        (ops(), 0..20_i64).prop_map(|(op, n)| Matcher::Failed(Compare { op, value: at(n) })),
        (ops(), 0..40_i64).prop_map(|(op, value)| Matcher::Offset(Compare { op, value })),
        (ops(), 0..3_i64).prop_map(|(op, value)| Matcher::Replays(Compare { op, value })),
        (0..3_u32)
            .prop_map(|otherwise| Matcher::Exhausted(ReplayLimits { otherwise, ..ReplayLimits::default() })),
        (select(&["class:A", "apple", "source:mail -class:B"][..]), 0..20_i64, select(&["A", "none"][..]))
            .prop_map(|(query, seconds, held)| Matcher::Expiring(expiry(query, seconds, held))),
        (ops(), 0..40_i64).prop_map(|(op, value)| Matcher::Size(Compare { op, value })),
        select(&["k", ""][..]).prop_map(|s| Matcher::Key(s.into())),
        proptest::collection::vec(select(WORDS), 1..3).prop_map(|words| Matcher::Text(words.join(" "))),
        // Any part of what letters are made of, cut anywhere.
        (proptest::collection::vec(select(WORDS), 1..4), 0..16_usize, 1..12_usize).prop_map(
            |(words, from, length)| {
                let text: String = words.join(" ").chars().skip(from).take(length).collect();
                Matcher::Text(if text.trim().is_empty() { "app".into() } else { text })
            }
        ),
        select(WORDS).prop_map(|word| Matcher::Payload {
            path: vec!["fruit".into(), "name".into()],
            value: word.into()
        }),
    ]
}

fn queries() -> impl Strategy<Value = Query> {
    let term =
        (proptest::bool::weighted(0.3), matchers()).prop_map(|(negated, matcher)| Term { negated, matcher });
    proptest::collection::vec(term, 0..4).prop_map(|terms| Query { terms })
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => proptest::collection::vec(drafts(), 1..8).prop_map(Act::Insert),
        1 => (any::<usize>(), drafts()).prop_map(|(of, draft)| Act::ComeBack { of, draft }),
        3 => (proptest::collection::vec(any::<usize>(), 1..5), select(Step::ALL))
            .prop_map(|(of, step)| Act::Step { of, step }),
        1 => Just(Act::Index),
        3 => queries().prop_map(Act::Ask),
    ]
}

async fn play(store: &DynStore, acts: Vec<Act>) {
    let mut model = Model::default();
    for (moment, act) in acts.into_iter().enumerate() {
        let now = at(1_000 + moment as i64);
        let ids: Vec<LetterId> = model.letters.keys().copied().collect();
        match act {
            Act::Insert(drafts) => {
                let letters: Vec<_> = drafts.iter().map(Draft::letter).collect();
                let answers = store.insert(batch(letters.clone()), now).await.unwrap();
                model.insert(&letters, &answers, now);
            }
            Act::ComeBack { of, draft } => come_back(store, &mut model, &ids, of, &draft, now).await,
            Act::Step { of, step } if !ids.is_empty() => {
                let chosen: Vec<_> = of.into_iter().map(|n| ids[n % ids.len()]).collect();
                let answers = store.step(&chosen, step, &deed("ann"), now).await.unwrap();
                assert_eq!(answers, model.step(&chosen, step), "{step}");
            }
            Act::Step { .. } => {}
            Act::Index => assert_eq!(store.index_payloads().await.unwrap(), 0),
            Act::Ask(query) => ask(store, &model, &query).await,
        }
    }
    settle(store, &model).await;
}

/// Any letter may come back, closed ones too, and through another source.
async fn come_back(
    store: &DynStore,
    model: &mut Model,
    ids: &[LetterId],
    of: usize,
    draft: &Draft,
    now: dlo_core::time::Timestamp,
) {
    let Some(id) = ids.get(of % ids.len().max(1)) else { return };
    let mut back = draft.letter();
    back.status = Status::Open;
    let back = letter(draft.offset, |l| {
        *l = back;
        l.replay_of = Some(*id);
        l.replay_id = Some(format!("r-{of}"));
    });
    let answers = store.insert(batch(vec![back.clone()]), now).await.unwrap();
    assert!(!matches!(answers[..], [Inserted::Stored(_)]), "{answers:?}");
    model.insert(&[back], &answers, now);
}

async fn ask(store: &DynStore, model: &Model, query: &Query) {
    let expected = model.find(query);
    let found = find_all(store, query, 5).await;
    assert!(found.is_sorted_by(|a, b| a.failed_at.as_millis() >= b.failed_at.as_millis()), "{query:?}");
    let ids: std::collections::BTreeSet<_> = found.iter().map(|l| l.id).collect();
    assert_eq!((ids.len(), &ids), (found.len(), &expected), "{query:?}");
    assert_eq!(store.count(query, 7).await.unwrap(), expected.len().min(7) as u64, "{query:?}");
}

/// In the end everything agrees: every letter, every count, every byte.
async fn settle(store: &DynStore, model: &Model) {
    ask(store, model, &Query::default()).await;
    for (id, kept) in &model.letters {
        let detail = store.letter(*id).await.unwrap();
        assert_eq!((detail.letter.status, detail.letter.deaths), (kept.status, kept.deaths));
        assert_eq!((detail.deaths.len() as u32, detail.letter.replays), (kept.deaths, kept.replays));
        assert_eq!(detail.letter.error_message, kept.latest.error_message);
        assert_eq!(store.payload(*id, None).await.unwrap().bytes, kept.first.message.payload.0);
    }
    let stats = store.stats().await.unwrap();
    for (status, count) in stats.letters.iter() {
        assert_eq!(
            count,
            model.letters.values().filter(|kept| kept.status == status).count() as u64,
            "{status}"
        );
    }
    assert_eq!(problems(store).await, Vec::<String>::new());
}

/// Runs `cases` random stories, each on a fresh home.
pub(crate) fn random_stories_agree_with_the_model<H: Home>(cases: u32, fresh: impl AsyncFn() -> H) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config {
        cases,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    });
    let story = proptest::collection::vec(acts(), 1..25);
    let outcome = runner.run(&story, |acts| {
        runtime.block_on(async {
            let home = fresh().await;
            let store = home.open().await;
            play(&store, acts).await;
            store.close().await.unwrap();
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

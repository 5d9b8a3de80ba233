//! Whatever is merged, and wherever it is broken off: a search finds what a scan of the letters finds.

use std::sync::{Arc, Mutex};

use dlo_core::attempt::History;
use dlo_core::fingerprint::{Fingerprint, Parts};
use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;

use super::*;
use crate::sqlite::{SqliteStore, index};
use crate::{Batch, Inserted, Store, StoreLimits};

const WORDS: [&str; 8] = ["zebra", "yard", "gate4711", "gate4712", "straße", "lantern", "0815", "ox"];

/// What happens to a store. Numbers are taken round.
#[derive(Debug, Clone)]
enum Act {
    /// Letters with these words, each.
    Insert(Vec<Vec<usize>>),
    /// A letter dies again, of other words.
    Again(usize, Vec<usize>),
    /// What waits becomes a segment.
    Index,
    /// So many deeds.
    Keep(usize),
    /// All is indexed and merged at once, beside whatever is under way.
    Finish,
    /// The process dies, and another one opens the store.
    Kill,
    Backup,
    Restore,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let words = || proptest::collection::vec(0..WORDS.len(), 0..4);
    let act = prop_oneof![
        4 => proptest::collection::vec(words(), 1..4).prop_map(Act::Insert),
        2 => (any::<usize>(), words()).prop_map(|(of, words)| Act::Again(of, words)),
        6 => Just(Act::Index),
        6 => (1_usize..5).prop_map(Act::Keep),
        1 => Just(Act::Finish),
        1 => Just(Act::Kill),
        1 => Just(Act::Backup),
        1 => Just(Act::Restore),
    ];
    proptest::collection::vec(act, 1..60)
}

/// A store that is indexed only when it is told to, and what it must hold.
struct Told {
    home: TempDir,
    store: Arc<SqliteStore>,
    upkeep: Arc<Mutex<Upkeep>>,
    /// Every letter with its words.
    letters: Vec<(LetterId, Vec<usize>)>,
    /// The same when the backup was made.
    kept: Option<Vec<(LetterId, Vec<usize>)>>,
    made: i64,
}

/// As small as steps can be: a chunk of each source, and a chunk swept.
fn in_small_steps() -> Arc<Mutex<Upkeep>> {
    let bounds = Bounds { bytes: 1, swept: 1 };
    Arc::new(Mutex::new(Upkeep { bounds, ..Upkeep::default() }))
}

fn open(home: &TempDir) -> Arc<SqliteStore> {
    let limits = StoreLimits { index_behind: false, ..StoreLimits::default() };
    SqliteStore::open(home.path(), limits).unwrap()
}

impl Told {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = open(&home);
        Self { home, store, upkeep: in_small_steps(), letters: Vec::new(), kept: None, made: 0 }
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Insert(letters) => {
                let new = letters.iter().map(|words| self.letter(words, None)).collect();
                let ids = self.insert(new).await;
                self.letters.extend(ids.into_iter().zip(letters.iter().cloned()));
            }
            Act::Again(of, words) if !self.letters.is_empty() => {
                let of = of % self.letters.len();
                let again = self.letter(words, Some(self.letters[of].0));
                self.insert(vec![again]).await;
                self.letters[of].1 = words.clone();
            }
            Act::Again(..) => {}
            Act::Index => {
                let turn = |writer: &mut Writer| {
                    let shared = Arc::clone(&writer.shared);
                    let built = index::build(&writer.connection, &shared)?;
                    built.map_or(Ok(0), |built| index::store(&mut writer.connection, &shared, &built))
                };
                self.store.write(turn).await.unwrap();
            }
            Act::Keep(deeds) => {
                for _ in 0..*deeds {
                    self.keep().await;
                }
            }
            Act::Finish => drop(self.store.index_payloads().await.unwrap()),
            Act::Kill => {
                self.store.close().await.unwrap();
                self.upkeep = in_small_steps();
                // The lock is the old one's until it is gone.
                self.store = {
                    let elsewhere = tempfile::tempdir().unwrap();
                    drop(std::mem::replace(&mut self.store, open(&elsewhere)));
                    open(&self.home)
                };
            }
            Act::Backup => {
                let to = self.home.path().join("copy.db");
                let _ = std::fs::remove_file(&to);
                self.store.backup(&to).await.unwrap();
                self.kept = Some(self.letters.clone());
            }
            Act::Restore => {
                if let Some(kept) = &self.kept {
                    let by = crate::Deed { author: "ops".into(), reason: None, reference: None };
                    let copy = self.home.path().join("copy.db");
                    self.store.restore(&copy, &by, Timestamp::EPOCH).await.unwrap();
                    self.letters = kept.clone();
                }
            }
        }
    }

    /// One deed; `false` when there is none.
    async fn keep(&self) -> bool {
        let upkeep = Arc::clone(&self.upkeep);
        let deed = move |writer: &mut Writer| {
            let mut upkeep = upkeep.lock().unwrap();
            let shared = Arc::clone(&writer.shared);
            let Some(deed) = upkeep.next(&writer.connection, &shared, Pace::Calm)? else { return Ok(false) };
            let outcome = deed.perform(writer)?;
            upkeep.note(outcome);
            Ok(true)
        };
        self.store.write(deed).await.unwrap()
    }

    /// A search for each word finds the letters that have it.
    async fn check(&self) {
        for (number, word) in WORDS.into_iter().enumerate() {
            let query = Query { terms: vec![Term { negated: false, matcher: Matcher::Text(word.into()) }] };
            let found = self.store.letters(&query, &crate::Page::first(1_000)).await.unwrap();
            let mut found: Vec<LetterId> = found.letters.into_iter().map(|letter| letter.id).collect();
            let has = |(_, words): &&(LetterId, Vec<usize>)| words.contains(&number);
            let mut expected: Vec<LetterId> = self.letters.iter().filter(has).map(|(id, _)| *id).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{word}");
        }
    }

    /// How many chunks there are that no segment has.
    async fn nobodys(&self) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM grams WHERE key >> {} NOT IN (SELECT id FROM segments)",
            crate::grams::TERM_BITS
        );
        let count = move |writer: &mut Writer| {
            writer.connection.query_row(&sql, [], |row| row.get(0)).map_err(crate::sqlite::read_error)
        };
        self.store.write(count).await.unwrap()
    }

    async fn insert(&self, letters: Vec<NewLetter>) -> Vec<LetterId> {
        let batch = Batch { letters: letters.into(), ..Batch::default() };
        let inserted = self.store.insert(batch, Timestamp::from_millis(1_780_000_000_000)).await.unwrap();
        inserted.into_iter().map(Inserted::id).collect()
    }

    fn letter(&mut self, words: &[usize], replay_of: Option<LetterId>) -> NewLetter {
        self.made += 1;
        let error_message = words.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ");
        let parts =
            Parts { source: "orders", queue: "orders", consumer: None, event_type: None, error_class: None };
        NewLetter {
            source: "orders".into(),
            origin: Origin::log(BrokerKind::Kafka, "orders", 0, self.made),
            message: Message { key: None, headers: Headers::new(), payload: Payload::from("{}") },
            content_type: None,
            event_type: None,
            event_version: None,
            correlation_id: None,
            trace_id: None,
            consumer: None,
            consumer_id: None,
            consumer_version: None,
            attempts: 1,
            history: History::default(),
            error_class: None,
            fingerprint: Fingerprint::of(parts, &error_message),
            error_message,
            error_code: None,
            error_stack: None,
            reason: Reason::ProcessingError,
            verdict: VerdictKind::DeadLetter,
            rule: None,
            published_at: None,
            received_at: None,
            first_failed_at: None,
            // In no order.
            failed_at: Timestamp::from_millis(1_780_000_000_000 + self.made * 37 % 101),
            replay_id: None,
            replay_of,
            dedupe: None,
            death: None,
            owner: None,
            status: Status::Open,
        }
    }
}

#[test]
fn a_search_finds_what_a_scan_finds_wherever_a_merge_is_broken_off() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(64) });
    let outcome = runner.run(&acts(), |acts| {
        runtime.block_on(async {
            let mut told = Told::new();
            for act in &acts {
                told.act(act).await;
                told.check().await;
            }
            while told.keep().await {
                told.check().await;
            }
            assert_eq!(told.nobodys().await, 0, "chunks are left that no segment has");
            told.store.close().await.unwrap();
        });
        Ok(())
    });
    outcome.unwrap();
}

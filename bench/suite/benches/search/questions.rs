//! Questions about text and fields, asked of the store and of whoever stands beside it in turn.
//!
//! What is compared: a call of our `Store` in this process, which hands over whole letters, to PostgreSQL's answer to a
//! prepared statement over `tokio-postgres` on the loopback device, which hands over ids.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dlo_bench::measure::percentile;
use dlo_bench::record::Parts;
use dlo_core::query::Query;
use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Page, Store};
use tokio_postgres::{Client, Statement};

use crate::letters;

/// A question in all languages: about letter `n`, of so many.
pub(crate) struct Question {
    what: &'static str,
    ours: fn(u64) -> String,
    /// PostgreSQL's.
    theirs: &'static str,
    parameter: fn(u64) -> String,
    /// As words behind each other, with `*` for what may stand before or behind, where it is about error text alone.
    pub(crate) words: fn(u64) -> String,
}

/// Who is asked beside us.
pub(crate) trait Beside {
    const NAME: &'static str;

    /// How many it finds about letter `n`, up to fifty, and the milliseconds that it took.
    async fn answer(&mut self, question: &Question, n: u64) -> (usize, f64);
}

/// PostgreSQL, by a statement that is prepared once.
pub(crate) struct Sql<'a> {
    client: &'a Client,
    prepared: HashMap<&'static str, Statement>,
}

impl<'a> Sql<'a> {
    pub(crate) fn of(client: &'a Client) -> Self {
        Self { client, prepared: HashMap::new() }
    }
}

impl Beside for Sql<'_> {
    const NAME: &'static str = "PostgreSQL";

    async fn answer(&mut self, question: &Question, n: u64) -> (usize, f64) {
        if !self.prepared.contains_key(question.theirs) {
            let statement = self.client.prepare(question.theirs).await.expect("prepare");
            self.prepared.insert(question.theirs, statement);
        }
        let (statement, parameter) = (&self.prepared[question.theirs], (question.parameter)(n));
        let started = Instant::now();
        let rows = self.client.query(statement, &[&parameter]).await.expect("rows");
        (rows.len(), started.elapsed().as_secs_f64() * 1_000.0)
    }
}

/// How often the other is asked.
pub(crate) struct Turns {
    pub(crate) rounds: u64,
    /// Every so many rounds.
    pub(crate) every: u64,
    /// It is asked one question again until it has taken this long over it: a scan of a million rows takes seconds.
    pub(crate) patience: Duration,
}

const ILIKE: &str =
    "SELECT id FROM dead_letters WHERE error_message ILIKE $1 ORDER BY created_at DESC LIMIT 50";
const FIELD: &str =
    "SELECT id FROM dead_letters WHERE payload->>'order_id' = $1 ORDER BY created_at DESC LIMIT 50";
const ANYWHERE: &str = "SELECT id FROM dead_letters WHERE error_message ILIKE $1 OR payload::text ILIKE $1
    ORDER BY created_at DESC LIMIT 50";

const PHRASE: Question = Question {
    what: "a rare phrase of error text",
    ours: |n| format!("\"for customer CUST-{}: look\"", customer(n)),
    theirs: ILIKE,
    parameter: |n| format!("%for customer cust-{}: look%", customer(n)),
    words: |n| format!("for customer cust {} look*", customer(n)),
};
const COMMON: Question = Question {
    what: "a common part of a word of error text",
    ours: |_| "egion".into(),
    theirs: ILIKE,
    parameter: |_| "%egion%".into(),
    words: |_| "*egion*".into(),
};
const A_THOUSANDTH: Question = Question {
    what: "one word of a thousand in error text",
    ours: |n| format!("\"pin {} not\"", pin(n)),
    theirs: ILIKE,
    parameter: |n| format!("%pin {} not%", pin(n)),
    words: |n| format!("pin {} not", pin(n)),
};

/// Of a table without an index for them.
pub(crate) const WITHOUT_INDEX: [Question; 5] = [
    Question {
        what: "part of a rare word, in error text or payload",
        ours: |n| format!("ust-{}", customer(n)),
        theirs: ANYWHERE,
        parameter: |n| format!("%ust-{}%", customer(n)),
        words: |_| String::new(),
    },
    PHRASE,
    COMMON,
    A_THOUSANDTH,
    Question {
        what: "a field of the payload",
        ours: |n| format!("payload.order_id:ORD-{n:010}"),
        theirs: FIELD,
        parameter: |n| format!("ORD-{n:010}"),
        words: |_| String::new(),
    },
];

/// Of error text alone. Ours looks through payloads as well: whoever is named in one is named in the other.
pub(crate) const OF_ERROR_TEXT: [Question; 4] = [
    Question {
        what: "part of a rare word of error text",
        ours: |n| format!("ust-{}", customer(n)),
        theirs: ILIKE,
        parameter: |n| format!("%ust-{}%", customer(n)),
        words: |n| format!("*ust {}*", customer(n)),
    },
    PHRASE,
    COMMON,
    A_THOUSANDTH,
];

/// The number that stands behind `mark` in the error text of letter `n`.
fn behind(n: u64, mark: &str) -> String {
    let text = letters::message(n);
    let rest = text.split_once(mark).map_or("", |(_, rest)| rest);
    rest.chars().take_while(char::is_ascii_digit).collect()
}

fn customer(n: u64) -> String {
    behind(n, "CUST-")
}

fn pin(n: u64) -> String {
    behind(n, "pin ")
}

/// How many there are on the first page. Work per page is bounded, so a search that finds little is asked to go on.
async fn first_fifty(store: &SqliteStore, query: &Query) -> usize {
    let mut page = Page::first(50);
    loop {
        let found = store.letters(query, &page).await.expect("letters");
        page.limit -= found.letters.len();
        match found.next {
            Some(next) if page.limit > 0 => page.cursor = Some(next),
            _ => return 50 - page.limit,
        }
    }
}

/// Asks all of both, and records how many times as fast ours is as the figure `id`: the least of them. The first round warms
/// both up and does not count.
pub(crate) async fn ask<B: Beside>(
    ours: &SqliteStore,
    theirs: &mut B,
    questions: &[Question],
    count: u64,
    turns: &Turns,
    id: &str,
) {
    let now = Timestamp::from_millis(1_793_600_000_000);
    let mut faster = Parts::new(id, "x");
    for question in questions {
        let (mut fast, mut slow) = (Vec::<f64>::new(), Vec::<f64>::new());
        for round in 0..=turns.rounds.max(1) {
            let n = letters::mix(round ^ 0xabc) % count;
            let query = Query::parse(&(question.ours)(n), now).expect("a query");
            let started = Instant::now();
            let found = first_fifty(ours, &query).await;
            let spent = started.elapsed().as_secs_f64() * 1_000.0;
            fast.extend((round > 0).then_some(spent));
            let patient = slow.iter().sum::<f64>() < turns.patience.as_secs_f64() * 1_000.0;
            if round == 0 || (patient && (round - 1) % turns.every == 0) {
                let (rows, spent) = theirs.answer(question, n).await;
                slow.extend((round > 0).then_some(spent));
                assert_eq!(found, rows, "{}: {query}", question.what);
                assert!(rows > 0, "{}: {query}", question.what);
            }
        }
        let (fast_middle, slow_middle) = (percentile(&mut fast, 0.5), percentile(&mut slow, 0.5));
        println!(
            "  {}: p50 {fast_middle:.2} ms, p99 {:.2} ms; {} p50 {slow_middle:.2} ms, p99 {:.2} ms of {}",
            question.what,
            percentile(&mut fast, 0.99),
            B::NAME,
            percentile(&mut slow, 0.99),
            slow.len()
        );
        faster.part(&format!("{}: times as fast", question.what), slow_middle / fast_middle);
    }
    faster.worst();
}

//! Questions about text and fields, asked of the store and of PostgreSQL in turn.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_core::query::Query;
use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Page, Store, StoreLimits};
use dlo_testkit::bench::measure::percentile;
use dlo_testkit::bench::record::Parts;
use dlo_testkit::harness::postgres::Postgres;

use crate::{capture, letters, peer};

/// A question in both languages: about letter `n`, of so many.
struct Question {
    what: &'static str,
    ours: fn(u64) -> String,
    theirs: &'static str,
    parameter: fn(u64) -> String,
}

/// PostgreSQL is asked one question again until it has taken this long over it: a scan of a million rows takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const ILIKE: &str =
    "SELECT id FROM dead_letters WHERE error_message ILIKE $1 ORDER BY created_at DESC LIMIT 50";
const FIELD: &str =
    "SELECT id FROM dead_letters WHERE payload->>'order_id' = $1 ORDER BY created_at DESC LIMIT 50";
const ANYWHERE: &str = "SELECT id FROM dead_letters WHERE error_message ILIKE $1 OR payload::text ILIKE $1
    ORDER BY created_at DESC LIMIT 50";

const QUESTIONS: [Question; 5] = [
    Question {
        what: "part of a rare word, in error text or payload",
        ours: |n| format!("ust-{}", customer(n)),
        theirs: ANYWHERE,
        parameter: |n| format!("%ust-{}%", customer(n)),
    },
    Question {
        what: "a rare phrase of error text",
        ours: |n| format!("\"for customer CUST-{}: look\"", customer(n)),
        theirs: ILIKE,
        parameter: |n| format!("%for customer cust-{}: look%", customer(n)),
    },
    Question {
        what: "a common part of a word of error text",
        ours: |_| "egion".into(),
        theirs: ILIKE,
        parameter: |_| "%egion%".into(),
    },
    Question {
        what: "one word of a thousand in error text",
        ours: |n| format!("\"pin {} not\"", pin(n)),
        theirs: ILIKE,
        parameter: |n| format!("%pin {} not%", pin(n)),
    },
    Question {
        what: "a field of the payload",
        ours: |n| format!("payload.order_id:ORD-{n:010}"),
        theirs: FIELD,
        parameter: |n| format!("ORD-{n:010}"),
    },
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

pub(crate) async fn run(data: &Path, count: u64, rounds: u64) {
    println!(
        "questions: {count} letters, each {rounds} times of ours and a tenth of that of PostgreSQL, in turn"
    );
    println!(
        "  index: {:.0} B a letter, payloads of 1 KB and headers included",
        capture::index_bytes(data) / count as f64
    );
    let database = Postgres::shared().await.database().await;
    let loading = Instant::now();
    let theirs = peer::filled(&database.url, count).await;
    println!("  PostgreSQL loaded in {:.0} s", loading.elapsed().as_secs_f64());
    let ours = SqliteStore::open(data, StoreLimits::default()).expect("open");
    let now = Timestamp::from_millis(1_793_600_000_000);
    let mut faster = Parts::new("search.ilike", "x");
    for question in &QUESTIONS {
        let statement = theirs.prepare(question.theirs).await.expect("prepare");
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let n = letters::mix(round ^ 0xabc) % count;
            let query = Query::parse(&(question.ours)(n), now).expect("a query");
            let started = Instant::now();
            let found = first_fifty(&ours, &query).await;
            fast.push(started.elapsed().as_secs_f64() * 1_000.0);
            if round % 10 == 0 && slow.iter().sum::<f64>() < PATIENCE.as_secs_f64() * 1_000.0 {
                let started = Instant::now();
                let rows = theirs.query(&statement, &[&(question.parameter)(n)]).await.expect("rows");
                slow.push(started.elapsed().as_secs_f64() * 1_000.0);
                assert_eq!(found, rows.len(), "{}: {query}", question.what);
                assert!(!rows.is_empty(), "{}: {query}", question.what);
            }
        }
        let (fast_middle, slow_middle) = (percentile(&mut fast, 0.5), percentile(&mut slow, 0.5));
        println!(
            "  {}: p50 {fast_middle:.2} ms, p99 {:.2} ms; PostgreSQL p50 {slow_middle:.1} ms",
            question.what,
            percentile(&mut fast, 0.99)
        );
        faster.part(&format!("{}: times as fast", question.what), slow_middle / fast_middle);
    }
    faster.worst();
    ours.close().await.expect("close");
}

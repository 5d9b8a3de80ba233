//! Lists and counts, asked of the store and of PostgreSQL with the right composite indexes in turn.
//!
//! What is compared: a call of our `Store` in this process, to a prepared statement over `tokio-postgres` on the loopback
//! device. Both hand over whole letters without their payloads, as values; ours has more columns. Ours keeps counts at write time,
//! PostgreSQL counts from an index when asked. Both must find as many, and the first and the last of them must have
//! failed at the same time.

use std::time::{Instant, SystemTime};

use dlo_bench::measure::{Median, percentile};
use dlo_bench::record::{self, Parts};
use dlo_core::id::LetterId;
use dlo_core::letter::{Letter, Status};
use dlo_core::query::Query;
use dlo_core::time::Timestamp;
use dlo_store::sqlite::SqliteStore;
use dlo_store::{CauseCount, Cursor, Page, Store};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::{letters, peer};

/// Times that each list and the counts are asked, and times before the clock starts.
const ASKED: u64 = 2_000;
pub(crate) const COUNTED: u64 = 20;
const WARM_UP: u64 = 10;
/// Letters of a page; the page that is called deep, and how many of them are asked in turn.
const PAGE: usize = 50;
const DEEP: u64 = 2_000;
const DEEP_PAGES: usize = 20;

const COUNTS: &str = "SELECT event_type, error_class, status, count(*) FROM dead_letters GROUP BY 1, 2, 3";
const NOW: Timestamp = Timestamp::from_millis(1_793_600_000_000);

type Parameter = Box<dyn ToSql + Sync + Send>;

/// What is asked of ours.
enum Ours {
    List(String, Option<Cursor>),
    One(LetterId),
}

/// A question in both languages, the nth time.
struct Question {
    what: &'static str,
    /// What stands behind the columns and the table.
    theirs: &'static str,
    nth: Box<dyn Fn(u64) -> (Ours, Vec<Parameter>)>,
}

pub(crate) async fn run(ours: &SqliteStore, theirs: &Client, count: u64) {
    println!(
        "beside PostgreSQL's lists: {count} letters, each {ASKED} times of both in turn, counts {COUNTED} times"
    );
    let building = Instant::now();
    theirs.batch_execute(peer::COMPOSITE).await.expect("the composite indexes");
    peer::settled(theirs).await;
    println!("  composite indexes built in {:.0} s", building.elapsed().as_secs_f64());
    let mut slow = Parts::new("triage.postgres-lists", "x");
    for question in lists(ours, theirs, count).await {
        let [mut mine, mut other] = in_turn(ours, theirs, &question).await;
        println!(
            "  {}: p50 {:.3} ms, p99 {:.3} ms; PostgreSQL p50 {:.3} ms, p99 {:.3} ms",
            question.what,
            percentile(&mut mine, 0.5),
            percentile(&mut mine, 0.99),
            percentile(&mut other, 0.5),
            percentile(&mut other, 0.99)
        );
        let ratio = percentile(&mut mine, 0.99) / percentile(&mut other, 0.99);
        slow.part(&format!("{}, p99 to PostgreSQL's", question.what), ratio);
    }
    slow.worst();
    counts(ours, theirs, count).await;
}

/// Milliseconds of each.
async fn in_turn(ours: &SqliteStore, theirs: &Client, question: &Question) -> [Vec<f64>; 2] {
    let sql = format!("SELECT {} FROM dead_letters {}", Theirs::COLUMNS, question.theirs);
    let statement = theirs.prepare(&sql).await.expect("prepare");
    let mut times = [Vec::new(), Vec::new()];
    for n in 0..WARM_UP + ASKED {
        let (asked, parameters) = (question.nth)(n);
        let parameters: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|each| &**each as &(dyn ToSql + Sync)).collect();
        let started = Instant::now();
        let found = asked.of(ours).await;
        let mine = started.elapsed();
        let started = Instant::now();
        let rows = theirs.query(&statement, &parameters).await.expect("rows");
        let rows: Vec<Theirs> = rows.iter().map(Theirs::read).collect();
        let other = started.elapsed();
        same(question.what, &found, &rows);
        if n >= WARM_UP {
            times.iter_mut().zip([mine, other]).for_each(|(all, one)| all.push(one.as_secs_f64() * 1_000.0));
        }
    }
    times
}

impl Ours {
    async fn of(&self, store: &SqliteStore) -> Vec<Letter> {
        match self {
            Self::One(id) => vec![store.letter(*id).await.expect("a letter").letter],
            Self::List(query, cursor) => {
                let query = Query::parse(query, NOW).expect("a query");
                let page = Page { limit: PAGE, cursor: cursor.clone() };
                store.letters(&query, &page).await.expect("letters").letters
            }
        }
    }
}

/// A row as a service would hold it.
#[derive(Debug)]
#[expect(dead_code, reason = "it is read, which is what is measured")]
struct Theirs {
    id: i64,
    source: String,
    event_type: String,
    error_class: String,
    error_message: String,
    status: String,
    created_at: SystemTime,
}

impl Theirs {
    const COLUMNS: &str = "id, source, event_type, error_class, error_message, status, created_at";

    fn read(row: &Row) -> Self {
        Self {
            id: row.get(0),
            source: row.get(1),
            event_type: row.get(2),
            error_class: row.get(3),
            error_message: row.get(4),
            status: row.get(5),
            created_at: row.get(6),
        }
    }
}

fn same(what: &str, found: &[Letter], rows: &[Theirs]) {
    assert_eq!(found.len(), rows.len(), "{what}");
    assert!(!rows.is_empty(), "{what}: nothing");
    for at in [0, rows.len() - 1] {
        let theirs = rows[at].created_at.duration_since(SystemTime::UNIX_EPOCH);
        let theirs = Timestamp::EPOCH.plus(theirs.expect("a time of today"));
        assert_eq!(found[at].failed_at, theirs, "{what}: letter {at} of the page");
    }
}

async fn lists(ours: &SqliteStore, theirs: &Client, count: u64) -> Vec<Question> {
    let mut ids = Vec::new();
    for n in 0..WARM_UP + ASKED {
        let n = letters::mix(n ^ 0xabc) % count;
        let query = Ours::List(format!("correlation:{}", letters::correlation(n)), None);
        let found = query.of(ours).await;
        ids.push((found.first().expect("a letter by its correlation").id, n as i64));
    }
    let deep = ((DEEP - 1) * PAGE as u64).min(count / 2);
    let cursors = cursors(ours, deep).await;
    let keys = keys(theirs, deep).await;
    let open_of = |n: u64| format!("status:open type:{}", letters::event_type(n));
    vec![
        question(
            "newest 50 open",
            "WHERE status = 'open' ORDER BY created_at DESC, id DESC LIMIT 50",
            |_| (Ours::List("status:open".into(), None), Vec::new()),
        ),
        question(
            "newest 50 open by type",
            "WHERE event_type = $1 AND status = 'open' ORDER BY created_at DESC, id DESC LIMIT 50",
            move |n| (Ours::List(open_of(n), None), vec![Box::new(letters::event_type(n))]),
        ),
        question(
            "newest 50 open by type and class",
            "WHERE event_type = $1 AND error_class = $2 AND status = 'open'
             ORDER BY created_at DESC, id DESC LIMIT 50",
            move |n| {
                let class = letters::class(n);
                let query = format!("{} class:{class}", open_of(n));
                (Ours::List(query, None), vec![Box::new(letters::event_type(n)), Box::new(class)])
            },
        ),
        question("a letter by id", "WHERE id = $1", move |n| {
            let (ours, theirs) = ids[n as usize % ids.len()];
            (Ours::One(ours), vec![Box::new(theirs)])
        }),
        question(
            "a page deep in the open ones, by key",
            "WHERE status = 'open' AND (created_at, id) < ($1, $2) ORDER BY created_at DESC, id DESC LIMIT 50",
            move |n| {
                let at = n as usize % DEEP_PAGES;
                let (created_at, id) = keys[at];
                let ours = Ours::List("status:open".into(), Some(cursors[at].clone()));
                (ours, vec![Box::new(created_at), Box::new(id)])
            },
        ),
    ]
}

fn question(
    what: &'static str,
    theirs: &'static str,
    nth: impl Fn(u64) -> (Ours, Vec<Parameter>) + 'static,
) -> Question {
    Question { what, theirs, nth: Box::new(nth) }
}

/// Where our deep pages begin: behind `deep` letters, and behind each page that follows.
async fn cursors(ours: &SqliteStore, deep: u64) -> Vec<Cursor> {
    let query = Query::parse("status:open", NOW).expect("a query");
    let (mut cursors, mut passed, mut page) = (Vec::new(), 0, Page::first(0));
    while cursors.len() < DEEP_PAGES {
        let left = usize::try_from(deep.saturating_sub(passed)).unwrap_or(Page::MOST);
        page.limit = if left == 0 { PAGE } else { left.min(Page::MOST) };
        let found = ours.letters(&query, &page).await.expect("letters");
        passed += found.letters.len() as u64;
        page.cursor = Some(found.next.expect("a page behind this one"));
        if passed >= deep {
            cursors.extend(page.cursor.clone());
        }
    }
    cursors
}

/// The same for PostgreSQL: time and id of the last row before each page.
async fn keys(theirs: &Client, deep: u64) -> Vec<(SystemTime, i64)> {
    let sql = "SELECT created_at, id FROM dead_letters WHERE status = 'open'
        ORDER BY created_at DESC, id DESC OFFSET $1 LIMIT 1";
    let mut keys = Vec::new();
    for page in 0..DEEP_PAGES {
        let before = deep as i64 + (page * PAGE) as i64 - 1;
        let row = theirs.query_one(sql, &[&before]).await.expect("a row before the page");
        keys.push((row.get(0), row.get(1)));
    }
    keys
}

/// Letters by type, class and status.
async fn counts(ours: &SqliteStore, theirs: &Client, count: u64) {
    let statement = theirs.prepare(COUNTS).await.expect("prepare");
    let (mut mine, mut other) = (Vec::<f64>::new(), Vec::<f64>::new());
    for n in 0..=COUNTED {
        let started = Instant::now();
        let causes = ours.causes(None).await.expect("causes");
        let spent = started.elapsed().as_secs_f64() * 1_000.0;
        mine.extend((n > 0).then_some(spent));
        let started = Instant::now();
        let rows = theirs.query(&statement, &[]).await.expect("rows");
        let spent = started.elapsed().as_secs_f64() * 1_000.0;
        other.extend((n > 0).then_some(spent));
        assert_eq!(open_causes(&causes), (rows.len(), count), "as many causes, and every letter is counted");
        assert_eq!(rows.iter().map(|row| row.get::<_, i64>(3)).sum::<i64>(), count as i64, "every row");
    }
    let (faster, [mine, other]) = (Median::paired(&other, &mine), [mine, other].map(Median::of));
    println!("  counts by (type, class, status): {mine} ms; PostgreSQL {other} ms");
    record::figure("triage.postgres-counts", "x", faster);
}

/// Causes of letters that are open, and these letters.
pub(crate) fn open_causes(causes: &[CauseCount]) -> (usize, u64) {
    let open = causes.iter().map(|cause| cause.counts.get(Status::Open)).filter(|open| *open > 0);
    (open.clone().count(), open.sum())
}

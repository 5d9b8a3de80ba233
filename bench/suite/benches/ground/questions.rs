//! The questions of an on-call engineer, as paths of the HTTP API, and how one is asked.
//!
//! Whatever has a parameter is asked with a different one each time, so that nothing is measured that only a cache knows.

use std::time::Instant;

use crate::letters;
use crate::office::Office;

/// The nth path.
type Path = Box<dyn Fn(u64) -> String>;

/// What a question is, which says for which figures it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The newest letters of a filter.
    List,
    Counts,
    Letter,
    Text,
}

pub(crate) struct Question {
    pub(crate) kind: Kind,
    pub(crate) what: &'static str,
    path: Path,
}

impl Question {
    /// Asks it the nth time; milliseconds of the whole request, which must find something.
    pub(crate) fn ask(&self, office: &Office, n: u64) -> f64 {
        let path = (self.path)(n);
        let start = Instant::now();
        let (status, body) = office.get(&path);
        let spent = start.elapsed();
        assert_eq!(status, 200, "{path}: {}", &body[..body.len().min(300)]);
        assert!(body.contains("\"id\":\"") || body.contains("\"open\":"), "{path} found nothing");
        spent.as_secs_f64() * 1_000.0
    }
}

fn question(kind: Kind, what: &'static str, path: impl Fn(u64) -> String + 'static) -> Question {
    Question { kind, what, path: Box::new(path) }
}

/// A list by a filter.
fn list(what: &'static str, query: impl Fn(u64) -> String + 'static) -> Question {
    question(Kind::List, what, move |n| filtered(&query(n)))
}

fn text(what: &'static str, query: impl Fn(u64) -> String + 'static) -> Question {
    question(Kind::Text, what, move |n| filtered(&query(n)))
}

fn filtered(query: &str) -> String {
    format!("/api/v1/letters?limit=50&q={}", query.replace(' ', "%20").replace('"', "%22"))
}

/// Every question, of an office with `million` letters.
pub(crate) fn all(office: &Office, million: u64) -> Vec<Question> {
    // One letter that is there, different each time.
    let some = move |n: u64| letters::mix(n ^ 0xabc) % million;
    let mut questions = lists(office, some);
    let ids = values(&office.get("/api/v1/letters?limit=50").1, "\"id\":\"");
    questions.extend([
        counts(),
        question(Kind::Letter, "one letter by id", move |n| {
            format!("/api/v1/letters/{}", ids[n as usize % ids.len()])
        }),
        text("a rare word in error text", move |n| {
            format!("CUST-{}", letters::mix(some(n) ^ 0x35) % 500_000)
        }),
        text("a common word in error text", |_| "region".into()),
        text("a field of the payload", move |n| format!("payload.order_id:ORD-{:010}", some(n))),
    ]);
    questions
}

pub(crate) fn counts() -> Question {
    question(Kind::Counts, "counts by (type, class, status)", |_| "/api/v1/stats/causes".into())
}

fn lists(office: &Office, some: impl Fn(u64) -> u64 + Copy + 'static) -> Vec<Question> {
    let groups = values(&office.get("/api/v1/groups?limit=50").1, "\"id\":\"");
    vec![
        list("newest 50 by status", |_| "status:open".into()),
        list("newest 50 by source", |n| format!("source:{}", letters::source(n))),
        list("newest 50 by type", |n| format!("type:{}", letters::event_type(n))),
        list("newest 50 by class", |n| format!("class:{}", letters::class(n))),
        list("newest 50 by consumer", |n| format!("consumer:{}", letters::consumer(n))),
        list("newest 50 by owner", |n| format!("owner:{}", letters::owner(letters::consumer(n)))),
        list("newest 50 by group", move |n| format!("group:{}", groups[n as usize % groups.len()])),
        list("newest 50 by key", move |n| format!("key:{}", letters::key(some(n)))),
        list("newest 50 by correlation id", move |n| {
            format!("correlation:{}", letters::correlation(some(n)))
        }),
        list("newest 50 by status, source and class", |n| {
            format!("status:open source:{} class:{}", letters::source(n), letters::class(n))
        }),
        list("newest 50 by type, consumer and owner", |n| {
            let consumer = letters::consumer(n);
            format!("type:{} consumer:{consumer} owner:{}", letters::event_type(n), letters::owner(consumer))
        }),
    ]
}

fn values(text: &str, mark: &str) -> Vec<String> {
    text.split(mark).skip(1).map(|rest| rest.chars().take_while(|c| *c != '"').collect()).collect()
}

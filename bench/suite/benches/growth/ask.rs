//! Questions of somebody on call, over HTTP, each on a connection of its own; the figure is the whole request.
//!
//! Whatever has a parameter is asked with a different one each time, so that nothing is measured that only a cache knows.

use std::time::{Duration, Instant};

use crate::curves::Curve;
use crate::letters;
use crate::office::Office;

/// Letters of a page, and the page that is called deep.
const PAGE: u64 = 50;
const DEEP: u64 = 2_000;
/// Deep pages that are asked in turn.
const DEEP_PAGES: u64 = 20;
/// Letters of the pages by which one gets there.
const STRIDE: u64 = 500;
/// Questions before the clock starts.
const WARM_UP: u64 = 3;
/// A question is not asked again once it took so long in all.
const PATIENCE: Duration = Duration::from_secs(30);

/// The nth question: a path.
type Question = Box<dyn Fn(u64) -> String>;

/// Milliseconds of every question, by its curve.
pub(crate) fn all(office: &Office, size: u64, asked: u64) -> Vec<(Curve, Vec<f64>)> {
    let deep = deep_cursors(office, size);
    let some = move |n: u64| letters::mix(n ^ 0xabc) % size;
    let questions: [(Curve, Question); 9] = [
        (Curve::List, Box::new(|_| format!("/api/v1/letters?limit={PAGE}"))),
        (Curve::Counts, Box::new(|_| "/api/v1/stats/causes".into())),
        (Curve::Stats, Box::new(|_| "/api/v1/stats".into())),
        (Curve::Groups, Box::new(|_| format!("/api/v1/groups?limit={PAGE}"))),
        (
            Curve::Count,
            Box::new(|n| {
                let query = format!("source:{} class:{}", letters::source(n), letters::class(n));
                format!("/api/v1/letters/count?q={}", encoded(&query))
            }),
        ),
        (Curve::TextOfErrors, Box::new(move |n| list(&one_error(some(n))))),
        (Curve::Word, Box::new(move |n| list(&customer(&letters::message(some(n)))))),
        (Curve::TextOfPayloads, Box::new(move |n| list(&format!("ORD-{:010}", some(n))))),
        (
            Curve::DeepPage,
            Box::new(move |n| {
                format!("/api/v1/letters?limit={PAGE}&cursor={}", deep[n as usize % deep.len()])
            }),
        ),
    ];
    in_turn(office, questions, asked)
}

/// Asks all in turn, again and again: a slow moment of the machine meets every curve and not one.
fn in_turn<const N: usize>(
    office: &Office,
    questions: [(Curve, Question); N],
    asked: u64,
) -> Vec<(Curve, Vec<f64>)> {
    for n in asked..asked + WARM_UP {
        for (_, question) in &questions {
            answered(office, &question(n));
        }
    }
    let mut times = vec![Vec::new(); N];
    for n in 0..asked {
        for ((_, question), times) in questions.iter().zip(&mut times) {
            if times.iter().sum::<f64>() < PATIENCE.as_secs_f64() * 1_000.0 {
                times.push(answered(office, &question(n)));
            }
        }
    }
    questions.into_iter().map(|(curve, _)| curve).zip(times).collect()
}

/// Milliseconds until something was found. Work per page is bounded, so a search that found nothing yet is asked to go on.
fn answered(office: &Office, path: &str) -> f64 {
    let started = Instant::now();
    let mut asked = path.to_string();
    loop {
        let (status, body) = office.get(&asked);
        let spent = started.elapsed().as_secs_f64() * 1_000.0;
        assert_eq!(status, 200, "{asked}: {}", &body[..body.len().min(300)]);
        if ["\"id\":\"", "\"open\":", "\"count\":"].iter().any(|mark| body.contains(mark)) {
            return spent;
        }
        let next = next_cursor(&body);
        assert!(next.is_some(), "{path} found nothing");
        asked = format!("{path}&cursor={}", next.unwrap_or_default());
    }
}

/// A part of the error text of letter `n` that no other letter has.
fn one_error(n: u64) -> String {
    let text = letters::message(n);
    let from = text.find("CUST-").unwrap_or(0);
    let to = text.find(" in worker").unwrap_or(text.len());
    format!("\"{}\"", &text[from..to])
}

/// A word that few letters have, as somebody types it who has nothing else.
fn customer(error: &str) -> String {
    let from = error.find("CUST-").unwrap_or(0);
    error[from..].chars().take_while(|c| *c != ':').collect()
}

fn list(query: &str) -> String {
    format!("/api/v1/letters?limit={PAGE}&q={}", encoded(query))
}

/// Where deep pages begin: the two thousandth and those behind it, or the last ones of a small store.
fn deep_cursors(office: &Office, size: u64) -> Vec<String> {
    let deep = ((DEEP - 1) * PAGE).min(size - (DEEP_PAGES + 1) * PAGE);
    let (mut cursor, mut passed) = (None, 0);
    while passed < deep {
        let page = STRIDE.min(deep - passed);
        cursor = behind(office, page, cursor.as_deref());
        passed += page;
    }
    let first = cursor.expect("a deep page");
    let next = |cursor: &String| behind(office, PAGE, Some(cursor));
    std::iter::successors(Some(first), next).take(DEEP_PAGES as usize).collect()
}

/// The cursor of the page behind this one.
fn behind(office: &Office, limit: u64, cursor: Option<&str>) -> Option<String> {
    let cursor = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
    next_cursor(&office.get(&format!("/api/v1/letters?limit={limit}{cursor}")).1)
}

fn next_cursor(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("\"next_cursor\":\"")?;
    rest.split_once('"').map(|(cursor, _)| encoded(cursor))
}

/// Text as a part of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:".contains(byte);
    text.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02x}") }).collect()
}

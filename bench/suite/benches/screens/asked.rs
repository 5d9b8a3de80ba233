//! The screens, how they are asked for, and what a page must show to count as one.
//!
//! Whatever has a parameter is asked with a different one each time, so that nothing is measured that only a cache knows.

use crate::letters;
use crate::office::{Office, number_behind};

pub(crate) struct Screen {
    pub(crate) what: &'static str,
    /// The nth address.
    pub(crate) path: Box<dyn Fn(u64) -> String>,
    /// Stands in every page that shows what it is for.
    pub(crate) shows: &'static str,
}

/// How a line of letters, of groups and of replays begins.
const A_LETTER: &str = "href=\"/letters/0";
const A_GROUP: &str = "href=\"/groups/";
const A_REPLAY: &str = "href=\"/replays/0";

/// How many letters there are, and every screen on them.
pub(crate) fn screens(office: &Office) -> (u64, Vec<Screen>) {
    let count = number_behind(&office.get("/api/v1/stats").1, "\"total\":");
    let mut screens = lists(office);
    screens.extend(searches(count));
    screens.extend(single(office));
    (count, screens)
}

fn screen(what: &'static str, shows: &'static str, path: impl Fn(u64) -> String + 'static) -> Screen {
    Screen { what, path: Box::new(path), shows }
}

fn fixed(what: &'static str, shows: &'static str, path: &'static str) -> Screen {
    screen(what, shows, move |_| path.to_string())
}

/// Lists that need nothing but themselves.
fn lists(office: &Office) -> Vec<Screen> {
    let older = cursors(office);
    vec![
        fixed("Overview", A_GROUP, "/"),
        fixed("Groups, last seen first", A_GROUP, "/groups?order=last_seen"),
        fixed("Groups, newest kind first", A_GROUP, "/groups?order=first_seen"),
        fixed("Groups, most open first", A_GROUP, "/groups?order=most_open"),
        fixed("Groups, oldest open letter first", A_GROUP, "/groups?order=oldest_open"),
        screen("Groups, by words", A_GROUP, |n| format!("/groups?text={}%20region", letters::class(n))),
        fixed("Letters", A_LETTER, "/letters"),
        screen("Letters, older pages", A_LETTER, move |n| {
            format!("/letters?cursor={}", older[n as usize % older.len()])
        }),
        fixed("Sources", "href=\"/sources/orders\"", "/sources"),
        fixed("Rules", "pricing", "/rules"),
        fixed("Owners", "payments", "/owners"),
        fixed("Audit", "<tbody>", "/audit"),
    ]
}

fn searches(count: u64) -> Vec<Screen> {
    let some = move |n: u64| letters::mix(n ^ 0xabc) % count;
    let search = |what, query: Box<dyn Fn(u64) -> String>| {
        screen(what, A_LETTER, move |n| format!("/letters?q={}", encoded(&query(n))))
    };
    vec![
        search("Letters, open", Box::new(|_| "status:open".into())),
        search(
            "Letters, by source and class",
            Box::new(|n| format!("source:{} class:{}", letters::source(n), letters::class(n))),
        ),
        search("Letters, by owner and age", Box::new(|_| "status:open owner:payments age:>1h".into())),
        search("Letters, by key", Box::new(move |n| format!("key:{}", letters::key(some(n))))),
        search(
            "Letters, by a field of the payload",
            Box::new(move |n| format!("payload.order_id:ORD-{:010}", some(n))),
        ),
        search("Letters, by a rare word", Box::new(move |n| format!("CUST-{}", behind(some(n), "CUST-")))),
        search("Letters, by a common word", Box::new(|_| "egion".into())),
        search(
            "Letters, by one word of a thousand",
            Box::new(move |n| format!("\"pin {} not\"", behind(some(n), "pin "))),
        ),
        screen("Planner, by one word of a thousand", A_LETTER, move |n| {
            format!("/replays/new?q={}", encoded(&format!("\"pin {} not\"", behind(some(n), "pin "))))
        }),
        screen("Planner, by class", A_LETTER, |n| format!("/replays/new?q=class:{}", letters::class(n))),
    ]
}

/// Screens of one group, one letter, one replay, one source.
fn single(office: &Office) -> Vec<Screen> {
    let groups = values(&office.get("/api/v1/groups?limit=100").1, "\"id\":\"");
    let ids = values(&office.get("/api/v1/letters?limit=100").1, "\"id\":\"");
    let same = ids.clone();
    let replays = values(&office.get("/api/v1/replays?limit=100").1, "\"id\":\"");
    vec![
        screen("Group", A_LETTER, move |n| format!("/groups/{}", groups[n as usize % groups.len()])),
        screen("Letter", "What failed?", move |n| format!("/letters/{}", ids[n as usize % ids.len()])),
        screen("Letter, with its payload", "ORD-", move |n| {
            format!("/letters/{}?payload=show", same[n as usize % same.len()])
        }),
        screen("Planner, of one group", A_LETTER, {
            let groups = values(&office.get("/api/v1/groups?limit=100").1, "\"id\":\"");
            move |n| format!("/replays/new?q=group:{}", groups[n as usize % groups.len()])
        }),
        fixed("Replays", A_REPLAY, "/replays"),
        screen("Replay", A_LETTER, move |n| format!("/replays/{}", replays[n as usize % replays.len()])),
        screen("Source", "q=source", |n| format!("/sources/{}", letters::source(n))),
    ]
}

/// Where the pages behind the first ones begin.
fn cursors(office: &Office) -> Vec<String> {
    let mut cursors: Vec<String> = Vec::new();
    while cursors.len() < 20 {
        let last = cursors.last().map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let page = office.get(&format!("/api/v1/letters?limit=200{last}")).1;
        match values(&page, "\"next_cursor\":\"").pop() {
            Some(next) => cursors.push(encoded(&next)),
            None => break,
        }
    }
    cursors
}

fn values(text: &str, mark: &str) -> Vec<String> {
    text.split(mark).skip(1).map(|rest| rest.chars().take_while(|c| *c != '"').collect()).collect()
}

/// The number that stands behind `mark` in the error text of letter `n`.
fn behind(n: u64, mark: &str) -> String {
    let text = letters::message(n);
    let rest = text.split_once(mark).map_or("", |(_, rest)| rest);
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// Text as a part of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:".contains(byte);
    text.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02x}") }).collect()
}

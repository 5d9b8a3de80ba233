//! Letters that match a query, with the query's mistakes pointed at.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dlo_core::letter::{Letter, Status};
use dlo_core::query::{Matcher, Term};
use dlo_core::time::Timestamp;
use dlo_core::view::ViewOf;
use dlo_store::Glimpse;

use super::show::When;
use super::views::Saved;
use super::{Failed, Shell, render, words};
use crate::api::letters::ListParams;
use crate::office::Office;
use crate::query_text::{Params, page};

/// A letter as a line.
#[derive(Debug)]
pub(crate) struct LetterLine {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) status_word: String,
    pub(crate) source: String,
    pub(crate) event_type: String,
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) consumer: String,
    pub(crate) key: String,
    pub(crate) attempts: u32,
    /// How often it died: once more than it came back from replays.
    pub(crate) deaths: u32,
    /// What it is suspected to be; empty for most.
    pub(crate) suspected: String,
    pub(crate) failed: When,
}

/// Characters of an error message in a list.
const MESSAGE: usize = 160;

impl LetterLine {
    pub(crate) fn new(letter: &Letter, now: Timestamp) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let key = letter.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        Self {
            id: letter.id.to_string(),
            status: letter.status.to_string(),
            status_word: letter.status.to_string().replace('_', " "),
            source: letter.source.clone(),
            event_type: text(&letter.event_type),
            class: text(&letter.error_class),
            message: letter.error_message.chars().take(MESSAGE).collect(),
            consumer: text(&letter.consumer),
            key: key.unwrap_or_default().to_string(),
            attempts: letter.attempts,
            deaths: letter.deaths,
            suspected: letter.suspect.map(|it| words::phrase(it.kind.as_str())).unwrap_or_default(),
            failed: When::new(letter.failed_at, now),
        }
    }
}

#[derive(Template)]
#[template(path = "letters.html")]
struct Letters {
    shell: Shell,
    q: String,
    /// The query with a caret under its mistake, and what is wrong.
    mistake: Option<(String, String)>,
    letters: Vec<LetterLine>,
    next: Option<String>,
    /// How many match, in words.
    count: String,
    /// What a decision about "all that match" is about: open letters only.
    meant: String,
    views: Vec<View>,
    /// Why terms of the query find nothing: what they ask for is masked.
    masked: Vec<String>,
    /// It was asked what expires, and nothing ever does.
    keeps_all: bool,
    saved: Saved,
    /// The same list without the page.
    cli: String,
}

/// A question that is asked often, one click away.
struct View {
    name: &'static str,
    q: &'static str,
    current: bool,
}

const VIEWS: [(&str, &str); 9] = [
    ("Open", "status:open"),
    ("Without an owner", "status:open owner:none"),
    ("Older than a day", "status:open age:>1d"),
    ("Came back", "status:open replays:>0"),
    ("Expiring", "is:expiring"),
    ("Held by a replay", "status:claimed"),
    ("In doubt", "status:in_doubt"),
    ("Recovered", "status:recovered"),
    ("All", ""),
];

fn views(q: &str) -> Vec<View> {
    VIEWS.iter().map(|(name, view)| View { name, q: view, current: q.trim() == *view }).collect()
}

fn told(seen: Glimpse) -> String {
    match (seen.letters, seen.whole) {
        (1, true) => "1 letter matches".to_string(),
        (letters, true) => format!("{} letters match", words::number(letters)),
        (letters, false) if letters > COUNTED => {
            format!("More than {} letters match", words::number(COUNTED))
        }
        (letters, false) => format!("At least {} letters match", words::number(letters)),
    }
}

fn asks_what_expires(term: &Term) -> bool {
    matches!(term.matcher, Matcher::Expiring(_))
}

/// The list says how many there are up to here; the exact number is counted when somebody asks for all.
const COUNTED: u64 = 1_000;

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<ListParams>,
) -> Result<Response, Failed> {
    let now = office.now();
    let query = match office.query(&params.q) {
        Ok(query) => query,
        Err(error) => {
            let mistake = Some((error.pointing(&params.q), error.problem.to_string()));
            let saved = Saved::of(&office, &shell, ViewOf::Letters, String::new()).await?;
            let shown = render(&Letters {
                shell,
                saved,
                views: views(&params.q),
                masked: Vec::new(),
                keeps_all: false,
                q: params.q,
                mistake,
                letters: Vec::new(),
                next: None,
                count: String::new(),
                meant: String::new(),
                cli: String::new(),
            });
            return Ok((StatusCode::BAD_REQUEST, shown).into_response());
        }
    };
    let count = office.store.glimpse(&query, COUNTED + 1).await?;
    let found = office.shown().letters(&query, &page(params.limit, params.cursor)?).await?;
    let open = Term { negated: false, matcher: Matcher::Status(Status::Open) };
    Ok(render(&Letters {
        saved: Saved::of(&office, &shell, ViewOf::Letters, params.q.trim().to_string()).await?,
        shell,
        views: views(&params.q),
        masked: query.masked_terms(),
        keeps_all: office.expiry.ends().next().is_none() && query.terms.iter().any(asks_what_expires),
        meant: if query.terms.contains(&open) {
            params.q.clone()
        } else {
            format!("{} {open}", params.q).trim().to_string()
        },
        cli: format!("dlo letters list '{}'", params.q.replace('\'', "'\\''")),
        count: told(count),
        q: params.q,
        mistake: None,
        letters: found.letters.iter().map(|letter| LetterLine::new(letter, now)).collect(),
        next: found.next.map(|cursor| cursor.0),
    }))
}

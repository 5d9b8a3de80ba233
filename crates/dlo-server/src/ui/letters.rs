//! Letters that match a query, with the query's mistakes pointed at.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dlo_core::letter::Letter;
use dlo_core::query::Query;
use dlo_core::time::Timestamp;

use super::inbox::When;
use super::{Failed, Shell, render};
use crate::api::letters::ListParams;
use crate::office::Office;
use crate::query_text::{Params, page};

/// A letter as a line.
#[derive(Debug)]
pub(crate) struct LetterLine {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) source: String,
    pub(crate) event_type: String,
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) consumer: String,
    pub(crate) key: String,
    pub(crate) attempts: u32,
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
            source: letter.source.clone(),
            event_type: text(&letter.event_type),
            class: text(&letter.error_class),
            message: letter.error_message.chars().take(MESSAGE).collect(),
            consumer: text(&letter.consumer),
            key: key.unwrap_or_default().to_string(),
            attempts: letter.attempts,
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
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<ListParams>,
) -> Result<Response, Failed> {
    let now = office.now();
    let query = match Query::parse(&params.q, now) {
        Ok(query) => query,
        Err(error) => {
            let mistake = Some((error.pointing(&params.q), error.problem.to_string()));
            let shown = render(&Letters { shell, q: params.q, mistake, letters: Vec::new(), next: None });
            return Ok((StatusCode::BAD_REQUEST, shown).into_response());
        }
    };
    let mut found = office.store.letters(&query, &page(params.limit, params.cursor)?).await?;
    office.mask.letters(&mut found.letters);
    Ok(render(&Letters {
        shell,
        q: params.q,
        mistake: None,
        letters: found.letters.iter().map(|letter| LetterLine::new(letter, now)).collect(),
        next: found.next.map(|cursor| cursor.0),
    }))
}

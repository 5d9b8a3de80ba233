//! The page: HTML that reads well at three in the morning, drawn here, also where no script runs. Every view has a URL.
//!
//! Pages ask the same store as the API and hold no rules; what changes something goes through the API, sent by the
//! scripts in `assets/`. Templates escape everything; the policy in `api/layers.rs` makes sure that what slips through
//! is still not run.

pub(crate) mod assets;
pub(crate) mod audit;
mod cli;
pub(crate) mod draw;
pub(crate) mod group;
pub(crate) mod groups;
mod held;
mod indent;
pub(crate) mod letter;
pub(crate) mod letters;
mod markdown;
mod names;
pub(crate) mod overview;
pub(crate) mod owners;
pub(crate) mod planner;
pub(crate) mod replay;
pub(crate) mod replays;
pub(crate) mod rules;
mod scope;
mod shared;
mod shell;
pub(crate) mod show;
pub(crate) mod source;
pub(crate) mod sources;
mod splits;
mod views;
mod words;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

use crate::api::error::Problem;
pub(crate) use shell::Shell;

/// What a page answers when it cannot be shown.
#[derive(Debug)]
pub(crate) struct Failed(Problem);

impl<E: Into<Problem>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

#[derive(Template)]
#[template(path = "failed.html")]
struct FailedPage<'a> {
    shell: Shell,
    title: &'a str,
    detail: &'a str,
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let title = status.canonical_reason().unwrap_or("Error");
        let mut response = render(&FailedPage { shell: Shell::default(), title, detail: self.0.detail() });
        *response.status_mut() = status;
        response
    }
}

/// Text as a part of an address.
fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A template as an answer. Rendering to memory fails only by a defect of ours.
fn render(page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => Html(html).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal_error",
                "the page could not be rendered",
            )
            .into_response()
        }
    }
}

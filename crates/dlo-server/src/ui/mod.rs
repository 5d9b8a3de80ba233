//! The page: HTML that reads well at three in the morning, drawn here, also where no script runs. Every view has a URL.
//!
//! Pages ask the same store as the API and hold no rules; what changes something goes through the API, sent by the
//! scripts in `assets/`. Templates escape everything; the policy in `api/layers.rs` makes sure that what slips through
//! is still not run.

pub(crate) mod assets;
pub(crate) mod audit;
pub(crate) mod banner;
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

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use crate::api::error::Problem;
use crate::office::Office;
pub(crate) use shell::Shell;

/// What a page answers when it cannot be shown. [`frame`] draws it, in the frame of every page.
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

/// Why a page could not be shown, on its way to [`frame`].
#[derive(Debug, Clone)]
struct Reason(Arc<Problem>);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let mut response = self.0.status().into_response();
        response.extensions_mut().insert(Reason(Arc::new(self.0)));
        response
    }
}

/// Draws pages that cannot be shown. Also these have the banner on top: it often says why.
pub(crate) async fn frame(State(office): State<Arc<Office>>, request: Request<Body>, next: Next) -> Response {
    if request.uri().path().starts_with("/api/") {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let asked = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let Some(Reason(problem)) = response.extensions_mut().remove::<Reason>() else { return response };
    let title = problem.status().canonical_reason().unwrap_or("Error");
    let shell = Shell::of(&office, &asked);
    let mut drawn = render(&FailedPage { shell, title, detail: problem.detail() });
    *drawn.status_mut() = problem.status();
    if let Some(seconds) = problem.seconds_to_wait() {
        drawn.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    drawn
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

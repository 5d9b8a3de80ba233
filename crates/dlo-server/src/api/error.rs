//! Errors as answers: RFC 9457 problem+json with a `code` that stays.
//!
//! One place turns a refusal into a status. The `detail` says what was expected and what to do; it never carries
//! payload bytes.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dlo_core::replay::PlanRefusal;
use dlo_store::StoreError;
use serde::Serialize;

/// Seconds after which a client asks again while a disk is full.
pub(crate) const DISK_RETRY: u32 = 10;

/// A refusal, on its way to the client.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    field: Option<String>,
    /// Where in a query the mistake stands, counted in bytes.
    position: Option<usize>,
    retry_after: Option<u32>,
    challenge: Option<&'static str>,
}

#[derive(Serialize)]
struct Wire<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, code, detail, field: None, position: None, retry_after: None, challenge: None }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn unprocessable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    /// Names the field that is meant.
    #[must_use]
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    #[must_use]
    pub(crate) fn at(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// Seconds after which the same request may succeed.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// What a client must present (`WWW-Authenticate`).
    #[must_use]
    pub(crate) fn challenge(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// After how many seconds the same request may succeed.
    pub(crate) const fn seconds_to_wait(&self) -> Option<u32> {
        self.retry_after
    }

    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let wire = Wire {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            code: self.code,
            detail: &self.detail,
            field: self.field.as_deref(),
            position: self.position,
        };
        let mut response = (self.status, Json(wire)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (status, code, retry) = match &error {
            StoreError::NoLetter(_) => (StatusCode::NOT_FOUND, "no_letter", None),
            StoreError::NoGroup(_) => (StatusCode::NOT_FOUND, "no_group", None),
            StoreError::NoReplay(_) => (StatusCode::NOT_FOUND, "no_replay", None),
            StoreError::Conflict { .. } => (StatusCode::CONFLICT, "conflict", None),
            StoreError::Stale { .. } => (StatusCode::PRECONDITION_FAILED, "stale", None),
            StoreError::NotOpen { .. } => (StatusCode::CONFLICT, "not_open", None),
            StoreError::PlanRefused(why) => return Self::from(why.clone()),
            StoreError::BadCursor => (StatusCode::BAD_REQUEST, "bad_cursor", None),
            StoreError::Unsupported(_) => (StatusCode::UNPROCESSABLE_ENTITY, "unsupported", None),
            StoreError::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "overloaded", Some(1)),
            StoreError::DiskFull(_) => (StatusCode::INSUFFICIENT_STORAGE, "disk_full", Some(DISK_RETRY)),
            StoreError::Unavailable(_) | StoreError::Unconfirmed(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", Some(5))
            }
            StoreError::BadBackup(_) => (StatusCode::UNPROCESSABLE_ENTITY, "bad_backup", None),
            StoreError::Newer { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "newer_version", None),
            // The rest is ours to mend: said in the log, and plainly to the client.
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "store_failed", None),
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "the store failed");
        }
        let detail = error.to_string();
        let detail = if status.is_server_error() { without_paths(&detail) } else { detail };
        Self { retry_after: retry, ..Self::new(status, code, detail) }
    }
}

/// The text with `…` in the place of every path: what a driver says of a failure may name files of the server.
fn without_paths(text: &str) -> String {
    let starts = |before: Option<char>| before.is_none_or(|c| c.is_whitespace() || "\"'`(=:<".contains(c));
    let ends = |c: char| c.is_whitespace() || "\"'`)>,;".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let before = rest[..at].chars().next_back().or(shown.chars().next_back());
        shown.push_str(&rest[..at]);
        let path = &rest[at..];
        let length = path.find(ends).unwrap_or(path.len());
        if length > 1 && starts(before) {
            shown.push('…');
            rest = &path[length..];
        } else {
            shown.push('/');
            rest = &path[1..];
        }
    }
    shown.push_str(rest);
    shown
}

impl From<PlanRefusal> for Problem {
    fn from(why: PlanRefusal) -> Self {
        let (status, code, field) = match &why {
            PlanRefusal::UnprovenPlanner => (StatusCode::FORBIDDEN, "unproven_planner", None),
            PlanRefusal::CriticalSource(_) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "critical_source", Some("doubts"))
            }
            PlanRefusal::UncountedTraffic(_) => (StatusCode::UNPROCESSABLE_ENTITY, "bad_pace", Some("share")),
        };
        let problem = Self::new(status, code, why.to_string());
        match field {
            Some(field) => problem.field(field),
            None => problem,
        }
    }
}

pub(crate) type Answer<T> = Result<T, Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_problem_names_its_code_field_and_when_to_try_again() {
        let problem =
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", "slow down").field("x").retry_after(2);
        let response = problem.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["code"], "overloaded");
        assert_eq!(value["field"], "x");
        assert_eq!(value["title"], "Too Many Requests");
    }

    #[test]
    fn a_path_of_the_server_is_not_said() {
        for (text, shown) in [
            ("unable to open database file: /var/lib/dlo/office.db", "unable to open database file: …"),
            ("no such file (\"/tmp/a b\")", "no such file (\"… b\")"),
            ("5 letters/s are too many", "5 letters/s are too many"),
            ("error:/a/b, and more", "error:…, and more"),
            ("a / b", "a / b"),
        ] {
            assert_eq!(without_paths(text), shown);
        }
    }

    #[test]
    fn a_store_that_is_away_is_a_matter_of_time() {
        assert_eq!(Problem::from(StoreError::Unavailable("x".into())).status(), 503);
        assert_eq!(Problem::from(StoreError::Overloaded).status(), 429);
    }
}

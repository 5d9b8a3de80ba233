//! From an HTTP answer to what became of the message: the table of `docs/reference/consume.md`, as one pure function.
//!
//! A verdict that the handler spells out comes before its status: first the `dlo-verdict` header, then the body. The
//! status alone is left to the rules of classification, which know what 429 and 422 mean.

use dlo_core::failure::Failure;
use dlo_core::limits;
use dlo_core::time::Timestamp;
use hyper::HeaderMap;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Map, Value};

use super::retry_after;
use super::said::{Said, Word};

/// Where a handler may put its verdict when its body is not free for it: a word, or the same JSON as in a body.
pub(super) const VERDICT: &str = "dlo-verdict";

/// What went wrong, by the answer. `None`: the message is done.
pub(super) fn read(status: StatusCode, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Option<Failure> {
    let said = in_header(headers).or(in_body(headers, body));
    let done = match said.verdict {
        Some(Word::Done) => true,
        Some(Word::Failed(_)) => false,
        None => status.is_success(),
    };
    if done {
        return None;
    }
    Some(said.failure(by_status(status, headers, body, now)))
}

/// What the status says by itself.
fn by_status(status: StatusCode, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Failure {
    if status.is_success() {
        return Failure::new("", "the handler answered with a verdict and no word on why");
    }
    let retry_after = header(headers, RETRY_AFTER.as_str()).and_then(|text| retry_after::parse(text, now));
    let message = plain(headers, body).unwrap_or_else(|| {
        let hint = if status.is_redirection() { "; redirects are not followed" } else { "" };
        format!("the handler answered {status}{hint}")
    });
    let class = format!("HTTP {}", status.as_u16());
    Failure { http_status: Some(status.as_u16()), retry_after, ..Failure::new(class, message) }
}

/// A body in plain words is the message. Pages of HTML are for somebody else.
fn plain(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    if media_type(headers).is_some_and(|kind| !kind.eq_ignore_ascii_case("text/plain")) {
        return None;
    }
    let mut text = std::str::from_utf8(body).ok()?.trim().to_owned();
    limits::cut(&mut text, limits::ERROR_MESSAGE);
    Some(text).filter(|text| !text.is_empty())
}

fn in_header(headers: &HeaderMap) -> Said {
    let Some(text) = header(headers, VERDICT) else { return Said::default() };
    match object(text.as_bytes()) {
        Some(object) => Said::of(&object),
        None => Said { verdict: Word::parse(text), ..Said::default() },
    }
}

fn in_body(headers: &HeaderMap, body: &[u8]) -> Said {
    let Some(object) = object(body) else { return Said::default() };
    let problem =
        media_type(headers).is_some_and(|kind| kind.eq_ignore_ascii_case("application/problem+json"));
    if problem { Said::of_problem(&object) } else { Said::of(&object) }
}

/// The JSON object that these bytes are, if they are one. A content type is not asked for: many handlers set none.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let begins = bytes.trim_ascii_start().first() == Some(&b'{');
    begins.then(|| serde_json::from_slice(bytes).ok()).flatten()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn media_type(headers: &HeaderMap) -> Option<&str> {
    let text = header(headers, CONTENT_TYPE.as_str())?;
    Some(text.split(';').next().unwrap_or(text).trim())
}

#[cfg(test)]
mod tests;

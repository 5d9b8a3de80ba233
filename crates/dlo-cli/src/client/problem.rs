//! Answers that are no success (RFC 9457), told to a person: what went wrong, where, and what to do.

use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::output::{clean, clean_lines, cut};

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    status: u16,
    /// Stable, for programs.
    code: String,
    detail: String,
    /// Seconds after which a second try makes sense.
    retry_after: Option<u64>,
    position: Option<usize>,
}

impl Problem {
    pub(crate) fn read(status: u16, retry_after: Option<u64>, body: &str) -> Self {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(clean_lines);
        let detail = text("detail").or_else(|| text("title")).unwrap_or_else(|| {
            let shown = cut(&clean(body.trim()), 200);
            if shown.is_empty() { "the server gave no reason".to_string() } else { shown }
        });
        let position = value.get("position").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        Self { status, code: text("code").unwrap_or_default(), detail, retry_after, position }
    }

    /// The exit code that scripts see.
    const fn exit(&self) -> Exit {
        match self.status {
            404 | 410 => Exit::NotFound,
            401 | 403 | 409 | 412 | 421 | 423 => Exit::Refused,
            400 | 405 | 406 | 411 | 413..=415 | 422 | 431 => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    pub(crate) fn into_failure(self, with_token: bool) -> Failure {
        let mut words = self.detail.clone();
        let hint = match (self.status, with_token) {
            (401, false) => Some("give the office's token by --token or DLO_TOKEN".to_string()),
            (401, true) => Some("the token is not the one that the office was started with".to_string()),
            (429 | 503, _) => Some(match self.retry_after {
                Some(seconds) => format!("the office is busy; try again in {seconds} s"),
                None => "the office is busy; try again shortly".to_string(),
            }),
            _ => None,
        };
        if let Some(hint) = hint {
            words.push_str("\n  ");
            words.push_str(&hint);
        }
        words.push_str(&format!("\n  (HTTP {}{})", self.status, self.shown_code()));
        let busy = matches!(self.status, 429 | 503);
        Failure { busy, position: self.position, ..Failure::new(self.exit(), words) }
    }

    fn shown_code(&self) -> String {
        if self.code.is_empty() { String::new() } else { format!(", {}", cut(&self.code, 64)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_with_its_detail_and_what_to_do() {
        let body = r#"{"type":"about:blank","title":"Unauthorized","status":401,"code":"token_needed","detail":"a token is demanded here"}"#;
        let failure = Problem::read(401, None, body).into_failure(false);
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.words,
            "a token is demanded here\n  give the office's token by --token or DLO_TOKEN\n  (HTTP 401, token_needed)"
        );
    }

    #[test]
    fn each_kind_of_refusal_has_its_exit_code() {
        let exit = |status| Problem::read(status, None, "").exit();
        assert_eq!([exit(404), exit(409), exit(422)], [Exit::NotFound, Exit::Refused, Exit::Usage]);
        assert_eq!([exit(500), exit(429), exit(302)], [Exit::Failed; 3]);
    }

    #[test]
    fn an_answer_of_a_stranger_is_shown_short_and_clean() {
        let page = format!("<html>\u{1b}[2J{}", "x".repeat(1_000));
        let failure = Problem::read(502, None, &page).into_failure(false);
        assert!(failure.words.chars().count() < 300 && !failure.words.contains('\u{1b}'), "{failure}");
    }
}

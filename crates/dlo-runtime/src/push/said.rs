//! What a handler says of one message, in JSON or in one word: its verdict and what it tells of the failure.
//!
//! Everything is optional, and what is not understood is as if it were not there: an application may answer with any
//! JSON it likes. Pure; whatever the bytes are, it does not fail.

use std::time::Duration;

use dlo_core::failure::Failure;
use dlo_core::limits;
use dlo_core::verdict::VerdictKind;
use serde_json::{Map, Value};

/// A handler's own word on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Done,
    Failed(VerdictKind),
}

impl Word {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "done" => Some(Self::Done),
            word => word.parse().ok().map(Self::Failed),
        }
    }
}

/// The fields of an answer, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Said {
    pub(super) verdict: Option<Word>,
    pub(super) class: Option<String>,
    pub(super) message: Option<String>,
    pub(super) code: Option<String>,
    pub(super) stack: Option<String>,
    pub(super) dependency: Option<String>,
    pub(super) retry_after: Option<Duration>,
}

impl Said {
    /// The object's fields. `message` may also stand where frameworks put it: `error`, `detail` or `title`.
    pub(super) fn of(object: &Map<String, Value>) -> Self {
        let message = ["message", "error", "detail", "title"];
        Self {
            verdict: object.get("verdict").and_then(Value::as_str).and_then(Word::parse),
            class: text(object, "error_class", limits::NAME),
            message: message.iter().find_map(|key| text(object, key, limits::ERROR_MESSAGE)),
            code: text(object, "code", limits::NAME),
            stack: text(object, "stack", limits::ERROR_STACK),
            dependency: text(object, "dependency", limits::NAME),
            retry_after: object.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis),
        }
    }

    /// As [`Said::of`], where the answer is a problem of RFC 9457: `type` is the class, `title` and `detail` the message.
    pub(super) fn of_problem(object: &Map<String, Value>) -> Self {
        let mut said = Self::of(object);
        let kind = text(object, "type", limits::NAME).filter(|kind| kind != "about:blank");
        said.class = said.class.or(kind);
        let title = text(object, "title", limits::ERROR_MESSAGE);
        let detail = text(object, "detail", limits::ERROR_MESSAGE);
        if let (Some(title), false) = (title, object.contains_key("message")) {
            said.message = Some(detail.map_or_else(|| title.clone(), |detail| format!("{title}: {detail}")));
        }
        said
    }

    /// Both, where the first has the word before the second.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            verdict: self.verdict.or(other.verdict),
            class: self.class.or(other.class),
            message: self.message.or(other.message),
            code: self.code.or(other.code),
            stack: self.stack.or(other.stack),
            dependency: self.dependency.or(other.dependency),
            retry_after: self.retry_after.or(other.retry_after),
        }
    }

    /// The failure that this tells of. What it leaves out is taken from `otherwise`.
    pub(super) fn failure(self, otherwise: Failure) -> Failure {
        let says = match self.verdict {
            Some(Word::Failed(kind)) => Some(kind),
            Some(Word::Done) | None => None,
        };
        Failure {
            class: self.class.unwrap_or(otherwise.class),
            message: self.message.unwrap_or(otherwise.message),
            code: self.code.or(otherwise.code),
            http_status: otherwise.http_status,
            stack: self.stack.or(otherwise.stack),
            dependency: self.dependency.or(otherwise.dependency),
            retry_after: self.retry_after.or(otherwise.retry_after),
            says,
        }
        .bounded()
    }
}

/// A text under a key, cut; a number is taken as its digits, as codes often are.
fn text(object: &Map<String, Value>, key: &str, most: usize) -> Option<String> {
    let mut text = match object.get(key)? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    limits::cut(&mut text, most);
    Some(text).filter(|text| !text.is_empty())
}

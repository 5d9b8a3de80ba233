//! Home-made headers and JSON envelopes: names that a user gives, and the shapes of typical hand-written consumers.
//!
//! A JSON envelope is unwrapped only if it has a payload and proves to be a dead letter's, so that a business message with
//! `payload` and `error` is left alone. What the broker moved itself is in no envelope. The names a user gives are always followed; the built-in ones
//! only where no client told its story by a convention.

mod builtin;
mod fields;
mod flat;
mod json;
mod nested;
mod proof;
mod wrapped;

use serde::Deserialize;

use super::catalogue::Writer;
use super::scan::Story;
use super::view::View;
use crate::origin::BrokerKind;

pub(super) use builtin::tells_of_a_failure;
pub use fields::{Fields, OneOrMany};

/// The ids under which a reading names what was read here.
pub(super) const IDS: [&str; 2] = [HEADERS, JSON];
const HEADERS: &str = "custom.headers";
const JSON: &str = "custom.json";

/// How home-made dead letters of one source are read. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mapper {
    /// Whether the shapes of typical hand-written consumers are tried.
    pub builtin: bool,
    /// Header names, per field; of several the first that has a value speaks.
    pub headers: Fields,
    /// Dotted paths into a JSON payload, per field.
    pub json: Fields,
    /// Dotted paths to the original payload, as a text or as JSON that stands there unquoted.
    pub payload: OneOrMany,
    /// Whether that text is Base64.
    pub payload_base64: bool,
    /// Dotted paths to the original key.
    pub key: OneOrMany,
    /// Dotted paths to an object with the original headers.
    pub original_headers: OneOrMany,
    /// Names of headers, and of fields of a Redis entry, that the failing consumer adds: a replay takes them off.
    pub take_off: OneOrMany,
    /// Names that a replay never takes off, whatever a convention says.
    pub keep: OneOrMany,
}

impl Mapper {
    pub(super) fn takes_off(&self, name: &str) -> bool {
        self.take_off.iter().any(|named| named.eq_ignore_ascii_case(name))
    }

    pub(super) fn keeps(&self, name: &str) -> bool {
        self.keep.iter().any(|named| named.eq_ignore_ascii_case(name))
    }
}

impl Default for Mapper {
    fn default() -> Self {
        Self {
            builtin: true,
            headers: Fields::default(),
            json: Fields::default(),
            payload: OneOrMany::default(),
            payload_base64: false,
            key: OneOrMany::default(),
            original_headers: OneOrMany::default(),
            take_off: OneOrMany::default(),
            keep: OneOrMany::default(),
        }
    }
}

/// Adds what the user's names tell, and what the built-in shapes do.
pub(super) fn read_into(mapper: &Mapper, view: &View<'_>, stories: &mut Vec<Story>) {
    let told = stories.iter().any(|story| story.writer == Writer::Client);
    let position = view.message.headers.len();
    let story = |id, reading| Story { id, writer: Writer::Client, position, reading };
    let headers = fields::from_headers(&mapper.headers, view)
        .or_else(|| (mapper.builtin && !told).then(|| builtin::headers(view)).flatten())
        .or_else(|| (mapper.builtin && !told).then(|| flat::read(mapper, view)).flatten());
    let untouched = headers.is_none() && stories.iter().any(is_move);
    if let Some(reading) = headers {
        stories.push(story(HEADERS, reading));
    }
    let wrapped = stories.iter().any(|story| story.reading.unwrapped.is_some());
    let guesses = mapper.builtin && !told && !wrapped && !untouched;
    let json = json::mapped(mapper, view).or_else(|| guesses.then(|| json::guessed(view)).flatten());
    if let Some(reading) = json {
        stories.push(story(JSON, reading));
    }
}

/// Whether a broker tells that it moved the message to the dead-letter queue. Redis never does.
fn is_move(story: &Story) -> bool {
    story.writer != Writer::Client
        && story.id != BrokerKind::Redis.as_str()
        && (story.reading.origin.is_some() || story.reading.reason.is_some())
}

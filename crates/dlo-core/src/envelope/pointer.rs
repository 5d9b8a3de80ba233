//! A dead letter without its body: the body does not fit the dead-letter queue and is kept elsewhere.

use super::names;
use super::read::{parsed, put};
use crate::message::Headers;

/// What a pointer says about its body.
const ELSEWHERE: &str = "elsewhere";

/// Says that the body of this message, of so many bytes, is in a file of this name.
pub fn point_elsewhere(headers: &mut Headers, file: &str, bytes: usize) {
    headers.remove_where(|name| names::is_one_of(name, names::OF_A_POINTER));
    put(headers, names::RECORD, Some(ELSEWHERE));
    put(headers, names::BODY_FILE, Some(file));
    put(headers, names::BODY_BYTES, Some(bytes));
}

/// Whether the body of this letter is kept elsewhere, and how many bytes it has.
pub fn body_elsewhere(headers: &Headers) -> Option<usize> {
    headers.text(names::RECORD).filter(|what| *what == ELSEWHERE)?;
    Some(parsed(headers, names::BODY_BYTES).unwrap_or_default())
}

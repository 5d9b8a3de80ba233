//! Reading and writing single values. Reading is forgiving: what is no sense is as good as absent.

use std::str::FromStr;

use super::{OriginHeaders, names};
use crate::attempt::{AttemptRecord, History};
use crate::limits;
use crate::message::Headers;
use crate::time::Timestamp;

/// Bytes of a history header that are read; ours are far smaller.
const HISTORY_SIZE: usize = 64 * 1024;

/// The text of a header, unless it is longer than a name of that kind can be: cutting would make it another name.
pub(super) fn name(headers: &Headers, header: &str, max: usize) -> Option<String> {
    headers.text(header).filter(|text| !text.is_empty() && text.len() <= max).map(str::to_owned)
}

pub(super) fn parsed<T: FromStr>(headers: &Headers, header: &str) -> Option<T> {
    headers.text(header).filter(|text| text.len() <= limits::ID).and_then(|text| text.trim().parse().ok())
}

pub(super) fn time(headers: &Headers, header: &str) -> Option<Timestamp> {
    headers.text(header).and_then(|text| Timestamp::parse(text.trim()).ok())
}

/// The records of the history that make sense, one by one: a broken one does not take the others with it.
pub(super) fn history(headers: &Headers) -> History {
    let text = headers.text(names::HISTORY).filter(|text| text.len() <= HISTORY_SIZE);
    let values: Vec<serde_json::Value> =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    History::from_records(
        values.into_iter().filter_map(|value| serde_json::from_value::<AttemptRecord>(value).ok()),
    )
}

pub(super) fn origin(headers: &Headers) -> OriginHeaders {
    OriginHeaders {
        broker: parsed(headers, names::ORIGIN_BROKER),
        queue: name(headers, names::ORIGIN_QUEUE, limits::NAME),
        incarnation: name(headers, names::ORIGIN_INCARNATION, limits::NAME),
        partition: parsed(headers, names::ORIGIN_PARTITION),
        offset: parsed(headers, names::ORIGIN_OFFSET),
        message_id: name(headers, names::ORIGIN_MESSAGE_ID, limits::ID),
        timestamp: time(headers, names::ORIGIN_TIMESTAMP),
    }
}

/// Writes a header if there is something to write.
pub(super) fn put(headers: &mut Headers, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        headers.push_text(name, value.to_string());
    }
}

pub(super) fn put_history(headers: &mut Headers, history: &History) {
    if !history.is_empty() {
        // Records are plain numbers and texts, which always have a JSON form.
        put(headers, names::HISTORY, serde_json::to_string(history).ok());
    }
}

pub(super) fn put_origin(headers: &mut Headers, origin: &OriginHeaders) {
    put(headers, names::ORIGIN_BROKER, origin.broker);
    put(headers, names::ORIGIN_QUEUE, origin.queue.as_ref());
    put(headers, names::ORIGIN_INCARNATION, origin.incarnation.as_ref());
    put(headers, names::ORIGIN_PARTITION, origin.partition);
    put(headers, names::ORIGIN_OFFSET, origin.offset);
    put(headers, names::ORIGIN_MESSAGE_ID, origin.message_id.as_ref());
    put(headers, names::ORIGIN_TIMESTAMP, origin.timestamp);
}

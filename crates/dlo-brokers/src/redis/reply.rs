//! Answers of the server as types. What does not have the shape that is expected is an error, never a panic.

use bytes::Bytes;
use dlo_core::broker::BrokerError;
use redis::Value;

use super::connection::answered;
use super::entry::Field;
use super::id::EntryId;

/// One entry as it stands in a stream.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) fields: Vec<Field>,
}

pub(super) fn strange(what: &str) -> BrokerError {
    BrokerError::Unavailable(format!("the server answered something that was not understood: {what}"))
}

/// The value of an answer, or the error that it is.
pub(super) fn value(answer: Value) -> Result<Value, BrokerError> {
    match answer {
        Value::ServerError(error) => Err(answered(error.code(), error.details())),
        other => Ok(other),
    }
}

pub(super) fn list(answer: Value) -> Result<Vec<Value>, BrokerError> {
    match value(answer)? {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(Vec::new()),
        _ => Err(strange("not a list")),
    }
}

pub(super) fn bytes(answer: Value) -> Result<Bytes, BrokerError> {
    match value(answer)? {
        Value::BulkString(bytes) => Ok(bytes.into()),
        Value::SimpleString(text) => Ok(text.into()),
        Value::Okay => Ok(Bytes::from_static(b"OK")),
        Value::Int(number) => Ok(number.to_string().into()),
        _ => Err(strange("not a string")),
    }
}

pub(super) fn text(answer: Value) -> Result<String, BrokerError> {
    Ok(String::from_utf8_lossy(&bytes(answer)?).into_owned())
}

pub(super) fn number(answer: Value) -> Result<i64, BrokerError> {
    match value(answer)? {
        Value::Int(number) => Ok(number),
        Value::BulkString(digits) => std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| strange("not a number")),
        _ => Err(strange("not a number")),
    }
}

pub(super) fn id(answer: Value) -> Result<EntryId, BrokerError> {
    EntryId::parse(&bytes(answer)?).ok_or_else(|| strange("not an entry id"))
}

/// Names and values, one after the other.
pub(super) fn fields(answer: Value) -> Result<Vec<Field>, BrokerError> {
    let mut items = list(answer)?.into_iter();
    let mut fields = Vec::with_capacity(items.len() / 2);
    while let (Some(name), Some(value)) = (items.next(), items.next()) {
        fields.push((bytes(name)?, bytes(value)?));
    }
    Ok(fields)
}

/// The entries of XRANGE: a list of ids and fields.
pub(super) fn entries(answer: Value) -> Result<Vec<Entry>, BrokerError> {
    let mut entries = Vec::new();
    for item in list(answer)? {
        let mut parts = list(item)?.into_iter();
        match (parts.next(), parts.next()) {
            // An entry that was deleted while it was pending has an id and no fields.
            (Some(_), Some(Value::Nil) | None) | (None, _) => {}
            (Some(name), Some(content)) => entries.push(Entry { id: id(name)?, fields: fields(content)? }),
        }
    }
    Ok(entries)
}

/// The entries of XREAD and XREADGROUP on one stream.
pub(super) fn entries_of_one_stream(answer: Value) -> Result<Vec<Entry>, BrokerError> {
    let Some(stream) = list(answer)?.into_iter().next() else { return Ok(Vec::new()) };
    let content = list(stream)?.into_iter().nth(1).unwrap_or(Value::Nil);
    entries(content)
}

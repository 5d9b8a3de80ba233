//! The search bar: what may be typed next, and what is wrong with what was typed.
//!
//! Positions are bytes of `q`. Names come from what is kept of groups at write time; nothing that stands in letters alone
//! (keys, headers, payloads) is ever offered.

use std::ops::Range;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::limits;
use dlo_core::query::complete::{OFFERED, Spot, ValueOffer};
use dlo_core::query::{Field, Query, QueryError};
use serde::{Deserialize, Serialize};

use super::error::Answer;
use crate::office::Office;
use crate::query_text::Params;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteParams {
    #[serde(default)]
    q: String,
    /// Where the cursor stands; behind the last byte, unless it is said.
    at: Option<usize>,
}

#[derive(Serialize)]
struct CompleteOut {
    /// What an offer takes the place of.
    replace: Span,
    fields: Vec<FieldOut>,
    values: Vec<ValueOut>,
    error: Option<ErrorOut>,
}

#[derive(Serialize)]
struct Span {
    from: usize,
    to: usize,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { from: range.start, to: range.end }
    }
}

#[derive(Serialize)]
struct FieldOut {
    name: &'static str,
    insert: String,
    help: &'static str,
    example: &'static str,
}

impl From<&'static Field> for FieldOut {
    fn from(field: &'static Field) -> Self {
        Self { name: field.name, insert: field.insert(), help: field.help, example: field.example }
    }
}

#[derive(Serialize)]
struct ValueOut {
    field: &'static str,
    value: String,
    insert: String,
    open: Option<u64>,
}

impl From<ValueOffer> for ValueOut {
    fn from(offer: ValueOffer) -> Self {
        Self { field: offer.field, value: offer.value, insert: offer.insert, open: offer.open }
    }
}

#[derive(Serialize)]
struct ErrorOut {
    detail: String,
    /// The bytes that are meant; empty where something is missing.
    at: Span,
    /// The character at which they begin, counted from one.
    column: usize,
    near: Vec<String>,
    /// It stands in the term under the cursor, which may still become right.
    unfinished: bool,
}

impl ErrorOut {
    fn new(error: QueryError, spot: &Spot) -> Self {
        let unfinished = error.at.start >= spot.term.start && error.at.end <= spot.term.end;
        let detail = error.problem.to_string();
        Self { detail, column: error.column, near: error.near, unfinished, at: error.at.into() }
    }
}

pub(crate) async fn complete(
    State(office): State<Arc<Office>>,
    Params(params): Params<CompleteParams>,
) -> Answer<Response> {
    let error = Query::parse(&params.q, office.now()).err();
    // What is too long to be a query is not looked through for a spot.
    let text = if params.q.len() > limits::QUERY * 4 { "" } else { params.q.as_str() };
    let spot = Spot::at(text, params.at.unwrap_or(text.len()));
    let (named, typed) = spot.names();
    let known =
        if named.is_empty() { Vec::new() } else { office.shown().names(&named, typed, OFFERED).await? };
    let offer = spot.offer(known, office.now());
    Ok(Json(CompleteOut {
        fields: offer.fields.into_iter().map(FieldOut::from).collect(),
        values: offer.values.into_iter().map(ValueOut::from).collect(),
        error: error.map(|error| ErrorOut::new(error, &spot)),
        replace: spot.replace.into(),
    })
    .into_response())
}

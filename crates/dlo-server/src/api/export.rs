//! Letters out, whole: a line each, in the shape that `POST /letters` takes, with payload, id and status.
//!
//! The export is written to the audit log before its first byte leaves. A failure in the middle breaks the connection, so that
//! half an export never looks like a whole one. A letter that is damaged does not hold back the others: the log names it,
//! and a last line says how many are missing. An office that takes the export in refuses that line and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dlo_core::attempt::AttemptRecord;
use dlo_core::id::LetterId;
use dlo_core::letter::{LetterDetail, Status};
use dlo_core::query::Query;
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use dlo_store::{DynStore, Event, Page, StoreError, StoredPayload};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::dto::{HeadersOut, KeyOut, OriginOut, VersionOut};
use super::error::Answer;
use crate::office::Office;
use crate::query_text::{Author, Params, query_of_shown};

/// Letters of one page of the walk.
const PAGE: usize = 100;
/// Letters read at once.
const AT_ONCE: usize = 4;
/// The audit log counts up to here.
const COUNTED: u64 = 10_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportParams {
    #[serde(default)]
    q: String,
}

pub(crate) async fn letters(
    State(office): State<Arc<Office>>,
    author: Author,
    Params(params): Params<ExportParams>,
) -> Answer<Response> {
    let place = office.long_reading()?;
    let query = query_of_shown(&params.q, &office)?;
    let count = office.store.count(&query, COUNTED).await?;
    let mut deed = author.looks();
    deed.reason = Some(format!("q: {}", params.q));
    office.store.note(Event::Exported, count, &deed, office.now()).await?;

    let unreadable = Arc::new(AtomicU64::new(0));
    let counter = unreadable.clone();
    let lines = ids(office.store.clone(), query)
        .map_ok(move |id| line(office.clone(), id, counter.clone()))
        .try_buffered(AT_ONCE)
        .chain(stream::once(async move { Ok(ending(unreadable.load(Ordering::Relaxed))) }))
        .try_filter_map(|line| std::future::ready(Ok(line)))
        .inspect(move |_| {
            let _held = &place;
        });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

/// The ids of all letters that match, page by page.
fn ids(store: DynStore, query: Query) -> impl futures::Stream<Item = Result<LetterId, StoreError>> + Send {
    let pages = stream::try_unfold(Some(Page::first(PAGE)), move |page| {
        let (store, query) = (store.clone(), query.clone());
        async move {
            let Some(page) = page else { return Ok(None) };
            let found = store.letters(&query, &page).await?;
            let next = found.next.map(|cursor| Page { limit: PAGE, cursor: Some(cursor) });
            let ids: Vec<_> = found.letters.iter().map(|letter| Ok(letter.id)).collect();
            Ok(Some((stream::iter(ids), next)))
        }
    });
    pages.try_flatten()
}

/// One letter as a line; `None` when it has gone since it was listed, or cannot be read and was counted.
async fn line(
    office: Arc<Office>,
    id: LetterId,
    unreadable: Arc<AtomicU64>,
) -> Result<Option<Bytes>, StoreError> {
    match whole(&office, id).await {
        Ok(line) => Ok(Some(line)),
        Err(StoreError::NoLetter(_)) => Ok(None),
        Err(StoreError::Unreadable(_)) => {
            tracing::warn!(letter = %id, "it cannot be read and is left out of an export");
            unreadable.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn whole(office: &Office, id: LetterId) -> Result<Bytes, StoreError> {
    let detail = office.shown().letter(id).await?;
    let payload = office.shown().payload(id, None).await?;
    let mut out = serde_json::to_vec(&Exported::new(&detail, &payload))
        .map_err(|error| StoreError::Unreadable(error.to_string()))?;
    out.push(b'\n');
    Ok(out.into())
}

/// The line behind the last letter, if letters are missing.
fn ending(unreadable: u64) -> Option<Bytes> {
    (unreadable > 0).then(|| format!("{{\"unreadable\":{unreadable}}}\n").into())
}

#[derive(Serialize)]
struct Exported<'a> {
    id: LetterId,
    status: Status,
    source: &'a str,
    #[serde(flatten)]
    origin: OriginOut<'a>,
    #[serde(flatten)]
    key: KeyOut<'a>,
    headers: HeadersOut<'a>,
    content_type: Option<&'a str>,
    event_type: Option<&'a str>,
    event_version: Option<VersionOut<'a>>,
    correlation_id: Option<&'a str>,
    trace_id: Option<&'a str>,
    consumer: Option<&'a str>,
    consumer_id: Option<&'a str>,
    consumer_version: Option<&'a str>,
    attempts: u32,
    attempt_history: &'a [AttemptRecord],
    error_class: Option<&'a str>,
    error_message: &'a str,
    error_code: Option<&'a str>,
    error_stack: Option<&'a str>,
    reason: Reason,
    verdict: VerdictKind,
    rule: Option<&'a str>,
    published_at: Option<Timestamp>,
    received_at: Option<Timestamp>,
    first_failed_at: Option<Timestamp>,
    failed_at: Timestamp,
    replay_id: Option<&'a str>,
    payload_base64: String,
}

impl<'a> Exported<'a> {
    fn new(detail: &'a LetterDetail, payload: &StoredPayload) -> Self {
        let letter = &detail.letter;
        Self {
            id: letter.id,
            status: letter.status,
            source: &letter.source,
            origin: OriginOut::new(&letter.origin),
            key: KeyOut::new(letter.key.as_deref()),
            headers: HeadersOut(&detail.headers),
            content_type: letter.content_type.as_deref(),
            event_type: letter.event_type.as_deref(),
            event_version: letter.event_version.as_deref().map(VersionOut),
            correlation_id: letter.correlation_id.as_deref(),
            trace_id: letter.trace_id.as_deref(),
            consumer: letter.consumer.as_deref(),
            consumer_id: letter.consumer_id.as_deref(),
            consumer_version: letter.consumer_version.as_deref(),
            attempts: letter.attempts,
            attempt_history: detail.history.records(),
            error_class: letter.error_class.as_deref(),
            error_message: &letter.error_message,
            error_code: letter.error_code.as_deref(),
            error_stack: detail.error_stack.as_deref(),
            reason: letter.reason,
            verdict: letter.verdict,
            rule: letter.rule.as_deref(),
            published_at: letter.published_at,
            received_at: letter.received_at,
            first_failed_at: letter.first_failed_at,
            failed_at: letter.failed_at,
            replay_id: detail.deaths.last().and_then(|death| death.replay_id.as_deref()),
            payload_base64: STANDARD.encode(&payload.bytes),
        }
    }
}

//! Letters that only point to a record (JetStream advisories, share groups, batches) are made whole while it exists.
//!
//! The letter then holds the record, byte for byte: its payload, key and headers are the original. What pointed to it
//! stays with it: its headers behind those of the record, its body in the header `dlo-pointer`. `dlo-record` says
//! whether the record was `fetched`, or why not; then the letter is what was found. Both are taken off by a replay.
//!
//! Bounded: so many fetches at once, each within a time. A broker that is out of reach is waited for: the record may
//! still be there when it comes back.

use std::time::Duration;

use bytes::Bytes;
use dlo_core::broker::{BrokerError, Seen};
use dlo_core::conventions::Held;
use dlo_core::limits;
use dlo_core::origin::Origin;
use futures::StreamExt;

use super::admit::Found;
use super::spec::CaptureSpec;

/// Fetches at once, for one batch.
const AT_ONCE: usize = 8;
/// How long one fetch may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// On a letter that was a pointer: what became of fetching its record.
const RECORD: &str = "dlo-record";
/// On a letter that was a pointer: the body of what pointed.
const POINTER: &str = "dlo-pointer";
/// On a letter of a batch: how many further records the batch had, that are letters of nobody.
const LEFT_OUT: &str = "dlo-left-out";

/// Makes whole what points; everything else passes in its order.
pub(super) async fn make_whole(spec: &CaptureSpec, found: Vec<Found>) -> Result<Vec<Found>, BrokerError> {
    if !found.iter().any(Found::is_pointer) {
        return Ok(found);
    }
    let parts: Vec<Found> = found.into_iter().flat_map(split).collect();
    let fetched: Vec<Result<Found, BrokerError>> =
        futures::stream::iter(parts.into_iter().map(|part| one(spec, part)))
            .buffered(AT_ONCE)
            .collect()
            .await;
    fetched.into_iter().collect()
}

/// One of each record that is pointed to.
fn split(found: Found) -> Vec<Found> {
    let records = match &found.reading.held {
        Held::Batch(records) if !records.is_empty() => records.clone(),
        Held::Batch(_) | Held::Whole | Held::Pointer(_) => return vec![found],
    };
    let each = |record: &Origin| Found {
        message: found.message.clone(),
        place: found.place.clone(),
        published_at: found.published_at,
        deliveries: found.deliveries,
        reading: found.reading.clone(),
        record: Some(record.clone()),
    };
    records.iter().map(each).collect()
}

async fn one(spec: &CaptureSpec, mut found: Found) -> Result<Found, BrokerError> {
    let record = match (&found.record, &found.reading.held) {
        (Some(record), _) | (None, Held::Pointer(record)) => record.clone(),
        (None, Held::Whole | Held::Batch(_)) => return Ok(found),
    };
    let what = match tokio::time::timeout(PATIENCE, spec.broker.fetch(&record)).await {
        Ok(Ok(Some(seen))) => {
            fill(&mut found, seen);
            "fetched".to_string()
        }
        Ok(Ok(None)) => "gone".to_string(),
        Ok(Err(error @ BrokerError::Unavailable(_))) => return Err(error),
        Ok(Err(error)) => format!("not fetched: {error}"),
        Err(_) => return Err(BrokerError::Unavailable("a record was not fetched in time".into())),
    };
    if found.reading.left_out > 0 {
        found.message.headers.push_text(LEFT_OUT, found.reading.left_out.to_string());
    }
    if what != "fetched" && found.reading.error_message.is_none() {
        found.reading.error_message = Some(format!("the record that this letter points to is {what}"));
    }
    found.message.headers.push_text(RECORD, what);
    Ok(found)
}

/// Puts the record in the place of what pointed to it.
fn fill(found: &mut Found, seen: Seen) {
    let pointer = std::mem::replace(&mut found.message, seen.message);
    found.message.headers.0.extend(pointer.headers.0);
    let body: Bytes = pointer.payload.0;
    if !body.is_empty() && body.len() <= limits::HEADERS_SIZE {
        found.message.headers.push(POINTER, Some(body));
    }
    found.published_at = seen.published_at.or(found.published_at);
}

//! Reading request bodies: within a limit, never slower than allowed, with a refusal that says which of the two it was.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::api::error::{Answer, Problem};
use crate::memory::Held;
use crate::office::Office;

/// Bytes of a body where none is expected.
const NOTHING: usize = 64 * 1024;
/// Bytes of the small JSON documents that decisions are.
const SMALL: usize = 1024 * 1024;
/// How much of a body that is too large is read away, so that the client gets to read the refusal.
const DRAINED: usize = 256 * 1024 * 1024;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The next piece of the body; `None` at its end.
pub(crate) async fn next(body: &mut Body, timeout: Duration) -> Answer<Option<Bytes>> {
    loop {
        let frame = match tokio::time::timeout(timeout, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => {
                return Err(Problem::bad_request("body_broken", "the body ended before it was complete"));
            }
            Ok(None) => return Ok(None),
            Err(_) => return Err(too_slow(timeout)),
        };
        // Trailers carry nothing that is asked for.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

fn too_slow(timeout: Duration) -> Problem {
    let detail = format!("no byte of the body arrived for {} seconds", timeout.as_secs_f64());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail)
}

/// The whole body, up to `limit` bytes, and the room that it takes.
pub(crate) async fn whole(request: Request<Body>, limit: usize, office: &Office) -> Answer<(Bytes, Held)> {
    let (parts, mut body) = request.into_parts();
    let timeout = office.config.limits.body_timeout;
    let announced = announced(&parts.headers);
    if announced.is_some_and(|length| length > limit as u64) {
        if !parts.headers.contains_key(header::EXPECT) {
            drain(&mut body, timeout).await;
        }
        return Err(too_large(limit));
    }
    // What a client announces is not yet what it sends: room is made as bytes arrive.
    let room = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0).min(SMALL);
    let mut read = BytesMut::with_capacity(room);
    let mut held = Held::default();
    while let Some(piece) = next(&mut body, timeout).await? {
        if read.len() + piece.len() > limit {
            drain(&mut body, timeout).await;
            return Err(too_large(limit));
        }
        office.memory.hold(&mut held, piece.len()).await?;
        read.extend_from_slice(&piece);
    }
    Ok((read.freeze(), held))
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(limit: usize) -> Problem {
    let detail = format!(
        "the body is larger than {limit} bytes; send fewer letters at once, or a stream as application/x-ndjson"
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

/// Reads on and forgets: a client that is still writing when the connection closes never sees the answer.
async fn drain(body: &mut Body, timeout: Duration) {
    let reading = async {
        let mut read = 0;
        while let Ok(Some(piece)) = next(body, timeout).await {
            read += piece.len();
            if read > DRAINED {
                break;
            }
        }
    };
    if tokio::time::timeout(DRAIN_TIME, reading).await.is_err() {
        tracing::debug!("a body that is too large was not read to its end");
    }
}

/// Reads and drops the body of a request that needs none. The connection of a body that stays unread is closed behind the
/// answer, and the client may lose the answer with it.
pub(crate) async fn discard(request: Request<Body>, office: &Office) -> Answer<()> {
    whole(request, NOTHING, office).await.map(drop)
}

/// A small JSON document of a known shape. Unknown fields are the shape's to refuse.
pub(crate) async fn json<T: DeserializeOwned>(request: Request<Body>, office: &Office) -> Answer<T> {
    document(request, SMALL, office).await
}

/// The same, where there may be no body at all.
pub(crate) async fn json_or_nothing<T: DeserializeOwned>(
    request: Request<Body>,
    office: &Office,
) -> Answer<Option<T>> {
    let nothing = announced(request.headers()).unwrap_or(0) == 0
        && !request.headers().contains_key(header::TRANSFER_ENCODING);
    // A form that some page posts announces a type even where it is empty.
    if nothing && media_type(request.headers()).is_none_or(|found| found == "application/json") {
        return Ok(None);
    }
    json(request, office).await.map(Some)
}

/// The same, with room for a payload in it.
pub(crate) async fn large_json<T: DeserializeOwned>(request: Request<Body>, office: &Office) -> Answer<T> {
    document(request, office.config.limits.json_body, office).await
}

async fn document<T: DeserializeOwned>(request: Request<Body>, limit: usize, office: &Office) -> Answer<T> {
    expect_type(request.headers(), &["application/json"])?;
    let (bytes, _held) = whole(request, limit, office).await?;
    serde_json::from_slice(&bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Problem::unprocessable("bad_body", error.to_string()),
        _ => {
            let place = format!("line {} column {}", error.line(), error.column());
            Problem::bad_request("malformed_json", format!("the body is not valid JSON at {place}"))
        }
    })
}

/// The media type of a body, without its parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase())
}

/// Refuses a body of another type. A form that some page posts has one that is never in `expected`.
pub(crate) fn expect_type(headers: &HeaderMap, expected: &[&str]) -> Answer<()> {
    expect_plain(headers)?;
    let found = media_type(headers);
    if found.as_deref().is_some_and(|found| expected.contains(&found)) {
        return Ok(());
    }
    Err(wrong_type(found.as_deref(), expected))
}

/// Refuses what is compressed: a small body that becomes a huge one is no gain for either side.
pub(crate) fn expect_plain(headers: &HeaderMap) -> Answer<()> {
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let detail = "bodies are taken as they are; send it without Content-Encoding";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "wrong_content_encoding", detail))
        }
        _ => Ok(()),
    }
}

pub(crate) fn wrong_type(found: Option<&str>, expected: &[&str]) -> Problem {
    let found: String = found.unwrap_or("nothing").chars().take(100).collect();
    let detail = format!("Content-Type must be {}, found {found}", expected.join(" or "));
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "wrong_content_type", detail)
}

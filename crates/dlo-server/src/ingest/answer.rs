//! Outcomes on their way back: one JSON document, or a line for each as it becomes known.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio::sync::mpsc;

use super::chunk::{self, Terms};
use super::lines::{Chunk, Lines};
use super::outcome::{Outcome, Tally};
use crate::api::error::{DISK_RETRY, Problem};
use crate::body;
use crate::memory::Held;
use crate::office::Office;

/// Chunks of one request that are on their way to the store at once.
const IN_FLIGHT: usize = 4;
/// How long complete lines wait for company when the client pauses.
const LULL: std::time::Duration = std::time::Duration::from_millis(20);

/// Why a stream was not read to its end. What was read before is stored and answered.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Incomplete {
    #[serde(skip)]
    status: StatusCode,
    code: &'static str,
    detail: String,
}

/// What comes out of a request, piece by piece and in the order sent.
#[derive(Debug)]
pub(crate) enum Piece {
    Outcomes(Vec<Outcome>),
    Incomplete(Incomplete),
}

/// The outcomes of chunks, several of which are under way at once.
/// What they share is `held` until the last of them is done.
pub(crate) fn outcomes(
    office: Arc<Office>,
    chunks: impl Stream<Item = Result<Chunk, Incomplete>> + Send + 'static,
    terms: Terms,
    held: Held,
) -> impl Stream<Item = Piece> + Send + 'static {
    chunks
        .map(move |chunk| {
            // A task of its own: chunks are parsed beside each other, and one that was begun is finished
            // even when the client has gone.
            let task = chunk.map(|chunk| {
                let items = chunk.items.len();
                (items, tokio::spawn(chunk::store(office.clone(), chunk, terms.clone())))
            });
            async move {
                match task {
                    Ok((items, task)) => Piece::Outcomes(task.await.unwrap_or_else(|_| lost(items))),
                    Err(incomplete) => Piece::Incomplete(incomplete),
                }
            }
        })
        .buffered(IN_FLIGHT)
        .inspect(move |_| {
            let _held = &held;
        })
}

/// A defect of ours must not look like a stored letter.
fn lost(items: usize) -> Vec<Outcome> {
    let refusal =
        crate::admit::Refusal::new("internal_error", "the office failed on this item; its log says why");
    vec![refusal.into(); items]
}

/// The chunks of a body of lines.
pub(crate) fn lines(office: Arc<Office>, body: Body) -> impl Stream<Item = Result<Chunk, Incomplete>> + Send {
    let reader = Reader {
        lines: Lines::new(office.config.limits.item),
        office,
        body,
        held: Held::default(),
        items: 0,
        ended: None,
    };
    stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        let chunk = reader.next().await?;
        let rest = chunk.is_ok().then_some(reader);
        Some((chunk, rest))
    })
}

struct Reader {
    office: Arc<Office>,
    body: Body,
    lines: Lines,
    /// The room of what was read and is not in a chunk yet.
    held: Held,
    items: u64,
    ended: Option<Result<(), Incomplete>>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Chunk, Incomplete>> {
        while self.ended.is_none() && !self.lines.is_full() {
            match self.read().await {
                Ok(Some(bytes)) => self.push(&bytes).await,
                Ok(None) => self.ended = Some(Ok(())),
                Err(Pause::Lull) => break,
                Err(Pause::Broken(problem)) => self.ended = Some(Err(problem)),
            }
        }
        // What stands behind the last newline of a broken stream is half a line: nobody sent it.
        let mut chunk = match &self.ended {
            Some(Ok(())) => self.lines.finish(),
            _ => self.lines.take(),
        };
        if !chunk.items.is_empty() {
            // The beginning of a line whose end has not come stays here, and so does its room.
            chunk.held = self.held.take_but(self.lines.buffered());
            return Some(self.within_limit(chunk));
        }
        match self.ended.take()? {
            Ok(()) => {
                self.ended = Some(Ok(()));
                None
            }
            Err(incomplete) => Some(Err(incomplete)),
        }
    }

    /// Bytes of a line that is skipped flow by; all others take room.
    async fn push(&mut self, bytes: &[u8]) {
        if !self.lines.is_skipping()
            && let Err(problem) = self.office.memory.hold(&mut self.held, bytes.len()).await
        {
            self.ended = Some(Err(problem.into()));
            return;
        }
        self.lines.push(bytes);
        if self.lines.is_skipping() && self.lines.is_empty() {
            self.held = Held::default();
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>, Pause> {
        let limits = &self.office.config.limits;
        let reading = body::next(&mut self.body, limits.body_timeout);
        let broken = |problem: Problem| Pause::Broken(Incomplete::from(problem));
        if self.lines.is_empty() {
            return reading.await.map_err(broken);
        }
        // Dropping a read that waits loses nothing: the frame stays in the connection.
        tokio::time::timeout(LULL, reading).await.map_err(|_| Pause::Lull)?.map_err(broken)
    }

    fn within_limit(&mut self, mut chunk: Chunk) -> Result<Chunk, Incomplete> {
        let limit = self.office.config.limits.items;
        let room = usize::try_from(limit - self.items).unwrap_or(usize::MAX);
        if chunk.items.len() > room {
            let detail =
                format!("only the first {limit} items of a request are read; send the rest in another one");
            let over = Incomplete { status: StatusCode::PAYLOAD_TOO_LARGE, code: "too_many_items", detail };
            if room == 0 {
                return Err(over);
            }
            chunk.items.truncate(room);
            self.ended = Some(Err(over));
        }
        self.items += chunk.items.len() as u64;
        Ok(chunk)
    }
}

enum Pause {
    Lull,
    Broken(Incomplete),
}

impl From<Problem> for Incomplete {
    fn from(problem: Problem) -> Self {
        Self { status: problem.status(), code: problem.code(), detail: problem.detail().to_string() }
    }
}

/// Reads everything, then answers one JSON document.
pub(crate) async fn as_json(pieces: impl Stream<Item = Piece> + Send) -> Response {
    let mut pieces = std::pin::pin!(pieces);
    let mut tally = Tally::default();
    let mut outcomes = Vec::new();
    let mut incomplete = None;
    while let Some(piece) = pieces.next().await {
        match piece {
            Piece::Outcomes(mut more) => {
                tally.count(&mut more);
                outcomes.append(&mut more);
            }
            Piece::Incomplete(why) => incomplete = Some(why),
        }
    }
    if outcomes.is_empty()
        && let Some(why) = incomplete
    {
        return Problem::new(why.status, why.code, why.detail).into_response();
    }
    if let Some(problem) = not_taken_at_all(&outcomes) {
        return problem.into_response();
    }
    let status = incomplete.as_ref().map_or(StatusCode::OK, |why| why.status);
    (status, [(header::CONTENT_TYPE, "application/json")], document(tally, outcomes, incomplete))
        .into_response()
}

/// When the store took nothing because it is behind or away, the request as a whole is to be sent again.
pub(crate) fn not_taken_at_all(outcomes: &[Outcome]) -> Option<Problem> {
    let mut again = None;
    for outcome in outcomes {
        match outcome {
            Outcome::Rejected(refusal) if refusal.code == "overloaded" => {
                let detail = "the office is behind; nothing was taken, send the request again";
                again =
                    Some(Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", detail).retry_after(1));
            }
            Outcome::Rejected(refusal) if refusal.code == "store_unavailable" => {
                let detail = "the database does not answer; send the request again: what it stored nevertheless is answered as a duplicate, where items have coordinates or the request has an `Idempotency-Key`";
                again = Some(
                    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail).retry_after(5),
                );
            }
            Outcome::Rejected(refusal) if refusal.code == "disk_full" => {
                let detail = refusal.detail.clone();
                again = Some(
                    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", detail)
                        .retry_after(DISK_RETRY),
                );
            }
            Outcome::Rejected(refusal) if refusal.code == "store_failed" => {
                let detail = refusal.detail.clone();
                again = Some(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "store_failed", detail));
            }
            Outcome::Rejected(_) => {}
            Outcome::Stored(_) | Outcome::Duplicate(_) => return None,
        }
    }
    again
}

/// The document, written a thousand results at a time.
fn document(tally: Tally, outcomes: Vec<Outcome>, incomplete: Option<Incomplete>) -> Body {
    let mut head = serde_json::to_vec(&tally).unwrap_or_default();
    head.pop();
    head.extend_from_slice(b",\"results\":[");
    let mut tail = b"]".to_vec();
    if let Some(why) = incomplete {
        tail.extend_from_slice(b",\"incomplete\":");
        tail.extend(serde_json::to_vec(&why).unwrap_or_default());
    }
    tail.push(b'}');
    let mut rest = outcomes.into_iter().peekable();
    let results = std::iter::from_fn(move || {
        rest.peek()?;
        let mut out = Vec::with_capacity(70 * 1_000);
        for outcome in rest.by_ref().take(1_000) {
            outcome.write(&mut out);
            out.push(b',');
        }
        if rest.peek().is_none() {
            out.pop();
        }
        Some(out)
    });
    let parts = std::iter::once(head).chain(results).chain(std::iter::once(tail));
    Body::from_stream(stream::iter(parts.map(|part| Ok::<_, std::convert::Infallible>(Bytes::from(part)))))
}

/// Answers a line for each item as it becomes known, and a last one that counts them.
pub(crate) async fn as_lines(pieces: impl Stream<Item = Piece> + Send + 'static) -> Response {
    // Without a bound in pieces, because the items of a request are bounded and outcomes are small: reading
    // must go on when the client does not read yet.
    let (sender, mut receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut pieces = std::pin::pin!(pieces);
        while let Some(piece) = pieces.next().await {
            if sender.send(piece).is_err() {
                // Nobody listens any more; the rest is stored all the same.
                while pieces.next().await.is_some() {}
            }
        }
    });
    // While nothing is taken, the answer may still be that nothing was: that is known only at the end.
    let mut first = Vec::new();
    let mut refused = None;
    while let Some(piece) = receiver.recv().await {
        let nothing = match &piece {
            Piece::Outcomes(outcomes) => not_taken_at_all(outcomes),
            Piece::Incomplete(why) if first.is_empty() => {
                Some(Problem::new(why.status, why.code, why.detail.clone()))
            }
            Piece::Incomplete(_) => refused.take(),
        };
        let taken = nothing.is_none();
        first.push(piece);
        refused = nothing;
        if taken {
            break;
        }
    }
    if let Some(problem) = refused {
        return problem.into_response();
    }
    let rest = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
    let pieces = stream::iter(first).chain(rest).map(Some).chain(stream::iter([None]));
    let lines = pieces.scan((Tally::default(), None), |state, piece| {
        std::future::ready(Some(Ok::<_, std::convert::Infallible>(lines_of(state, piece))))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

fn lines_of((tally, incomplete): &mut (Tally, Option<Incomplete>), piece: Option<Piece>) -> Bytes {
    #[derive(Serialize)]
    struct Last<'a> {
        #[serde(flatten)]
        tally: Tally,
        #[serde(skip_serializing_if = "Option::is_none")]
        incomplete: Option<&'a Incomplete>,
    }
    let mut out = Vec::new();
    match piece {
        Some(Piece::Outcomes(mut outcomes)) => {
            tally.count(&mut outcomes);
            for outcome in &outcomes {
                outcome.write(&mut out);
                out.push(b'\n');
            }
        }
        Some(Piece::Incomplete(why)) => *incomplete = Some(why),
        None => {
            out = serde_json::to_vec(&Last { tally: *tally, incomplete: incomplete.as_ref() })
                .unwrap_or_default();
            out.push(b'\n');
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use dlo_core::id::LetterId;
    use dlo_core::time::Timestamp;

    use super::*;
    use crate::admit::Refusal;

    fn behind() -> Piece {
        Piece::Outcomes(vec![Refusal::new("overloaded", "send this item again").into()])
    }

    async fn answered(pieces: Vec<Piece>) -> (u16, String) {
        let response = as_lines(stream::iter(pieces)).await;
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn nothing_was_taken_is_said_only_when_nothing_was() {
        assert_eq!(answered(vec![behind(), behind()]).await.0, 429);
        let stored = Outcome::Stored(LetterId::new(Timestamp::EPOCH, [1; 10]));
        let (status, lines) = answered(vec![behind(), Piece::Outcomes(vec![stored]), behind()]).await;
        assert_eq!(status, 200);
        let told: Vec<bool> = lines.lines().take(3).map(|line| line.contains("overloaded")).collect();
        assert_eq!(told, [true, false, true]);
        assert!(lines.ends_with("{\"stored\":1,\"duplicate\":0,\"rejected\":2}\n"), "{lines}");
    }
}

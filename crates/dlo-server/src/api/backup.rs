//! A copy of everything, taken and put back while the office goes on working.
//!
//! Both pass through a file in the scratch directory: the store writes and reads whole files. Both are tasks of their own
//! once they work on the store: a client that goes away ends neither, and their place stays taken until they are done.

use std::io::ErrorKind;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dlo_store::{Deed, Event, StoreError};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinError;
use tokio_util::io::ReaderStream;

use super::error::{Answer, DISK_RETRY, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{Author, Params, note};
use crate::scratch::Scratch;

const OCTETS: &str = "application/octet-stream";

fn disk(error: std::io::Error) -> Problem {
    if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        let detail = "the file system of the server's scratch directory is full; free some space on it";
        return Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", detail).retry_after(DISK_RETRY);
    }
    tracing::error!(%error, "the scratch directory cannot be used");
    let detail = "the server's scratch directory cannot be used; its log says why";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "scratch_failed", detail)
}

fn failed(_: JoinError) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed")
}

pub(crate) async fn backup(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    body::discard(request, &office).await?;
    let place = office.long_reading()?;
    let scratch = Scratch::new(&office.config);
    let deed = Deed { reason: Some("backup".to_string()), ..author.looks() };
    let work = tokio::spawn(async move {
        let stats = office.store.stats().await?;
        office.store.note(Event::Exported, stats.letters.total(), &deed, office.now()).await?;
        office.store.backup(scratch.path()).await?;
        Ok::<_, StoreError>((scratch, place))
    });
    let (scratch, place) = work.await.map_err(failed)??;
    let file = File::open(scratch.path()).await.map_err(disk)?;
    let size = file.metadata().await.map_err(disk)?.len();
    let bytes = ReaderStream::with_capacity(file, 256 * 1024).inspect(move |_| {
        let _held = (&scratch, &place);
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(OCTETS)),
        (header::CONTENT_LENGTH, HeaderValue::from(size)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"dlo-backup\"")),
    ];
    Ok((headers, Body::from_stream(bytes)).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreParams {
    reason: Option<String>,
}

/// Replaces everything by the backup in the body. What is not a whole backup is refused, and nothing is changed.
pub(crate) async fn restore(
    State(office): State<Arc<Office>>,
    author: Author,
    Params(params): Params<RestoreParams>,
    request: Request<Body>,
) -> Answer<Response> {
    body::expect_type(request.headers(), &[OCTETS])?;
    let Some(reason) = note("reason", params.reason)? else {
        let detail = "say why, as `?reason=`; restoring replaces everything and is kept in the audit log";
        return Err(Problem::unprocessable("reason_needed", detail).field("reason"));
    };
    let place = office.long_reading()?;
    let scratch = Scratch::new(&office.config);
    receive(&office, request.into_body(), &scratch).await?;
    let deed = Deed { author: author.0, reason: Some(reason), reference: None };
    // Once everything is here, it is replaced whole even if the client goes away.
    let work = tokio::spawn(async move {
        let _held = place;
        office.store.restore(scratch.path(), &deed, office.now()).await?;
        // The backup may come from before the rules were changed.
        office.assign_owners().await?;
        office.store.stats().await
    });
    let stats = work.await.map_err(failed)??;
    Ok(Json(json!({"restored": true, "letters": stats.letters.total()})).into_response())
}

async fn receive(office: &Office, mut from: Body, to: &Scratch) -> Answer<()> {
    let limits = &office.config.limits;
    let mut file = to.create().await.map_err(disk)?;
    let mut written = 0_u64;
    while let Some(piece) = body::next(&mut from, limits.body_timeout).await? {
        written += piece.len() as u64;
        if written > limits.restore_body {
            let detail = format!("a backup has at most {} bytes here", limits.restore_body);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail));
        }
        file.write_all(&piece).await.map_err(disk)?;
    }
    file.sync_all().await.map_err(disk)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_client_that_leaves_does_not_free_the_place_of_a_backup_that_runs() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let free = office.long.available_permits();
        let answer =
            backup(State(office.clone()), Author("ada".to_string()), Request::default()).now_or_never();
        assert!(answer.is_none(), "the client leaves before the copy is made");
        assert_eq!(office.long.available_permits(), free - 1);
        // The work goes on, and cleans up behind itself.
        let _all = office.long.acquire_many(u32::try_from(free).unwrap()).await.unwrap();
        let audited = office.store.audit(&dlo_store::Page::first(1)).await.unwrap();
        assert_eq!(audited.entries[0].author, "ada");
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> = names.filter(|name| name.to_string_lossy().contains(".tmp")).collect();
        assert!(names.is_empty(), "{names:?}");
    }
}

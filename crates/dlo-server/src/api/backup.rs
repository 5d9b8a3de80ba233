//! A copy of everything, taken and put back while the office goes on working.
//!
//! Both pass through a file in the scratch directory: the store writes and reads whole files. The file is gone
//! when the request is over, however it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dlo_store::{Deed, Event};
use futures::StreamExt;
use rand::RngExt;
use serde::Deserialize;
use serde_json::json;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

use super::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{Author, Params, note};

const OCTETS: &str = "application/octet-stream";

/// A file that does not outlive its use.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new(office: &Office) -> Self {
        let directory = office.config.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let mut name = [0_u8; 8];
        rand::rng().fill(&mut name);
        Self(directory.join(format!("dlo-{:016x}.tmp", u64::from_be_bytes(name))))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a scratch file is left behind");
        }
    }
}

fn disk(error: std::io::Error) -> Problem {
    tracing::error!(%error, "the scratch directory cannot be used");
    let detail = "the server's scratch directory cannot be used; its log says why";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "scratch_failed", detail)
}

pub(crate) async fn backup(State(office): State<Arc<Office>>, author: Author) -> Answer<Response> {
    let place = office.long_reading()?;
    let scratch = Scratch::new(&office);
    let stats = office.store.stats().await?;
    let deed = Deed { reason: Some("backup".to_string()), ..author.looks() };
    office.store.note(Event::Exported, stats.letters.total(), &deed, office.now()).await?;
    office.store.backup(scratch.path()).await?;
    let file = File::open(scratch.path()).await.map_err(disk)?;
    let size = file.metadata().await.map_err(disk)?.len();
    let bytes = ReaderStream::with_capacity(file, 256 * 1024).inspect(move |_| {
        let _held = (&place, &scratch);
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

/// Replaces everything by the backup in the body. A file that is none is refused, and nothing is changed.
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
    let scratch = Scratch::new(&office);
    receive(&office, request.into_body(), scratch.path()).await?;
    let deed = Deed { author: author.0, reason: Some(reason), reference: None };
    // A task of its own: once everything is here, it is replaced whole even if the client goes away.
    let work = tokio::spawn(async move {
        let _held = place;
        office.store.restore(scratch.path()).await?;
        office.store.note(Event::Restored, 0, &deed, office.now()).await?;
        // The backup may come from before the rules were changed.
        office.assign_owners().await?;
        office.store.stats().await
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    let stats = work.await.map_err(failed)??;
    Ok(Json(json!({"restored": true, "letters": stats.letters.total()})).into_response())
}

async fn receive(office: &Office, mut from: Body, to: &Path) -> Answer<()> {
    let limits = &office.config.limits;
    // For its owner alone: it holds every payload there is.
    let how = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
    let mut file = how.open(to).await.map_err(disk)?;
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

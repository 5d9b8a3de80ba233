//! Letters that are too large for their dead-letter queue: posted to the office, or written to a directory.
//!
//! One letter is one JSON document, as `POST /api/v1/letters` and `dlo letters import` take it, in one file. A file has its
//! name when all of it is on the disk. If there is an office, files are posted to it later and removed when it has them.
//! The directory is bounded in bytes. Each post carries the file's name as its `Idempotency-Key`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dlo_core::envelope::{Envelope, mark_death, replay_mark};
use dlo_core::limits;
use dlo_core::message::{Header, Headers};
use dlo_core::units::ByteSize;
use serde_json::{Value, json};

use super::office::{NotTaken, OfficeReceipts};
use crate::large::{Kept, LargeLetter, LargeLetters};
use crate::private;

/// The pause between two looks for files that the office does not have.
const LOOK: Duration = Duration::from_secs(30);
/// Files of one look.
const MOST_FILES: usize = 1_000;

/// Keeps the large letters of one source.
#[derive(Debug, Clone)]
pub struct LargeStore {
    source: String,
    office: Option<OfficeReceipts>,
    directory: PathBuf,
    most: ByteSize,
    /// Held while a file is written, so that two do not share the last free bytes.
    writing: Arc<Mutex<()>>,
}

impl LargeStore {
    /// `source`: under which name the office stores the letters. `most`: bytes of all files together.
    pub fn new(
        source: impl Into<String>,
        office: Option<OfficeReceipts>,
        directory: impl Into<PathBuf>,
        most: ByteSize,
    ) -> Self {
        Self { source: source.into(), office, directory: directory.into(), most, writing: Arc::default() }
    }

    /// Posts files to the office for ever: those that are there, and those that come. Without an office it only waits.
    pub async fn post_files(&self) {
        let Some(office) = &self.office else { return std::future::pending().await };
        loop {
            for path in whole_files(&self.directory) {
                if !self.post_file(office, path).await {
                    break;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// `false`: the office is away, so the others wait as well.
    async fn post_file(&self, office: &OfficeReceipts, path: PathBuf) -> bool {
        let Ok(document) = fs::read(&path) else { return true };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match office.post_letter(Bytes::from(document), &name).await {
            Ok(()) => match fs::remove_file(&path) {
                Ok(()) => tracing::info!(file = name, "large_letter.posted"),
                Err(error) => tracing::warn!(file = name, %error, "large_letter.not_removed"),
            },
            Err(NotTaken::Away(problem)) => {
                tracing::debug!(file = name, problem, "large_letter.not_posted");
                return false;
            }
            Err(NotTaken::Refused(status)) => {
                tracing::warn!(file = name, %status, "large_letter.refused");
            }
        }
        true
    }
}

#[async_trait]
impl LargeLetters for LargeStore {
    async fn keep(&self, letter: LargeLetter<'_>) -> Result<Kept, String> {
        let document = Bytes::from(document(&self.source, letter).to_string());
        if let Some(office) = &self.office {
            match office.post_letter(document.clone(), letter.name).await {
                Ok(()) => return Ok(Kept::InOffice),
                Err(NotTaken::Away(problem)) => tracing::debug!(problem, "large_letter.not_posted"),
                Err(NotTaken::Refused(status)) => tracing::warn!(%status, "large_letter.refused"),
            }
        }
        let (directory, most, file) = (self.directory.clone(), self.most, format!("{}.json", letter.name));
        let (path, writing) = (directory.join(&file), Arc::clone(&self.writing));
        let written = tokio::task::spawn_blocking(move || {
            let _alone = writing.lock().unwrap_or_else(PoisonError::into_inner);
            write(&directory, &path, &document, most)
        })
        .await;
        match written {
            Ok(Ok(())) => Ok(Kept::OnDisk(file)),
            Ok(Err(error)) => Err(format!("its body cannot be kept on disk: {error}")),
            Err(defect) => Err(defect.to_string()),
        }
    }
}

/// Writes a file whole, or not at all.
fn write(directory: &Path, path: &Path, document: &[u8], most: ByteSize) -> io::Result<()> {
    private::create_directory(directory)?;
    remove_parts(directory);
    let others = files(directory).into_iter().filter(|file| file != path);
    let there: u64 = others.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    if there.saturating_add(document.len() as u64) > most.0 {
        let full =
            format!("{} holds {there} bytes of large letters, {most} are allowed", directory.display());
        return Err(io::Error::new(io::ErrorKind::StorageFull, full));
    }
    let part = path.with_extension("part");
    let mut file = private::options().write(true).create_new(true).open(&part)?;
    // For other processes: see `remove_parts`. Without a lock they leave the file alone.
    let _locked = file.try_lock();
    let written = file.write_all(document).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _removed = fs::remove_file(&part);
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

/// Removes the files that a crash left unfinished: they take room, and nobody was told that they were kept. A file that
/// another process is writing is locked, and stays.
fn remove_parts(directory: &Path) {
    let parts = files(directory).into_iter().filter(|path| path.extension().is_some_and(|end| end == "part"));
    for part in parts {
        let is_left = File::open(&part).is_ok_and(|file| file.try_lock().is_ok());
        if is_left && let Err(error) = fs::remove_file(&part) {
            tracing::warn!(file = %part.display(), %error, "large_letter.not_removed");
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Whole files, the oldest first: their names begin with their time.
fn whole_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = files(directory);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files.truncate(MOST_FILES);
    files
}

/// The letter in the words of `POST /api/v1/letters`.
fn document(source: &str, letter: LargeLetter<'_>) -> Value {
    let LargeLetter { message, envelope, .. } = letter;
    let origin = &envelope.origin;
    let replay = replay_mark(&message.headers);
    let encoded = |bytes: &Bytes| STANDARD.encode(bytes);
    json!({
        "source": source,
        "broker": origin.broker,
        "queue": origin.queue,
        "incarnation": origin.incarnation,
        "partition": origin.partition,
        "offset": origin.offset,
        "message_id": origin.message_id,
        "key_base64": message.key.as_ref().map(|key| encoded(&key.0)),
        "headers": headers(&message.headers, envelope),
        "payload_base64": encoded(&message.payload.0),
        "consumer": envelope.consumer_group,
        "consumer_id": envelope.consumer_id,
        "consumer_version": envelope.consumer_version,
        "attempts": envelope.attempts,
        "attempt_history": envelope.history.records(),
        "error_class": envelope.error_class,
        "error_message": envelope.error_message,
        "error_code": envelope.error_code,
        "error_stack": envelope.error_stack,
        "reason": envelope.reason,
        "verdict": envelope.verdict,
        "rule": envelope.rule,
        "published_at": origin.timestamp,
        "first_failed_at": envelope.first_failed_at,
        "failed_at": envelope.dead_at,
        "replay_id": replay.as_ref().map(|mark| &mark.replay_id),
        "replay_of": replay.as_ref().and_then(|mark| mark.letter),
    })
}

/// With the mark by which the office suspects a second copy, where the broker does not name the message.
fn headers(original: &Headers, envelope: &Envelope) -> Vec<Value> {
    let mut headers = original.clone();
    mark_death(&mut headers, envelope);
    if headers.len() > limits::HEADERS || headers.size() > limits::HEADERS_SIZE {
        headers.clone_from(original);
    }
    let one = |Header { name, value }: &Header| match value.as_deref().map(std::str::from_utf8) {
        None => json!([name, null]),
        Some(Ok(text)) => json!([name, text]),
        Some(Err(_)) => {
            json!({"name": name, "value_base64": STANDARD.encode(value.as_deref().unwrap_or_default())})
        }
    };
    headers.iter().map(one).collect()
}

#[cfg(test)]
mod tests;

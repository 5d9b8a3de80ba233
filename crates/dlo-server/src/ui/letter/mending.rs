//! The repairs that stand beside a letter. Their differences show payload, so they come only with it.

use std::sync::Arc;

use axum::http::StatusCode;
use dlo_core::id::LetterId;
use dlo_core::message::{Message, Payload};
use dlo_core::time::Timestamp;
use dlo_store::Repair;

use crate::api::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::Author;
use crate::repair::difference;
use crate::ui::show::When;

pub(super) struct RepairLine {
    pub(super) number: u32,
    /// Whether a replay sends this one.
    pub(super) active: bool,
    pub(super) at: When,
    pub(super) author: String,
    pub(super) reason: String,
    pub(super) expression: Option<String>,
    /// Lines with the class that marks them.
    pub(super) diff: Option<Vec<(&'static str, String)>>,
}

/// The repairs, latest first; `shows`: with their differences.
pub(super) async fn list(
    office: &Arc<Office>,
    id: LetterId,
    shows: bool,
    author: &Author,
) -> Answer<Vec<RepairLine>> {
    let repairs = office.store.repairs(id).await?;
    if repairs.is_empty() {
        return Ok(Vec::new());
    }
    let original = if shows { Some(original(office, id, author).await?) } else { None };
    let office = Arc::clone(office);
    // Messages may be large: comparing them has a thread of its own.
    let lines = tokio::task::spawn_blocking(move || {
        let now = office.now();
        repairs.into_iter().rev().map(|repair| line(&office, original.as_ref(), repair, now)).collect()
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    lines.await.map_err(failed)
}

async fn original(office: &Office, id: LetterId, author: &Author) -> Answer<Message> {
    let detail = office.store.letter(id).await?;
    let looks = author.clone().looks();
    let payload = office.store.payload(id, Some((&looks, office.now()))).await?;
    let mut message = Message {
        key: detail.letter.key.map(Payload::from),
        headers: detail.headers,
        payload: Payload(payload.bytes),
    };
    office.mask.message(&mut message);
    Ok(message)
}

fn line(office: &Office, original: Option<&Message>, mut repair: Repair, now: Timestamp) -> RepairLine {
    office.mask.message(&mut repair.message);
    RepairLine {
        number: repair.number,
        active: repair.active,
        at: When::new(repair.at, now),
        author: repair.author,
        reason: repair.reason.unwrap_or_default(),
        expression: repair.expression,
        diff: original.map(|original| marked(&difference(original, &repair.message))),
    }
}

/// Each line of a difference with how it is marked.
fn marked(diff: &str) -> Vec<(&'static str, String)> {
    let class = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "in",
        Some(b'-') => "out",
        Some(b'@') => "place",
        _ => "both",
    };
    diff.lines().map(|line| (class(line), line.to_string())).collect()
}

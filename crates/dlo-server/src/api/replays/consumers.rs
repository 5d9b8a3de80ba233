//! `POST /consumers`: the runtime reports whether its messages wait, so that no replay sends to a consumer that is paused,
//! and the office lists consumers that hold messages back.
//!
//! Kept by this server for half a minute, and not stored: a consumer says it again while it lasts.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::trouble::{TroubleKind, TroubleScope};
use serde::{Deserialize, Serialize};

use crate::api::error::{Answer, Problem};
use crate::body;
use crate::consumers::PauseReport;
use crate::office::Office;
use crate::query_text::Author;
use crate::replay::Speaker;

/// Words of one request.
const MOST: usize = 100;
/// Bytes of a name.
const LONGEST_NAME: usize = 1_024;
/// Characters of a reason that are kept.
const LONGEST_REASON: usize = 300;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    consumers: Vec<Word>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    queue: String,
    consumer: String,
    instance: String,
    /// Why the next message would wait; null: it would go, be it as a probe.
    halted: Option<String>,
    /// Why messages are held back, also while one of them is a probe.
    paused: Option<Paused>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paused {
    kind: TroubleKind,
    why: String,
    /// Messages that it has received and not settled.
    held: u64,
}

impl Paused {
    fn report(self) -> PauseReport {
        PauseReport { kind: self.kind, why: kept(&self.why), held: self.held }
    }
}

/// As much of a reason as is kept.
fn kept(why: &str) -> String {
    why.chars().take(LONGEST_REASON).collect()
}

#[derive(Debug, Serialize)]
struct Heard {
    heard: u64,
}

pub(crate) async fn hear(
    State(office): State<Arc<Office>>,
    _author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let Words { consumers } = body::json(request, &office).await?;
    if consumers.len() > MOST {
        let detail = format!("at most {MOST} consumers a request, found {}", consumers.len());
        return Err(Problem::unprocessable("too_many", detail).field("consumers"));
    }
    for word in &consumers {
        for (name, field) in
            [(&word.queue, "queue"), (&word.consumer, "consumer"), (&word.instance, "instance")]
        {
            if name.len() > LONGEST_NAME {
                let detail = format!("at most {LONGEST_NAME} bytes, found {}", name.len());
                return Err(Problem::unprocessable("too_long", detail).field(field));
            }
        }
        if let Some(paused) = &word.paused
            && paused.kind.scope() != TroubleScope::Consumer
        {
            let detail = format!("expected the kind of a consumer's trouble, found {}", paused.kind);
            return Err(Problem::unprocessable("bad_kind", detail).field("paused.kind"));
        }
    }
    let heard = consumers.len() as u64;
    let now = office.now();
    for Word { queue, consumer, instance, halted, paused } in consumers {
        let halted = halted.as_deref().map(kept);
        // A runtime of before says no more than that.
        let of_before =
            |why: &String| PauseReport { kind: TroubleKind::ConsumerPaused, why: why.clone(), held: 0 };
        let report = paused.map(Paused::report).or_else(|| halted.as_ref().map(of_before));
        let speaker = Speaker { queue, consumer, instance };
        office.consumers.record(speaker.clone(), report, now);
        office.replays.consumer_says(speaker, halted, now);
    }
    Ok(Json(Heard { heard }).into_response())
}

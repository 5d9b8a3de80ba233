//! `POST /consumers`: the runtime's word on whether its messages wait, so that no replay sends to a consumer that is paused.
//!
//! Kept by this server for half a minute, and not stored: a consumer says it again while it lasts.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::api::error::{Answer, Problem};
use crate::body;
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
    /// Why its messages wait; null: they do not.
    halted: Option<String>,
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
    }
    let heard = consumers.len() as u64;
    for Word { queue, consumer, instance, halted } in consumers {
        let halted = halted.map(|why| why.chars().take(LONGEST_REASON).collect());
        office.replays.consumer_says(Speaker { queue, consumer, instance }, halted, office.now());
    }
    Ok(Json(Heard { heard }).into_response())
}

//! `GET /events`: what changes, as server-sent events. With `replay` the progress of one replay, until it is over.
//!
//! The store is looked at once a second; an event is sent when what is seen has changed, and a comment now and then
//! keeps proxies from closing the line. Nothing is kept for a client that is away: it asks again and sees the present.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use dlo_core::id::ReplayId;
use futures::stream;
use serde::Deserialize;

use super::error::Answer;
use super::replays::ReplayOut;
use crate::office::Office;
use crate::query_text::Params;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventParams {
    replay: Option<ReplayId>,
}

pub(crate) async fn follow(
    State(office): State<Arc<Office>>,
    Params(params): Params<EventParams>,
) -> Answer<Response> {
    if let Some(id) = params.replay {
        // Refused at once, instead of a stream that says nothing.
        office.shown().replay(id).await?;
    }
    let follower = Follower { office, replay: params.replay, shown: String::new(), over: false };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

struct Follower {
    office: Arc<Office>,
    replay: Option<ReplayId>,
    /// What the client has seen last.
    shown: String,
    over: bool,
}

impl Follower {
    /// The next change; `None` when there will be none.
    async fn next(&mut self) -> Option<Event> {
        while !self.over {
            if !self.shown.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
            let (name, seen) = match self.replay {
                Some(id) => ("replay", self.look_at(id).await?),
                None => ("stats", super::stats::snapshot(&self.office).await?),
            };
            if seen != self.shown {
                self.shown.clone_from(&seen);
                return Some(Event::default().event(name).data(seen));
            }
        }
        None
    }

    async fn look_at(&mut self, id: ReplayId) -> Option<String> {
        let shown = self.office.shown();
        let replay = shown.replay(id).await.ok()?;
        let children = shown.children(id).await.ok()?;
        self.over = replay.state.is_over();
        serde_json::to_string(&ReplayOut::new(&replay, &children, &self.office.replays)).ok()
    }
}

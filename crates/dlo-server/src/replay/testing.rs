//! Replays for tests that need one to look at: letters in, a plan out, and where it stands.

use std::time::Duration;

use dlo_core::id::ReplayId;
use dlo_core::letter::NewLetter;
use dlo_core::query::Query;
use dlo_core::replay::{PlanPolicy, ReplayState, Settings, SourcePolicy};
use dlo_store::replays::{Members, NewReplay, Turn};
use dlo_store::{Batch, Deed};

use crate::office::Office;

/// A plan of these letters, all of `orders`.
pub(crate) async fn plan(office: &Office, letters: Vec<NewLetter>) -> ReplayId {
    let now = office.now();
    office.store.insert(Batch { letters: letters.into(), ..Batch::default() }, now).await.unwrap();
    let sources = [("orders".to_string(), SourcePolicy::default())].into();
    let new = NewReplay {
        id: ReplayId::new(now, rand::random()),
        members: Members::Query {
            query: Query::parse("source:orders", now).unwrap(),
            text: "source:orders".to_string(),
        },
        settings: Settings::default(),
        cause: None,
        author: "ada".to_string(),
        reason: "it is fixed".to_string(),
        expires_at: now.plus(Duration::from_secs(60)),
        policy: PlanPolicy { sources, ..PlanPolicy::default() },
    };
    office.store.plan(new, now).await.unwrap().id
}

/// Moves a replay through these states.
pub(crate) async fn turn(office: &Office, id: ReplayId, to: &[ReplayState]) {
    let deed = Deed { author: "dlo".to_string(), reason: None, reference: None };
    for to in to {
        let from = office.store.replay(id).await.unwrap().state;
        let turn = Turn { from, to: *to, stop_reason: None, stop_letters: Vec::new() };
        office.store.turn(id, turn, &deed, office.now()).await.unwrap();
    }
}

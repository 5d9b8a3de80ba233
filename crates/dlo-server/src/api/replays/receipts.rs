//! `POST /receipts`: the runtime's word that replayed messages were handled (F8).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::parse_send_id;
use dlo_core::time::Timestamp;
use dlo_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{Author, GivenName, is_name};

/// Receipts of one request.
const MOST: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipts {
    receipts: Vec<Receipt>,
}

/// One message that was handled. The time is for people who read the wire.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipt {
    /// As the message carried it.
    replay_id: String,
    letter: Option<LetterId>,
    /// The group that handled it.
    consumer: Option<String>,
    #[serde(rename = "handled_at")]
    _handled_at: Option<Timestamp>,
}

impl Receipt {
    /// Who the audit log says it was, where the request itself has no name: runtimes send none.
    fn teller(&self) -> Option<&str> {
        self.consumer.as_deref().filter(|name| is_name(name))
    }
}

#[derive(Debug, Serialize)]
struct Received {
    /// Belonged to an item that was waiting for it.
    confirmed: u64,
    /// Of a replay that is not here (another office's, or older than this one), or of a group in which the letter did not
    /// die: that one group handled it says nothing about another.
    unknown: u64,
}

/// Whose receipts count for the letters of a replay.
#[derive(Debug, Clone)]
enum Whose {
    /// Anybody's: they are sent to a queue of another consumer, or the replay is not here.
    Anybody,
    /// Those of the one group in which they all died; `None`: nobody knows which.
    One(Option<String>),
    /// They died in several groups: each letter knows its own.
    Several,
}

struct Groups<'o> {
    office: &'o Office,
    by_replay: HashMap<ReplayId, Whose>,
}

impl Groups<'_> {
    async fn takes(&mut self, id: ReplayId, receipt: &Receipt) -> Answer<bool> {
        let Some(group) = &receipt.consumer else { return Ok(true) };
        let whose = match self.by_replay.get(&id) {
            Some(known) => known.clone(),
            None => {
                let whose = self.whose(id).await?;
                self.by_replay.insert(id, whose.clone());
                whose
            }
        };
        let failed = match (whose, receipt.letter) {
            (Whose::Anybody, _) => return Ok(true),
            (Whose::One(failed), _) => failed,
            (Whose::Several, None) => return Ok(false),
            (Whose::Several, Some(letter)) => match self.office.store.letter(letter).await {
                Ok(found) => found.letter.consumer,
                Err(StoreError::NoLetter(_)) => return Ok(false),
                Err(error) => return Err(error.into()),
            },
        };
        Ok(failed.is_none_or(|failed| failed == *group))
    }

    async fn whose(&self, id: ReplayId) -> Answer<Whose> {
        let replay = match self.office.store.replay(id).await {
            Ok(replay) => replay,
            Err(StoreError::NoReplay(_)) => return Ok(Whose::Anybody),
            Err(error) => return Err(error.into()),
        };
        if replay.settings.target.named().is_some() {
            return Ok(Whose::Anybody);
        }
        let told: u64 = replay.by_class.iter().map(|kind| kind.count).sum();
        let mut groups = replay.by_class.iter().map(|kind| &kind.consumer);
        let first = groups.next().cloned().flatten();
        let one = told == replay.counts.total() && groups.all(|other| *other == first);
        Ok(if one { Whose::One(first) } else { Whose::Several })
    }
}

pub(crate) async fn receive(
    State(office): State<Arc<Office>>,
    GivenName(name): GivenName,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let Receipts { receipts } = body::json(request, &office).await?;
    if receipts.len() > MOST {
        let detail = format!("at most {MOST} receipts a request, found {}", receipts.len());
        return Err(Problem::unprocessable("too_many", detail).field("receipts"));
    }
    let mut by_teller: BTreeMap<&str, Vec<(ReplayId, u64)>> = BTreeMap::new();
    let mut groups = Groups { office: &office, by_replay: HashMap::new() };
    for receipt in &receipts {
        let Some((id, number)) = parse_send_id(&receipt.replay_id) else { continue };
        if groups.takes(id, receipt).await? {
            let teller = name.as_deref().or_else(|| receipt.teller()).unwrap_or(&author.0);
            by_teller.entry(teller).or_default().push((id, number));
        }
    }
    let mut confirmed = 0;
    for (teller, known) in by_teller {
        let deed = Author(teller.to_string()).looks();
        let taken = office.store.receipts(&known, &deed, office.now()).await?;
        confirmed += taken.iter().filter(|taken| **taken).count();
    }
    if confirmed > 0 {
        office.replays.ring();
    }
    let unknown = (receipts.len() - confirmed) as u64;
    Ok(Json(Received { confirmed: confirmed as u64, unknown }).into_response())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlo_core::id::ReplayId;
    use dlo_core::replay::{ItemState, ReplayState, send_id};
    use dlo_store::Page;
    use dlo_store::replays::{Run, SendEnd, lease_name};
    use serde_json::{Value, json};

    use super::*;
    use crate::admit::tests::admitted;
    use crate::replay::testing::{plan, turn};

    /// A replay of these letters, all of them sent.
    async fn sent(office: &Office, consumers: &[&str]) -> ReplayId {
        let letter = |group: &&str| {
            admitted(&json!({ "source": "orders", "payload": 1, "consumer": group }).to_string())
        };
        let id = plan(office, consumers.iter().map(letter).collect()).await;
        turn(office, id, &[ReplayState::Running]).await;
        let now = office.now();
        let ttl = Duration::from_secs(60);
        let lease = office.store.lease(&lease_name(id), "me", ttl, now).await.unwrap().unwrap();
        let run = Run { id, lease: &lease };
        office.store.claim(&run, 9, now).await.unwrap();
        let items = office.store.intend(&run, 9, now).await.unwrap();
        let end = SendEnd::Sent { partition: None, offset: None };
        let ends = items.iter().map(|item| (item.number, end.clone())).collect();
        office.store.record(&run, ends, now).await.unwrap();
        id
    }

    /// The groups tell of each item that they handled it.
    async fn tell(office: &Arc<Office>, id: ReplayId, group: &str) -> Value {
        let items = office.store.items(id, None, &Page::first(9)).await.unwrap().items;
        let receipt = |item: &dlo_core::replay::Item| json!({ "replay_id": send_id(id, item.number), "letter": item.letter, "consumer": group });
        let body = json!({ "receipts": items.iter().map(receipt).collect::<Vec<_>>() }).to_string();
        let request =
            Request::post("/").header("content-type", "application/json").body(Body::from(body)).unwrap();
        let answer =
            receive(State(office.clone()), GivenName(None), Author("anonymous".to_string()), request)
                .await
                .unwrap();
        let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test]
    async fn a_receipt_of_another_group_than_the_one_that_failed_confirms_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let id = sent(&office, &["billing"]).await;
        assert_eq!(tell(&office, id, "shipping").await, json!({ "confirmed": 0, "unknown": 1 }));
        assert_eq!(office.store.replay(id).await.unwrap().counts.get(ItemState::Sent), 1);
        assert_eq!(tell(&office, id, "billing").await, json!({ "confirmed": 1, "unknown": 0 }));
    }

    #[tokio::test]
    async fn of_letters_that_died_in_several_groups_each_is_confirmed_by_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let id = sent(&office, &["billing", "shipping", "billing"]).await;
        assert_eq!(tell(&office, id, "billing").await, json!({ "confirmed": 2, "unknown": 1 }));
        assert_eq!(office.store.replay(id).await.unwrap().counts.get(ItemState::Sent), 1);
    }

    #[tokio::test]
    async fn the_audit_log_says_which_consumer_told_that_a_letter_was_handled() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let id = sent(&office, &["billing", "shipping"]).await;
        tell(&office, id, "billing").await;
        tell(&office, id, "shipping").await;
        let audit = office.store.audit(&Page::first(50)).await.unwrap().entries;
        let confirmed = audit.iter().filter(|entry| entry.what.as_str() == "confirm");
        let authors: Vec<&str> = confirmed.map(|entry| entry.author.as_str()).collect();
        assert_eq!(authors, ["shipping", "billing"]);
    }
}

//! An office with something in every table.

use std::time::Duration;

use dlo_core::fingerprint::{Fingerprint, Parts};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::{NewLetter, Status};
use dlo_core::message::{Message, Payload};
use dlo_core::query::Query;
use dlo_core::replay::{ReplayState, Settings, send_id};
use dlo_server::ServerConfig;
use dlo_store::replays::{
    Members, NewReplay, PlanPolicy, Replays, Run, SendEnd, SourcePolicy, Turn, lease_name,
};
use dlo_store::sqlite::SqliteStore;
use dlo_store::{Deed, NewRepair, Store, StoreLimits};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::office::{Office, clock};

const SOURCES: [&str; 3] = ["orders", "mail", "stock"];
const CLASSES: [&str; 3] = ["TaxRuleMissing", "Timeout", "KeyError"];

/// The office and its backup.
pub(super) async fn office() -> (Office, Vec<u8>) {
    let mut office = Office::open().await;
    for n in 0..36 {
        letter(&office, n).await;
    }
    triage(&office).await;
    copies(&office).await;
    office.stop();
    (&mut office.running).await.unwrap().unwrap();
    let data = std::mem::replace(&mut office.data, TempDir::new().unwrap());
    replays(&data).await;
    let office =
        Office::start_in(data, ServerConfig::default(), StoreLimits::default(), |server| server).await;
    let backup = office.send("POST", "/api/v1/backup", &[], b"").await;
    assert_eq!(backup.status, 200, "{}", backup.text());
    (office, backup.body)
}

async fn letter(office: &Office, n: usize) {
    let letter = json!({
        "source": SOURCES[n % 3], "queue": "incoming", "partition": n % 2, "offset": n, "key": format!("C-{}", n % 5),
        "consumer": "pricing", "consumer_version": "1.2", "event_type": "order.placed", "event_version": "2",
        "correlation_id": format!("corr-{n}"), "error_class": CLASSES[n % 2 + n / 30], "error_code": "TAX-17",
        "error_message": format!("pin {n} not in tax table"), "error_stack": "at pricing.Tax.lookup(Tax.java:41)",
        "headers": [["x-tenant", "acme"]], "attempts": 3,
        "attempt_history": [{"number": 1, "at": "2026-11-01T12:30:01Z", "message": "read timed out"}],
        "payload": {"order": {"id": format!("O-{n}"), "note": "the quick brown fox ".repeat(n * 4)}},
    });
    office.letter(&letter.to_string()).await;
}

/// An order that was parked, and parked again after a redelivery.
async fn copies(office: &Office) {
    for redelivered in ["false", "true"] {
        let headers = [
            ["dlo-version", "1"],
            ["dlo-death-id", "6f1b6a2e-7a2e-5c1b-9d4f-2b8e6a0c5d17"],
            ["dlo-redelivered", redelivered],
        ];
        let copy =
            json!({"source": "copies", "broker": "rabbitmq", "headers": headers, "payload": {"order": 1}});
        office.letter(&copy.to_string()).await;
    }
}

async fn post(office: &Office, path: &str, body: Value) -> Value {
    let headers = [("content-type", "application/json"), ("dlo-author", "ada")];
    let reply = office.send("POST", path, &headers, body.to_string().as_bytes()).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.json()
}

async fn triage(office: &Office) {
    let groups = super::ids(&office.get("/api/v1/groups?limit=500").await.json(), "groups");
    let path = |group: usize, verb: &str| format!("/api/v1/groups/{}/{verb}", groups[group]);
    post(office, &path(0, "acknowledge"), json!({})).await;
    post(office, &path(0, "assign"), json!({"to": "bob"})).await;
    post(office, &path(0, "own"), json!({"team": "tax"})).await;
    post(office, &path(1, "snooze"), json!({"letters": 50})).await;
    for group in [0, 1, 2] {
        post(office, &path(group, "note"), json!({"text": "the table is from May"})).await;
        post(
            office,
            &path(group, "link"),
            json!({"title": "ticket", "url": "https://tickets.example.org/1"}),
        )
        .await;
    }
    post(office, &path(0, "runbook"), json!({"text": "Load the table again."})).await;
    post(office, &path(2, "merge"), json!({"groups": [groups[3]], "reason": "one cause"})).await;
    post(office, &path(0, "split"), json!({"where": "attempts:3", "title": "three attempts"})).await;
    post(office, "/api/v1/deploys", json!({"version": "1.2", "source": "orders"})).await;
    post(office, "/api/v1/deploys", json!({"version": "1.3"})).await;
    post(office, "/api/v1/views", json!({"name": "mine", "of": "letters", "query": "status:open"})).await;
    let discard = json!({"query": "source:stock key:C-2", "reason": "test data", "dry_run": false});
    post(office, "/api/v1/letters/discard", discard).await;
}

/// A replay of which some is sent, in doubt, and came back; a second one that is only planned; repairs.
async fn replays(data: &TempDir) {
    let store = SqliteStore::open(data.path(), StoreLimits::default()).unwrap();
    let (now, deed) = (clock().now(), Deed { author: "ada".to_owned(), reason: None, reference: None });
    let first = plan(&store, "source:orders class:TaxRuleMissing").await;
    let turn = |from, to| Turn { from, to, stop_reason: None, stop_letters: Vec::new() };
    store.turn(first, turn(ReplayState::Planned, ReplayState::Running), &deed, now).await.unwrap();
    let lease = store.lease(&lease_name(first), "one", Duration::from_secs(60), now).await.unwrap().unwrap();
    let run = Run { id: first, lease: &lease };
    store.claim(&run, 100, now).await.unwrap();
    let sent = store.intend(&run, 4, now).await.unwrap();
    let end = |number: u64| match number {
        0 => SendEnd::Doubtful,
        _ => SendEnd::Sent { partition: Some(1), offset: Some(100 + number as i64) },
    };
    store.record(&run, sent.iter().map(|item| (item.number, end(item.number))).collect(), now).await.unwrap();
    store.turn(first, turn(ReplayState::Running, ReplayState::Paused), &deed, now).await.unwrap();
    // Of two causes: it has parts.
    plan(&store, "source:mail").await;
    let query = Query::parse("source:mail", now).unwrap();
    let free = store.letters(&query, &dlo_store::Page::first(2)).await.unwrap().letters;
    for letter in &free {
        let message = Message { payload: "{}".into(), ..Message::default() };
        store
            .repair(letter.id, NewRepair { message, expression: Some(".".to_owned()) }, &deed, now)
            .await
            .unwrap();
    }
    store.index_payloads().await.unwrap();
    store.close().await.unwrap();
    drop(store);
    come_back(data, sent[1].letter, first).await;
}

/// The letter of send 1 dies again.
async fn come_back(data: &TempDir, letter: LetterId, replay: ReplayId) {
    let store = SqliteStore::open(data.path(), StoreLimits::default()).unwrap();
    let id = send_id(replay, 1);
    let known = store.letter(letter).await.unwrap();
    let parts = Parts {
        source: &known.letter.source,
        queue: &known.letter.origin.queue,
        consumer: known.letter.consumer.as_deref(),
        event_type: known.letter.event_type.as_deref(),
        error_class: known.letter.error_class.as_deref(),
    };
    let fingerprint = Fingerprint::of(parts, &known.letter.error_message);
    let again = NewLetter {
        source: known.letter.source.clone(),
        origin: known.letter.origin.clone(),
        message: Message { key: known.letter.key.clone().map(Payload::from), ..Message::default() },
        content_type: None,
        event_type: known.letter.event_type.clone(),
        event_version: None,
        correlation_id: None,
        trace_id: None,
        consumer: known.letter.consumer.clone(),
        consumer_id: None,
        consumer_version: None,
        attempts: 1,
        history: Default::default(),
        error_class: known.letter.error_class.clone(),
        error_message: "pin 3 not in tax table".to_owned(),
        error_code: None,
        error_stack: None,
        reason: known.letter.reason,
        verdict: known.letter.verdict,
        rule: None,
        published_at: None,
        received_at: None,
        first_failed_at: None,
        failed_at: clock().now(),
        replay_id: Some(id),
        replay_of: Some(letter),
        dedupe: None,
        death: None,
        fingerprint,
        owner: None,
        status: Status::Open,
    };
    let batch = dlo_store::Batch { letters: vec![again].into(), ..Default::default() };
    store.insert(batch, clock().now()).await.unwrap();
    store.close().await.unwrap();
}

async fn plan(store: &SqliteStore, text: &str) -> ReplayId {
    let now = clock().now();
    let sources = SOURCES.map(|source| (source.to_owned(), SourcePolicy::default())).into();
    let plan = NewReplay {
        id: ReplayId::new(now, rand::random()),
        members: Members::Query { query: Query::parse(text, now).unwrap(), text: text.to_owned() },
        settings: Settings::default(),
        cause: None,
        author: "ada".to_owned(),
        reason: "the table was restored".to_owned(),
        expires_at: now.plus(Duration::from_secs(3_600)),
        policy: PlanPolicy { sources, ..PlanPolicy::default() },
    };
    store.plan(plan, now).await.unwrap().id
}

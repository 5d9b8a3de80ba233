//! What is allowed of a plan, and of whom: approvals, critical sources, paces that can be kept, what was repaired since.

use dlo_server::{ReplayRules, ServerConfig, SourceReplay, Token};
use dlo_store::StoreLimits;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::office::{Office, Reply};

const COMMON: &str = "common-token-0123456789";
const ALICE: &str = "alice-token-0123456789";
const BOB: &str = "bob-token-0123456789";

/// An office with people in it: `orders` is critical, `mail` is not, and no broker is there.
async fn office() -> Office {
    office_in(TempDir::new().unwrap(), SourceReplay::default()).await
}

/// The same on what is in `data` already.
async fn office_in(data: TempDir, mail: SourceReplay) -> Office {
    let critical = SourceReplay { approvals: 1, critical: true, ..SourceReplay::default() };
    let sources = [("orders".to_owned(), critical), ("mail".to_owned(), mail)];
    let config = ServerConfig {
        token: Some(Token::new(COMMON).unwrap()),
        tokens: [("alice", ALICE), ("bob", BOB)]
            .map(|(name, token)| (name.to_owned(), Token::new(token).unwrap()))
            .into(),
        replay: ReplayRules { sources: sources.into(), ..ReplayRules::default() },
        ..ServerConfig::default()
    };
    Office::start_in(data, config, StoreLimits::default(), |server| server).await
}

async fn post(office: &Office, token: &str, path: &str, body: &Value) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers =
        [("content-type", "application/json"), ("authorization", &*bearer), ("dlo-author", "carol")];
    office.send("POST", path, &headers, body.to_string().as_bytes()).await
}

async fn get(office: &Office, path: &str) -> Value {
    let bearer = format!("Bearer {COMMON}");
    office.send("GET", path, &[("authorization", &*bearer)], b"").await.json()
}

async fn letter(office: &Office, source: &str) -> String {
    let item = json!({ "source": source, "payload": { "n": 1 }, "error_class": "KeyError" });
    let reply = post(office, COMMON, "/api/v1/letters", &item).await;
    reply.json()["results"][0]["id"].as_str().unwrap_or_else(|| panic!("{}", reply.text())).to_owned()
}

async fn plan(office: &Office, token: &str, source: &str, more: &Value) -> Reply {
    let mut body = json!({ "query": format!("source:{source}"), "reason": "the table was restored" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(office, token, "/api/v1/replays", &body).await
}

async fn states(office: &Office) -> Vec<String> {
    let listed = get(office, "/api/v1/replays").await;
    let state = |replay: &Value| replay["state"].as_str().unwrap().to_owned();
    listed["replays"].as_array().unwrap().iter().map(state).collect()
}

#[tokio::test]
async fn who_plans_what_needs_an_approval_proves_who_it_is() {
    let office = office().await;
    letter(&office, "orders").await;
    letter(&office, "mail").await;
    let refused = plan(&office, COMMON, "orders", &json!({})).await;
    assert_eq!(refused.problem(), (403, "unproven_planner".to_owned()));
    assert_eq!(states(&office).await, [""; 0], "nothing of it was written");
    assert_eq!(plan(&office, COMMON, "mail", &json!({})).await.status, 201, "nobody has to approve that");
    assert_eq!(plan(&office, ALICE, "orders", &json!({})).await.status, 201);
}

#[tokio::test]
async fn doubts_of_a_critical_source_are_for_a_person_whatever_a_plan_says() {
    let office = office().await;
    letter(&office, "orders").await;
    letter(&office, "mail").await;
    let again = json!({ "doubts": "send_again" });
    let refused = plan(&office, ALICE, "orders", &again).await;
    assert_eq!(refused.problem(), (422, "critical_source".to_owned()));
    assert_eq!(plan(&office, ALICE, "mail", &again).await.status, 201);
}

#[tokio::test]
async fn a_plan_that_is_not_allowed_any_more_is_not_started() {
    let office = office().await;
    letter(&office, "mail").await;
    let planned = plan(&office, ALICE, "mail", &json!({ "doubts": "send_again" })).await.json();
    let data = office.close().await;
    let critical = SourceReplay { critical: true, ..SourceReplay::default() };
    let office = office_in(data, critical).await;
    let start = format!("/api/v1/replays/{}/start", planned["id"].as_str().unwrap());
    let refused = post(&office, ALICE, &start, &json!({})).await;
    assert_eq!(refused.problem(), (422, "critical_source".to_owned()));
    assert_eq!(states(&office).await, ["planned"]);
}

#[tokio::test]
async fn a_share_of_traffic_that_nobody_counts_is_refused() {
    let office = office().await;
    letter(&office, "mail").await;
    let refused = plan(&office, ALICE, "mail", &json!({ "share": 0.1 })).await;
    assert_eq!(refused.problem(), (422, "bad_pace".to_owned()));
    let planned = plan(&office, ALICE, "mail", &json!({ "rate": 5 })).await.json();
    let pace = format!("/api/v1/replays/{}/pace", planned["id"].as_str().unwrap());
    let refused = post(&office, ALICE, &pace, &json!({ "share": 0.1 })).await;
    assert_eq!(refused.problem(), (422, "bad_pace".to_owned()));
}

#[tokio::test]
async fn what_was_repaired_after_its_approval_is_not_started() {
    let office = office().await;
    let id = letter(&office, "orders").await;
    let planned = plan(&office, ALICE, "orders", &json!({})).await.json();
    let path = format!("/api/v1/replays/{}", planned["id"].as_str().unwrap());
    assert_eq!(post(&office, BOB, &format!("{path}/approve"), &json!({})).await.status, 200);
    let repair = json!({ "ids": [id], "payload": "{\"n\":2}", "reason": "more", "dry_run": false });
    assert_eq!(post(&office, ALICE, "/api/v1/repairs", &repair).await.json()["repaired"], 1);
    let refused = post(&office, ALICE, &format!("{path}/start"), &json!({})).await;
    assert_eq!(refused.problem(), (409, "repaired_since".to_owned()));
}

#[tokio::test]
async fn a_repair_that_makes_no_difference_takes_an_earlier_one_back() {
    let office = office().await;
    let id = letter(&office, "orders").await;
    let repair = async |payload: &str| {
        let body = json!({ "ids": [id], "payload": payload, "reason": "more", "dry_run": false });
        let applied = post(&office, ALICE, "/api/v1/repairs", &body).await.json();
        ["repaired", "unchanged", "taken_back"].map(|what| applied[what].as_u64().unwrap())
    };
    let original = "{\"n\":1}";
    assert_eq!(repair(original).await, [0, 1, 0]);
    assert_eq!(repair("{\"n\":2}").await, [1, 0, 0]);
    assert_eq!(repair("{ \"n\": 1 }").await, [0, 0, 1], "white space between tokens is no difference");
    assert_eq!(repair(original).await, [0, 1, 0], "there is nothing left to take back");
    let kept = get(&office, &format!("/api/v1/letters/{id}/repairs")).await;
    let kept = kept["repairs"].as_array().unwrap();
    let active: Vec<_> = kept.iter().map(|repair| repair["active"].as_bool().unwrap()).collect();
    assert_eq!(active, [false, true], "{kept:?}");
    assert_eq!(kept[1]["expression"], ".", "it says that it takes the one before back: {kept:?}");
}

//! A copy that a crash left: captured as a letter of its own, shown on both, left out of a plan unless it is asked for.

use dlo_server::{ServerConfig, SourceReplay};
use serde_json::{Value, json};

use crate::office::Office;

const DEATH: &str = "6f1b6a2e-7a2e-5c1b-9d4f-2b8e6a0c5d17";

/// A dead letter of RabbitMQ as our runtime parks it.
fn parked(redelivered: bool) -> String {
    let mut headers = vec![json!(["dlo-version", "1"]), json!(["dlo-death-id", DEATH])];
    if redelivered {
        headers.push(json!(["dlo-redelivered", "true"]));
    }
    json!({
        "source": "orders", "broker": "rabbitmq", "queue": "orders", "headers": headers,
        "payload": {"order": 1}, "error_class": "KeyError", "error_message": "pin not in tax table"
    })
    .to_string()
}

/// An office with an order that was parked, and parked again after a redelivery.
async fn parked_twice() -> (Office, String, String) {
    let mut config = ServerConfig::default();
    config.replay.sources.insert("orders".to_owned(), SourceReplay::default());
    let office = Office::open_with(config).await;
    let first = office.letter(&parked(false)).await;
    let second = office.letter(&parked(true)).await;
    (office, first, second)
}

#[tokio::test]
async fn a_copy_after_a_redelivery_is_shown_as_a_suspected_duplicate_on_both_letters() {
    let (office, first, second) = parked_twice().await;
    assert_ne!(first, second, "never merged");
    let letter = async |id: &str| office.get(&format!("/api/v1/letters/{id}")).await.json();
    let named = |id: &str| json!({"kind": "suspected_duplicate", "letter": id});
    assert_eq!(letter(&second).await["suspect"], named(&first));
    assert_eq!(letter(&first).await["suspects"], json!([named(&second)]));
    assert_eq!(letter(&first).await["suspect"], Value::Null);
    let found = office.get("/api/v1/letters?q=is:suspected_duplicate").await.json();
    let found: Vec<&Value> = found["letters"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(found, [&json!(second)]);
    let page = async |path: String| office.get(&path).await.text();
    let html = page(format!("/letters/{second}")).await;
    assert!(html.contains(&format!("Suspected duplicate of <a href=\"/letters/{first}\">")), "{html}");
    let html = page(format!("/letters/{first}")).await;
    assert!(html.contains(&format!("Has a suspected duplicate: <a href=\"/letters/{second}\">")), "{html}");
    assert!(page("/letters".to_owned()).await.contains("suspected duplicate"));
}

#[tokio::test]
async fn a_plan_leaves_a_suspected_duplicate_out_and_says_so() {
    let (office, _, _) = parked_twice().await;
    let plan = async |more: Value| {
        let mut body = json!({"query": "source:orders", "reason": "the table was restored"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = office.post_json("/api/v1/replays", &body.to_string()).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    };
    let planned = plan(json!({})).await;
    assert_eq!(
        (&planned["total"], &planned["excluded"]),
        (&json!(1), &json!([{"why": "suspected", "count": 1}]))
    );
    let html = office.get(&format!("/replays/{}", planned["id"].as_str().unwrap())).await.text();
    assert!(html.contains("suspected to repeat another letter"), "{html}");
    let whole = plan(json!({"include_suspected": true})).await;
    assert_eq!((&whole["total"], &whole["excluded"]), (&json!(2), &json!([])));
}

#[tokio::test]
async fn a_person_can_discard_a_suspected_duplicate() {
    let (office, first, second) = parked_twice().await;
    let body = json!({"ids": [second], "reason": "the consumer parked it twice", "dry_run": false});
    let reply = office.post_json("/api/v1/letters/discard", &body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let status = async |id: &str| office.get(&format!("/api/v1/letters/{id}")).await.json()["status"].clone();
    assert_eq!((status(&first).await, status(&second).await), (json!("open"), json!("discarded")));
}

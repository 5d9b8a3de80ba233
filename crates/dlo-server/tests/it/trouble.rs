//! What does not work, over HTTP: consumers report that they hold messages back, and the office lists it.

use dlo_core::redact::Redactor;
use dlo_server::ServerConfig;
use dlo_store::StoreLimits;
use serde_json::{Value, json};

use crate::office::Office;

fn word(paused: &Value) -> Value {
    json!({"consumers": [{"queue": "orders", "consumer": "pricing", "instance": "1", "paused": paused}]})
}

async fn report(office: &Office, word: &Value) -> (u16, Value) {
    let answer = office.post_json("/api/v1/consumers", &word.to_string()).await;
    (answer.status, answer.json())
}

async fn troubles(office: &Office) -> Vec<Value> {
    office.get("/api/v1/status").await.json()["troubles"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_consumer_that_holds_messages_back_is_listed_until_it_takes_that_back() {
    let office = Office::open().await;
    assert_eq!(office.get("/api/v1/status").await.json()["ok"], true);
    let braked = json!({"kind": "consumer_braked", "why": "HTTP 404 <b>", "held": 60});
    assert_eq!(report(&office, &word(&braked)).await.0, 200);
    let listed = troubles(&office).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["title"], "Consumer pricing of orders holds back 60 messages");
    let page = office.get("/groups").await.text();
    assert!(page.contains("HTTP 404 &#60;b&#62;") && !page.contains("404 <b>"), "{page}");
    let metrics = office.get("/metrics").await.text();
    assert!(metrics.contains("dlo_troubles{kind=\"consumer_braked\"} 1\n"), "{metrics}");
    assert_eq!(report(&office, &word(&Value::Null)).await.0, 200);
    assert_eq!(troubles(&office).await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_consumer_that_does_not_name_the_kind_is_listed_too() {
    let office = Office::open().await;
    let old = json!({"consumers": [{"queue": "orders", "consumer": "pricing", "instance": "1", "halted": "its brake is on"}]});
    assert_eq!(report(&office, &old).await.0, 200);
    let listed = troubles(&office).await;
    assert_eq!(
        (&listed[0]["kind"], &listed[0]["why"]),
        (&"consumer_paused".into(), &"its brake is on".into())
    );
}

#[tokio::test]
async fn a_report_of_something_else_is_refused() {
    let office = Office::open().await;
    let other = word(&json!({"kind": "store_unavailable", "why": "x", "held": 1}));
    let (status, problem) = report(&office, &other).await;
    assert_eq!((status, &problem["field"]), (422, &"paused.kind".into()), "{problem}");
    let unknown = word(&json!({"kind": "consumer_asleep", "why": "x", "held": 1}));
    assert!((400..500).contains(&report(&office, &unknown).await.0));
    assert_eq!(troubles(&office).await, [] as [Value; 0]);
}

#[tokio::test]
async fn what_is_sensitive_is_hidden_in_a_trouble() {
    let rules =
        Redactor::compile(&serde_json::from_value(json!({"patterns": ["C-[0-9]+"]})).unwrap()).unwrap();
    let office =
        Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.redact(rules)).await;
    let secret = json!({"consumers": [{"queue": "q-C-90210", "consumer": "c-C-90210", "instance": "1",
        "paused": {"kind": "consumer_braked", "why": "no customer C-90210", "held": 1}}]});
    assert_eq!(report(&office, &secret).await.0, 200);
    for path in ["/api/v1/status", "/", "/banner"] {
        let text = office.get(path).await.text();
        assert!(text.contains("no customer") && !text.contains("90210"), "{path}: {text}");
    }
}

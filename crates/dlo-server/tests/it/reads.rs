//! What is asked of the office: lists, groups, numbers, rules on history, the audit log, metrics.

use dlo_core::owners::Owners;
use dlo_server::ServerConfig;

use crate::office::Office;

async fn shop() -> Office {
    let rules = r#"[{"when":{"source":"orders"},"owner":"payments"}]"#;
    let owners = Owners::compile(serde_json::from_str(rules).unwrap()).unwrap();
    let office = Office::open_with(ServerConfig { owners, ..ServerConfig::default() }).await;
    let lines: String = (0..60)
        .map(|n| {
            let class = if n % 3 == 0 { "KeyError" } else { "TimeoutError" };
            let source = if n < 50 { "orders" } else { "mails" };
            format!("{{\"source\":\"{source}\",\"offset\":{n},\"payload\":{{\"n\":{n}}},\"event_type\":\"order.placed\",\"consumer\":\"pricing\",\"error_class\":\"{class}\",\"error_message\":\"pin {n} not in tax table\"}}\n")
        })
        .collect();
    assert_eq!(office.post_lines(lines.as_bytes()).await.json()["stored"], 60);
    office
}

#[tokio::test]
async fn pages_follow_one_another_and_show_each_letter_once() {
    let office = shop().await;
    let mut seen = std::collections::BTreeSet::new();
    let mut path = "/api/v1/letters?q=source:orders&limit=20".to_string();
    loop {
        let page = office.get(&path).await.json();
        for letter in page["letters"].as_array().unwrap() {
            assert!(seen.insert(letter["id"].as_str().unwrap().to_string()));
        }
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/letters?q=source:orders&limit=20&cursor={cursor}");
    }
    assert_eq!(seen.len(), 50);
}

#[tokio::test]
async fn groups_gather_letters_of_one_cause_and_know_their_owner() {
    let office = shop().await;
    let groups = office.get("/api/v1/groups?source=orders").await.json();
    let groups = groups["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    assert!(groups.iter().all(|group| group["owner"] == "payments" && group["open"] == group["total"]));
    assert_eq!(groups.iter().map(|group| group["total"].as_u64().unwrap()).sum::<u64>(), 50);
    let id = groups[0]["id"].as_str().unwrap();
    let whole = office.get(&format!("/api/v1/groups/{id}")).await.json();
    for (name, value) in groups[0].as_object().unwrap() {
        assert_eq!(&whole[name], value, "{name}");
    }
    let unowned = office.get("/api/v1/groups?owner=none").await.json();
    assert!(unowned["groups"].as_array().unwrap().iter().all(|group| group["source"] == "mails"));
}

#[tokio::test]
async fn numbers_and_metrics_agree_with_what_was_sent() {
    let office = shop().await;
    let stats = office.get("/api/v1/stats").await.json();
    assert_eq!((&stats["letters"]["total"], &stats["letters"]["open"]), (&60.into(), &60.into()));
    assert_eq!((&stats["unowned"], &stats["groups"]), (&10.into(), &4.into()));
    let causes = office.get("/api/v1/stats/causes?source=mails").await.json();
    let open: u64 = causes["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["counts"]["open"].as_u64().unwrap())
        .sum();
    assert_eq!(open, 10);
    let page = office.get("/metrics").await;
    assert!(page.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    for line in [
        "dlo_letters{source=\"orders\",status=\"open\"} 50",
        "dlo_letters_captured_total{source=\"mails\"} 10",
        "dlo_letters_unowned 10",
        "dlo_ingest_items_total{result=\"stored\"} 60",
        "dlo_http_requests_total{method=\"POST\",route=\"/api/v1/letters\",status=\"200\"} 1",
    ] {
        assert!(page.text().lines().any(|found| found == line), "{line} in\n{}", page.text());
    }
}

#[tokio::test]
async fn probes_are_answered() {
    let office = Office::open().await;
    assert_eq!(office.get("/healthz").await.json()["status"], "ok");
    assert_eq!(office.get("/readyz").await.json()["status"], "ready");
}

#[tokio::test]
async fn reading_a_payload_is_audited_and_reading_a_list_is_not() {
    let office = Office::open().await;
    let id = office.letter(r#"{"source":"a","payload":1}"#).await;
    let events = async || {
        let audit = office.get("/api/v1/audit").await.json();
        let entries = audit["entries"].as_array().unwrap().clone();
        entries.into_iter().filter(|entry| entry["what"] == "payload_read").collect::<Vec<_>>()
    };
    office.get("/api/v1/letters").await;
    office.get(&format!("/api/v1/letters/{id}")).await;
    assert_eq!(events().await.len(), 0);
    office.send("GET", &format!("/api/v1/letters/{id}/payload"), &[("dlo-author", "ada")], b"").await;
    let read = events().await;
    assert_eq!((read.len(), &read[0]["author"], &read[0]["letter"]), (1, &"ada".into(), &id.into()));
}

#[tokio::test]
async fn a_rule_is_tried_on_history_and_changes_nothing() {
    let office = shop().await;
    let trial = r#"{"classify":[{"name":"tax","when":{"class":"KeyError"},"verdict":"discard"}],
        "owners":[{"when":{"source":"mails"},"owner":"crm"}]}"#;
    let reply = office.post_json("/api/v1/rules/test", trial).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let tried = reply.json();
    assert_eq!(
        (&tried["scanned"], &tried["discarded"], &tried["retried"]),
        (&60.into(), &20.into(), &40.into())
    );
    let discards =
        tried["verdicts"].as_array().unwrap().iter().find(|change| change["to"] == "discard").unwrap();
    assert_eq!((&discards["from"], &discards["rule"]), (&"dead_letter".into(), &"tax".into()));
    assert_eq!(discards["samples"].as_array().unwrap().len(), 5);
    let owners = tried["owners"].as_array().unwrap();
    assert!(owners.iter().any(|change| change["to"] == "crm" && change["count"] == 10), "{owners:?}");
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["open"], 60);

    let tried_twice = r#"{"source":"refunds","payload":{},"error_class":"Busy","error_message":"busy","attempts":2,
        "attempt_history":[{"number":1,"at":"2026-11-01T12:30:01Z","error_class":"Busy","message":"busy","verdict":"retry"},
        {"number":2,"at":"2026-11-01T12:30:02Z","error_class":"Busy","message":"busy","verdict":"dead_letter"}]}"#;
    office.post_json("/api/v1/letters", tried_twice).await;
    let trial = r#"{"classify":[{"name":"busy","when":{"class":"Busy"},"verdict":"discard"}],"attempts":true,"query":"source:refunds"}"#;
    let tried = office.post_json("/api/v1/rules/test", trial).await.json();
    assert_eq!((&tried["scanned"], &tried["attempts_scanned"]), (&1.into(), &2.into()), "{tried}");
    let froms: Vec<_> = tried["attempts"].as_array().unwrap().iter().map(|change| &change["from"]).collect();
    assert!(froms.contains(&&"retry".into()) && froms.contains(&&"dead_letter".into()), "{tried}");

    let wrong = r#"{"classify":[{"when":{},"verdict":"discard"}]}"#;
    assert_eq!(office.post_json("/api/v1/rules/test", wrong).await.problem(), (422, "bad_rule".to_string()));
    assert_eq!(office.post_json("/api/v1/rules/test", "{}").await.problem(), (422, "bad_body".to_string()));
}

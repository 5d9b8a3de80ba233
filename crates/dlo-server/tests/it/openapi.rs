//! The description is kept true: real answers are held against its schemas, and so is what may be sent.

use serde_json::{Value, json};

use crate::ingest::FULL;
use crate::office::Office;

fn check(document: &Value, name: &str, value: &Value) {
    let schema =
        json!({"$ref": format!("#/components/schemas/{name}"), "components": document["components"]});
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}

#[tokio::test]
async fn real_answers_fit_their_description() {
    let office = Office::open().await;
    let document = office.get("/api/v1/openapi.json").await.json();
    check(&document, "LetterIn", &serde_json::from_str(FULL).unwrap());
    let id = office.letter(FULL).await;
    office
        .letter(r#"{"source":"bytes","payload_base64":"AP8=","key_base64":"/w==","event_version":"2-beta"}"#)
        .await;
    for redelivered in ["false", "true"] {
        office
            .letter(&format!(
                r#"{{"source":"copies","payload":1,"headers":[["dlo-version","1"],["dlo-death-id","6f1b6a2e-7a2e-5c1b-9d4f-2b8e6a0c5d17"],["dlo-redelivered","{redelivered}"]]}}"#
            ))
            .await;
    }
    let mixed = r#"[{"source":"a","offset":1,"payload":1},{"source":"a","offset":1,"payload":1},{"ofset":1},{"source":"a","payload":1,"reason":"x"}]"#;
    check(&document, "Received", &office.post_json("/api/v1/letters", mixed).await.json());
    let headers = [("content-type", "application/x-ndjson"), ("accept", "application/x-ndjson")];
    let lines = office.send("POST", "/api/v1/letters", &headers, b"{}\n").await.lines();
    check(&document, "ItemResult", &lines[0]);
    check(&document, "ReceivedSummary", &lines[1]);

    let group =
        office.get(&format!("/api/v1/letters/{id}")).await.json()["group_id"].as_str().unwrap().to_string();
    triage(&office, &document, &group).await;
    let gets = [
        ("Letters", "/api/v1/letters".to_string()),
        ("Letters", "/api/v1/letters?limit=1".to_string()),
        ("Count", "/api/v1/letters/count?q=source:a".to_string()),
        ("LetterDetail", format!("/api/v1/letters/{id}")),
        ("Timeline", format!("/api/v1/letters/{id}/timeline")),
        ("Groups", "/api/v1/groups".to_string()),
        ("GroupWhole", format!("/api/v1/groups/{group}")),
        ("Trend", format!("/api/v1/groups/{group}/trend")),
        ("Sample", format!("/api/v1/groups/{group}/sample")),
        ("Runbook", format!("/api/v1/groups/{group}/runbook")),
        ("ClassTrends", "/api/v1/stats/trend".to_string()),
        ("Ages", "/api/v1/stats/ages".to_string()),
        ("Owners", "/api/v1/owners".to_string()),
        ("Deploys", "/api/v1/deploys".to_string()),
        ("Views", "/api/v1/views".to_string()),
        ("Stats", "/api/v1/stats".to_string()),
        ("Sources", "/api/v1/sources".to_string()),
        ("OfficeStatus", "/api/v1/status".to_string()),
        ("Causes", "/api/v1/stats/causes".to_string()),
        ("Audit", "/api/v1/audit".to_string()),
        ("Health", "/healthz".to_string()),
        ("Health", "/readyz".to_string()),
        ("Problem", "/api/v1/letters?q=a%20b:c".to_string()),
        ("Problem", "/nowhere".to_string()),
    ];
    for (name, path) in gets {
        check(&document, name, &office.get(&path).await.json());
    }
    for line in office.get("/api/v1/letters/export").await.lines() {
        check(&document, "ExportedLetter", &line);
        check(&document, "LetterIn", &line);
    }
    let decision = r#"{"query":"source:a","reason":"x","reference":"y","dry_run":false}"#;
    check(&document, "Decision", &serde_json::from_str(decision).unwrap());
    check(&document, "Decided", &office.post_json("/api/v1/letters/compensate", decision).await.json());
    check(&document, "Verification", &office.send("POST", "/api/v1/audit/verify", &[], b"").await.json());
    let trial = r#"{"classify":[{"when":{"class":"KeyError"},"verdict":"retry"}],"owners":[{"when":{"source":"*"},"owner":"me"}]}"#;
    check(&document, "RuleTrial", &serde_json::from_str(trial).unwrap());
    check(&document, "RuleTried", &office.post_json("/api/v1/rules/test", trial).await.json());
    let word = r#"{"consumers":[{"queue":"orders","consumer":"pricing","instance":"1","halted":"its breaker for tax is open"},{"queue":"q","consumer":"c","instance":"2","halted":null,"paused":{"kind":"consumer_braked","why":"HTTP 404","held":60}}]}"#;
    check(&document, "Consumers", &serde_json::from_str(word).unwrap());
    check(&document, "ConsumersHeard", &office.post_json("/api/v1/consumers", word).await.json());
    let status = office.get("/api/v1/status").await.json();
    assert_eq!(status["troubles"].as_array().unwrap().len(), 2, "{status:#}");
    check(&document, "OfficeStatus", &status);
    let backup = office.send("POST", "/api/v1/backup", &[], b"").await;
    let octets = [("content-type", "application/octet-stream")];
    let restored = office.send("POST", "/api/v1/restore?reason=x", &octets, &backup.body).await;
    check(&document, "Restored", &restored.json());
}

#[tokio::test]
async fn every_reference_in_the_description_leads_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|inner| references(inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(dlo_server::OPENAPI).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

/// Everything that is written beside a group, sent as described and answered as described.
async fn triage(office: &Office, document: &Value, group: &str) {
    let sent = [
        ("note", "NoteIn", "Note", json!({"text": "seen"})),
        ("link", "LinkIn", "Link", json!({"title": "T", "url": "https://x.example/"})),
        ("runbook", "RunbookIn", "Runbook", json!({"text": "# How", "version": 0})),
        ("acknowledge", "Reasoned", "Group", json!({"reason": "rota"})),
        ("snooze", "Snooze", "Group", json!({"letters": 5})),
        ("resolve", "Resolve", "Group", json!({"in_version": "2"})),
        ("assign", "Assign", "Group", json!({"to": "ada"})),
        ("own", "Own", "Group", json!({"team": "tax"})),
    ];
    for (verb, asked, answered, body) in sent {
        check(document, asked, &body);
        let reply = office.post_json(&format!("/api/v1/groups/{group}/{verb}"), &body.to_string()).await;
        assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
        check(document, answered, &reply.json());
    }
    let elsewhere = [
        (
            "/api/v1/groups/change",
            "GroupsChange",
            "GroupsChanged",
            json!({"ids": [group], "change": {"do": "reopen"}}),
        ),
        ("/api/v1/deploys", "DeployIn", "Deploy", json!({"version": "2.3"})),
        (
            "/api/v1/views",
            "ViewIn",
            "View",
            json!({"name": "v", "of": "groups", "query": "", "shared": true}),
        ),
    ];
    for (path, asked, answered, body) in elsewhere {
        check(document, asked, &body);
        check(document, answered, &office.post_json(path, &body.to_string()).await.json());
    }
}

//! Discard and compensate: a dry run until told otherwise, with author and reason in the audit log.

use crate::office::Office;

async fn three(office: &Office) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(office.letter(&format!(r#"{{"source":"orders","offset":{n},"payload":{n}}}"#)).await);
    }
    ids
}

#[tokio::test]
async fn a_decision_is_a_dry_run_until_it_says_otherwise() {
    let office = Office::open().await;
    three(&office).await;
    let answer = office
        .post_json("/api/v1/letters/discard", r#"{"query":"source:orders","reason":"test data"}"#)
        .await;
    let decided = serde_json::json!({"dry_run": true, "matched": 3, "moved": 3, "skipped": 0, "missing": 0});
    assert_eq!(answer.json(), decided);
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["open"], 3);
}

#[tokio::test]
async fn letters_are_discarded_by_query_with_author_and_reason() {
    let office = Office::open().await;
    let ids = three(&office).await;
    let headers = [("content-type", "application/json"), ("dlo-author", "ada")];
    let body = br#"{"query":"source:orders","reason":"test data","dry_run":false}"#;
    let decided = office.send("POST", "/api/v1/letters/discard", &headers, body).await.json();
    assert_eq!((&decided["moved"], &decided["skipped"]), (&3.into(), &0.into()));
    let stats = office.get("/api/v1/stats").await.json();
    assert_eq!((&stats["letters"]["open"], &stats["letters"]["discarded"]), (&0.into(), &3.into()));

    let timeline = office.get(&format!("/api/v1/letters/{}/timeline", ids[0])).await.json();
    let last = timeline["timeline"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["what"], &last["author"], &last["reason"]),
        (&"discard".into(), &"ada".into(), &"test data".into())
    );
    assert_eq!(timeline["timeline"][0]["what"], "captured");

    let again = office.send("POST", "/api/v1/letters/discard", &headers, body).await.json();
    assert_eq!(again["moved"], 0);
    assert_eq!(office.send("POST", "/api/v1/audit/verify", &[], b"").await.json()["holds"], true);
}

#[tokio::test]
async fn a_number_that_changed_since_it_was_confirmed_refuses_the_whole() {
    let office = Office::open().await;
    three(&office).await;
    assert_eq!(office.get("/api/v1/letters/count?q=source:orders").await.json()["count"], 3);
    let discard = |expect: u64| {
        format!(r#"{{"query":"source:orders","reason":"test data","dry_run":false,"expect":{expect}}}"#)
    };
    let refused = office.post_json("/api/v1/letters/discard", &discard(2)).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (409, Some("count_changed")));
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["open"], 3);
    let done = office.post_json("/api/v1/letters/discard", &discard(3)).await;
    assert_eq!(done.json()["moved"], 3);
}

#[tokio::test]
async fn letters_are_compensated_by_id_with_a_reference() {
    let office = Office::open().await;
    let ids = three(&office).await;
    let gone = "01890a5d-ac96-774b-bcce-b302099a8057";
    let body = |dry: bool| {
        format!(
            r#"{{"ids":["{}","{gone}"],"reason":"refunded","reference":"REF-7","dry_run":{dry}}}"#,
            ids[0]
        )
    };
    for dry in [true, false] {
        let decided = office.post_json("/api/v1/letters/compensate", &body(dry)).await.json();
        assert_eq!(
            (&decided["matched"], &decided["moved"], &decided["missing"]),
            (&2.into(), &1.into(), &1.into())
        );
    }
    let decided = office.post_json("/api/v1/letters/compensate", &body(false)).await.json();
    assert_eq!((&decided["moved"], &decided["skipped"]), (&0.into(), &1.into()));
    let letter = office.get(&format!("/api/v1/letters/{}", ids[0])).await.json();
    assert_eq!(letter["status"], "compensated");
    let audit = office.get("/api/v1/audit").await.json();
    let entry =
        audit["entries"].as_array().unwrap().iter().find(|entry| entry["what"] == "compensate").unwrap();
    assert_eq!((&entry["reference"], &entry["reason"]), (&"REF-7".into(), &"refunded".into()));
}

#[tokio::test]
async fn a_decision_without_reason_reference_or_letters_is_refused() {
    let office = Office::open().await;
    let table = [
        ("discard", r#"{"query":"source:a"}"#, "reason_needed"),
        ("discard", r#"{"query":"source:a","reason":"  "}"#, "reason_needed"),
        ("discard", r#"{"query":"","reason":"x"}"#, "empty_query"),
        ("discard", r#"{"reason":"x"}"#, "bad_body"),
        ("discard", r#"{"ids":[],"reason":"x"}"#, "bad_ids"),
        ("discard", r#"{"ids":["7"],"reason":"x"}"#, "bad_body"),
        ("discard", r#"{"query":"source:a","reason":"x","dryrun":false}"#, "bad_body"),
        ("compensate", r#"{"query":"source:a","reason":"x"}"#, "reference_needed"),
    ];
    for (verb, body, code) in table {
        let reply = office.post_json(&format!("/api/v1/letters/{verb}"), body).await;
        assert_eq!(reply.problem(), (422, code.to_string()), "{body}");
    }
    let reply = office.post_json("/api/v1/letters/discard", r#"{"query":"sauce:a","reason":"x"}"#).await;
    assert_eq!(reply.problem(), (400, "bad_query".to_string()));
}

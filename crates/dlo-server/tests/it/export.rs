//! Letters out and in again, backups out and in again: nothing is lost on the way, and everything is audited.

use dlo_server::ServerConfig;
use dlo_store::StoreLimits;
use serde_json::Value;

use crate::ingest::FULL;
use crate::office::Office;

#[tokio::test]
async fn an_export_can_be_sent_to_another_office_as_it_is() {
    let office = Office::open().await;
    let id = office.letter(FULL).await;
    office.letter(r#"{"source":"bytes","payload_base64":"AP8=","key_base64":"/w==","broker":"kafka"}"#).await;
    let export = office.get("/api/v1/letters/export").await;
    assert_eq!((export.status, export.headers["content-type"].as_str()), (200, "application/x-ndjson"));
    assert_eq!(export.lines().len(), 2);
    assert!(export.lines().iter().any(|line| line["id"] == id.as_str()));

    let other = Office::open().await;
    let answer = other.post_lines(&export.body).await.json();
    assert_eq!((&answer["stored"], &answer["rejected"]), (&2.into(), &0.into()), "{answer}");
    let without_id = |lines: Vec<Value>| -> Vec<Value> {
        let strip = |mut line: Value| {
            line.as_object_mut().unwrap().remove("id");
            line
        };
        let mut lines: Vec<Value> = lines.into_iter().map(strip).collect();
        lines.sort_by_key(|line| line["source"].to_string());
        lines
    };
    let copied = other.get("/api/v1/letters/export").await;
    assert_eq!(without_id(copied.lines()), without_id(export.lines()));
}

#[tokio::test]
async fn an_export_is_audited_and_takes_a_query() {
    let office = Office::open().await;
    office.letter(r#"{"source":"a","payload":1}"#).await;
    office.letter(r#"{"source":"b","payload":1}"#).await;
    let export = office.send("GET", "/api/v1/letters/export?q=source:b", &[("dlo-author", "ada")], b"").await;
    assert_eq!(export.lines().len(), 1);
    let audit = office.get("/api/v1/audit?limit=1").await.json();
    let entry = &audit["entries"][0];
    assert_eq!(
        (&entry["what"], &entry["author"], &entry["count"]),
        (&"exported".into(), &"ada".into(), &1.into())
    );
}

#[tokio::test]
async fn a_letter_that_cannot_be_read_is_counted_and_does_not_end_the_export() {
    let office = Office::open().await;
    office.letter(r#"{"source":"a","payload":1}"#).await;
    office.letter(r#"{"source":"b","payload":2}"#).await;
    let raw = rusqlite::Connection::open(office.data.path().join("office.db")).unwrap();
    raw.execute("DELETE FROM blocks WHERE id = (SELECT max(id) FROM blocks)", []).unwrap();
    let export = office.get("/api/v1/letters/export").await.lines();
    assert_eq!(export.len(), 2, "{export:?}");
    assert_eq!((&export[0]["source"], &export[1]), (&"a".into(), &serde_json::json!({"unreadable": 1})));
}

#[tokio::test]
async fn a_backup_brings_back_what_was_there() {
    let office = Office::open().await;
    let id = office.letter(FULL).await;
    let backup = office.send("POST", "/api/v1/backup", &[], b"").await;
    assert_eq!(backup.status, 200, "{}", backup.text());
    assert_eq!(backup.headers["content-length"], backup.body.len().to_string());
    office.letter(r#"{"source":"later","payload":1}"#).await;

    let octets = [("content-type", "application/octet-stream")];
    let without = office.send("POST", "/api/v1/restore", &octets, &backup.body).await;
    assert_eq!(without.problem(), (422, "reason_needed".to_string()));
    let restored = office.send("POST", "/api/v1/restore?reason=drill", &octets, &backup.body).await;
    assert_eq!(restored.json(), serde_json::json!({"restored": true, "letters": 1}));
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["total"], 1);
    assert_eq!(
        office.get(&format!("/api/v1/letters/{id}/payload")).await.body,
        br#"{"order_id": "ORD-88812"}"#
    );
    let audit = office.get("/api/v1/audit").await.json();
    assert!(audit["entries"].as_array().unwrap().iter().any(|entry| entry["what"] == "restored"), "{audit}");
}

#[tokio::test]
async fn what_is_no_backup_is_refused_and_changes_nothing() {
    let office = Office::open_with(ServerConfig::default()).await;
    office.letter(FULL).await;
    let octets = [("content-type", "application/octet-stream")];
    let reply = office.send("POST", "/api/v1/restore?reason=drill", &octets, b"no backup at all").await;
    assert!((400..500).contains(&reply.problem().0), "{}", reply.text());
    assert_eq!(office.get("/api/v1/stats").await.json()["letters"]["total"], 1);
    let left = std::fs::read_dir(office.data.path()).unwrap().filter_map(Result::ok);
    let left: Vec<_> = left.filter(|file| file.path().extension().is_some_and(|end| end == "tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn what_a_crash_left_of_a_backup_is_gone_once_the_office_is_open() {
    let data = tempfile::tempdir().unwrap();
    let left = data.path().join("dlo-00112233aabbccdd.tmp");
    std::fs::write(&left, "half a backup").unwrap();
    let office =
        Office::start_in(data, ServerConfig::default(), StoreLimits::default(), |server| server).await;
    assert_eq!(office.get("/healthz").await.status, 200);
    assert!(!left.exists());
}

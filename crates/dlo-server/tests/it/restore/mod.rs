//! A restore never harms what is there: mutated backups against a running office.
//!
//! `DLO_RESTORE_MUTANTS` says how many (68 by default, each kind twice); the bar of the project is 250.
//! `DLO_RESTORE_SEED` gives another seed.

use std::collections::BTreeMap;

use dlo_store::StoreLimits;
use dlo_store::sqlite::SqliteStore;
use dlo_testkit::backups::{Kind, mutant};
use serde_json::Value;

use crate::office::{Office, Reply};

mod rich;

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

async fn restore(office: &Office, backup: &[u8]) -> Reply {
    let octets = [("content-type", "application/octet-stream")];
    office.send("POST", "/api/v1/restore?reason=drill", &octets, backup).await
}

/// What must not change when a backup is refused.
async fn content(office: &Office) -> [String; 4] {
    let read = async |path: &str| {
        let reply = office.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text()
    };
    [
        read("/api/v1/letters?limit=500").await,
        read("/api/v1/groups?limit=500").await,
        read("/api/v1/replays").await,
        read("/api/v1/views").await,
    ]
}

async fn problems(office: &Office) -> Vec<Value> {
    let reply = office.send("POST", "/api/v1/audit/verify", &[], b"").await;
    assert_eq!(reply.status, 200, "verify: {}", reply.text());
    reply.json()["problems"].as_array().unwrap().clone()
}

fn ids(list: &Value, of: &str) -> Vec<String> {
    let id = |entry: &Value| entry["id"].as_str().unwrap().to_string();
    list[of].as_array().unwrap().iter().map(id).collect()
}

/// Every page and every list, each letter with its payload.
async fn paths(office: &Office) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/",
        "/groups",
        "/groups?view=all",
        "/letters",
        "/letters?q=status:open",
        "/letters?q=reason:processing_error",
        "/letters?q=tax",
        "/letters?q=key:C-1",
        "/replays",
        "/sources",
        "/sources/orders",
        "/rules",
        "/owners",
        "/audit",
        "/metrics",
        "/readyz",
        "/healthz",
        "/api/v1/stats",
        "/api/v1/stats/causes",
        "/api/v1/stats/trend",
        "/api/v1/stats/ages",
        "/api/v1/sources",
        "/api/v1/audit",
        "/api/v1/audit?limit=500",
        "/api/v1/views",
        "/api/v1/deploys",
        "/api/v1/owners",
        "/api/v1/rules",
        "/api/v1/complete?q=source:",
        "/api/v1/letters/export",
    ]
    .map(str::to_string)
    .into();
    for id in ids(&office.get("/api/v1/letters?limit=500").await.json(), "letters") {
        paths.extend(["", "?payload=show"].map(|show| format!("/letters/{id}{show}")));
        paths.extend(
            ["", "/payload", "/timeline", "/repairs"].map(|part| format!("/api/v1/letters/{id}{part}")),
        );
    }
    for id in ids(&office.get("/api/v1/groups?limit=500").await.json(), "groups") {
        paths.push(format!("/groups/{id}"));
        paths.extend(["", "/trend", "/sample", "/runbook"].map(|part| format!("/api/v1/groups/{id}{part}")));
    }
    for id in ids(&office.get("/api/v1/replays").await.json(), "replays") {
        paths.push(format!("/replays/{id}"));
        paths.extend(["", "/items"].map(|part| format!("/api/v1/replays/{id}{part}")));
    }
    paths
}

/// The office reads and writes, counts agree, and a start would find it.
async fn assert_serves(office: &Office, what: &str) {
    let audit = office.get("/api/v1/audit?limit=1").await.json();
    assert_eq!(audit["entries"][0]["what"], "restored", "{what}: {audit}");
    assert_eq!(problems(office).await, Vec::<Value>::new(), "{what}");
    for path in paths(office).await {
        let reply = office.get(&path).await;
        let missing = path.ends_with("/runbook") && reply.status == 404;
        assert!(reply.status == 200 || missing, "{what}: {path} answers {}: {}", reply.status, reply.text());
    }
    office.letter(r#"{"source":"orders","payload":{"n":"after"},"error_class":"After","error_message":"a new one"}"#).await;
    let group =
        office.get("/api/v1/groups?limit=500").await.json()["groups"][0]["id"].as_str().unwrap().to_string();
    let headers = [("content-type", "application/json"), ("dlo-author", "ada")];
    let path = format!("/api/v1/groups/{group}/note");
    let noted = office.send("POST", &path, &headers, br#"{"text":"after the restore"}"#).await;
    assert_eq!(noted.status, 200, "{what}: {}", noted.text());
    assert_eq!(problems(office).await, Vec::<Value>::new(), "{what}, written to");
    let copy = office.send("POST", "/api/v1/backup", &[], b"").await;
    assert_eq!(copy.status, 200, "{what}: {}", copy.text());
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("office.db");
    std::fs::write(&file, &copy.body).unwrap();
    let db = rusqlite::Connection::open(&file).unwrap();
    let found: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok", "{what}");
    drop(db);
    let opened = SqliteStore::open(elsewhere.path(), StoreLimits::default());
    assert!(opened.is_ok(), "{what}: a start fails: {opened:?}");
}

fn left_behind(office: &Office) -> Vec<String> {
    let names = std::fs::read_dir(office.data.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("office.")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_mutated_backup_harms_the_office() {
    let (mutants, seed) = (number("DLO_RESTORE_MUTANTS", 68), number("DLO_RESTORE_SEED", 4_711) as u64);
    println!("seed {seed}, {mutants} mutants");
    let (office, good) = rich::office().await;
    let scratch = tempfile::tempdir().unwrap();
    let data = office.data.path().to_str().unwrap().to_string();
    let mut outcomes: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut before = content(&office).await;
    for number in 0..mutants {
        let mutant = mutant(&good, seed, number, scratch.path());
        let what = format!("seed {seed}, mutant {number}, {:?}: {}", mutant.kind, mutant.what);
        let reply = restore(&office, &mutant.bytes).await;
        assert_eq!(left_behind(&office), Vec::<String>::new(), "{what}");
        let counted = outcomes.entry(mutant.kind).or_default();
        if reply.status == 200 {
            assert!(!mutant.kind.is_foreign(), "{what}: accepted");
            counted.0 += 1;
            println!("accepted: {what}");
            assert_serves(&office, &what).await;
            let again = restore(&office, &good).await;
            assert_eq!(again.status, 200, "{what}, then the good one: {}", again.text());
            before = content(&office).await;
        } else {
            assert_eq!(reply.status, 422, "{what}: {}", reply.text());
            assert!(!mutant.kind.is_good(), "{what}: {}", reply.text());
            counted.1 += 1;
            let text = reply.text();
            assert!(
                !text.contains(&data) && !text.contains("/tmp") && !text.contains("office.db"),
                "{what}: {text}"
            );
            let detail = reply.json()["detail"].as_str().unwrap().to_string();
            *reasons.entry(detail).or_default() += 1;
            assert_eq!(content(&office).await, before, "{what}: the office changed");
            assert_eq!(problems(&office).await, Vec::<Value>::new(), "{what}");
        }
    }
    for (kind, (accepted, refused)) in &outcomes {
        println!("{kind:?}: {accepted} accepted, {refused} refused");
    }
    for (reason, count) in reasons {
        println!("{count} x {reason}");
    }
    let sum = |of: fn(&(usize, usize)) -> usize| outcomes.values().map(of).sum::<usize>();
    println!("{} accepted, {} refused", sum(|counted| counted.0), sum(|counted| counted.1));
}

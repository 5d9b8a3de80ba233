//! The page: readable without a script, and nothing a message carries becomes markup.

use dlo_core::redact::Redactor;
use dlo_server::ServerConfig;
use dlo_store::StoreLimits;

use crate::office::Office;

const NASTY: &str = r#"{"source":"<i>orders","offset":1,"payload":{"x":"<script>alert(1)</script>"},"key":"<k>","headers":[["<h>","<v>"]],
 "error_class":"Key<b>Error","error_message":"<script>alert(2)</script>","error_stack":"<s>","consumer":"<c>",
 "attempt_history":[{"number":1,"at":"2026-11-01T12:30:01Z","message":"<m>"}]}"#;

#[tokio::test]
async fn every_page_shows_what_is_there_and_escapes_it() {
    let office = Office::open().await;
    let id = office.letter(NASTY).await;
    let group =
        office.get(&format!("/api/v1/letters/{id}")).await.json()["group_id"].as_str().unwrap().to_string();
    let pages = [
        "/".to_string(),
        "/groups".to_string(),
        "/groups?view=all&text=error&order=most_open".to_string(),
        "/letters".to_string(),
        "/letters?q=status:open".to_string(),
        format!("/letters/{id}"),
        format!("/letters/{id}?payload=show"),
        format!("/groups/{group}"),
        format!("/groups/{group}?span=hours2"),
    ];
    for path in &pages {
        let page = office.get(path).await;
        assert_eq!(
            (page.status, page.headers["content-type"].as_str()),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        let html = page.text();
        assert!(html.contains("Key&#60;b&#62;Error"), "{path}: {html}");
        for markup in [
            "<script>",
            "<script src=\"http",
            "<i>orders",
            "<b>Error",
            "<k>",
            "<h>",
            "<v>",
            "<s>",
            "<c>",
            "<m>",
            "style=",
        ] {
            assert!(!html.contains(markup), "{markup} in {path}");
        }
        let ours = format!("http://{}", office.address);
        assert!(
            !html.replace(&ours, "").replace("http://127.0.0.1:8404", "").contains("http://"),
            "{path} names a foreign asset"
        );
    }
    assert!(office.get(&format!("/letters/{id}?payload=show")).await.text().contains("alert(1)"));
    assert!(!office.get(&format!("/letters/{id}")).await.text().contains("alert(1)"));
}

#[tokio::test]
async fn looking_at_a_payload_on_the_page_is_audited() {
    let office = Office::open().await;
    let id = office.letter(NASTY).await;
    office.get(&format!("/letters/{id}")).await;
    let read = async || office.get("/api/v1/audit").await.text().matches("payload_read").count();
    assert_eq!(read().await, 0);
    office.get(&format!("/letters/{id}?payload=show")).await;
    assert_eq!(read().await, 1);
}

#[tokio::test]
async fn a_mistake_in_a_query_is_pointed_at() {
    let office = Office::open().await;
    let page = office.get("/letters?q=stauts:open").await;
    assert_eq!(page.status, 400);
    let html = page.text();
    assert!(html.contains("unknown field `stauts`") && html.contains('^'), "{html}");
    assert!(html.contains("value=\"stauts:open\""), "{html}");
}

#[tokio::test]
async fn what_is_not_there_is_said_on_a_page() {
    let office = Office::open().await;
    let page = office.get("/letters/01890a5d-ac96-774b-bcce-b302099a8057").await;
    assert_eq!((page.status, page.headers["content-type"].as_str()), (404, "text/html; charset=utf-8"));
    assert!(page.text().contains("there is no letter 01890a5d"));
    assert!(office.get("/").await.text().contains("No letters yet"));
    assert_eq!(office.get("/assets/office.css").await.headers["content-type"], "text/css; charset=utf-8");
}

#[tokio::test]
async fn what_is_sensitive_is_hidden_everywhere_and_kept_in_the_store() {
    let rules = r#"{"fields":["card.number"],"headers":["authorization"],"patterns":["C-[0-9]+"]}"#;
    let rules = Redactor::compile(&serde_json::from_str(rules).unwrap()).unwrap();
    let office =
        Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.redact(rules)).await;
    let letter = r#"{"source":"orders","key":"C-90210","payload":{"card":{"number":"4111"},"n":1},"headers":[["Authorization","Bearer s3cret"]],
        "error_class":"E","error_message":"no customer C-90210","error_stack":"at C-90210",
        "attempt_history":[{"number":1,"at":"2026-11-01T12:30:01Z","message":"C-90210"}]}"#;
    let id = office.letter(letter).await;
    let group =
        office.get(&format!("/api/v1/letters/{id}")).await.json()["group_id"].as_str().unwrap().to_string();
    for path in [
        "/api/v1/letters".to_string(),
        format!("/api/v1/letters/{id}"),
        format!("/api/v1/letters/{id}/payload"),
        "/api/v1/letters/export".to_string(),
        "/api/v1/groups".to_string(),
        format!("/api/v1/groups/{group}"),
        "/".to_string(),
        "/letters".to_string(),
        format!("/letters/{id}?payload=show"),
        format!("/groups/{group}"),
    ] {
        let reply = office.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        let mut text = reply.text();
        if let Some(line) = text.strip_prefix("{").filter(|_| path.ends_with("export")) {
            let line: serde_json::Value = serde_json::from_str(&format!("{{{line}")).unwrap();
            let payload = line["payload_base64"].as_str().unwrap().to_string();
            assert_eq!(payload, "eyJjYXJkIjp7Im51bWJlciI6IioqKiJ9LCJuIjoxfQ==");
            text = line.to_string();
        }
        for secret in ["4111", "s3cret", "C-90210"] {
            assert!(!text.contains(secret), "{secret} in {path}: {text}");
        }
    }
    // Searching finds by what is shown, and says why it finds nothing.
    let found = office.get("/api/v1/letters?q=key:C-90210").await.json();
    assert_eq!(found["letters"].as_array().unwrap().len(), 0);
    assert_eq!(found["masked"][0], "this value of key is masked");
    let page = office.get("/letters?q=key:C-90210").await.text();
    assert!(page.contains("this value of key is masked, so it finds nothing"), "{page}");
}

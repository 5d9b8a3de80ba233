//! The page: readable without a script, and nothing a message carries becomes markup.

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
        "/?show=all".to_string(),
        "/letters".to_string(),
        "/letters?q=status:open".to_string(),
        format!("/letters/{id}"),
        format!("/letters/{id}?payload=show"),
        format!("/groups/{group}"),
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
        for markup in ["<script", "<i>orders", "<b>Error", "<k>", "<h>", "<v>", "<s>", "<c>", "<m>", "style="]
        {
            assert!(!html.contains(markup), "{markup} in {path}");
        }
        assert!(
            !html.contains("http://") || html.contains("http://127.0.0.1:8404"),
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
    assert!(office.get("/").await.text().contains("Nothing is open"));
    assert_eq!(office.get("/assets/office.css").await.headers["content-type"], "text/css; charset=utf-8");
}

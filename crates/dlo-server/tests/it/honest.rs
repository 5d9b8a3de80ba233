//! What a page says agrees with what the office has and does: numbers, links, commands, and what is hidden.

use dlo_core::owners::Owners;
use dlo_core::redact::Redactor;
use dlo_server::ServerConfig;
use dlo_store::StoreLimits;
use serde_json::{Value, json};

use crate::office::Office;

async fn post(office: &Office, path: &str, body: Value) -> Value {
    let headers = [("content-type", "application/json"), ("dlo-author", "ada")];
    let reply = office.send("POST", path, &headers, body.to_string().as_bytes()).await;
    assert!(reply.status < 300, "{path}: {}", reply.text());
    reply.json()
}

/// A letter with a class of its own, and the group it makes.
async fn group(office: &Office, class: &str) -> String {
    let letter =
        json!({"source": "orders", "offset": class.len(), "payload": {"a b": 1}, "error_class": class});
    let id = office.letter(&letter.to_string()).await;
    let letter = office.get(&format!("/api/v1/letters/{id}")).await.json();
    letter["group_id"].as_str().unwrap().to_string()
}

fn has(html: &str, texts: &[&str]) {
    for text in texts {
        assert!(html.contains(text), "`{text}` is not in {html}");
    }
}

#[tokio::test]
async fn a_number_that_only_a_decoder_spells_out_is_hidden_too() {
    let rules = Redactor::compile(&serde_json::from_str(r#"{"detect":["card"]}"#).unwrap()).unwrap();
    let office =
        Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.redact(rules)).await;
    // MessagePack: {"card": 4111111111111111, "n": 7}, the number as eight bytes.
    let id =
        office.letter(r#"{"source":"orders","offset":1,"payload_base64":"gqRjYXJkzwAOmwilaPHHoW4H"}"#).await;
    let html = office.get(&format!("/letters/{id}?payload=show")).await.text();
    has(&html, &["MessagePack", "***", "Some of it is hidden from you", "Download the exact bytes"]);
    assert!(!html.contains("4111111111111111"), "{html}");
}

#[tokio::test]
async fn the_number_on_a_tab_is_the_number_of_lines_behind_it() {
    let office = Office::open().await;
    let (a, b) = (group(&office, "A").await, group(&office, "Bb").await);
    for id in [&a, &b] {
        post(&office, &format!("/api/v1/groups/{id}/assign"), json!({"to": "ada"})).await;
    }
    post(&office, &format!("/api/v1/groups/{a}/ignore"), json!({})).await;
    for view in ["mine", "unowned"] {
        let me = [("dlo-author", "ada"), ("cookie", "dlo-author=ada")];
        let html = office.send("GET", &format!("/groups?view={view}"), &me, b"").await.text();
        assert_eq!(html.matches("<tr data-row>").count(), 1, "{html}");
        let tab = html.split(&format!("/groups?view={view}\"")).nth(1).unwrap();
        has(tab.split("</a>").next().unwrap(), &["<span class=\"count\">1</span>"]);
    }
    let owners = office.get("/api/v1/owners").await.json();
    assert_eq!((&owners["owners"][0]["groups"], &owners["owners"][0]["open"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn all_open_letters_that_match_means_open_ones_whatever_the_query_says_of_the_status() {
    let office = Office::open().await;
    group(&office, "A").await;
    for (q, meant) in [
        ("class:A", "class:A status:open"),
        ("-status:recovered", "-status:recovered status:open"),
        ("-status:open", "-status:open status:open"),
        ("status:recovered", "status:recovered status:open"),
        ("class:A%20status:open", "class:A status:open"),
    ] {
        let html = office.get(&format!("/letters?q={q}")).await.text();
        has(&html, &[&format!("data-selection data-query=\"{meant}\"")]);
    }
}

#[tokio::test]
async fn groups_of_one_team_stay_those_of_the_team_while_one_filters_and_changes_the_view() {
    let rules = r#"[{"when":{"source":"orders"},"owner":"pay & ship"}]"#;
    let owners = Owners::compile(serde_json::from_str(rules).unwrap()).unwrap();
    let office = Office::open_with(ServerConfig { owners, ..ServerConfig::default() }).await;
    group(&office, "A").await;
    let html = office.get("/groups?owner=pay%20%26%20ship").await.text();
    has(
        &html,
        &[
            "href=\"/groups?view=new&#38;owner=pay%20%26%20ship\"",
            "<input type=\"hidden\" name=\"owner\" value=\"pay &#38; ship\">",
            "owner pay &#38; ship</span> <a href=\"/groups?view=open\"",
        ],
    );
    assert!(!html.contains("class=\"count\""), "the numbers are of all groups: {html}");
    assert_eq!(html.matches("<tr data-row>").count(), 1);
    assert_eq!(office.get("/groups?view=new&owner=nobody").await.text().matches("<tr data-row>").count(), 0);
}

#[tokio::test]
async fn links_lead_to_what_they_name_whatever_it_is_called() {
    let rules = r#"[{"when":{"source":"*"},"owner":"pay & ship"}]"#;
    let owners = Owners::compile(serde_json::from_str(rules).unwrap()).unwrap();
    let office = Office::open_with(ServerConfig { owners, ..ServerConfig::default() }).await;
    let id = office.letter(r#"{"source":"eu/orders","offset":1,"payload":{"a b.c":"x"}}"#).await;
    has(
        &office.get(&format!("/letters/{id}")).await.text(),
        &["/letters?q=status%3Aopen%20owner%3A%22pay%20%26%20ship%22"],
    );
    has(&office.get("/").await.text(), &["href=\"/sources/eu%2Forders\""]);
    assert_eq!(office.get("/sources/eu%2Forders").await.status, 200);
    let group = office.get(&format!("/api/v1/letters/{id}")).await.json()["group_id"].clone();
    let html = office.get(&format!("/groups/{}?look=payloads", group.as_str().unwrap())).await.text();
    has(&html, &["%20payload%2E%22a%20b%2Ec%22%3Ax\""]);
    let found = office.get("/api/v1/letters?q=payload.%22a%20b.c%22:x").await.json();
    assert_eq!(found["letters"][0]["id"], json!(id));
}

#[tokio::test]
async fn the_trend_of_a_group_marks_its_own_deployments_behind_those_of_others_and_those_of_nobody() {
    let office = Office::open().await;
    let id = group(&office, "A").await;
    post(&office, "/api/v1/deploys", json!({"version": "own-1", "source": "orders"})).await;
    post(&office, "/api/v1/deploys", json!({"version": "all-1"})).await;
    for number in 0..25 {
        post(&office, "/api/v1/deploys", json!({"version": format!("other-{number}"), "source": "mail"}))
            .await;
    }
    let html = office.get(&format!("/groups/{id}?span=hours2")).await.text();
    has(&html, &["deployed own-1", "deployed all-1"]);
    assert!(!html.contains("deployed other-"), "{html}");
}

/// Without a script a form that only scripts send would put what was typed into the address.
#[test]
fn a_form_for_the_api_goes_nowhere_by_itself() {
    let templates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
    let mut seen = 0;
    for file in std::fs::read_dir(templates).unwrap() {
        let path = file.unwrap().path();
        let html = std::fs::read_to_string(&path).unwrap();
        for form in html.split("<form").skip(1).filter_map(|rest| rest.split('>').next()) {
            if form.contains("data-api=") {
                seen += 1;
                assert!(form.contains("method=\"dialog\""), "{}: <form{form}>", path.display());
            }
        }
    }
    assert!(seen > 20, "{seen} forms");
}

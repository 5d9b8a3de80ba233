//! The desk on the page: one letter, replays from plan to outcome, sources, rules, owners, audit. Read without a script.

use std::sync::Arc;

use dlo_brokers::memory::{MemoryBroker, MemoryConfig};
use dlo_core::broker::Broker;
use dlo_core::redact::Redactor;
use dlo_server::{CaptureSpec, ReplayTarget, ServerConfig, SourceReplay, Token, WrittenRules};
use dlo_store::StoreLimits;

use crate::office::{Office, clock};

/// A letter whose every text is an attack.
const NASTY: &str = r#"{"source":"orders","offset":1,"payload":{"x":"<script>alert(1)</script>"},"key":"<k>","headers":[["<h>","<v>\"x"]],
 "error_class":"Key<b>Error","error_message":"<script>alert(2)</script>","error_stack":"<s>","consumer":"<c>","event_type":"<e>",
 "attempt_history":[{"number":1,"at":"2026-11-01T12:30:01Z","message":"<m>"}]}"#;

fn letter(number: u32) -> String {
    format!(
        r#"{{"source":"orders","offset":{number},"key":"C-441","payload":{{"id":12345678901234567890123,"amount":"12.5"}},
            "error_class":"KeyError","error_message":"pin 560001 not in tax table","consumer":"pricing","event_type":"order.placed",
            "failed_at":"2026-11-01T12:30:{number:02}Z"}}"#
    )
}

/// An office whose source `orders` has a queue to send to.
async fn office(config: ServerConfig) -> Office {
    let broker = MemoryBroker::new(MemoryConfig::default(), clock());
    for queue in ["orders", "orders.dlq"] {
        broker.declare(queue, broker.defaults());
    }
    let broker: Arc<dyn Broker> = Arc::new(broker);
    Office::start(config, StoreLimits::default(), move |server| {
        let target = ReplayTarget {
            source: "orders".to_owned(),
            broker: Arc::clone(&broker),
            queue: "orders".to_owned(),
            dlq: "orders.dlq".to_owned(),
            mapper: Default::default(),
            group: None,
        };
        server.capture(CaptureSpec::new("orders", broker, "orders", "orders.dlq")).target(target)
    })
    .await
}

async fn plan(office: &Office, body: &str) -> String {
    let planned = office.post_json("/api/v1/replays", body).await;
    assert_eq!(planned.status, 201, "{}", planned.text());
    planned.json()["id"].as_str().unwrap().to_string()
}

fn has(html: &str, texts: &[&str]) {
    for text in texts {
        assert!(html.contains(text), "`{text}` is not in {html}");
    }
}

#[tokio::test]
async fn nothing_that_a_message_carries_becomes_markup_on_any_page_of_the_desk() {
    let office = office(ServerConfig::default()).await;
    let id = office.letter(NASTY).await;
    let replay =
        plan(&office, r#"{"query":"class:\"Key<b>Error\"","reason":"<r> \"quoted\"","repair":null}"#).await;
    for path in [
        format!("/letters/{id}"),
        format!("/letters/{id}?payload=show"),
        format!("/letters/{id}?payload=show&view=raw"),
        "/replays".to_string(),
        format!("/replays/{replay}"),
        "/replays/new?q=class%3A%22Key%3Cb%3EError%22".to_string(),
        "/sources".to_string(),
        "/sources/orders".to_string(),
        "/rules".to_string(),
        "/owners".to_string(),
        "/audit".to_string(),
    ] {
        let page = office.get(&path).await;
        assert_eq!(
            (page.status, page.headers["content-type"].as_str()),
            (200, "text/html; charset=utf-8"),
            "{path}"
        );
        let html = page.text();
        for markup in [
            "<script>", "<b>Error", "<k>", "<h>", "<v>", "<s>", "<c>", "<m>", "<e>", "<r>", " style=",
            "onclick",
        ] {
            assert!(!html.contains(markup), "{markup} in {path}");
        }
    }
}

#[tokio::test]
async fn a_letter_answers_three_questions_at_its_top() {
    let office = office(ServerConfig::default()).await;
    let old = office.letter(&letter(1)).await;
    let html = office.get(&format!("/letters/{old}")).await.text();
    has(&html, &["What failed?", "KeyError", "pin 560001 not in tax table", "its handler failed"]);
    has(&html, &["Who owns the fix?", "Nobody", "Can it be replayed?", "Yes</p>"]);
    has(&html, &["Replay this letter", "dlo replay plan", "curl http://"]);
    assert!(!html.contains("A newer letter of the same key"), "{html}");

    let new = office.letter(&letter(2)).await;
    let html = office.get(&format!("/letters/{old}")).await.text();
    has(&html, &["A newer letter of the same key", &format!("/letters/{new}")]);

    let discarded = format!(r#"{{"ids":["{old}"],"reason":"a test","dry_run":false}}"#);
    office.post_json("/api/v1/letters/discard", &discarded).await;
    let html = office.get(&format!("/letters/{old}")).await.text();
    has(
        &html,
        &[
            "No, it is closed",
            "<strong>Discarded</strong>",
            "a test",
            "disabled aria-describedby=\"why-closed\"",
        ],
    );
}

#[tokio::test]
async fn a_letter_that_came_over_http_says_why_it_cannot_be_replayed() {
    let office = Office::open().await;
    let id = office.letter(&letter(1)).await;
    let html = office.get(&format!("/letters/{id}")).await.text();
    has(&html, &["The source orders has no queue to send to", "disabled aria-describedby=\"can-replay\""]);
}

#[tokio::test]
async fn a_critical_source_asks_for_approval_before_anybody_presses() {
    let mut config = ServerConfig::default();
    let critical = SourceReplay { approvals: 1, ..SourceReplay::default() };
    config.replay.sources.insert("orders".to_owned(), critical);
    let (common, alice) = ("common-token-0123456789", "alice-token-0123456789");
    config.token = Some(Token::new(common).unwrap());
    config.tokens = vec![("alice".to_owned(), Token::new(alice).unwrap())];
    let office = office(config).await;
    let send = async |method: &str, path: &str, token: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        office.send(method, path, &headers, body.as_bytes()).await
    };
    let taken = send("POST", "/api/v1/letters", common, &letter(1)).await.json();
    let id = taken["results"][0]["id"].as_str().unwrap().to_owned();
    let get = async |path: String| send("GET", &path, common, "").await.text();
    has(&get(format!("/letters/{id}")).await, &["Yes, with approval", "somebody else must approve"]);
    has(&get("/replays/new?q=source:orders".to_owned()).await, &["The source orders is critical"]);
    // Who plans what needs an approval proves who it is.
    let body = r#"{"query":"source:orders","reason":"x"}"#;
    let planned = send("POST", "/api/v1/replays", alice, body).await.json();
    let html = get(format!("/replays/{}", planned["id"].as_str().unwrap())).await;
    has(&html, &["1 approval is needed, 0 given", "An approval needs a token with a name"]);
}

#[tokio::test]
async fn a_payload_is_shown_pretty_raw_and_as_hex_with_every_digit() {
    let office = Office::open().await;
    let id = office.letter(&letter(1)).await;
    let view = async |view: &str| office.get(&format!("/letters/{id}?payload=show&view={view}")).await.text();
    has(&view("pretty").await, &["&#34;id&#34;: 12345678901234567890123,\n"]);
    has(&view("raw").await, &["{&#34;id&#34;:12345678901234567890123,"]);
    has(&view("hex").await, &["00000000  7b 22 69 64"]);
    assert_eq!(office.get(&format!("/letters/{id}?payload=show&view=upside")).await.status, 400);
    assert_eq!(
        office.get("/api/v1/audit?what=payload_read").await.json()["entries"].as_array().unwrap().len(),
        3
    );
}

#[tokio::test]
async fn what_is_hidden_cannot_be_edited_as_a_whole() {
    let rules = Redactor::compile(&serde_json::from_str(r#"{"fields":["amount"]}"#).unwrap()).unwrap();
    let office =
        Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.redact(rules)).await;
    let id = office.letter(&letter(1)).await;
    let html = office.get(&format!("/letters/{id}?payload=show")).await.text();
    has(&html, &["Some of it is hidden from you", "would be lost if it were sent back"]);
    assert!(!html.contains("12.5") && !html.contains("name=\"payload\""), "{html}");
}

#[tokio::test]
async fn the_planner_refuses_to_mean_everything_and_points_at_mistakes() {
    let office = office(ServerConfig::default()).await;
    office.letter(&letter(1)).await;
    let empty = office.get("/replays/new").await;
    assert_eq!(empty.status, 200);
    has(&empty.text(), &["An empty query would mean every letter there is, and is refused"]);
    assert!(!empty.text().contains("Make the plan"));
    let wrong = office.get("/replays/new?q=stauts:open").await;
    assert_eq!(wrong.status, 400);
    has(&wrong.text(), &["unknown field `stauts`", "^"]);
    let html = office.get("/replays/new?q=source:orders%20class:KeyError").await.text();
    has(
        &html,
        &["of the source orders, that failed with KeyError", "1 open letter</strong>", "Make the plan"],
    );
    has(&html, &["dlo replay plan &#39;source:orders class:KeyError&#39; --reason"]);
    has(&office.get("/replays/new?q=source:nowhere").await.text(), &["No open letter matches", "disabled"]);
}

#[tokio::test]
async fn a_plan_is_read_before_it_is_started_and_its_outcomes_afterwards() {
    let office = office(ServerConfig::default()).await;
    for number in 1..=3 {
        office.letter(&letter(number)).await;
    }
    let body = r#"{"query":"class:KeyError","reason":"the table has it now","canary":0,"window":"1s"}"#;
    let id = plan(&office, body).await;
    let html = office.get(&format!("/replays/{id}")).await.text();
    has(
        &html,
        &["3 letters, frozen", "Start: send 3 letters", "the table has it now", "Nothing was sent yet"],
    );
    has(&html, &["It is planned: only what sends can be paused", &format!("dlo replay start {id} --yes")]);
    has(
        &html,
        &["dlo replay plan class:KeyError --reason &#39;the table has it now&#39; --canary 0 --window 1s<"],
    );
    has(&office.get("/replays").await.text(), &[&format!("/replays/{id}"), "class:KeyError"]);
    has(&office.get("/replays?state=stopped").await.text(), &["No replay stands there"]);
    assert_eq!(office.get("/replays?state=sent").await.status, 400);

    assert_eq!(office.post_json(&format!("/api/v1/replays/{id}/start"), "{}").await.status, 200);
    let mut html = String::new();
    for _ in 0..200 {
        html = office.get(&format!("/replays/{id}?items=sent")).await.text();
        if html.contains("aria-label=\"3 sent\"") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    has(
        &html,
        &["3 letters by outcome", "aria-label=\"3 sent\"", "the broker has it", "Letters one by one: sent"],
    );
    has(&html, &["<strong>0</strong> confirmed", "<strong>0</strong> in doubt"]);
    assert_eq!(office.get(&format!("/replays/{id}?items=gone")).await.status, 400);
}

#[tokio::test]
async fn only_those_that_came_back_can_be_planned_again() {
    let office = office(ServerConfig::default()).await;
    office.letter(&letter(1)).await;
    let id = plan(&office, r#"{"query":"source:orders","reason":"x"}"#).await;
    let none = office.post_json("/api/v1/replays", &format!(r#"{{"came_back_from":"{id}"}}"#)).await;
    assert_eq!(none.problem(), (422, "none_came_back".to_string()));
    let both =
        office.post_json("/api/v1/replays", &format!(r#"{{"came_back_from":"{id}","query":"a"}}"#)).await;
    assert_eq!(both.problem(), (422, "bad_body".to_string()));
    let html = office.get(&format!("/replays/new?came_back_from={id}")).await.text();
    has(&html, &["that came back from the replay", "name=\"came_back_from\"", "--came-back-from"]);
}

#[tokio::test]
async fn a_source_says_in_words_what_its_broker_can_do_and_what_is_allowed() {
    let office = office(ServerConfig::default()).await;
    office.letter(&letter(1)).await;
    has(&office.get("/sources").await.text(), &["href=\"/sources/orders\"", "orders.dlq", "memory"]);
    let html = office.get("/sources/orders").await.text();
    has(&html, &["What if the confirmation of a send is lost?", "What the office may do", "50 a second"]);
    has(&html, &["none is needed", "KeyError", "order.placed"]);
    let nowhere = office.get("/sources/nowhere").await;
    assert_eq!(nowhere.status, 404);
    has(&nowhere.text(), &["there is no source nowhere"]);
    office.letter(r#"{"source":"a/b ?","payload":1}"#).await;
    assert_eq!(office.get("/sources/a%2Fb%20%3F").await.status, 200);
}

#[tokio::test]
async fn rules_say_what_they_did_and_can_be_tried() {
    let rules = r#"[{"when":{"class":"KeyError"},"verdict":"dead_letter","attempts":3}]"#;
    let owners = r#"[{"when":{"source":["orders","carts"]},"owner":"payments"}]"#;
    let written = WrittenRules {
        classify: serde_json::from_str(rules).unwrap(),
        owners: serde_json::from_str(owners).unwrap(),
        redact: Some(serde_json::from_str(r#"{"fields":["card.number"]}"#).unwrap()),
    };
    let office = Office::open_with(ServerConfig { written, ..ServerConfig::default() }).await;
    office.letter(&letter(1)).await;
    let html = office.get("/rules").await.text();
    has(&html, &["class=KeyError", "class is KeyError", "dead letter", "3 attempts in all"]);
    has(&html, &["source is orders or carts", "payments", "<code>card.number</code>"]);
    has(&html, &["every letter waits for a person", "Try rules on history"]);
}

#[tokio::test]
async fn the_audit_log_is_read_by_author_by_word_and_by_letter() {
    let office = Office::open().await;
    let one = office.letter(&letter(1)).await;
    let two = office.letter(&letter(2)).await;
    for (who, id) in [("ada", &one), ("bob", &two), ("ada", &two)] {
        let headers = [("dlo-author", who)];
        office.send("GET", &format!("/api/v1/letters/{id}/payload"), &headers, b"").await;
    }
    let count = async |filter: &str| {
        let entries = office.get(&format!("/api/v1/audit?{filter}")).await.json();
        entries["entries"].as_array().unwrap().len()
    };
    assert_eq!(count("author=ada").await, 2);
    assert_eq!(count("what=payload_read").await, 3);
    assert_eq!(count(&format!("letter={two}&what=payload_read")).await, 2);
    assert_eq!(count("author=nobody").await, 0);
    assert_eq!(office.get("/api/v1/audit?letter=x").await.problem().0, 400);

    let html = office.get("/audit?author=ada").await.text();
    has(&html, &["payload read", &format!("/letters/{one}"), "value=\"ada\"", "/api/v1/audit/verify"]);
    assert!(!html.contains("/audit?author=bob"), "{html}");
    // Page by page, a filter finds what one page finds.
    let (mut seen, mut path) = (0, "/api/v1/audit?author=ada&limit=1".to_string());
    loop {
        let page = office.get(&path).await.json();
        seen += page["entries"].as_array().unwrap().len();
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/v1/audit?author=ada&limit=1&cursor={cursor}");
    }
    assert_eq!(seen, 2);
}

#[tokio::test]
async fn what_nobody_owns_stands_on_top() {
    let office = Office::open().await;
    has(&office.get("/owners").await.text(), &["Nothing is open"]);
    office.letter(&letter(1)).await;
    has(&office.get("/owners").await.text(), &["nobody", "No rule says whose these are"]);
}

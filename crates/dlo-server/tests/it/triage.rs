//! Triage over HTTP: the life of groups, what people write beside them, merges, trends, deployments, views, owners.

use std::collections::BTreeMap;
use std::time::Duration;

use dlo_core::owners::Owners;
use dlo_core::redact::{RedactRules, Redactor};
use dlo_core::teams::{Team, Teams};
use dlo_server::ServerConfig;
use dlo_store::StoreLimits;
use serde_json::{Value, json};

use crate::office::Office;

async fn parked(office: &Office, offset: u64, class: &str, version: &str) -> String {
    let letter = json!({
        "source": "orders", "offset": offset, "key": format!("C-{}", offset % 2), "consumer": "pricing",
        "event_type": "order.placed", "error_class": class, "error_message": format!("pin {offset} not in tax table"),
        "consumer_version": version, "payload": {"country": "IN", "card": "4111", "n": offset},
    });
    let id = office.letter(&letter.to_string()).await;
    let letter = office.get(&format!("/api/v1/letters/{id}")).await.json();
    letter["group_id"].as_str().unwrap().to_string()
}

async fn post(office: &Office, path: &str, body: Value) -> crate::office::Reply {
    let headers = [("content-type", "application/json"), ("dlo-author", "ada")];
    office.send("POST", path, &headers, body.to_string().as_bytes()).await
}

async fn done(office: &Office, path: &str, body: Value) -> Value {
    let reply = post(office, path, body).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
    reply.json()
}

#[tokio::test]
async fn a_group_is_resolved_in_a_version_and_comes_back_with_the_next() {
    let office = Office::open().await;
    let group = parked(&office, 1, "KeyError", "2.2").await;
    let path = |verb: &str| format!("/api/v1/groups/{group}/{verb}");
    let headers = [("content-type", "application/json"), ("dlo-author", "ada")];
    let acked = office.send("POST", &path("acknowledge"), &headers, b"").await.json();
    assert_eq!(acked["status"], "acknowledged");
    let resolved =
        done(&office, &path("resolve"), json!({"in_version": "2.3", "reason": "table loaded"})).await;
    assert_eq!((&resolved["status"], &resolved["resolved_in"]), (&json!("resolved"), &json!("2.3")));
    parked(&office, 2, "KeyError", "2.2.9").await;
    assert_eq!(office.get(&format!("/api/v1/groups/{group}")).await.json()["status"], "resolved");
    parked(&office, 3, "KeyError", "2.3").await;
    let whole = office.get(&format!("/api/v1/groups/{group}")).await.json();
    assert_eq!((&whole["status"], &whole["open"]), (&json!("regressed"), &json!(3)));
    let told: Vec<&str> =
        whole["history"].as_array().unwrap().iter().map(|entry| entry["what"].as_str().unwrap()).collect();
    assert_eq!(told, ["group_regressed", "group_resolved", "group_acknowledged"]);
    assert_eq!(whole["history"][1]["author"], "ada");
    let listed = office.get("/api/v1/groups?status=regressed,new&order=oldest_open").await.json();
    assert_eq!(listed["groups"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_change_that_is_illegal_or_misspelt_says_why() {
    let office = Office::open().await;
    let group = parked(&office, 1, "KeyError", "1").await;
    let path = |verb: &str| format!("/api/v1/groups/{group}/{verb}");
    assert_eq!(post(&office, &path("reopen"), json!({})).await.problem(), (409, "illegal_change".into()));
    let misspelt = post(&office, &path("resolve"), json!({"in": "2"})).await;
    assert_eq!(misspelt.problem(), (422, "bad_change".into()));
    assert!(misspelt.text().contains("in_version"), "{}", misspelt.text());
    assert_eq!(post(&office, &path("fix"), json!({"to": "ada"})).await.problem(), (422, "bad_change".into()));
    assert_eq!(post(&office, &path("snooze"), json!({})).await.problem().0, 409);
    assert_eq!(post(&office, &path("assign"), json!({"to": ""})).await.problem(), (422, "bad_name".into()));
    let link = json!({"title": "x", "url": "javascript:alert(1)"});
    assert_eq!(post(&office, &path("link"), link).await.problem(), (422, "unsupported".into()));
    let nowhere = "/api/v1/groups/00000000-0000-8000-8000-000000000000/fix";
    assert_eq!(post(&office, nowhere, json!({})).await.problem(), (404, "no_group".into()));
    let unknown = office.get("/api/v1/groups?status=open").await;
    assert_eq!(unknown.problem(), (400, "bad_parameter".into()));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(office.send("POST", &path("ignore"), &form, b"").await.status, 415);
}

#[tokio::test]
async fn many_groups_are_changed_at_once_and_each_is_answered_for() {
    let office = Office::open().await;
    let (a, b) = (parked(&office, 1, "A", "1").await, parked(&office, 2, "B", "1").await);
    done(&office, &format!("/api/v1/groups/{a}/ignore"), json!({})).await;
    let body = json!({"ids": [a, b], "change": {"do": "fix"}, "reason": "rota"});
    let answer = done(&office, "/api/v1/groups/change", body).await;
    assert_eq!(answer["changed"], 1);
    assert_eq!(
        (&answer["results"][0]["result"], &answer["results"][1]["result"]),
        (&json!("illegal"), &json!("changed"))
    );
    let me = [("dlo-author", "ada")];
    done(&office, "/api/v1/groups/change", json!({"ids": [a, b], "change": {"do": "assign", "to": "ada"}}))
        .await;
    let mine = office.send("GET", "/api/v1/groups?assignee=me", &me, b"").await.json();
    assert_eq!(mine["groups"].as_array().unwrap().len(), 2);
    let views = office.send("GET", "/api/v1/views", &me, b"").await.json();
    // What is ignored waits for nobody, whoever has it.
    assert_eq!((&views["groups"]["mine"], &views["groups"]["fixing"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn notes_links_and_a_runbook_stand_beside_a_group_and_survive_a_merge() {
    let office = Office::open().await;
    let (a, b) = (parked(&office, 1, "A", "1").await, parked(&office, 2, "B", "1").await);
    let path = |verb: &str| format!("/api/v1/groups/{a}/{verb}");
    done(&office, &path("note"), json!({"text": "the table is from May"})).await;
    done(&office, &path("link"), json!({"title": "Ticket", "url": "https://tickets.example/7"})).await;
    let written = post(&office, &path("runbook"), json!({"text": "# Load the table"})).await;
    assert_eq!((written.status, written.headers["etag"].as_str()), (200, "\"1\""));
    assert_eq!(
        post(&office, &path("runbook"), json!({"text": "mine"})).await.problem(),
        (412, "stale".into())
    );
    let headers = [("content-type", "application/json"), ("if-match", "\"1\"")];
    let better = office.send("POST", &path("runbook"), &headers, br#"{"text":"better"}"#).await;
    assert_eq!(better.json()["version"], 2);
    let merged =
        done(&office, &format!("/api/v1/groups/{b}/merge"), json!({"groups": [a], "reason": "one cause"}))
            .await;
    assert_eq!((&merged["members"], &merged["total"]), (&json!(1), &json!(2)));
    let whole = office.get(&format!("/api/v1/groups/{a}")).await.json();
    assert_eq!(whole["id"], json!(b));
    assert_eq!(whole["notes"][0]["text"], "the table is from May");
    assert_eq!(
        (&whole["runbook"]["text"], &whole["links"][0]["title"]),
        (&json!("better"), &json!("Ticket"))
    );
    let letters = office.get(&format!("/api/v1/letters?q=group:{b}")).await.json();
    assert_eq!(letters["letters"].as_array().unwrap().len(), 2);
    let split = done(&office, &format!("/api/v1/groups/{a}/split"), json!({})).await;
    assert_eq!((&split["id"], &split["total"]), (&json!(a), &json!(1)));
}

#[tokio::test]
async fn a_group_is_split_by_a_condition_and_joined_again() {
    let office = Office::open().await;
    let group = parked(&office, 1, "A", "1").await;
    parked(&office, 2, "A", "1").await;
    let refused =
        post(&office, &format!("/api/v1/groups/{group}/split"), json!({"where": "status:open"})).await;
    assert_eq!(refused.problem(), (422, "bad_condition".into()));
    let split = json!({"where": "offset:1", "title": "The first", "reason": "two causes"});
    let made = done(&office, &format!("/api/v1/groups/{group}/split"), split).await;
    assert_eq!((&made["title"], &made["split"]["from"]), (&json!("The first"), &json!(group)));
    let path = format!("/api/v1/groups/{group}");
    // The letters follow behind; who asks in the middle may be told of the group before and of its split after a step.
    while office.get(&path).await.json()["splits"][0]["moving"] != json!(false) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let whole = office.get(&path).await.json();
    assert_eq!((&whole["total"], &whole["splits"][0]["group"]["total"]), (&json!(1), &json!(1)));
    let new = made["id"].as_str().unwrap();
    let told = office.get(&format!("/api/v1/groups/{new}")).await.json();
    assert_eq!(told["why"][6], json!({"name": "where", "value": "offset:1"}));
    let page = office.get(&format!("/groups/{group}?where=offset:2")).await;
    assert!(page.text().contains("1 of its 1 letters match now"), "{}", page.text());
    let joined = done(&office, &format!("/api/v1/groups/{new}/unsplit"), json!({})).await;
    assert_eq!((&joined["id"], &joined["total"]), (&json!(group), &json!(2)));
    assert_eq!(office.get(&path).await.json()["splits"], json!([]));
}

#[tokio::test]
async fn a_group_says_why_it_is_one_what_it_means_and_after_which_deployment_it_began() {
    let office = Office::open().await;
    let mark = json!({"version": "2.3.1", "consumer": "pricing", "url": "https://ci.example/9"});
    done(&office, "/api/v1/deploys", mark).await;
    let group = parked(&office, 1, "java.net.SocketTimeoutException", "2.3.1").await;
    parked(&office, 2, "SocketTimeoutException", "2.3.1").await;
    let whole = office.get(&format!("/api/v1/groups/{group}")).await.json();
    assert_eq!(whole["began_after"]["deploy"]["version"], "2.3.1");
    assert_eq!(
        (&whole["began_after"]["own"], &whole["began_after"]["what"]),
        (&json!(true), &json!("first_seen"))
    );
    assert_eq!(whole["known"]["name"], "slow_dependency");
    assert_eq!(whole["why"][4], json!({"name": "error_class", "value": "java.net.SocketTimeoutException"}));
    assert_eq!(whole["similar"].as_array().unwrap().len(), 1);
    let trend =
        office.get(&format!("/api/v1/groups/{group}/trend?resolution=minute&buckets=10")).await.json();
    let counts: u64 = trend["counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((counts, trend["deploys"].as_array().unwrap().len()), (1, 1));
    let classes = office.get("/api/v1/stats/trend?source=orders").await.json();
    assert_eq!(classes["classes"].as_array().unwrap().len(), 2);
    let url = json!({"version": "1", "url": "javascript:x"});
    assert_eq!(post(&office, "/api/v1/deploys", url).await.problem(), (422, "bad_url".into()));
}

#[tokio::test]
async fn a_sample_tells_what_letters_share_and_hides_what_is_hidden() {
    let rules: RedactRules = serde_json::from_value(json!({"fields": ["card"]})).unwrap();
    let redactor = Redactor::compile(&rules).unwrap();
    let office =
        Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.redact(redactor))
            .await;
    let mut group = String::new();
    for n in 1..=3 {
        group = parked(&office, n, "KeyError", "1").await;
    }
    let sample = office.get(&format!("/api/v1/groups/{group}/sample?letters=50")).await;
    assert!(!sample.text().contains("4111"), "{}", sample.text());
    let sample = sample.json();
    assert_eq!((&sample["letters"], &sample["distinct_keys"]), (&json!(3), &json!(2)));
    let country =
        sample["fields"].as_array().unwrap().iter().find(|field| field["path"] == "country").unwrap();
    assert_eq!((&country["values"][0]["value"], &country["values"][0]["share"]), (&json!("IN"), &json!(1.0)));
    let audit = office.get("/api/v1/audit?limit=1").await.json();
    assert_eq!(
        (&audit["entries"][0]["what"], &audit["entries"][0]["count"]),
        (&json!("payload_read"), &json!(3))
    );
    assert_eq!(audit["entries"][0]["reference"], format!("group:{group}"));
}

#[tokio::test]
async fn owners_are_listed_with_what_waits_and_whether_it_is_late() {
    let rules = r#"[{"when":{"source":"orders"},"owner":"payments"}]"#;
    let owners = Owners::compile(serde_json::from_str(rules).unwrap()).unwrap();
    let team = Team { contact: Some("#payments".into()), sla: Some(Duration::from_secs(60)) };
    let teams =
        Teams(BTreeMap::from([("payments".to_string(), team), ("idle".to_string(), Team::default())]));
    let office = Office::open_with(ServerConfig { owners, teams, ..ServerConfig::default() }).await;
    let old =
        r#"{"source":"orders","offset":1,"payload":1,"error_class":"A","failed_at":"2026-01-01T00:00:00Z"}"#;
    office.letter(old).await;
    office.letter(r#"{"source":"mail","offset":1,"payload":1}"#).await;
    let lines = office.get("/api/v1/owners").await.json();
    let told: Vec<_> = lines["owners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            (line["owner"].as_str(), line["open"].as_u64().unwrap(), line["overdue"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(told, [(None, 1, false), (Some("payments"), 1, true), (Some("idle"), 0, false)]);
    assert_eq!(lines["owners"][1]["contact"], "#payments");
    let groups = office.get("/api/v1/groups?source=orders").await.json();
    let id = groups["groups"][0]["id"].as_str().unwrap();
    let owned = done(&office, &format!("/api/v1/groups/{id}/own"), json!({"team": "tax"})).await;
    assert_eq!((&owned["owner"], &owned["owner_by_hand"]), (&json!("tax"), &json!(true)));
    done(&office, &format!("/api/v1/groups/{id}/own"), json!({"team": null})).await;
    let back = office.get(&format!("/api/v1/groups/{id}")).await.json();
    assert_eq!((&back["owner"], &back["sla"]["over"]), (&json!("payments"), &json!(true)));
}

#[tokio::test]
async fn views_are_saved_for_oneself_or_for_all() {
    let office = Office::open().await;
    let own = json!({"name": "Mine", "of": "letters", "query": "status:open"});
    done(&office, "/api/v1/views", own.clone()).await;
    done(
        &office,
        "/api/v1/views",
        json!({"name": "All", "of": "groups", "query": "owner=none", "shared": true}),
    )
    .await;
    let wrong = json!({"name": "x", "of": "letters", "query": "stauts:open"});
    assert_eq!(post(&office, "/api/v1/views", wrong).await.problem(), (400, "bad_query".into()));
    for query in ["stauts=new", "view=nobodys", "text=two words", "order=sideways"] {
        let wrong = json!({"name": "x", "of": "groups", "query": query});
        assert_eq!(
            post(&office, "/api/v1/views", wrong).await.problem(),
            (422, "bad_query".into()),
            "{query}"
        );
    }
    let seen = office.send("GET", "/api/v1/views", &[("dlo-author", "ada")], b"").await.json();
    assert_eq!(seen["views"].as_array().unwrap().len(), 2);
    let others = office.send("GET", "/api/v1/views", &[("dlo-author", "bob")], b"").await.json();
    assert_eq!(others["views"].as_array().unwrap().len(), 1);
    let gone = done(&office, "/api/v1/views/remove", json!({"name": "Mine", "of": "letters"})).await;
    assert_eq!(gone["removed"], true);
}

#[tokio::test]
async fn a_snooze_is_told_as_a_time_or_as_how_long_and_the_audit_page_names_its_group() {
    let office = Office::open().await;
    let group = parked(&office, 1, "KeyError", "2.2").await;
    let path = format!("/api/v1/groups/{group}/snooze");
    let refused = post(&office, &path, json!({"until": "whenever"})).await;
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("until")));
    let snoozed = done(&office, &path, json!({"until": "2h"})).await;
    assert_eq!(snoozed["status"], "snoozed");
    let again = done(&office, &path, json!({"until": "2126-12-01"})).await;
    assert_eq!(again["snooze"]["until"], "2126-12-01T00:00:00Z");
    let audit = office.get("/audit?what=group_snoozed").await.text();
    assert!(audit.contains(&format!("<a href=\"/groups/{group}\">KeyError: pin")), "{audit}");
}

#[tokio::test]
async fn groups_whose_letters_have_all_ended_are_a_list_of_their_own() {
    let office = Office::open().await;
    let group = parked(&office, 1, "KeyError", "2.2").await;
    parked(&office, 2, "ValueError", "2.2").await;
    let discard = json!({"query": "class:KeyError", "reason": "made good", "dry_run": false});
    done(&office, "/api/v1/letters/discard", discard).await;
    let listed = office.get("/api/v1/groups?handled=true").await.json();
    let ids: Vec<&str> =
        listed["groups"].as_array().unwrap().iter().map(|group| group["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [group.as_str()]);
    let page = office.get(&format!("/groups/{group}")).await.text();
    assert!(page.contains("Every letter is handled: 1 discarded"), "{page}");
}

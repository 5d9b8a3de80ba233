//! The search bar, asked over HTTP: fields, values, and errors that point.

use crate::office::Office;

async fn shop() -> Office {
    let office = Office::open().await;
    let line = |n: u32, class: &str| {
        format!(
            "{{\"source\":\"orders\",\"offset\":{n},\"payload\":{{\"n\":{n}}},\"key\":\"KeySecret\",\"event_type\":\"order.placed\",\"consumer\":\"pricing\",\"error_class\":\"{class}\",\"error_message\":\"pin {n}\"}}\n"
        )
    };
    let lines = [line(1, "KeyError"), line(2, "Key Error 2"), line(3, "Key Error 2")].concat();
    assert_eq!(office.post_lines(lines.as_bytes()).await.json()["stored"], 3);
    office
}

#[tokio::test]
async fn values_come_from_groups_and_never_from_letters() {
    let office = shop().await;
    let offered = office.get("/api/v1/complete?q=status:open%20-class:key").await.json();
    assert_eq!(offered["replace"], serde_json::json!({"from": 19, "to": 22}));
    let inserts: Vec<_> =
        offered["values"].as_array().unwrap().iter().map(|v| (&v["insert"], &v["open"])).collect();
    assert_eq!(inserts, [(&"\"Key Error 2\"".into(), &2.into()), (&"KeyError".into(), &1.into())]);
    assert_eq!(offered["error"], serde_json::Value::Null);
    let guessed = office.get("/api/v1/complete?q=keys").await.text();
    assert!(!guessed.contains("KeySecret"), "{guessed}");
}

#[tokio::test]
async fn fields_come_with_help_and_the_cursor_may_stand_anywhere() {
    let office = shop().await;
    let offered = office.get("/api/v1/complete?q=sta%20tax&at=3").await.json();
    assert_eq!(offered["fields"][0]["insert"], "status:");
    assert_eq!(offered["fields"][0]["example"], "status:open");
    assert!(!offered["fields"][0]["help"].as_str().unwrap().is_empty());
    assert_eq!(offered["replace"], serde_json::json!({"from": 0, "to": 3}));
    let far = office.get("/api/v1/complete?q=%C3%9F&at=99").await;
    assert_eq!(far.status, 200);
    assert_eq!(
        office.get("/api/v1/complete").await.json()["fields"].as_array().unwrap().len(),
        dlo_core::query::FIELDS.len()
    );
}

#[tokio::test]
async fn a_mistake_is_pointed_at_and_what_is_still_typed_is_said_to_be_unfinished() {
    let office = shop().await;
    let answer = office.get("/api/v1/complete?q=stauts:open%20age:").await.json();
    let error = &answer["error"];
    assert_eq!(
        (&error["at"]["from"], &error["at"]["to"], &error["column"]),
        (&0.into(), &6.into(), &1.into())
    );
    assert_eq!((&error["near"][0], &error["unfinished"]), (&"status".into(), &false.into()));
    let answer = office.get("/api/v1/complete?q=status:open%20age:").await.json();
    assert_eq!(answer["error"]["unfinished"], true);
    let answer = office.get("/api/v1/complete?q=status:opne").await.json();
    assert_eq!(answer["error"]["near"][0], "open");
}

//! The search box: a masked value is not found, whole or digit by digit, and what is shown is found as before.

use serde_json::{Value, json};

use super::plant::{BEARER, CARD, MARK, ask, encoded, letter, office, payload};
use crate::office::Office;

fn count(office: &Office, query: &str) -> (u64, Value) {
    let (status, text) = ask(office, "GET", &format!("/api/v1/letters/count?q={}", encoded(query)), None);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, 200, "{query}: {text}");
    let (status, list) = ask(office, "GET", &format!("/api/v1/letters?q={}", encoded(query)), None);
    assert_eq!(status, 200, "{query}: {list}");
    let list: Value = serde_json::from_str(&list).unwrap();
    let listed = list["letters"].as_array().unwrap().len() as u64;
    assert_eq!(answer["count"], json!(listed), "count and list disagree about {query}");
    assert_eq!(answer.get("masked"), list.get("masked"), "{query}");
    (listed, answer)
}

#[test]
fn a_masked_card_number_cannot_be_recovered_digit_by_digit() {
    let (office, _dir) = office();
    office.letter(&letter(1, &payload()));
    let mut known = String::new();
    let mut counts = 0;
    'longer: while known.len() < CARD.len() {
        for digit in '0'..='9' {
            for tried in [format!("{known}{digit}"), format!("{digit}{known}")] {
                counts += 1;
                if count(&office, &tried).0 > 0 && CARD.contains(&tried) {
                    known = tried;
                    continue 'longer;
                }
            }
        }
        break;
    }
    println!("{counts} counts recovered {} of {} digits: {known:?}", known.len(), CARD.len());
    // A single digit of it also occurs in what is shown, such as the number of the letter.
    assert!(known.len() < 2, "recovered {known} by {counts} counts");
}

#[test]
fn a_query_for_a_masked_value_finds_nothing_and_says_why() {
    let (office, _dir) = office();
    office.letter(&letter(1, &payload()));
    let dark = [
        (format!("payload.card:{CARD}"), "payload.card is masked"),
        ("payload.card:***".to_owned(), "payload.card is masked"),
        ("payload.vault.pin:4711".to_owned(), "payload.vault.pin is masked"),
        (format!("payload.note:{MARK}note_a"), "payload.note is masked"),
        (format!("header.authorization:\"{BEARER}\""), "header.authorization is masked"),
        (format!("header.x-note:{MARK}header"), "header.x-note is masked"),
        (format!("key:{MARK}key"), "this value of key is masked"),
        (format!("class:{MARK}error_class"), "this value of class is masked"),
        (format!("type:{MARK}event_type"), "this value of type is masked"),
        (format!("consumer:{MARK}consumer"), "this value of consumer is masked"),
        (format!("correlation:{MARK}correlation_id"), "this value of correlation is masked"),
        (format!("trace:{MARK}trace_id"), "this value of trace is masked"),
        (format!("message:{MARK}message_id"), "this value of message is masked"),
        (format!("version:{MARK}event_version"), "this value of version is masked"),
        (format!("rule:{MARK}rule"), "this value of rule is masked"),
        (format!("code:{MARK}error_code"), "this value of code is masked"),
        (format!("consumer_id:{MARK}consumer_id"), "this value of consumer_id is masked"),
        (CARD.to_owned(), "words that are masked are not searched for"),
    ];
    for (query, why) in &dark {
        let (found, answer) = count(&office, query);
        assert_eq!((found, answer["masked"][0].as_str()), (0, Some(*why)), "{query}: {answer}");
        // Its negation finds every letter, whatever is in them.
        assert_eq!(count(&office, &format!("-{query}")).0, 1, "-{query}");
        let (status, refused) =
            ask(&office, "POST", "/api/v1/letters/discard", Some(&json!({"query": query, "reason": "x"})));
        assert_eq!(status, 422, "{query}: {refused}");
        assert!(refused.contains("masked_value"), "{refused}");
    }
    for part in ["secret", "error_message", "door", "note_a", "4711", "abcdefghij", "578763"] {
        assert_eq!(count(&office, part).0, 0, "{part}");
    }
    for shown in [
        "O-1",
        "payload.id:O-1",
        "payload.n:1",
        "header.tenant:eu",
        "\"no entry for\"",
        "none",
        "status:open",
    ] {
        assert_eq!(count(&office, shown).0, 1, "{shown}");
    }
    let said = office.dlo(&["letters", "list", &format!("payload.card:{CARD}")]);
    assert!(said.err.contains("payload.card is masked, so it finds nothing"), "{said:?}");
}

#[test]
fn names_that_are_masked_are_neither_offered_nor_found_by_a_part() {
    let (office, _dir) = office();
    office.letter(&letter(1, &payload()));
    office.letter(
        &json!({"source": "orders", "offset": 2, "partition": 0, "payload": 1, "error_class": "KeyError"}),
    );
    for (typed, offered) in [("class:SEC", 0), ("class:ret-err", 0), ("class:Key", 1), ("type:SEC", 0)] {
        let (_, text) = ask(&office, "GET", &format!("/api/v1/complete?q={}", encoded(typed)), None);
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["values"].as_array().unwrap().len(), offered, "{typed}: {text}");
    }
    for (text, groups) in [("secret", 0), ("error_class", 0), ("keyerror", 1), ("orders", 2)] {
        let (_, answer) = ask(&office, "GET", &format!("/api/v1/groups?text={text}"), None);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["groups"].as_array().unwrap().len(), groups, "{text}");
    }
    for (class, groups) in [(format!("{MARK}error_class"), 0), ("KeyError".to_owned(), 1)] {
        let (_, answer) = ask(&office, "GET", &format!("/api/v1/groups?error_class={class}"), None);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["groups"].as_array().unwrap().len(), groups, "{class}");
    }
}

#[test]
fn rules_that_are_tried_and_splits_see_what_is_shown() {
    let (office, _dir) = office();
    let id = office.letter(&letter(1, &payload()));
    let group = office.get(&format!("/api/v1/letters/{id}"))["group_id"].as_str().unwrap().to_owned();
    let rule = |when: Value| json!({"classify": [{"name": "mine", "when": when, "verdict": "discard"}]});
    let (_, hit) = ask(&office, "POST", "/api/v1/rules/test", Some(&rule(json!({"message": "SECRET-err"}))));
    let hit: Value = serde_json::from_str(&hit).unwrap();
    assert_eq!((&hit["scanned"], &hit["discarded"]), (&json!(1), &json!(0)), "{hit}");
    for query in [format!("key:{MARK}key"), "578763".to_owned(), format!("payload.card:{CARD}")] {
        let rules = json!({"automation": [{"name": "mine", "query": query, "action": "discard"}]});
        let (_, tried) = ask(&office, "POST", "/api/v1/rules/test-automation", Some(&rules));
        let tried: Value = serde_json::from_str(&tried).unwrap();
        assert_eq!(tried["automation"][0]["letters"], json!(0), "{query}: {tried}");
        let split = json!({"where": query, "reason": "x"});
        let (status, refused) = ask(&office, "POST", &format!("/api/v1/groups/{group}/split"), Some(&split));
        assert_eq!(status, 422, "{query}: {refused}");
        assert!(refused.contains("masked"), "{refused}");
    }
}

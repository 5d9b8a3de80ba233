//! Questions of people while values are masked: lists, counts and names are chosen by what is shown.

use std::sync::Arc;

use dlo_core::letter::NewLetter;
use dlo_core::message::Payload;
use dlo_core::query::{Matcher, Named, Query, ShownBy, Term};
use dlo_core::redact::{LOOKED_THROUGH, RedactRules, Redactor};
use dlo_store::{DynStore, GroupFilter, Page};

use super::Home;
use crate::letters::{NOW, find_all, insert, letter};

fn rules() -> Arc<Redactor> {
    let rules = r#"{"fields":["card"],"headers":["authorization"],"patterns":["SECRET-[a-z]+"]}"#;
    let rules: RedactRules = serde_json::from_str(rules).unwrap();
    Arc::new(Redactor::compile(&rules).unwrap())
}

fn corpus() -> Vec<NewLetter> {
    vec![
        letter(1, |l| {
            l.message.payload = Payload::from(r#"{"card":"4111 apple","fruit":"pear","note":"SECRET-plum"}"#);
            l.error_message = "no SECRET-tree here".into();
            l.error_class = Some("SECRET-class".into());
            l.message.headers.push_text("Authorization", "Bearer x");
        }),
        letter(2, |l| {
            l.message.payload = Payload::from(r#"{"card":"5105 apple","fruit":"4111","note":"none"}"#);
            l.error_class = Some("KeyError".into());
        }),
        letter(3, |l| {
            let filler = "x".repeat(LOOKED_THROUGH);
            l.message.payload = Payload::from(format!(r#"{{"fruit":"pear","filler":"{filler}"}}"#));
            l.error_class = Some("KeyError".into());
        }),
    ]
}

/// How many letters are listed; counts must say the same.
async fn found(store: &DynStore, text: &str, rules: &Arc<Redactor>) -> usize {
    let query = Query::parse(text, NOW).unwrap().into_shown(rules);
    let listed = find_all(store, &query, 2).await.len();
    assert_eq!(store.count(&query, 1_000).await.unwrap(), listed as u64, "{text}");
    let glimpse = store.glimpse(&query, 1_000).await.unwrap();
    assert_eq!((glimpse.letters, glimpse.whole), (listed as u64, true), "{text}");
    listed
}

pub(crate) async fn what_is_masked_is_not_found_and_what_is_shown_is(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, corpus()).await;
    let rules = rules();
    for indexed in [false, true] {
        if indexed {
            assert_eq!(store.index_payloads().await.unwrap(), 0);
        }
        for (text, expected) in [
            ("4111", 1),
            ("apple", 0),
            ("511", 0),
            ("plum", 0),
            ("tree", 0),
            ("pear", 1),
            ("\"no here\"", 0),
            ("here", 1),
            ("-apple", 3),
            ("-pear", 2),
            ("payload.card:\"4111 apple\"", 0),
            ("-payload.card:\"4111 apple\"", 3),
            ("payload.fruit:pear", 1),
            ("-payload.fruit:pear", 2),
            ("payload.note:SECRET-plum", 0),
            ("payload.note:none", 1),
            ("header.authorization:\"Bearer x\"", 0),
            ("class:SECRET-class", 0),
            ("-class:SECRET-class", 3),
            ("class:KeyError", 2),
            ("class:KeyError payload.card:1", 0),
            ("source:orders class:SECRET-class", 0),
            ("payload.card:1 -payload.card:1", 0),
        ] {
            assert_eq!(found(&store, text, &rules).await, expected, "{text}, indexed: {indexed}");
        }
    }
    // Without rules the same words find the letters.
    let plain = Query { terms: vec![Term { negated: false, matcher: Matcher::Text("apple".into()) }] };
    assert_eq!(find_all(&store, &plain, 10).await.len(), 2);
}

pub(crate) async fn names_and_groups_are_chosen_by_what_is_shown(home: &dyn Home) {
    let store = home.open().await;
    insert(&store, corpus()).await;
    let by = ShownBy(rules());
    let names = async |typed: &str, by: Option<&ShownBy>, most: usize| {
        store.names(&[Named::Class, Named::Source], typed, by, most).await.unwrap().len()
    };
    assert_eq!((names("", None, 9).await, names("", Some(&by), 9).await), (3, 2));
    assert_eq!((names("sec", None, 9).await, names("sec", Some(&by), 9).await), (1, 0));
    // A hidden name takes no place among the few that are offered.
    assert_eq!(names("e", Some(&by), 2).await, names("e", Some(&by), 9).await);
    for (class, text, expected) in [
        (None, None, 2),
        (Some("SECRET-class"), None, 0),
        (Some("KeyError"), None, 1),
        (None, Some("secret"), 0),
        (None, Some("keyerror"), 1),
    ] {
        let filter = GroupFilter {
            error_class: class.map(String::from),
            text: text.map(String::from),
            shown_by: Some(by.clone()),
            ..GroupFilter::default()
        };
        let groups = store.groups(&filter, &Page::first(9)).await.unwrap().groups;
        assert_eq!(groups.len(), expected, "{class:?} {text:?}");
    }
}

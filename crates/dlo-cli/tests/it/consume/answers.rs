//! What a handler answers, and what becomes of the message: the table of `docs/reference/consume.md` on a real road.

use std::collections::BTreeMap;

use super::{Handler, House, handled, until};

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_the_table_leads_where_it_says() {
    let house = House::new("table").await;
    let _handler = Handler::scripted(house.port);
    let sidecar = house.consume("");
    house
        .send(&[
            r#"{"id":"done","answers":[204]}"#,
            r#"{"id":"retried","answers":[503,{"status":429,"headers":{"retry-after":"0"}},200]}"#,
            r#"{"id":"refused","answers":[422]}"#,
            r#"{"id":"bug","answers":[500]}"#,
            r#"{"id":"worn-out","answers":[503]}"#,
            r#"{"id":"overridden","answers":[{"status":500,"body":{"verdict":"done"}}]}"#,
            r#"{"id":"asked","answers":[{"status":200,"body":{"verdict":"retry","retry_after_ms":1}},204]}"#,
            r#"{"id":"dropped","answers":[{"status":200,"headers":{"dlo-verdict":"discard"}}]}"#,
            r#"{"id":"told","answers":[{"status":400,"body":{"error_class":"KeyError","message":"no pin","code":17,"stack":"at price"}}]}"#,
            r#"{"id":"problem","answers":[{"status":422,"headers":{"content-type":"application/problem+json"},"body":{"type":"https://shop/no-price","title":"No price","detail":"for C-441"}}]}"#,
        ])
        .await;
    let letters: BTreeMap<String, BTreeMap<String, String>> = house
        .dead(6)
        .await
        .into_iter()
        .map(|letter| {
            let id = serde_json::from_slice::<serde_json::Value>(&letter.payload.0).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned();
            let told = letter
                .headers
                .iter()
                .filter_map(|header| Some((header.name.clone(), header.text()?.to_owned())));
            (id, told.collect())
        })
        .collect();
    let told = |id: &str, name: &str| letters[id].get(name).map_or("", String::as_str).to_owned();
    assert_eq!(
        letters.keys().collect::<Vec<_>>(),
        ["bug", "dropped", "problem", "refused", "told", "worn-out"]
    );
    assert_eq!(told("refused", "dlo-reason"), "validation_error");
    assert_eq!(
        (told("bug", "dlo-verdict-rule"), told("bug", "dlo-error-class")),
        ("default:unknown".into(), "HTTP 500".into())
    );
    assert_eq!(
        (told("worn-out", "dlo-reason"), told("worn-out", "dlo-attempts")),
        ("max_retries_exceeded".into(), "3".into())
    );
    assert_eq!(
        (told("dropped", "dlo-verdict"), told("dropped", "dlo-verdict-rule")),
        ("discard".into(), "handler".into())
    );
    assert_eq!(
        (told("told", "dlo-error-class"), told("told", "dlo-error-code")),
        ("KeyError".into(), "17".into())
    );
    assert_eq!(told("told", "dlo-error-stack"), "at price");
    assert_eq!(told("problem", "dlo-error-class"), "https://shop/no-price");
    assert_eq!(told("problem", "dlo-error-message"), "No price: for C-441");
    let now = handled(&sidecar, 4).await;
    assert_eq!(
        (&now["parked"], &now["retried"], &now["state"]),
        (&6.into(), &5.into(), &"running".into()),
        "{now:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_sees_what_it_has_in_hands_and_the_teams_rules_decide() {
    let house = House::new("seen").await;
    let _handler = Handler::scripted(house.port);
    let sidecar = house
        .consume("[[rules.classify]]\nname = \"flaky\"\nwhen = { http_status = 500 }\nverdict = \"retry\"\n");
    house.send(&[r#"{"id":"x","answers":[500,500,204]}"#]).await;
    handled(&sidecar, 1).await;
    let seen = ureq::get(format!("http://127.0.0.1:{}/seen", house.port))
        .call()
        .unwrap()
        .body_mut()
        .read_json::<serde_json::Value>()
        .unwrap();
    let attempts: Vec<&str> =
        seen.as_array().unwrap().iter().filter_map(|one| one["headers"]["dlo-attempt"].as_str()).collect();
    assert_eq!(attempts, ["1", "2", "3"]);
    let headers = &seen[0]["headers"];
    assert_eq!(headers["dlo-queue"], house.queue.as_str());
    assert_eq!(headers["content-type"], "application/json");
    assert!(headers["dlo-message-id"].as_str().is_some_and(|id| !id.is_empty()), "{headers:#}");
    assert!(headers["dlo-deadline"].as_str().is_some_and(|at| at.ends_with('Z')), "{headers:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_one_request_with_a_verdict_for_each() {
    let house = House::new("batch").await;
    let orders: Vec<String> = (0..40)
        .map(|n| match n % 10 {
            9 => format!(r#"{{"id":"{n}","answers":["dead_letter"]}}"#),
            8 => format!(r#"{{"id":"{n}","answers":["retry","done"]}}"#),
            7 => format!(r#"{{"id":"{n}","answers":[null]}}"#),
            _ => format!(r#"{{"id":"{n}","answers":["done"]}}"#),
        })
        .collect();
    house.send(&orders.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let _handler = Handler::scripted(house.port);
    let sidecar = house.consume("batch = { size = 10, linger = \"20ms\" }\nbrake = { mode = \"off\" }\n");
    let letters = house.dead(8).await;
    let classes: Vec<&str> =
        letters.iter().filter_map(|letter| letter.headers.text("dlo-error-class")).collect();
    assert_eq!(classes, ["dlo.NoResult"; 4], "four were refused without a class, four got no result");
    handled(&sidecar, 32).await;
    let seen = ureq::get(format!("http://127.0.0.1:{}/seen", house.port))
        .call()
        .unwrap()
        .body_mut()
        .read_json::<serde_json::Value>()
        .unwrap();
    let sizes: Vec<usize> = seen
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["body"]["messages"].as_array().map_or(0, Vec::len))
        .collect();
    assert!(sizes.iter().all(|size| (1..=10).contains(size)) && sizes.contains(&10), "{sizes:?}");
    until(&sidecar, "nobody is in the handler", |now| now["in_flight"] == 0).await;
}

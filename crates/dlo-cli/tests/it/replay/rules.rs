//! Rules decide as letters come in: one kind is discarded, one is sent again by itself, one is held for a person.

use std::sync::Arc;

use super::shop::{Shop, number};
use crate::stories::{kafka, order};

const ORDERS: u64 = 30;

const RULES: &str = r#"
[[rules.automation]]
name = "money waits"
query = "class:LedgerClosed"
action = "hold"

[[rules.automation]]
name = "spam"
query = "class:Spam"
action = "discard"

[[rules.automation]]
name = "try again"
query = "source:orders"
action = { replay = { after = "2s", factor = 2.0, times = 2 } }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn rules_discard_replay_and_hold_letters_as_they_come() {
    let class = |number: u64| ["Spam", "LedgerClosed", "KeyError"][usize::try_from(number % 3).unwrap()];
    let broken = Arc::new(move |order: &serde_json::Value| {
        let number = order["number"].as_u64().unwrap();
        Some(dlo_core::failure::Failure::new(class(number), "it cannot be priced"))
    });
    let source =
        format!("replay = {{ pace = {{ rate = 200 }}, window = \"1s\", ramp = 1, canary = 0 }}\n{RULES}");
    let shop = Shop::open(kafka().await, "rules", &source, broken).await;
    shop.line.publish((0..ORDERS).map(|n| order(n, &format!("C-{n}")))).await;
    shop.until("the spam is discarded", || shop.letters("discarded") == ORDERS / 3).await;
    // The fix is there when the rule sends them again, or the time after.
    shop.deploy(|_| None);
    shop.until("what a rule sent again is recovered", || shop.letters("recovered") == ORDERS / 3).await;
    assert_eq!(shop.letters("open"), ORDERS / 3, "what is held waits for a person");

    let held = shop.dlo(&["letters", "list", "status:open", "--json"]).json();
    assert!(held["letters"].as_array().unwrap().iter().all(|letter| letter["error_class"] == "LedgerClosed"));
    let rules = shop.office.get("/api/v1/rules");
    let dealt = |name: &str| {
        let rule = rules["automation"].as_array().unwrap().iter().find(|rule| rule["name"] == name);
        number(rule.unwrap_or_else(|| panic!("{name} in {rules}")), "letters")
    };
    assert_eq!((dealt("spam"), dealt("money waits")), (ORDERS / 3, 0), "{rules}");
    assert!(dealt("try again") >= ORDERS / 3, "{rules}");
    let sent = shop.office.get("/api/v1/replays?limit=5");
    assert!(
        sent["replays"].as_array().unwrap().iter().all(|replay| replay["author"] == "rule try again"),
        "{sent}"
    );
    shop.verify();
    shop.close().await;
}

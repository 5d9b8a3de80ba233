//! A consumer that went down while it parked on RabbitMQ: both copies are letters, and a replay sends one of them.

use std::time::{Duration, Instant};

use dlo_core::broker::{Destination, Outgoing};
use dlo_core::envelope::{Envelope, OriginHeaders, encode};
use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, Origin};
use serde_json::json;

use super::shop::number;
use crate::office::{Office, dlo};
use crate::stories::{GROUP, Line, order, rabbitmq};

/// An order as the runtime parks it, after a redelivery or not.
fn parked(line: &Line, redelivered: bool) -> Message {
    let origin = Origin::queue(BrokerKind::Rabbitmq, &line.queue);
    let envelope = Envelope {
        death_id: Some(origin.death_id(Some(GROUP), 0)),
        redelivered,
        error_class: Some("KeyError".into()),
        error_message: Some("pin not in tax table".into()),
        origin: OriginHeaders::new(&origin, None),
        consumer_group: Some(GROUP.into()),
        ..Envelope::default()
    };
    encode(&order(1, "C-1"), &envelope, 100_000).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_a_crash_left_is_captured_as_a_suspected_duplicate_and_not_replayed() {
    let line = Line::open(rabbitmq().await, "copies", None).await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("dlo.toml");
    let text = format!(
        "[brokers.shop]\n{}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\n",
        line.section, line.queue, line.dlq
    );
    std::fs::write(&config, text).unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&config).args(["serve", "--listen", "127.0.0.1:0"]);
    command.current_dir(directory.path());
    let office = Office::spawn(command, &directory.path().join("data"));
    // One order without a crash, and one that was parked before and after it; their bytes are equal.
    for redelivered in [false, true] {
        let message = parked(&line, redelivered);
        let outgoing = Outgoing { to: Destination::queue(&line.dlq), message, delay: None };
        assert!(line.broker.publisher().publish(vec![outgoing]).await.iter().all(Result::is_ok));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while office.get("/api/v1/stats")["letters"]["open"] != json!(2) {
        assert!(Instant::now() < deadline, "both copies are letters: {}", office.get("/api/v1/stats"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let found = office.dlo(&["letters", "list", "is:suspected_duplicate", "--json"]).json();
    assert_eq!(found["letters"].as_array().map(Vec::len), Some(1), "{found:#}");
    let (second, first) = (&found["letters"][0]["id"], &found["letters"][0]["suspect"]["letter"]);
    let shown = office.dlo(&["letters", "show", second.as_str().unwrap()]).ok();
    assert!(shown.contains(&format!("suspected duplicate of {}", first.as_str().unwrap())), "{shown}");
    let shown = office.dlo(&["letters", "show", first.as_str().unwrap()]).ok();
    assert!(shown.contains(&format!("a suspected duplicate: {}", second.as_str().unwrap())), "{shown}");
    let plan = office.dlo(&["replay", "plan", "source:orders", "--reason", "fixed"]).ok();
    assert!(plan.contains("left out: 1 letter (suspected duplicates; --include-suspected"), "{plan}");
    let whole =
        ["replay", "plan", "source:orders", "--reason", "two orders", "--include-suspected", "--json"];
    assert_eq!(number(&office.dlo(&whole).json(), "total"), 2);
}

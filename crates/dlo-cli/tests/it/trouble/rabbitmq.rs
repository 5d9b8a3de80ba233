//! A RabbitMQ that refuses, has no such queue, or is down: seen at once, by its reason.

use std::sync::Arc;

use dlo_core::broker::{Broker, Destination, Outgoing, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::rabbitmq::Rabbitmq;

use super::{BAR, PATIENCE, banner, body, quiet, reported, serve, until};
use crate::office::{Office, Said, dlo};

fn config(url: &str, queue: &str) -> String {
    format!(
        "[server]\ndata = \"data\"\n[brokers.shop]\nkind = \"rabbitmq\"\nurl = \"{url}\"\n\
         [[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{queue}.dlq\"\n\
         replay = {{ window = \"2s\" }}\n"
    )
}

fn unique(name: &str) -> String {
    format!("{name}-{:x}", rand::random::<u64>())
}

async fn broker(url: &str) -> Arc<dyn Broker> {
    let settings: dlo_brokers::BrokerConfig =
        toml::from_str(&format!("kind = \"rabbitmq\"\nurl = \"{url}\"")).unwrap();
    dlo_brokers::connect(&settings, Arc::new(dlo_runtime::SystemClock)).await.unwrap()
}

async fn topology(broker: &dyn Broker, queue: &str) {
    let spec = TopologySpec::new(queue, format!("{queue}.dlq"), 5);
    broker.topology().apply(&spec).await.unwrap();
}

/// The page says nothing that sounds well.
fn is_honest(office: &Office) {
    let page = body(office, "/");
    assert!(!page.contains("No letters yet"), "{page}");
    assert!(page.contains("orders</a></td>"), "the source is not in the list of sources: {page}");
    assert!(!page.contains("<span class=\"badge good\">fine</span>"), "{page}");
    let source = body(office, "/sources/orders");
    assert!(source.contains("Capture is interrupted"), "{source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_reported_until_it_is_right() {
    let rabbit = Rabbitmq::shared().await;
    let (user, queue) = (unique("clerk"), unique("password"));
    let set = async |password: &str| {
        let body = format!("{{\"password\":\"{password}\",\"tags\":\"\"}}");
        let answer = rabbit.put(&format!("/api/users/{user}"), &body).await;
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    };
    set("another").await;
    let rights = r#"{"configure":".*","write":".*","read":".*"}"#;
    rabbit.put(&format!("/api/permissions/%2f/{user}"), rights).await;
    topology(&*broker(&rabbit.url()).await, &queue).await;
    let url = rabbit.url().replace("guest:guest", &format!("{user}:right"));
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), &config(&url, &queue));
    let trouble = reported(&office, "source_refused", &["orders", "ACCESS_REFUSED"]).await;
    assert_eq!((&trouble["scope"], &trouble["name"]), (&"source".into(), &"orders".into()), "{trouble:#}");
    assert!(!trouble.to_string().contains("right\""), "{trouble:#}");
    is_honest(&office);
    set("right").await;
    quiet(&office, "the right password").await;
    assert!(body(&office, "/").contains("No letters yet"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_queue_is_reported_until_the_named_command_has_made_it() {
    let rabbit = Rabbitmq::shared().await;
    let queue = unique("missing");
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), &config(&rabbit.url(), &queue));
    let trouble = reported(&office, "source_queue_missing", &["orders", &format!("{queue}.dlq")]).await;
    let action = trouble["action"].as_str().unwrap();
    assert!(action.contains("`dlo topology apply orders --yes`"), "{action}");
    is_honest(&office);
    let mut apply = dlo();
    apply.args(["topology", "apply", "orders", "--yes"]).current_dir(dir.path());
    Said::new(&apply.output().unwrap()).ok();
    quiet(&office, "the queue").await;
}

/// The same outage, as a replay sees it: nothing was sent, and the page says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_down_is_reported_by_its_source_and_by_a_replay_that_waits_for_it() {
    let mut rabbit = Rabbitmq::own().await;
    let queue = unique("down");
    let broker = broker(&rabbit.url()).await;
    for name in [queue.clone(), format!("{queue}.dlq")] {
        // Classic: a server that is killed may lose a quorum queue which is a second old.
        let answer = rabbit.put(&format!("/api/queues/%2f/{name}"), "{\"durable\":true}").await;
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    let dir = tempfile::tempdir().unwrap();
    let office = serve(dir.path(), &config(&rabbit.url(), &queue));
    let message = Message { payload: Payload::from("{\"order\":1}".to_owned()), ..Message::default() };
    let to = Destination::queue(format!("{queue}.dlq"));
    for sent in broker.publisher().publish(vec![Outgoing { to, message, delay: None }]).await {
        sent.unwrap();
    }
    until("a letter", PATIENCE, || (office.get("/api/v1/stats")["letters"]["open"] == 1).then_some(())).await;
    quiet(&office, "the start").await;
    rabbit.stop().await;
    let trouble = reported(&office, "source_unreachable", &["orders", "out of reach"]).await;
    assert!(trouble["action"].as_str().unwrap().contains("[brokers]"), "{trouble:#}");
    let page = body(&office, "/");
    assert!(!page.contains("<span class=\"badge good\">fine</span>"), "{page}");

    let plan = office.dlo(&["replay", "plan", "source:orders", "--reason", "again", "--json"]).json();
    let id = plan["id"].as_str().unwrap();
    office.dlo(&["replay", "start", id, "--yes"]).ok();
    let waits = reported(&office, "replay_waiting", &["orders", "out of reach", id]).await;
    assert_eq!((&waits["scope"], &waits["name"]), (&"replay".into(), &id.into()), "{waits:#}");
    let page = body(&office, &format!("/replays/{id}"));
    assert!(!page.contains("A few letters were sent"), "{page}");
    assert!(page.contains("Nothing was sent yet") && page.contains("badge waiting"), "{page}");
    assert!(
        body(&office, "/").contains("badge waiting") && body(&office, "/replays").contains("badge waiting")
    );

    rabbit.start().await;
    quiet(&office, "the broker").await;
    let state = || (office.get(&format!("/api/v1/replays/{id}"))["sent"] == 1).then_some(());
    until("the letter is sent", PATIENCE, state).await;
    assert!(banner(&office, "/").is_none() && BAR.as_secs() == 5);
}

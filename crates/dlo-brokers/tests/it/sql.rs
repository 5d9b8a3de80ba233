//! Tables of PostgreSQL as queues. The suite publishes, and a table is not published to, so what is promised is shown here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dlo_brokers::secret::Secret;
use dlo_brokers::sql::{SqlConfig, TableConfig};
use dlo_brokers::tls::TlsConfig;
use dlo_brokers::{BrokerConfig, connect};
use dlo_core::broker::{
    Broker, BrokerError, Delivery, Destination, Outgoing, PublishError, Settlement, Source, TopologySpec,
};
use dlo_core::message::Message;
use dlo_core::time::Timestamp;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::harness::postgres::{Database, OwnPostgres, Postgres};
use tokio_postgres::Client;

const QUEUE: &str = "orders_dead";
const ARRIVAL: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_millis(500);
const TABLE: &str = "CREATE TABLE dead_letters (id bigint PRIMARY KEY, body bytea, customer text, error_class text, \
    attempts int, failed_at timestamptz DEFAULT '2026-11-01T12:30:00Z', captured_at timestamptz)";

fn table() -> TableConfig {
    TableConfig {
        table: "dead_letters".to_owned(),
        id: "id".to_owned(),
        payload: "body".to_owned(),
        key: Some("customer".to_owned()),
        headers: vec!["error_class".to_owned(), "attempts".to_owned()],
        at: Some("failed_at".to_owned()),
        pending: Some("captured_at IS NULL".to_owned()),
        mark: Some("captured_at = now()".to_owned()),
        delete: false,
    }
}

async fn broker_at(url: &str, table: TableConfig) -> Arc<dyn Broker> {
    let tables = [(QUEUE.to_owned(), table)].into();
    let config = SqlConfig { url: Secret::new(url), tls: TlsConfig::default(), tables };
    connect(&BrokerConfig::Sql(config), Arc::new(TokioClock::new())).await.unwrap()
}

struct Lab {
    database: Database,
    raw: Client,
    broker: Arc<dyn Broker>,
}

async fn lab(table: TableConfig) -> Lab {
    let database = Postgres::shared().await.database().await;
    let raw = database.raw().await;
    raw.batch_execute(TABLE).await.unwrap();
    let broker = broker_at(&database.url, table).await;
    Lab { database, raw, broker }
}

impl Lab {
    async fn die(&self, ids: std::ops::RangeInclusive<i64>) {
        let insert = "INSERT INTO dead_letters (id, body) SELECT n, convert_to(n::text, 'UTF8') \
            FROM generate_series($1::bigint, $2::bigint) AS n";
        self.raw.execute(insert, &[ids.start(), ids.end()]).await.unwrap();
    }

    async fn count(&self, condition: &str) -> i64 {
        let count = format!("SELECT count(*) FROM dead_letters WHERE {condition}");
        self.raw.query_one(&count, &[]).await.unwrap().get(0)
    }

    async fn drain(&self) -> Box<dyn Source> {
        self.broker.drain(QUEUE).await.unwrap()
    }
}

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.origin.message_id.clone().unwrap()).collect()
}

async fn settle(source: &dyn Source, deliveries: Vec<Delivery>, how: Settlement) -> Result<(), BrokerError> {
    source.settler().settle(deliveries.into_iter().map(|delivery| delivery.settle(how)).collect()).await
}

#[tokio::test]
async fn a_row_comes_with_its_bytes_its_key_its_headers_and_its_time() {
    let lab = lab(table()).await;
    let insert =
        "INSERT INTO dead_letters VALUES (7, '\\x00ff10', 'c-9', 'Timeout', 3), (8, NULL, NULL, NULL, NULL)";
    lab.raw.batch_execute(insert).await.unwrap();
    let came = lab.drain().await.receive(10, ARRIVAL).await.unwrap();
    assert_eq!(ids(&came), ["7", "8"]);
    let (row, bare) = (&came[0], &came[1]);
    assert_eq!(&row.message.payload.0[..], [0x00, 0xff, 0x10]);
    assert_eq!(row.message.key.as_ref().map(|key| &key.0[..]), Some(&b"c-9"[..]));
    assert_eq!(row.message.headers.text("error_class"), Some("Timeout"));
    assert_eq!(row.message.headers.text("attempts"), Some("3"));
    assert_eq!(row.published_at, Timestamp::parse("2026-11-01T12:30:00Z").ok());
    assert_eq!(bare.message.headers.last("error_class").unwrap().value, None);
    assert_eq!(bare.message.headers.text("sql:payload"), Some("null"));
}

#[tokio::test]
async fn json_comes_as_its_text() {
    let lab = lab(TableConfig { payload: "doc".to_owned(), ..table() }).await;
    let change = "ALTER TABLE dead_letters ADD doc json; INSERT INTO dead_letters (id, doc) VALUES (1, '{\"a\":  \"é\"}')";
    lab.raw.batch_execute(change).await.unwrap();
    let came = lab.drain().await.receive(10, ARRIVAL).await.unwrap();
    assert_eq!(&came[0].message.payload.0[..], "{\"a\":  \"é\"}".as_bytes());
}

#[tokio::test]
async fn what_is_done_or_refused_is_marked_and_does_not_come_again_and_the_rest_does() {
    let lab = lab(table()).await;
    lab.die(1..=3).await;
    let mut source = lab.drain().await;
    let mut came = source.receive(10, ARRIVAL).await.unwrap();
    let again = came.pop().unwrap();
    let refused = came.pop().unwrap();
    // In three parts: each is committed when it is told, and the rest stays in hand.
    settle(&*source, came, Settlement::Done).await.unwrap();
    assert_eq!(lab.count("captured_at IS NOT NULL").await, 1);
    assert!(source.receive(10, SILENCE).await.unwrap().is_empty());
    settle(&*source, vec![refused], Settlement::Refuse).await.unwrap();
    settle(&*source, vec![again], Settlement::Again { after: Duration::ZERO }).await.unwrap();
    assert_eq!(ids(&source.receive(10, ARRIVAL).await.unwrap()), ["3"]);
    source.close().await.unwrap();
    assert_eq!(lab.count("captured_at IS NULL").await, 1);
}

#[tokio::test]
async fn a_lower_id_that_commits_late_is_not_missed() {
    let lab = lab(table()).await;
    let mut late = lab.database.raw().await;
    let writing = late.transaction().await.unwrap();
    writing.batch_execute("INSERT INTO dead_letters (id, body) VALUES (1, 'late')").await.unwrap();
    lab.die(2..=3).await;
    let mut source = lab.drain().await;
    let came = source.receive(10, ARRIVAL).await.unwrap();
    assert_eq!(ids(&came), ["2", "3"]);
    settle(&*source, came, Settlement::Done).await.unwrap();
    writing.commit().await.unwrap();
    assert_eq!(ids(&source.receive(10, ARRIVAL).await.unwrap()), ["1"]);
}

#[tokio::test]
async fn two_drains_divide_the_rows_and_a_bounded_number_of_batches_is_open() {
    let lab = lab(table()).await;
    lab.die(1..=100).await;
    let (mut one, mut other) = (lab.drain().await, lab.drain().await);
    let mut seen = BTreeSet::new();
    let mut first = Vec::new();
    for _ in 0..4 {
        first.extend(one.receive(10, ARRIVAL).await.unwrap());
    }
    assert!(one.receive(10, SILENCE).await.unwrap().is_empty(), "a fifth batch was opened");
    let second = other.receive(100, ARRIVAL).await.unwrap();
    assert_eq!((first.len(), second.len()), (40, 60));
    seen.extend(ids(&first));
    seen.extend(ids(&second));
    assert_eq!(seen.len(), 100);
    settle(&*one, first, Settlement::Done).await.unwrap();
    settle(&*other, second, Settlement::Done).await.unwrap();
    assert_eq!(lab.count("captured_at IS NULL").await, 0);
    lab.die(101..=101).await;
    assert_eq!(ids(&one.receive(10, ARRIVAL).await.unwrap()), ["101"]);
}

#[tokio::test]
async fn a_source_that_is_dropped_gives_its_rows_back_and_its_settler_is_silent() {
    let lab = lab(table()).await;
    lab.die(1..=2).await;
    let mut source = lab.drain().await;
    let settler = source.settler();
    let came = source.receive(10, ARRIVAL).await.unwrap();
    drop(source);
    let mut next = lab.drain().await;
    assert_eq!(next.receive(10, ARRIVAL).await.unwrap().len(), 2);
    settler.settle(came.into_iter().map(|d| d.settle(Settlement::Done)).collect()).await.unwrap();
    assert_eq!(lab.count("captured_at IS NULL").await, 2);
}

#[tokio::test]
async fn a_lost_connection_gives_the_rows_back_and_says_so_to_who_settles() {
    let lab = lab(table()).await;
    lab.die(1..=2).await;
    let mut source = lab.drain().await;
    let came = source.receive(10, ARRIVAL).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE application_name = 'dlo' \
        AND datname = current_database()";
    lab.raw.batch_execute(end).await.unwrap();
    let lost = settle(&*source, came, Settlement::Done).await.unwrap_err();
    assert!(lost.is_transient(), "{lost}");
    let again = source.receive(10, ARRIVAL).await.unwrap();
    assert_eq!(ids(&again), ["1", "2"]);
    settle(&*source, again, Settlement::Done).await.unwrap();
    assert_eq!(lab.count("captured_at IS NULL").await, 0);
}

#[tokio::test]
async fn where_rows_are_deleted_they_are_gone_after_done_and_not_before() {
    let lab = lab(TableConfig { pending: None, mark: None, delete: true, ..table() }).await;
    lab.die(1..=5).await;
    let mut source = lab.drain().await;
    let came = source.receive(10, ARRIVAL).await.unwrap();
    assert_eq!(lab.count("true").await, 5);
    settle(&*source, came, Settlement::Done).await.unwrap();
    assert_eq!(lab.count("true").await, 0);
}

#[tokio::test]
async fn a_mark_that_leaves_rows_pending_is_refused_and_changes_nothing() {
    let lab = lab(TableConfig { mark: Some("attempts = 99".to_owned()), ..table() }).await;
    lab.die(1..=1).await;
    let mut source = lab.drain().await;
    let came = source.receive(10, ARRIVAL).await.unwrap();
    let refusal = settle(&*source, came, Settlement::Done).await.unwrap_err().to_string();
    assert!(refusal.contains("`mark`") && refusal.contains("`pending`"), "{refusal}");
    assert_eq!(lab.count("attempts = 99").await, 0);
}

#[tokio::test]
async fn what_is_missing_is_told_with_what_to_do() {
    let lab = lab(TableConfig { payload: "boddy".to_owned(), ..table() }).await;
    let refusal = lab.broker.drain(QUEUE).await.unwrap_err().to_string();
    assert!(refusal.contains("`boddy`") && refusal.contains("tables.orders_dead.payload"), "{refusal}");
    let nowhere = broker_at(&lab.database.url, TableConfig { table: "nowhere".to_owned(), ..table() }).await;
    let refusal = nowhere.drain(QUEUE).await.unwrap_err().to_string();
    assert!(refusal.contains("`nowhere`") && refusal.contains("tables.orders_dead.table"), "{refusal}");
    let unnamed = lab.broker.drain("other").await.unwrap_err();
    assert!(matches!(&unnamed, BrokerError::Missing(queue) if queue == "other"), "{unnamed}");
    let wrong = TableConfig { pending: Some("captured IS NULL".to_owned()), ..table() };
    let refusal = broker_at(&lab.database.url, wrong).await.drain(QUEUE).await.unwrap_err().to_string();
    assert!(refusal.contains("tables.orders_dead.pending"), "{refusal}");
}

#[tokio::test]
async fn the_plan_names_rights_and_index_with_their_sql_and_apply_changes_nothing() {
    let lab = lab(table()).await;
    let role = format!("reader_{}", std::process::id());
    lab.raw
        .batch_execute(&format!("CREATE ROLE {role} LOGIN; GRANT SELECT ON dead_letters TO {role}"))
        .await
        .unwrap();
    let url = lab.database.url.replacen("postgres@", &format!("{role}@"), 1);
    let topology = broker_at(&url, table()).await.topology();
    let spec = TopologySpec::new("orders", QUEUE, 5);
    let plan = topology.apply(&spec).await.unwrap();
    let commands: Vec<String> = plan.iter().filter_map(|change| change.command.clone()).collect();
    assert_eq!(commands.len(), 2, "{plan:?}");
    assert!(commands[0].starts_with("GRANT UPDATE ON \"dead_letters\""), "{commands:?}");
    assert!(plan.iter().all(|change| !change.appliable));
    assert_eq!(topology.plan(&spec).await.unwrap(), plan);
    for command in &commands {
        lab.raw.batch_execute(command).await.unwrap();
    }
    assert_eq!(topology.plan(&spec).await.unwrap(), []);
    lab.raw.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn depth_and_age_are_seen_and_what_a_table_cannot_do_is_refused() {
    let lab = lab(table()).await;
    lab.die(1..=3).await;
    let state = lab.broker.inspector().inspect(QUEUE, None).await.unwrap();
    assert_eq!((state.depth, state.oldest), (Some(3), Timestamp::parse("2026-11-01T12:30:00Z").ok()));
    assert!(lab.broker.ping().await.unwrap().unwrap().starts_with("PostgreSQL "));
    let refusal = lab.broker.reader(QUEUE, 0, None).await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("drain")), "{refusal}");
    let message = Outgoing { to: Destination::queue(QUEUE), message: Message::default(), delay: None };
    let sent = lab.broker.publisher().publish(vec![message]).await;
    assert!(matches!(&sent[..], [Err(PublishError::Refused(_))]), "{sent:?}");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_shown() {
    let own = OwnPostgres::start_new().await;
    let (raw, connection) = tokio_postgres::connect(&own.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    raw.batch_execute(TABLE).await.unwrap();
    let file: String = raw.query_one("SHOW hba_file", &[]).await.unwrap().get(0);
    let rules = "(VALUES ('host all postgres all trust'), ('host all all all scram-sha-256'))";
    let change = format!(
        "CREATE ROLE office LOGIN PASSWORD 'right'; GRANT ALL ON dead_letters TO office; COPY {rules} TO '{file}'"
    );
    raw.batch_execute(&change).await.unwrap();
    raw.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let wrong = broker_at(&own.url.replacen("postgres@", "office:hunter2@", 1), table()).await;
    let deadline = tokio::time::Instant::now() + ARRIVAL;
    let refusal = loop {
        // Until the server has read its rules again, everybody is let in.
        match wrong.drain(QUEUE).await {
            Err(refusal) => break refusal,
            Ok(_) => assert!(tokio::time::Instant::now() < deadline, "a wrong password was accepted"),
        }
    };
    assert!(matches!(refusal, BrokerError::Refused(_)), "{refusal}");
    let shown = format!("{refusal} {wrong:?}");
    assert!(shown.contains("password in `url`") && !shown.contains("hunter2"), "{shown}");
    broker_at(&own.url.replacen("postgres@", "office:right@", 1), table()).await.drain(QUEUE).await.unwrap();
}

//! A server is killed again and again during a replay on RabbitMQ, which cannot tell what became of a send. Few letters are
//! in doubt after each kill, and of those few had never left: nobody consumes the queue, so it is read to know.
//!
//! `DLO_DOUBT_ROUNDS` says how often it is killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dlo_core::broker::Settlement;
use dlo_core::envelope::replay_mark;
use dlo_core::replay::parse_send_id;
use dlo_testkit::harness::postgres::Postgres;
use dlo_testkit::harness::proxy::Proxy;
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use rand::RngExt;
use serde_json::{Value, json};

use super::shop::{id, number};
use crate::office::{Office, dlo};
use crate::stories::Line;

const RATE: u64 = 1_500;
/// Letters of one round, at most; and of the rest, which nothing disturbs.
const ROUND: u64 = 900;
const REST: u64 = 3_000;
/// Milliseconds after its start within which a server that was killed sends again.
const AGAIN: u128 = 3_000;
/// Letters in doubt after a kill, at most, and how many of them had never left.
const IN_DOUBT: usize = 600;
const NEVER_LEFT: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

fn rounds(usual: u64) -> u64 {
    std::env::var("DLO_DOUBT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// An office whose letters nobody consumes when they are sent again.
struct Depot {
    line: Line,
    directory: tempfile::TempDir,
}

impl Depot {
    /// `server` are further settings of the office.
    async fn open(name: &str, url: &str, server: &str) -> Self {
        let section = format!("kind = \"rabbitmq\"\nurl = \"{url}\"");
        let line = Line::open(section.clone(), name, None).await;
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "[server]\n{server}\n[replay]\nlarge = 1_000_000\n[brokers.shop]\n{section}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\nreplay = {{ pace = {{ rate = {RATE} }}, window = \"2s\", ramp = 1, canary = 0, guards = {{ refill = false }} }}\n",
            line.queue, line.dlq
        );
        std::fs::write(directory.path().join("dlo.toml"), text).unwrap();
        Self { line, directory }
    }

    fn start(&self) -> Office {
        let mut command = dlo();
        command.args(["--config", "dlo.toml", "serve", "--listen", "127.0.0.1:0"]);
        command.current_dir(self.directory.path());
        Office::spawn(command, &self.directory.path().join("data"))
    }

    /// The items whose messages are in the queue; how many are there twice.
    async fn in_the_queue(&self, least: usize) -> (BTreeSet<u64>, usize) {
        let mut source = self.line.broker.drain(&self.line.queue).await.unwrap();
        let (settler, mut found, mut count) = (source.settler(), BTreeSet::new(), 0);
        loop {
            let wait = if count < least { Duration::from_secs(5) } else { Duration::from_millis(500) };
            let came = source.receive(1_000, wait).await.unwrap();
            if came.is_empty() {
                break;
            }
            count += came.len();
            let marks = came.iter().filter_map(|one| replay_mark(&one.message.headers));
            found.extend(marks.filter_map(|mark| parse_send_id(&mark.replay_id)).map(|(_, number)| number));
            settler.settle(came.into_iter().map(|one| one.settle(Settlement::Done)).collect()).await.unwrap();
        }
        source.close().await.unwrap();
        let twice = count - found.len();
        (found, twice)
    }
}

/// Stores so many letters of the source.
fn fill(office: &Office, letters: u64) {
    for first in (0..letters).step_by(500) {
        let some = first..letters.min(first + 500);
        let batch: Vec<Value> = some
            .map(|n| {
                let payload = json!({ "number": n, "note": "·".repeat(200) });
                json!({ "source": "orders", "key": format!("C-{n}"), "payload": payload, "error_class": "KeyError" })
            })
            .collect();
        office.post(&json!(batch));
    }
}

fn until(what: &str, mut fact: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !fact() {
        assert!(Instant::now() < deadline, "it did not happen that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn replay(office: &Office, plan: &Value) -> Value {
    office.get(&format!("/api/v1/replays/{}", id(plan)))
}

fn sent(office: &Office, plan: &Value) -> u64 {
    number(&replay(office, plan), "sent")
}

fn in_doubt(office: &Office, plan: &Value) -> BTreeSet<u64> {
    items_in_doubt(office, plan).iter().map(|item| number(item, "number")).collect()
}

fn items_in_doubt(office: &Office, plan: &Value) -> Vec<Value> {
    let mut doubts = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/replays/{}/items?state=in_doubt&limit=500{cursor}", id(plan));
        let page = office.get(&path);
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
        doubts.extend(items.iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { return doubts };
        cursor = format!("&cursor={next}");
    }
}

/// Kills the office in the middle of its replay, and starts the next one on what it left. Which letters were in doubt after
/// each kill, and how long the next one took to send again.
fn struck(
    depot: &Depot,
    mut office: Office,
    plan: &Value,
    rounds: u64,
) -> (Office, Vec<BTreeSet<u64>>, Vec<Duration>) {
    let (mut all, mut doubts, mut again) = (BTreeSet::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let before = sent(&office, plan);
        let more = rand::rng().random_range(1..ROUND / 2);
        until("some more are sent", || sent(&office, plan) >= before + more);
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(0..30)));
        office.strike();
        let began = Instant::now();
        office = depot.start();
        let left = sent(&office, plan);
        // A transaction of the former server may end after it: this one must run it as well.
        until("it sends again", || {
            let now = replay(&office, plan);
            now["in_hand"] == true && number(&now, "sent") > left
        });
        again.push(began.elapsed());
        // The server put what the former one had intended into doubt before it sent anything.
        let now = in_doubt(&office, plan);
        doubts.push(now.difference(&all).copied().collect());
        all = now;
    }
    (office, doubts, again)
}

/// A replay that runs, and how many letters it has.
async fn running(depot: &Depot, rounds: u64) -> (Office, Value, u64) {
    let office = depot.start();
    let letters = rounds * ROUND + REST;
    fill(&office, letters);
    let plan = office.dlo(&["replay", "plan", "--json", "class:KeyError"]).json();
    assert_eq!(number(&plan, "total"), letters);
    office.dlo(&["replay", "start", id(&plan), "--yes"]).ok();
    (office, plan, letters)
}

/// Lets it send all that is not in doubt; messages a second.
fn undisturbed(office: &Office, plan: &Value) -> f64 {
    let (began, before) = (Instant::now(), sent(office, plan));
    until("all that is not in doubt is sent", || number(&replay(office, plan), "waiting") == 0);
    (sent(office, plan) - before) as f64 / began.elapsed().as_secs_f64()
}

async fn few_are_in_doubt(name: &str, url: &str, server: &str, rounds: u64) {
    let depot = Depot::open(name, url, server).await;
    let (office, plan, letters) = running(&depot, rounds).await;
    let (office, doubts, again) = struck(&depot, office, &plan, rounds);
    let rate = undisturbed(&office, &plan);
    let counts: Vec<usize> = doubts.iter().map(BTreeSet::len).collect();
    let total: usize = counts.iter().sum();
    let (queue, twice) = depot.in_the_queue(letters as usize - total).await;
    let never: Vec<usize> = doubts.iter().map(|some| some.difference(&queue).count()).collect();
    let again: Vec<u128> = again.iter().map(Duration::as_millis).collect();
    eprintln!(
        "{name}: {rounds} kills at {RATE}/s of {letters} letters: {total} in doubt {counts:?}, {} of them had never left {never:?}; ms until it sent again {again:?}; undisturbed {rate:.0}/s; {twice} twice",
        never.iter().sum::<usize>(),
    );
    assert_eq!(twice, 0, "nothing is sent again before a person said so");
    assert!(never.iter().all(|count| *count <= NEVER_LEFT), "{never:?}");
    assert!(counts.iter().all(|count| *count <= IN_DOUBT), "{counts:?}");
    assert!(again.iter().all(|took| *took <= AGAIN), "{again:?}");
    office.dlo(&["audit", "verify"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_1500_a_second_leave_few_in_doubt_and_few_that_never_left() {
    few_are_in_doubt("doubts", &Rabbitmq::shared().await.url(), "", rounds(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_with_50_ms_to_the_broker_leave_few_in_doubt_and_few_that_never_left() {
    let server = Rabbitmq::shared().await;
    let proxy = Proxy::slow(server.address(), Duration::from_millis(50)).await;
    few_are_in_doubt("slow-doubts", &server.url_at(proxy.address.port()), "", rounds(10)).await;
    proxy.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_postgres_that_was_killed_sends_again_within_3_s_of_its_restart() {
    let database = Postgres::shared().await.database().await;
    let server = format!("database = \"{}\"", database.url);
    few_are_in_doubt("shared-doubts", &Rabbitmq::shared().await.url(), &server, rounds(3)).await;
}

/// Of one replay that was killed: those that are in the queue are settled as sent, the others are sent again.
#[tokio::test(flavor = "multi_thread")]
async fn doubts_are_settled_in_bulk_and_the_evidence_is_shown_on_page_cli_and_api() {
    let depot = Depot::open("settled-doubts", &Rabbitmq::shared().await.url(), "").await;
    let (office, plan, letters) = running(&depot, 1).await;
    let (office, doubts, _) = struck(&depot, office, &plan, 1);
    undisturbed(&office, &plan);
    let in_doubt = doubts[0].len() as u64;
    let path = format!("/api/v1/replays/{}/doubts", id(&plan));
    let evidence = office.get(&path);
    let queue = &evidence["evidence"][0]["queues"][0];
    assert_eq!((number(&evidence, "in_doubt"), &queue["queue"]), (in_doubt, &json!(depot.line.queue)));
    let waiting = number(queue, "depth");
    assert!(waiting >= letters - in_doubt && waiting <= letters, "{evidence}");
    let settle = ["replay", "settle", id(&plan), "--reason", "the queue was read", "--as"];
    let said = office.dlo(&[&settle[..], &["again"]].concat()).ok();
    for shown in ["in doubt, intended from", "wait", "came back", "nothing was changed"] {
        assert!(said.contains(shown), "{shown}: {said}");
    }
    let page = page(&office, &plan);
    assert!(page.contains("in doubt: the first send began") && page.contains(" wait"), "{page}");

    let (queue, _) = depot.in_the_queue((letters - in_doubt) as usize).await;
    let items = items_in_doubt(&office, &plan);
    let letter = |item: &Value| item["letter"].as_str().unwrap().to_owned();
    let there: Vec<String> =
        items.iter().filter(|item| queue.contains(&number(item, "number"))).map(letter).collect();
    let body = json!({ "outcome": "sent", "letters": there, "reason": "it is in the queue" });
    let answer = settled(&office, &plan, &body);
    assert_eq!(number(&answer, "settled"), there.len() as u64, "{answer}");
    // Repeated, it finds nothing left to do.
    assert_eq!(number(&settled(&office, &plan, &body), "settled"), 0);
    let left = in_doubt - there.len() as u64;
    assert_eq!(number(&answer, "in_doubt"), left, "{answer}");
    if left > 0 {
        let said = office.dlo(&[&settle[..], &["again", "--yes"]].concat()).ok();
        assert!(said.contains("settled as again"), "{said}");
    }
    assert_eq!(number(&office.get(&path), "in_doubt"), 0);
    until("it is over", || {
        let state = replay(&office, &plan)["state"].clone();
        if state == "paused" {
            office.dlo(&["replay", "resume", id(&plan)]).ok();
        }
        state == "completed"
    });
    let (again, twice) = depot.in_the_queue(left as usize).await;
    eprintln!(
        "settled in bulk: {in_doubt} in doubt, {} were in the queue, {left} were sent again",
        there.len()
    );
    assert_eq!((again.len() as u64, twice, again.intersection(&queue).count()), (left, 0, 0));
    assert_eq!(number(&replay(&office, &plan), "sent"), letters);
    let timeline = office.get(&format!("/api/v1/letters/{}/timeline", letter(&items[0])));
    assert!(timeline.to_string().contains("the queue"), "each letter has its audit row: {timeline}");
    office.dlo(&["audit", "verify"]).ok();
}

fn page(office: &Office, plan: &Value) -> String {
    let url = format!("{}/replays/{}", office.address, id(plan));
    ureq::get(url).call().unwrap().body_mut().read_to_string().unwrap()
}

fn settled(office: &Office, plan: &Value, body: &Value) -> Value {
    let url = format!("{}/api/v1/replays/{}/settle", office.address, id(plan));
    let request = ureq::post(url).header("content-type", "application/json");
    request.send(body.to_string()).unwrap().body_mut().read_json().unwrap()
}

//! Several servers on one PostgreSQL: each lane is read by one of them, and by another when that one is gone.

use std::time::Duration;

use dlo_server::{CaptureSpec, Server, ServerConfig};
use dlo_store::postgres::PostgresStore;
use dlo_store::{DynStore, StoreLimits};
use dlo_testkit::faults::Script;
use dlo_testkit::harness::postgres::{Database, Postgres};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::lab::{Weak, plain};
use crate::office::clock;

/// A server that can be killed.
struct Mortal {
    runtime: Runtime,
    address: std::net::SocketAddr,
}

impl Mortal {
    async fn start(home: &Database, spec: CaptureSpec) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let url = home.url.clone();
        let starting = async move {
            let store: DynStore = PostgresStore::connect(&url, StoreLimits::default()).await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = Server::new(ServerConfig::default(), store, clock()).capture(spec);
            tokio::spawn(server.run(listener, std::future::pending()));
            address
        };
        let address = runtime.spawn(starting).await.unwrap();
        Self { runtime, address }
    }

    fn kill(self) {
        self.runtime.shutdown_background();
    }

    async fn held(&self) -> u64 {
        let source = crate::office::get(self.address, "/api/v1/sources").await.json();
        source["sources"][0]["held"].as_u64().unwrap_or(0)
    }
}

async fn letters(store: &DynStore, expected: u64) {
    let mut seen = 0;
    for _ in 0..600 {
        seen = store.stats().await.unwrap().letters.total();
        if seen == expected {
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(store.stats().await.unwrap().letters.total(), expected);
            assert_eq!(store.verify().await.unwrap().problems, Vec::<String>::new());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{expected} letters expected, {seen} seen");
}

async fn until_held(servers: &[&Mortal], expected: &[u64]) {
    let mut held = Vec::new();
    for _ in 0..1_200 {
        held.clear();
        for server in servers {
            held.push(server.held().await);
        }
        if held == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("held {held:?}, expected {expected:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_divided_and_taken_over_when_a_server_dies() {
    let home = Postgres::shared().await.database().await;
    let store: DynStore = PostgresStore::connect(&home.url, StoreLimits::default()).await.unwrap();
    let broker = Weak::log();
    broker.publish((0..800).map(plain)).await;
    let first = Mortal::start(&home, broker.spec()).await;
    until_held(&[&first], &[8]).await;
    let second = Mortal::start(&home, broker.spec()).await;
    until_held(&[&first, &second], &[4, 4]).await;
    broker.publish((800..1_600).map(plain)).await;
    letters(&store, 1_600).await;
    broker.publish((1_600..2_400).map(plain)).await;
    first.kill();
    until_held(&[&second], &[8]).await;
    letters(&store, 2_400).await;
    second.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_one_reader_and_the_next_goes_on_where_it_died() {
    let home = Postgres::shared().await.database().await;
    let store: DynStore = PostgresStore::connect(&home.url, StoreLimits::default()).await.unwrap();
    let broker = Weak::bare(Script::default());
    broker.publish((0..60).map(|n| plain(n / 3))).await;
    broker.set_deaf(true);
    let first = Mortal::start(&home, broker.spec()).await;
    letters(&store, 60).await;
    let second = Mortal::start(&home, broker.spec()).await;
    until_held(&[&first, &second], &[1, 0]).await;
    broker.set_deaf(false);
    // Stored, not settled: the successor must know them all.
    first.kill();
    until_held(&[&second], &[1]).await;
    broker.publish((100..110).map(plain)).await;
    letters(&store, 70).await;
    broker.until_empty().await;
    second.kill();
}

/// A holder that was believed dead writes nothing more, and begins anew when it gets the lease back.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_its_lease_writes_nothing() {
    let home = Postgres::shared().await.database().await;
    let store: DynStore = PostgresStore::connect(&home.url, StoreLimits::default()).await.unwrap();
    let broker = Weak::log();
    let server = Mortal::start(&home, broker.spec()).await;
    until_held(&[&server], &[8]).await;
    let raw = home.raw().await;
    let stolen = "UPDATE leases SET holder = 'thief', fence = fence + 1, until = until + 2000000 WHERE name LIKE 'capture/lane/%'";
    raw.execute(stolen, &[]).await.unwrap();
    broker.publish((0..200).map(plain)).await;
    until_held(&[&server], &[0]).await;
    assert_eq!(store.stats().await.unwrap().letters.total(), 0);
    raw.execute("UPDATE leases SET until = 0 WHERE holder = 'thief'", &[]).await.unwrap();
    letters(&store, 200).await;
    server.kill();
}

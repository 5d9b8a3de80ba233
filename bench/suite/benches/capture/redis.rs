//! W2: a Redis stream into the store, beside a batched Python script, the loop that stores nothing, a bare loop into
//! SQLite, and Bento.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_testkit::harness::redis::Redis;
use redis::streams::{StreamId, StreamReadReply};

use crate::bento::{Bento, Input};
use crate::runner::{self, Runner};
use crate::sink::{Row, Sink};
use crate::usage::Meter;
use crate::{Asked, message, office, python};

const STREAM: &str = "orders:dlq";

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W2 capture from Redis Streams, {} letters, {} rounds", asked.letters, asked.rounds);
    // As its packages set it up, and as the peers were measured: the log is on disk once a second.
    let server = Redis::with(&["--appendfsync", "everysec"]).await;
    let url = server.url.clone();
    let broker = office::broker(&format!("kind = \"redis\"\nurl = \"{url}\"")).await;
    let source = format!(
        "[brokers.shop]\nkind = \"redis\"\nurl = \"{url}\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"orders\"\ndlq = \"{STREAM}\"\n"
    );
    if let Some(against) = asked.against {
        let once = async |program: &Path| {
            refill(&url, &broker, asked.letters).await;
            tokio::task::block_in_place(|| office::drain_with(program, asked.scratch, &source, asked.letters))
        };
        return against.compare("capture from Redis", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, Redis to SQLite");
    let mut bare = Runner::new("bare loop, stores nothing");
    let mut stored = Runner::new("bare loop to SQLite");
    let mut batch = Runner::new("Python, a commit a batch");
    let mut general = Runner::new("Bento, an insert a batch");
    let bento = Bento::new(Input::redis(&url, STREAM), asked.letters);
    for round in 0..=asked.rounds {
        let counts = round > 0;
        refill(&url, &broker, asked.letters).await;
        let drained = tokio::task::block_in_place(|| office::drain(asked.scratch, &source, asked.letters));
        refill(&url, &broker, asked.letters).await;
        let meter = Meter::start();
        let thrown = meter.round(asked.letters, bare_loop(&url, asked.letters, |_| ()).await);
        refill(&url, &broker, asked.letters).await;
        let database = asked.scratch.join(format!("redis-bare-{round}.db"));
        let meter = Meter::start();
        let kept = meter.round(asked.letters, to_sqlite(&url, &database, asked.letters).await);
        refill(&url, &broker, asked.letters).await;
        let database = asked.scratch.join(format!("redis-{round}.db")).to_string_lossy().into_owned();
        let batched = tokio::task::block_in_place(|| {
            python::drain("redis_stream.py", &[&url, STREAM, &database], asked.letters)
        });
        if counts {
            ours.did(drained);
            bare.did(thrown);
            stored.did(kept);
            batch.did(batched);
        }
        if let Some(bento) = &bento {
            refill(&url, &broker, bento.letters).await;
            let inserted = tokio::task::block_in_place(|| bento.drain(asked.scratch));
            if counts {
                general.did(inserted);
            }
        }
    }
    let mut all = vec![&ours, &bare, &stored, &batch];
    all.extend(bento.is_some().then_some(&general));
    runner::show("W2", "Redis", &all);
    ours.against(&batch, "capture.redis.batch");
    ours.against(&bare, "capture.redis.bare");
    ours.against(&stored, "capture.redis.sqlite");
    if bento.is_some() {
        ours.against(&general, "capture.redis.bento");
    }
    ours.weighs("capture.redis.memory");
}

/// Empties the server and fills the stream anew.
async fn refill(url: &str, broker: &std::sync::Arc<dyn dlo_core::broker::Broker>, count: u64) {
    let mut connection = connect(url).await;
    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("empty the server");
    for stream in ["orders", STREAM] {
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg("bench").arg("$").arg("MKSTREAM");
        let _: () = create.query_async(&mut connection).await.expect("make the stream");
        let _: i64 = redis::cmd("XGROUP")
            .arg("DESTROY")
            .arg(stream)
            .arg("bench")
            .query_async(&mut connection)
            .await
            .expect("leave it alone");
    }
    message::fill(broker, STREAM, count).await;
}

async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("an address");
    client.get_multiplexed_async_connection().await.expect("connect")
}

/// Stores a thousand in one transaction, acknowledges and deletes them behind the commit.
async fn to_sqlite(url: &str, database: &Path, count: u64) -> Duration {
    let mut sink = Sink::open(database);
    let keep = |reply: &StreamReadReply| {
        let rows: Vec<Row> = reply.keys.iter().flat_map(|key| &key.ids).map(row).collect();
        tokio::task::block_in_place(|| sink.put(&rows));
    };
    let spent = bare_loop(url, count, keep).await;
    assert_eq!(sink.count(), count);
    spent
}

fn row(entry: &StreamId) -> Row {
    let text = |name: &str| entry.get::<String>(name).unwrap_or_default();
    Row {
        origin: entry.id.clone(),
        event_type: text("event_type"),
        class: text("error_class"),
        error: text("error_message"),
        payload: entry.get("payload").unwrap_or_default(),
    }
}

/// Reads a thousand, keeps what `keep` keeps of them, acknowledges and deletes them. Keeping nothing is the limit.
async fn bare_loop(url: &str, count: u64, mut keep: impl FnMut(&StreamReadReply)) -> Duration {
    let mut connection = connect(url).await;
    let mut create = redis::cmd("XGROUP");
    let _: () = create
        .arg("CREATE")
        .arg(STREAM)
        .arg("bare")
        .arg("0")
        .query_async(&mut connection)
        .await
        .expect("join");
    let began = Instant::now();
    let mut got = 0;
    while got < count {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg("bare").arg("one").arg("COUNT").arg(1_000).arg("BLOCK").arg(5_000);
        let reply: StreamReadReply =
            read.arg("STREAMS").arg(STREAM).arg(">").query_async(&mut connection).await.expect("read");
        let ids: Vec<&String> = reply.keys.iter().flat_map(|key| &key.ids).map(|entry| &entry.id).collect();
        assert!(!ids.is_empty(), "the stream ended at {got}");
        got += ids.len() as u64;
        keep(&reply);
        let mut pipe = redis::pipe();
        pipe.cmd("XACK").arg(STREAM).arg("bare").arg(&ids).ignore();
        pipe.cmd("XDEL").arg(STREAM).arg(&ids).ignore();
        let _: () = pipe.query_async(&mut connection).await.expect("acknowledge");
    }
    began.elapsed()
}

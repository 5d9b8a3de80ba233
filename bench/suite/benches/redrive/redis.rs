//! W4 on Redis: beside redis-py, which moves 500 entries in one MULTI and records nothing, and Bento, which adds 500 in one
//! pipeline, acknowledges them and leaves them where they were.

use std::path::Path;

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::redis::Redis;
use redis::aio::MultiplexedConnection;

use crate::bento::{Bento, GROUP};
use crate::done::Done;
use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::runner::{self, Round, Runner};
use crate::{Asked, dlo, message, peer};

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W4 redrive on Redis, {} letters, {} rounds", asked.letters, asked.rounds);
    // On disk once a second, as Redis is by default with its log on.
    let server = Redis::with(&["--appendfsync", "everysec"]).await;
    let bench = Bench::new(asked, server.url.clone()).await;
    if let Some(against) = asked.against {
        let once = async |program: &Path| Round::from(&bench.redrive_with(program, asked).await);
        return against.compare("redrive on Redis", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, from its store");
    let mut pipelined = Runner::new("redis-py, MULTI of 500");
    let mut bento = Runner::new("Bento, pipelines of 500");
    for round in 0..=asked.rounds {
        let done = bench.ours(asked).await;
        let scripted = bench.script(asked.letters).await;
        let streamed = bench.bento(asked.letters).await;
        if round > 0 {
            ours.did(&done);
            pipelined.did(&scripted);
            streamed.iter().for_each(|done| bento.did(done));
        }
    }
    runner::show("W4", "Redis", &[&ours, &pipelined]);
    ours.against(&pipelined, "redrive.redis.redis-py");
    if bench.bento.is_some() {
        runner::show("W4", "Redis", &[&bento]);
        ours.against(&bento, "redrive.redis.bento");
    }
}

/// The server with both streams, and who takes turns on it. Each run leaves it empty.
struct Bench {
    url: String,
    place: Place,
    connection: MultiplexedConnection,
    /// Where it could be built.
    bento: Option<Bento>,
}

impl Bench {
    async fn new(asked: Asked<'_>, url: String) -> Self {
        let place = Place::new(format!("kind = \"redis\"\nurl = \"{url}\"")).await;
        let client = redis::Client::open(url.as_str()).expect("an address");
        let connection = client.get_multiplexed_async_connection().await.expect("connect");
        // Peers take no part in a comparison of two builds.
        let bento = if asked.against.is_some() { None } else { Bento::redis(asked.scratch, &url) };
        Self { url, place, connection, bento }
    }

    async fn ours(&self, asked: Asked<'_>) -> Done {
        self.redrive_with(&dlo::program(), asked).await
    }

    /// One replay by an office that this `dlo` runs.
    async fn redrive_with(&self, program: &Path, asked: Asked<'_>) -> Done {
        let office = Office::start_with(program, asked.scratch, &self.place.section, QUEUE, DEAD);
        let done = tokio::task::block_in_place(|| {
            office.fill(asked.letters);
            office.redrive(asked.letters)
        });
        drop(office);
        self.check(asked.letters, 0).await;
        done
    }

    async fn script(&self, count: u64) -> Done {
        message::fill(&self.place.broker, DEAD, count).await;
        let arguments = [self.url.as_str(), DEAD, QUEUE];
        let done = tokio::task::block_in_place(|| peer::run("redrive_redis.py", &arguments, count));
        self.check(count, 0).await;
        done
    }

    async fn bento(&self, count: u64) -> Option<Done> {
        let bento = self.bento.as_ref()?;
        message::fill(&self.place.broker, DEAD, count).await;
        let done = bento.run(count, async || self.length(QUEUE).await).await;
        // It takes nothing off a stream: what it has dealt with is what nobody waits for any more.
        let (pending, ..): (u64, redis::Value, redis::Value, redis::Value) = redis::cmd("XPENDING")
            .arg(DEAD)
            .arg(GROUP)
            .query_async(&mut self.connection.clone())
            .await
            .expect("what is pending");
        assert_eq!(pending, 0, "Bento did not acknowledge these");
        self.check(count, count).await;
        Some(done)
    }

    async fn length(&self, stream: &str) -> u64 {
        let mut connection = self.connection.clone();
        redis::cmd("XLEN").arg(stream).query_async(&mut connection).await.expect("a length")
    }

    /// Everything is in the stream, once, and as much left behind as should be; then both are emptied.
    async fn check(&self, moved: u64, left: u64) {
        let lengths = [self.length(QUEUE).await, self.length(DEAD).await];
        assert_eq!(lengths, [moved, left], "moved, and left behind");
        let mut connection = self.connection.clone();
        let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("empty the server");
        let spec = TopologySpec::new(QUEUE, DEAD, 5);
        self.place.broker.topology().apply(&spec).await.expect("make the streams");
    }
}

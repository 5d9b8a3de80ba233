//! W4 on Redis: beside redis-py, which moves 500 entries in one MULTI and records nothing.

use dlo_testkit::harness::redis::Redis;

use crate::office::Office;
use crate::place::{DEAD, Place, QUEUE};
use crate::runner::{self, Runner};
use crate::{Asked, message, peer};

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W4 redrive on Redis, {} letters, {} rounds", asked.letters, asked.rounds);
    // On disk once a second, as Redis is by default with its log on.
    let server = Redis::with(&["--appendfsync", "everysec"]).await;
    let place = Place::new(format!("kind = \"redis\"\nurl = \"{}\"", server.url)).await;
    let mut ours = Runner::new("dlo, from its store");
    let mut pipelined = Runner::new("redis-py, MULTI of 500");
    for round in 0..=asked.rounds {
        let office = Office::start(asked.scratch, &place.section, QUEUE, DEAD);
        let done = tokio::task::block_in_place(|| {
            office.fill(asked.letters);
            office.redrive(asked.letters)
        });
        drop(office);
        check(&place, &server.url, asked.letters).await;
        message::fill(&place.broker, DEAD, asked.letters).await;
        let arguments = [server.url.as_str(), DEAD, QUEUE];
        let scripted =
            tokio::task::block_in_place(|| peer::run("redrive_redis.py", &arguments, asked.letters));
        check(&place, &server.url, asked.letters).await;
        if round > 0 {
            ours.did(&done);
            pipelined.did(&scripted);
        }
    }
    runner::show("W4", "Redis", &[&ours, &pipelined]);
    ours.against(&pipelined, "redrive.redis.redis-py");
}

/// Everything is in the stream, once, and nothing is left behind; then both are emptied.
async fn check(place: &Place, url: &str, count: u64) {
    let client = redis::Client::open(url).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connect");
    let mut lengths = Vec::new();
    for stream in [QUEUE, DEAD] {
        let length: u64 =
            redis::cmd("XLEN").arg(stream).query_async(&mut connection).await.expect("a length");
        lengths.push(length);
    }
    assert_eq!(lengths, [count, 0], "moved, and left behind");
    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("empty the server");
    let spec = dlo_core::broker::TopologySpec::new(QUEUE, DEAD, 5);
    place.broker.topology().apply(&spec).await.expect("make the streams");
}

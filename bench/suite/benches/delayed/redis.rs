//! Redis: what waits is pending, its time in a sorted set beside the stream.

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::redis::Redis;

use crate::Figures;
use crate::waiting::{GROUP, QUEUE, broker, put_off};

pub(crate) async fn run(messages: u64, figures: &mut Figures) {
    println!("Redis, {messages} delayed retries outstanding");
    // As its packages set it up: the log is on disk once a second.
    let server = Redis::with(&["--appendfsync", "everysec"]).await;
    let broker = broker(&format!("kind = \"redis\"\nurl = \"{}\"", server.url)).await;
    let spec = TopologySpec::new(QUEUE, format!("{QUEUE}:dlq"), 5);
    broker.topology().apply(&spec).await.expect("make the streams");
    let outstanding = put_off(&broker, messages).await;
    let client = redis::Client::open(&*server.url).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connect");
    let mut count = redis::cmd("ZCARD");
    count.arg(format!("{QUEUE}:due:{GROUP}"));
    let counted: u64 = count.query_async(&mut connection).await.expect("count what is due");
    outstanding.show(&broker, "Redis", figures, counted).await;
}

//! The least that consumes a Redis stream: 500 at a time, one acknowledgement for all of them, poison added to the
//! dead-letter stream in the same pipeline.

use std::time::Instant;

use redis::streams::StreamReadReply;

use crate::child::Done;
use crate::order;

const WINDOW: usize = 500;

pub(crate) async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("an address");
    client.get_multiplexed_async_connection().await.expect("connect")
}

pub(crate) async fn consume(url: &str, stream: &str, group: &str, count: u64) -> Done {
    let mut connection = connect(url).await;
    let mut create = redis::cmd("XGROUP");
    create.arg("CREATE").arg(stream).arg(group).arg("0");
    let _: () = create.query_async(&mut connection).await.expect("join");
    let dead = format!("{stream}.dlq");
    let (mut began, mut got, mut parked) = (None, 0, 0);
    while got < count {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(group).arg("one").arg("COUNT").arg(WINDOW).arg("BLOCK").arg(5_000);
        let reply: StreamReadReply =
            read.arg("STREAMS").arg(stream).arg(">").query_async(&mut connection).await.expect("read");
        began.get_or_insert_with(Instant::now);
        let mut pipe = redis::pipe();
        let mut ids = Vec::with_capacity(WINDOW);
        for entry in reply.keys.iter().flat_map(|key| &key.ids) {
            let body = entry.map.get("payload").expect("a body");
            let redis::Value::BulkString(body) = body else { panic!("a body is a string") };
            if order::is_poison(body) {
                pipe.cmd("XADD").arg(&dead).arg("*").arg("payload").arg(body).ignore();
                parked += 1;
            }
            ids.push(&entry.id);
        }
        assert!(!ids.is_empty(), "the stream ended at {got}");
        got += ids.len() as u64;
        pipe.cmd("XACK").arg(stream).arg(group).arg(&ids).ignore();
        let _: () = pipe.query_async(&mut connection).await.expect("acknowledge");
    }
    Done::now(count - parked, parked, began.expect("there was a message"))
}

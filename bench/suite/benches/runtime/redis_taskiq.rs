//! taskiq on a Redis stream: 2 processes of 200 tasks at once, acknowledging what was done. It drops what it has tried three
//! times, so poison is counted by the tries that it added to the stream.

use redis::aio::MultiplexedConnection;
use redis::streams::StreamInfoGroupsReply;

use crate::child::{self, Done};
use crate::peer::Depths;
use crate::redis::Bench;
use crate::{order, peer};

/// Its stream, and its group of consumers.
const NAME: &str = "taskiq";
/// Tries after the first.
const RETRIES: u64 = 2;

impl Bench {
    pub(crate) async fn taskiq(&self, messages: u64, percent: u64) -> Done {
        peer::round(async || self.taskiq_once(messages, percent).await).await
    }

    async fn taskiq_once(&self, messages: u64, percent: u64) -> Result<Done, String> {
        let mut connection = self.flush().await;
        let (mut fill, mut worker) = (self.python(percent), self.python(percent));
        fill.arg("taskiq_work.py").arg(messages.to_string());
        tokio::task::block_in_place(|| child::must(&mut fill));
        worker.args(["-m", "taskiq", "worker", "taskiq_work:broker", "--workers", "2"]);
        worker.args(["--max-async-tasks", "200", "--log-level", "CRITICAL"]);
        let look = async || -> Depths { depths(&mut connection, messages).await };
        peer::run(&mut worker, messages, order::poisoned(messages, percent), look).await
    }
}

/// A retry is added before the try before it is acknowledged, so nothing is left when all were tried as often as they are. It
/// takes nothing off the stream.
async fn depths(connection: &mut MultiplexedConnection, messages: u64) -> Depths {
    let mut together = redis::pipe();
    together.cmd("XINFO").arg("GROUPS").arg(NAME).cmd("XLEN").arg(NAME);
    let (groups, added): (StreamInfoGroupsReply, u64) =
        together.query_async(connection).await.expect("the stream");
    let group = groups.groups.first().expect("its group");
    let left = group.pending + group.lag.expect("Redis 7 says it");
    (left as u64, added.saturating_sub(messages) / RETRIES)
}

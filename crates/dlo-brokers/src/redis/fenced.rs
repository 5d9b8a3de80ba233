//! Sends of a replay: each is added once, however often it is sent.
//!
//! The entry and a mark of its send id are written in one step (`once.lua`), so after a crash everything that is in doubt
//! can simply be sent again. A mark is a key of its own, `<stream>:sent:<send id>`, kept for [`SENDS_REMEMBERED`] and then
//! removed by the server; a hash per stream could not forget single sends before Redis 7.4. Like all our keys it
//! begins with the stream's name: one pattern of an ACL covers it, and a stream that is called `{orders}` has it in its
//! own slot.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{Capabilities, Confirmed, Outgoing, PublishError, Publisher, SENDS_REMEMBERED};
use dlo_core::envelope::replay_mark;
use dlo_core::message::Message;

use super::{Shared, publisher};

#[derive(Debug)]
pub(super) struct Fenced(pub(super) Arc<Shared>);

#[async_trait]
impl Publisher for Fenced {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        publisher::publish(&self.0, messages, mark_of).await
    }
}

/// How long a mark is kept, in milliseconds.
pub(super) const KEPT: u64 = SENDS_REMEMBERED.as_secs() * 1_000;

/// The key that says that a send was made. `None` for a message that is no replay: it is added each time.
fn mark_of(stream: &str, message: &Message) -> Option<String> {
    replay_mark(&message.headers).map(|mark| format!("{stream}:sent:{}", mark.replay_id))
}

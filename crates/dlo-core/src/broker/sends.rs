//! Sends: the port to publish by, how calls get on with each other, and what can be known of a lost confirmation.

use std::time::Duration;

use async_trait::async_trait;

use super::{Capabilities, Confirmed, Outgoing, PublishError};

/// How calls to one publisher get on with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Several may be under way, and none waits for another.
    SideBySide,
    /// Each waits for the one before, and costs as much for one message as for many: what becomes due meanwhile is better
    /// kept for the next call.
    OneByOne,
}

/// What can be done about a send of which nobody knows whether it arrived. The send id is the `dlo-replay-id` of the
/// message, the same over every retry of one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostConfirm {
    /// Sending it again to the same queue through [`super::Broker::fenced_publisher`] with the same id is one message, for
    /// [`SENDS_REMEMBERED`] at least.
    SendAgain,
    /// The same, but only inside [`super::Capabilities::dedupe_window`].
    SendAgainInWindow,
    /// The queue can be read from where it ended before the send ([`super::Broker::ends`]), and a publisher that was fenced
    /// adds nothing to it any more.
    ReadBack,
    /// Nothing: a person decides, or it may be there twice.
    Unknown,
}

/// How long a broker with [`LostConfirm::SendAgain`] remembers the id of a send. A doubt that is older than this is
/// [`LostConfirm::Unknown`].
pub const SENDS_REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[async_trait]
pub trait Publisher: Send + Sync + std::fmt::Debug {
    fn capabilities(&self) -> &Capabilities;

    /// How calls of [`Publisher::publish`] get on with each other.
    fn calls(&self) -> Calls {
        Calls::SideBySide
    }

    /// Sends all, pipelined, and returns one result each, in the order given.
    ///
    /// `Ok` means the broker has taken responsibility by its strongest means. Equal keys keep their order among the
    /// confirmed. Dropping the call leaves the fate of all unknown.
    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>>;

    /// The same, and calls `written` once all messages are written to the connection: a crash of this process no longer
    /// keeps them from leaving. An adapter that cannot see this calls it before it begins.
    async fn publish_noting(
        &self,
        messages: Vec<Outgoing>,
        written: Written,
    ) -> Vec<Result<Confirmed, PublishError>> {
        written();
        self.publish(messages).await
    }
}

/// What a caller of [`Publisher::publish_noting`] does when its messages are written. It is dropped where they never are.
pub type Written = Box<dyn FnOnce() + Send>;

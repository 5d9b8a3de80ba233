//! What an adapter says of its sends: how calls get on with each other, and what can be known of one whose confirmation is lost.

use std::time::Duration;

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

//! What a runner did in one round.

use std::time::Duration;

use crate::runner::Round;
use crate::usage::Usage;

/// What a runner did, and what it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) moved: u64,
    pub(crate) spent: Duration,
    /// Of the client; nothing where the server does it all.
    pub(crate) client: Usage,
    /// Processor time of the servers meanwhile.
    pub(crate) server: Duration,
}

impl From<&Done> for Round {
    fn from(done: &Done) -> Self {
        Self {
            messages: done.moved,
            spent: done.spent,
            client: Some(done.client.cpu),
            server: Some(done.server),
            peak_mb: Some(done.client.peak_mb),
        }
    }
}

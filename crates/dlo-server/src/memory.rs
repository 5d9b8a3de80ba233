//! How much of request bodies is in memory at once, over all requests.
//!
//! A body counts by the bytes that have arrived, from their arrival until they are stored or refused. A client that
//! trickles holds little; one that sends fast is read more slowly when there is no room, and feels it. Who waits too
//! long is sent away and told when to come back.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::error::{Answer, Problem};

/// The room that all bodies share.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    room: Arc<Semaphore>,
    patience: Duration,
}

/// The room that one body, or a part of it, takes. Given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(Option<OwnedSemaphorePermit>);

impl Held {
    /// Takes the room out, but for `bytes` that stay in memory.
    pub(crate) fn take_but(&mut self, bytes: usize) -> Self {
        let rest = self.0.as_mut().and_then(|permit| permit.split(bytes.min(permit.num_permits())));
        std::mem::replace(self, Self(rest))
    }
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize, patience: Duration) -> Self {
        Self { room: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))), patience }
    }

    /// Makes `held` larger by what arrived.
    pub(crate) async fn hold(&self, held: &mut Held, arrived: usize) -> Answer<()> {
        let arrived = u32::try_from(arrived).unwrap_or(u32::MAX);
        let waiting = self.room.clone().acquire_many_owned(arrived);
        let Ok(Ok(more)) = tokio::time::timeout(self.patience, waiting).await else {
            let detail =
                "the bodies of other requests take all the memory there is for them; try again shortly";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", detail).retry_after(1));
        };
        match &mut held.0 {
            Some(permit) => permit.merge(more),
            empty => *empty = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn room_is_shared_and_given_back() {
        let memory = BodyMemory::new(100, Duration::from_secs(1));
        let (mut first, mut second) = (Held::default(), Held::default());
        memory.hold(&mut first, 40).await.unwrap();
        memory.hold(&mut first, 40).await.unwrap();
        let refused = memory.hold(&mut second, 40).await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.code()), (429, "overloaded"));
        drop(first);
        memory.hold(&mut second, 100).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_still_in_memory_keeps_its_room() {
        let memory = BodyMemory::new(100, Duration::from_secs(1));
        let mut body = Held::default();
        drop(body.take_but(10));
        memory.hold(&mut body, 100).await.unwrap();
        drop(body.take_but(60));
        let mut other = Held::default();
        assert!(memory.hold(&mut other, 41).await.is_err());
        memory.hold(&mut other, 40).await.unwrap();
        drop(body.take_but(1_000));
        assert!(memory.hold(&mut other, 1).await.is_err());
    }
}

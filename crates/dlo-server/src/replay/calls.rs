//! What a run does to store and broker, one call each, and what it hears back.
//!
//! Calls run side by side, so that the pace does not depend on how fast the store is; of each kind only one is under
//! way, but for publishes. Dropping them all is what a crash does, and is safe at any instant.

use std::sync::Arc;

use dlo_core::broker::{BrokerError, Confirmed, LostConfirm, Outgoing, PublishError, Publisher, Written};
use dlo_core::message::Payload;
use dlo_core::replay::run::Turning;
use dlo_core::replay::{Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Claimed, SendEnd, Turn, lease_name};
use dlo_store::{Lease, StoreError};

use super::doubts::Cleared;
use super::flaw::Flaw;
use super::hand::{Hand, TTL};
use super::note::{Note, Place};
use super::outcome::Looked;
use super::send::{Ready, Unfit};

/// A kind of call of which at most one is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Claim,
    Intend,
    Record,
    Refresh,
    Renew,
    Look,
    Clear,
    Mark,
    Ends,
    Turn,
    GiveBack,
    Fence,
}

impl Kind {
    pub(super) const COUNT: usize = Self::Fence as usize + 1;
}

impl End {
    /// Whether the item can be intended again afterwards.
    pub(super) const fn may_come_again(&self) -> bool {
        match self.end {
            SendEnd::Unsent | SendEnd::Doubtful => true,
            SendEnd::Sent { .. } | SendEnd::Refused(_) => false,
        }
    }
}

/// What a broker said to a batch.
#[derive(Debug)]
pub(super) struct Answer {
    /// When the batch left, by the steady clock.
    pub(super) left: Timestamp,
    pub(super) ends: Vec<End>,
    /// The keys that were with the broker.
    pub(super) keys: Vec<Payload>,
    /// It did not confirm, and said why.
    pub(super) trouble: Option<String>,
    /// Doubts that sending again did not end: a person decides.
    pub(super) held: u64,
    /// Whether it took any.
    pub(super) taken: bool,
    /// Those that it refused for no fault of theirs alone, since the last that it took, and what it said.
    pub(super) refused: Option<(u64, String)>,
}

impl Answer {
    fn to_what_left(left: Timestamp) -> Self {
        Self { left, ends: Vec::new(), keys: Vec::new(), trouble: None, held: 0, taken: false, refused: None }
    }
}

/// Prepared items: what to send, or why it cannot be.
pub(super) type Prepared = Vec<(u64, Result<Outgoing, Unfit>)>;

/// What a call came to.
#[derive(Debug)]
pub(super) enum Did {
    Claimed(Result<Claimed, StoreError>),
    Intended(Result<Prepared, StoreError>),
    Published(Answer),
    Recorded(Vec<End>, Result<(), StoreError>),
    /// With how many writes there had been when it was asked.
    Refreshed(u64, Box<Result<Replay, StoreError>>),
    Renewed(Result<Option<Lease>, StoreError>),
    Looked(Box<Result<Looked, StoreError>>),
    Cleared(Box<Result<Cleared, Trouble>>),
    Marked(Note, Result<(), Trouble>),
    Ends(Result<Vec<(String, Vec<Place>)>, BrokerError>),
    Turned(Box<Result<Replay, StoreError>>),
    GaveBack(Result<u64, StoreError>),
    Fenced(Result<Arc<dyn Publisher>, BrokerError>),
}

/// What became of an item, not recorded yet.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) number: u64,
    pub(super) generation: u64,
    pub(super) end: SendEnd,
}

/// Why something that needs both could not be done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl Hand {
    pub(super) async fn claim(self: Arc<Self>, most: u64) -> Did {
        let lease = self.lease();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Did::Claimed(self.replays().claim(&self.run(&lease), most, self.now()).await)
    }

    pub(super) async fn intend(self: Arc<Self>, most: u64, settings: Settings) -> Did {
        let lease = self.lease();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let items = match self.replays().intend(&self.run(&lease), most, self.now()).await {
            Ok(items) => items,
            Err(error) => return Did::Intended(Err(error)),
        };
        Did::Intended(Ok(self.outgoing(items, &settings).await))
    }

    pub(super) async fn publish(
        self: Arc<Self>,
        publisher: Arc<dyn Publisher>,
        batch: Vec<Ready>,
        left: Timestamp,
        written: Written,
    ) -> Did {
        let mut messages = Vec::with_capacity(batch.len());
        let mut sent = Vec::with_capacity(batch.len());
        let mut answer = Answer::to_what_left(left);
        for ready in batch {
            messages.push(ready.outgoing);
            answer.keys.extend(ready.key);
            sent.push((ready.number, ready.generation, ready.again));
        }
        if self.engine.flaw.has(Flaw::RecordBeforePublish) {
            let lease = self.lease();
            let end = SendEnd::Sent { partition: None, offset: None };
            let ends = sent.iter().map(|(number, ..)| (*number, end.clone())).collect();
            drop(self.replays().record(&self.run(&lease), ends, self.now()).await);
        }
        let mut results = publisher.publish_noting(messages, written).await.into_iter();
        for (number, generation, again) in sent {
            let end = self.end(results.next(), again, &mut answer);
            answer.ends.push(End { number, generation, end });
        }
        Did::Published(answer)
    }

    fn end(
        &self,
        result: Option<Result<Confirmed, PublishError>>,
        again: bool,
        answer: &mut Answer,
    ) -> SendEnd {
        match result {
            Some(Ok(at)) => {
                (answer.taken, answer.refused) = (true, None);
                SendEnd::Sent { partition: at.partition, offset: at.offset }
            }
            Some(Err(error @ (PublishError::TooLarge { .. } | PublishError::Refused(_)))) => {
                if let PublishError::Refused(why) = &error {
                    let before = answer.refused.as_ref().map_or(0, |(count, _)| *count);
                    answer.refused = Some((before + 1, why.clone()));
                }
                // The first send may be there, whatever is said of the second.
                if again {
                    answer.held += 1;
                    return SendEnd::Doubtful;
                }
                SendEnd::Refused(error.to_string())
            }
            Some(Err(PublishError::NotSent(why))) => {
                answer.trouble = Some(why);
                if again { SendEnd::Doubtful } else { SendEnd::Unsent }
            }
            // Fenced, not confirmed, or whatever else an adapter may say: it is not known that it is not there.
            Some(Err(error)) => {
                answer.trouble = Some(error.to_string());
                if self.engine.flaw.has(Flaw::DoubtIsUnsent) { SendEnd::Unsent } else { SendEnd::Doubtful }
            }
            None => SendEnd::Doubtful,
        }
    }

    pub(super) async fn record(self: Arc<Self>, ends: Vec<End>) -> Did {
        let lease = self.lease();
        let record = ends.iter().map(|end| (end.number, end.end.clone())).collect();
        let result = self.replays().record(&self.run(&lease), record, self.now()).await;
        Did::Recorded(ends, result)
    }

    pub(super) async fn refresh(self: Arc<Self>, writes: u64) -> Did {
        Did::Refreshed(writes, Box::new(self.replays().replay(self.id).await))
    }

    pub(super) async fn renew(self: Arc<Self>) -> Did {
        let name = lease_name(self.id);
        Did::Renewed(self.engine.leases.lease(&name, &self.holder, TTL, self.now()).await)
    }

    pub(super) async fn turn(self: Arc<Self>, from: ReplayState, turning: Turning) -> Did {
        let deed = self.deed(turning.reason.clone());
        let turn = Turn { from, to: turning.to, stop_reason: turning.reason, stop_letters: turning.letters };
        Did::Turned(Box::new(self.replays().turn(self.id, turn, &deed, self.now()).await))
    }

    pub(super) async fn give_back(self: Arc<Self>, most: u64) -> Did {
        let lease = self.lease();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Did::GaveBack(self.replays().give_back(&self.run(&lease), most, self.now()).await)
    }

    pub(super) async fn fenced(self: Arc<Self>) -> Did {
        // Making a publisher reaches for no server: whether there is one is asked first.
        if let Err(error) = self.broker().ping().await {
            return Did::Fenced(Err(error));
        }
        Did::Fenced(self.fence().await)
    }

    /// Keeps the note, with where these queues end now, before anything is sent to them.
    pub(super) async fn mark(self: Arc<Self>, mut note: Note, new: Vec<String>) -> Did {
        for queue in new {
            let read_back = self.broker().lost_confirm(&queue) == LostConfirm::ReadBack;
            let places = if read_back { self.ends(&queue).await } else { Ok(Vec::new()) };
            match places {
                Ok(places) => drop(note.queues.insert(queue, places)),
                Err(error) => return Did::Marked(note, Err(error.into())),
            }
        }
        let lease = self.lease();
        let kept = self.replays().mark(&self.run(&lease), note.write(), self.now()).await;
        Did::Marked(note, kept.map_err(Trouble::from))
    }

    /// Where every queue of the note ends now.
    pub(super) async fn all_ends(self: Arc<Self>, queues: Vec<String>) -> Did {
        let mut all = Vec::with_capacity(queues.len());
        for queue in queues {
            match self.ends(&queue).await {
                Ok(places) => all.push((queue, places)),
                Err(error) => return Did::Ends(Err(error)),
            }
        }
        Did::Ends(Ok(all))
    }

    pub(super) async fn ends(&self, queue: &str) -> Result<Vec<Place>, BrokerError> {
        Ok(self.broker().ends(queue).await?.into_iter().map(Place::from).collect())
    }

    /// Whether an item that must go out before `before` still may.
    pub(super) fn in_time(&self, before: Option<Timestamp>) -> bool {
        before.is_none_or(|before| self.now() < before) || self.engine.flaw.has(Flaw::ForgetWindow)
    }
}

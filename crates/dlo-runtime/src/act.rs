//! Carries a decision out in the safe order: copy, confirm, and only then is the original settled.
//!
//! A retry leaves by the broker's means, is handed to the outbox, or waits here; a dead letter goes to the outbox, which
//! settles the original when the letter is confirmed. A crash in between leaves the copy and the original; the death's
//! id is made from the message's place, so the second copy is recognised. The other order would leave nothing anywhere.

use std::time::Duration;

use dlo_core::broker::{Destination, Settled, Settlement, Unsettled};
use dlo_core::envelope::hop_headers;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::poison::Mark;
use dlo_core::reason::Reason;
use dlo_core::verdict::{Stage, VerdictKind};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::Behind;
use crate::delay::{self, Means};
use crate::lanes::Lane;
use crate::letters::Death;
use crate::outbox::{Awaited, Content, Parcel};
use crate::room::Weight;
use crate::shared::Shared;
use crate::story::Story;

/// What stands on the record when nobody was asked.
const BY_BREAKER: &str = "policy:circuit_open";
const BY_POISON: &str = "policy:poison";
const BY_LANE: &str = "policy:parked_behind";

/// Deliveries in all up to which a message is published again. Beyond, the broker's limit ends what brings us down before
/// anybody can say so.
const MOST_DELIVERIES: u32 = 100;

/// A message out of its delivery. Boxed: it is passed from step to step.
pub(crate) struct Held {
    pub(crate) message: Message,
    /// Where it stands at the broker now; its first place is in its story.
    pub(crate) place: Origin,
    pub(crate) right: Unsettled,
    pub(crate) lane: Option<Lane>,
    pub(crate) mark: Mark,
    /// Deliveries by the broker's count that nothing here explains.
    pub(crate) unexplained: u32,
    pub(crate) arrived: Instant,
    pub(crate) weight: Weight,
}

/// How a retry waited for its time.
pub(crate) enum Waited {
    Here(Box<Held>),
    AtTheBroker(Settled),
    /// It is in the outbox, which settles it.
    HandedOver,
}

impl Shared {
    /// Waits, or has the broker wait. `None`: the shutdown came.
    pub(crate) async fn put_off(
        &self,
        held: Box<Held>,
        story: &mut Story,
        after: Duration,
        stage: Stage,
    ) -> Option<Waited> {
        if stage == Stage::Quick {
            return self.wait(after).await.map(|()| Waited::Here(held));
        }
        story.due = Some(self.clock.now().plus(after));
        let ordered = held.lane.is_some();
        let mut means = delay::choose(&self.capabilities, ordered, after, self.stories().len() as u64);
        let mut carried = None;
        if let Means::Native { carries: true, .. } = means {
            let limit = self.capabilities.max_message;
            carried = hop_headers(&held.message, &story.hop(), limit).ok();
            // So near the limit that its story does not fit: it waits here.
            means = if carried.is_some() { means } else { Means::Hold };
        }
        match means {
            Means::Native { after, .. } => Some(Waited::AtTheBroker(match carried {
                Some(headers) => held.right.again(after, headers),
                None => {
                    self.stories().remember(&held.place, story.clone());
                    held.right.settle(Settlement::Again { after })
                }
            })),
            Means::Republish { after } => {
                self.republish(held, story, after).await;
                Some(Waited::HandedOver)
            }
            Means::Hold => {
                self.pills.note(held.mark, story.attempt, story.first_failed_at.unwrap_or(self.clock.now()));
                if let (Some(lane), Behind::Park) = (&held.lane, self.behind) {
                    self.stuck(lane);
                }
                let _held = self.room.hold();
                self.wait(after).await.map(|()| Waited::Here(held))
            }
        }
    }

    /// Whether the broker may soon park this message without its story, because we died often while we had it.
    ///
    /// Limits lie above the attempts (`dlo check` says so otherwise), and these returns were none. What finds pills here
    /// need not leave that to the broker. A lane keeps its order, so its messages stay where they are.
    pub(crate) fn is_given_up_soon(&self, held: &Held, returned: u32, counted: u32) -> bool {
        returned >= self.policy.retry.attempts.get()
            && counted <= MOST_DELIVERIES
            && held.lane.is_none()
            && self.capabilities.again_carries
            && self.pills.finds_pills()
    }

    /// Publishes a message again, with its story and at no charge: the broker counts the returns of the copy from zero.
    /// The copy is confirmed before the original is settled. Without it the broker could park the original while a retry of
    /// it is under way: two letters, or one beside an order that was handled. `Err`: its story does not fit.
    pub(crate) fn renewed(&self, held: Box<Held>, story: &Story) -> Result<Settled, Box<Held>> {
        match hop_headers(&held.message, &story.hop(), self.capabilities.max_message) {
            Ok(headers) => Ok(held.right.again(Duration::ZERO, headers)),
            Err(_too_large) => Err(held),
        }
    }

    async fn republish(&self, held: Box<Held>, story: &Story, after: Duration) {
        // The partition it came from, explicitly: clients hash keys differently.
        let to = Destination { partition: held.place.partition, ..Destination::queue(&held.place.queue) };
        let aim = Some(self.letters.group.clone()).filter(|_| self.capabilities.groups);
        let content = Content::Retry { hop: Box::new(story.hop()), aim };
        let Held { message, right, weight, .. } = *held;
        self.outbox
            .send(Parcel {
                to,
                delay: Some(after),
                message,
                content,
                right,
                awaited: None,
                limit: None,
                large_name: None,
                weight,
            })
            .await;
    }

    /// Parks a message that was not tried.
    pub(crate) async fn park_unheard(
        &self,
        held: Box<Held>,
        story: Box<Story>,
        mut death: Death,
    ) -> Option<Settled> {
        death.attempts = story.attempt.number() - 1;
        self.park(held, story, death).await
    }

    pub(crate) async fn park(&self, held: Box<Held>, story: Box<Story>, death: Death) -> Option<Settled> {
        if let (Some(lane), Behind::Park) = (&held.lane, self.behind) {
            self.stuck(lane);
        }
        let id = story.death_id(&held.message, &self.letters.group);
        let known = story.origin.offset.is_some() || story.origin.message_id.is_some();
        let envelope = Box::new(self.letters.envelope(id, &story, &death, self.clock.now()));
        let to = self.letters.destination(&held.place.queue, held.place.partition, &death);
        let content = Content::Letter { envelope, known, file: None };
        let Held { message, right, weight, mark, lane, .. } = *held;
        let (rung, safe) = oneshot::channel();
        let elsewhere = lane.is_some() && !self.only_instance;
        let awaited = Some(if elsewhere { Awaited::Confirmed(rung) } else { Awaited::Kept(rung) });
        self.outbox
            .send(Parcel {
                to,
                delay: None,
                message,
                content,
                right,
                awaited,
                limit: None,
                large_name: None,
                weight,
            })
            .await;
        // The next of its lane begins when the letter is safe: after a crash before that this one is tried again, and what
        // was behind it must not have been handled. Our disk is safe enough only where no rebalance can bring it to
        // another instance. What was a suspect stays one until then, for the same reason.
        if lane.is_some() || death.reason == Reason::Poison {
            self.shutdown.run_until_cancelled(safe).await?.ok()?;
        }
        self.pills.forget(mark);
        self.pills.cleared(mark);
        None
    }

    /// What was noted of its attempts is over.
    pub(crate) fn forget(&self, held: &Held) {
        self.pills.forget(held.mark);
    }

    pub(crate) async fn wait(&self, after: Duration) -> Option<()> {
        self.shutdown.run_until_cancelled(tokio::time::sleep(after)).await
    }
}

fn unheard(failure: Failure, reason: Reason, rule: &str) -> Death {
    Death { failure, reason, verdict: VerdictKind::DeadLetter, rule: rule.to_owned(), attempts: 0 }
}

pub(crate) fn circuit_open(dependency: String) -> Death {
    let message = format!("dependency `{dependency}` is down");
    let failure = Failure { dependency: Some(dependency), ..Failure::new("dlo.CircuitOpen", message) };
    unheard(failure, Reason::CircuitOpen, BY_BREAKER)
}

pub(crate) fn poison(crashes: u32) -> Death {
    let message =
        format!("the consumer did not survive it: {crashes} crashes with this message in the handler");
    unheard(Failure::new("dlo.Poison", message), Reason::Poison, BY_POISON)
}

pub(crate) fn parked_behind() -> Death {
    let message = "an earlier message of its key waits for its retry or was parked; replay that one first";
    unheard(Failure::new("dlo.ParkedBehind", message), Reason::Rejected, BY_LANE)
}

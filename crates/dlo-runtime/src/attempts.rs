//! One message, from its delivery to what the broker is told.
//!
//! Gate, handler, decision, deed; around again for a quick retry. A message that meets our own shutdown on the way goes
//! back as it came: not charged, not parked. Only one that was decided before is carried through.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use dlo_core::brake::{Cause, Judgement};
use dlo_core::broker::{Destination, Settled, Settlement, Unsettled};
use dlo_core::classify::Place;
use dlo_core::envelope::{hop_headers, replay_mark, target_group};
use dlo_core::failure::Failure;
use dlo_core::fingerprint::template;
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::poison::{Mark, Standing};
use dlo_core::reason::Reason;
use dlo_core::verdict::{Decision, Stage, Verdict, VerdictKind, decide};
use rand::RngExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::Behind;
use crate::delay::{self, Means};
use crate::events::Event;
use crate::gates::{Ended, Passage};
use crate::handler::{Context, Unhandled};
use crate::lanes::{Carried, Lane};
use crate::letters::Death;
use crate::outbox::{Content, Parcel};
use crate::room::Weight;
use crate::shared::{Running, Shared};
use crate::story::Story;

/// What stands on the record when nobody was asked.
const BY_BREAKER: &str = "policy:circuit_open";
const BY_POISON: &str = "policy:poison";
const BY_LANE: &str = "policy:parked_behind";
/// How often a message that is to be parked looks whether others end alike.
const LOOK: Duration = Duration::from_millis(20);

/// What is to be done with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errand {
    Handle,
    /// The one before it in its lane waits for its retry, and the policy parks what is behind.
    ParkBehind,
}

/// How one attempt ended.
enum Attempted {
    Handled {
        took: Duration,
    },
    /// It was not the message's fault: once more, at no charge.
    AtNoCharge,
    /// Our own shutdown came in between.
    Interrupted,
    Failed(Failure, Decision),
    /// A dependency is down and the policy parks.
    CircuitOpen(String),
    /// The handler did not survive it, once too often.
    Poison {
        crashes: u32,
    },
}

/// A message out of its delivery.
pub(crate) struct Held {
    pub(crate) message: Message,
    /// Where it stands at the broker now; its first place is in its story.
    place: Origin,
    right: Unsettled,
    lane: Option<Lane>,
    mark: Mark,
    /// Deliveries by the broker's count that nothing here explains.
    unexplained: u32,
    arrived: Instant,
    weight: Weight,
}

/// Works on one delivery until it is settled, or handed over to be. `None`: nothing is to be told now.
pub(crate) async fn process(
    shared: Arc<Shared>,
    carried: Carried,
    lane: Option<Lane>,
    errand: Errand,
    arrived: Instant,
) -> Option<Settled> {
    let Carried { delivery, weight } = carried;
    let counted = delivery.delivery_count.unwrap_or(1);
    let remembered = shared.remembered(&delivery);
    let recalled = remembered.is_some();
    let mut story = remembered.unwrap_or_else(|| shared.told(&delivery));
    let mut context = Context {
        origin: story.origin.clone(),
        published_at: story.published_at,
        attempt: story.attempt,
        timeout: shared.policy.timeout,
        replay: replay_mark(&delivery.message.headers),
    };
    let (message, place, right) = delivery.split();
    if target_group(&message.headers).is_some_and(|group| group != shared.letters.group) {
        shared.watch.saw(&Event::Skipped { origin: &story.origin });
        return Some(right.settle(Settlement::Done));
    }
    let mark = story.mark(&message);
    // What the broker counts beyond all attempts there can be is not explained by retries.
    let explained = if recalled { counted } else { shared.policy.retry.attempts.get() + 1 };
    let unexplained = counted.saturating_sub(explained);
    let mut held = Held { message, place, right, lane, mark, unexplained, arrived, weight };
    if shared.outbox.has_graves() {
        let death = story.death_id(&held.message, &shared.letters.group);
        held.right = shared.outbox.adopt(death, held.right)?;
    }
    if errand == Errand::ParkBehind {
        return shared.park_unheard(held, story, parked_behind()).await;
    }
    if let Some(early) = story.early(shared.clock.now()) {
        match shared.put_off(held, &mut story, early, Stage::Delayed).await? {
            Waited::Here(back) => held = *back,
            Waited::AtTheBroker(settled) => return Some(settled),
            Waited::HandedOver => return None,
        }
    }
    shared.attempts(held, story, &mut context).await
}

/// How a retry waited for its time.
enum Waited {
    Here(Box<Held>),
    AtTheBroker(Settled),
    /// It is in the outbox, which settles it.
    HandedOver,
}

impl Shared {
    async fn attempts(&self, mut held: Held, mut story: Story, context: &mut Context) -> Option<Settled> {
        loop {
            context.attempt = story.attempt;
            match self.attempt(&held, context, &story).await {
                Attempted::Handled { took } => {
                    self.watch.saw(&Event::Handled {
                        origin: &story.origin,
                        attempts: story.attempt.number(),
                        waited: held.arrived.elapsed().saturating_sub(took),
                        took,
                        replay: context.replay.as_ref(),
                    });
                    self.forget(&held);
                    return Some(held.right.settle(Settlement::Done));
                }
                Attempted::AtNoCharge => {}
                Attempted::Interrupted => return None,
                Attempted::CircuitOpen(dependency) => {
                    return self.park_unheard(held, story, circuit_open(dependency)).await;
                }
                Attempted::Poison { crashes } => {
                    return self.park_unheard(held, story, poison(crashes)).await;
                }
                Attempted::Failed(failure, decision) => {
                    story.failed(&failure, &decision.verdict, self.clock.now());
                    let (reason, verdict) = match decision.verdict {
                        Verdict::Retry { after, stage } => {
                            self.tell_retry(&story, &failure, after, stage);
                            story.next_attempt();
                            match self.put_off(held, &mut story, after, stage).await? {
                                Waited::Here(back) => held = *back,
                                Waited::AtTheBroker(settled) => return Some(settled),
                                Waited::HandedOver => return None,
                            }
                            continue;
                        }
                        Verdict::DeadLetter { reason } => (reason, VerdictKind::DeadLetter),
                        Verdict::Discard { reason } => (reason, VerdictKind::Discard),
                    };
                    let attempts = story.attempt.number();
                    let death = Death { failure, reason, verdict, rule: decision.rule, attempts };
                    return self.park(held, story, death).await;
                }
            }
        }
    }

    async fn attempt(&self, held: &Held, context: &Context, story: &Story) -> Attempted {
        let alone = match self.pills.look(held.mark, held.unexplained, self.clock.now()) {
            Standing::Innocent => false,
            Standing::Suspect => true,
            Standing::Poison { crashes } => return Attempted::Poison { crashes },
        };
        // What the broker delivers again after a crash or a deployment did not fail: it spends nothing of the budget.
        let is_retry = story.first_failed_at.is_some();
        let (passage, place) = match self.admitted(is_retry, alone).await {
            Ok(admitted) => admitted,
            Err(Passage::Closed(dependency)) => return Attempted::CircuitOpen(dependency),
            Err(_) => return Attempted::Interrupted,
        };
        let began = Instant::now();
        let result = {
            let _in_handler = self.pills.enter(held.mark, self.clock.now());
            self.handle(held.message.clone(), context).await
        };
        drop(place);
        let unhandled = match result {
            Ok(()) => {
                self.gates.ended(passage, &Ended::Handled { retry: is_retry }, &*self.watch);
                self.pills.cleared(held.mark);
                return Attempted::Handled { took: began.elapsed() };
            }
            Err(unhandled) => unhandled,
        };
        // A handler that fails while we shut down may fail because of it: its message goes back as it came.
        if self.shutdown.is_cancelled() {
            return Attempted::Interrupted;
        }
        match unhandled {
            Unhandled::Failed(failure) => {
                self.pills.cleared(held.mark);
                self.failed(held, story, passage, failure.bounded()).await
            }
            Unhandled::Absent(problem) => {
                self.gates.ended(passage, &Ended::Absent(&problem), &*self.watch);
                Attempted::AtNoCharge
            }
            Unhandled::Lost(problem) => {
                self.gates.ended(passage, &Ended::Lost, &*self.watch);
                self.pills.lost(held.mark, alone, self.clock.now());
                self.watch.saw(&Event::HandlerLost { origin: &story.origin, problem: &problem });
                Attempted::AtNoCharge
            }
        }
    }

    /// Waits at the gates, then for a place among the handlers. Who waited long for a place looks at the gates again.
    async fn admitted(&self, is_retry: bool, alone: bool) -> Result<(Passage, Running<'_>), Passage> {
        let mut spends = is_retry;
        loop {
            let passage = self.gates.pass(spends, &self.shutdown, &*self.watch).await;
            if matches!(passage, Passage::Closed(_) | Passage::Shutdown) {
                return Err(passage);
            }
            let place = self.shutdown.run_until_cancelled(self.running(alone)).await;
            let Some(place) = place else { return Err(Passage::Shutdown) };
            if !matches!(passage, Passage::Free) || !self.gates.is_shut() {
                return Ok((passage, place));
            }
            // What was granted is granted once.
            spends = false;
        }
    }

    async fn failed(&self, held: &Held, story: &Story, passage: Passage, failure: Failure) -> Attempted {
        let place = Place {
            queue: &story.origin.queue,
            consumer: Some(&self.letters.group),
            event_type: held.message.headers.event_type(),
        };
        let classified = self.rules.classify(&failure, &place, self.policy.unknown);
        let retryable = classified.verdict == VerdictKind::Retry;
        let dependency = classified.dependency.as_deref().filter(|_| retryable);
        let cause = cause(&failure);
        if self.gates.ended(passage, &Ended::Failed { dependency, cause: &cause }, &*self.watch) {
            return Attempted::AtNoCharge;
        }
        let random = self.random();
        let situation = story.situation(self.clock.now());
        let decision = decide(&classified, &failure, &situation, &self.policy.retry, random);
        match decision.verdict {
            Verdict::Retry { .. } => Attempted::Failed(failure, decision),
            Verdict::Discard { .. } => {
                self.gates.flowed();
                Attempted::Failed(failure, decision)
            }
            Verdict::DeadLetter { .. } => match self.doomed(cause).await {
                Some(true) => Attempted::Failed(failure, decision),
                Some(false) => Attempted::AtNoCharge,
                None => Attempted::Interrupted,
            },
        }
    }

    /// Whether a message that is to be parked is, or its consumer has a larger problem. `None`: the shutdown came.
    async fn doomed(&self, cause: Cause) -> Option<bool> {
        let doom = self.gates.doomed(cause);
        let _held = self.room.hold();
        loop {
            match self.gates.judge(&doom, &*self.watch) {
                Judgement::Park | Judgement::ParkAndWarn => return Some(true),
                Judgement::Hold => return Some(false),
                Judgement::Wait(left) => self.wait(left.min(LOOK)).await?,
            }
        }
    }

    fn tell_retry(&self, story: &Story, failure: &Failure, after: Duration, stage: Stage) {
        self.watch.saw(&Event::Retried {
            origin: &story.origin,
            attempts: story.attempt.number(),
            error_class: &failure.class,
            after,
            stage,
        });
    }

    /// Waits, or has the broker wait. `None`: the shutdown came.
    async fn put_off(&self, held: Held, story: &mut Story, after: Duration, stage: Stage) -> Option<Waited> {
        if stage == Stage::Quick {
            return self.wait(after).await.map(|()| Waited::Here(Box::new(held)));
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
                self.wait(after).await.map(|()| Waited::Here(Box::new(held)))
            }
        }
    }

    async fn republish(&self, held: Held, story: &Story, after: Duration) {
        // The partition it came from, explicitly: clients hash keys differently.
        let to = Destination { queue: held.place.queue.clone(), partition: held.place.partition };
        let aim = Some(self.letters.group.clone()).filter(|_| self.capabilities.groups);
        let content = Content::Retry { hop: Box::new(story.hop()), aim };
        let Held { message, right, weight, .. } = held;
        self.outbox
            .send(Parcel { to, delay: Some(after), message, content, right, safe: None, weight })
            .await;
    }

    /// Parks a message that was not tried.
    async fn park_unheard(&self, held: Held, story: Story, mut death: Death) -> Option<Settled> {
        death.attempts = story.attempt.number() - 1;
        self.park(held, story, death).await
    }

    async fn park(&self, held: Held, story: Story, death: Death) -> Option<Settled> {
        if let (Some(lane), Behind::Park) = (&held.lane, self.behind) {
            self.stuck(lane);
        }
        let id = story.death_id(&held.message, &self.letters.group);
        let known = story.origin.offset.is_some() || story.origin.message_id.is_some();
        let envelope = Box::new(self.letters.envelope(id, &story, &death, self.clock.now()));
        let to = self.letters.destination(&held.place.queue, held.place.partition, &death);
        let content = Content::Letter { envelope, known };
        let Held { message, right, weight, mark, lane, .. } = held;
        let (rung, safe) = oneshot::channel();
        self.outbox.send(Parcel { to, delay: None, message, content, right, safe: Some(rung), weight }).await;
        // The next of its lane begins when the letter is safe: after a crash in between, this one is tried again, and what
        // was behind it must not have been handled. What was a suspect stays one until then, for the same reason.
        if lane.is_some() || death.reason == Reason::Poison {
            self.shutdown.run_until_cancelled(safe).await?.ok()?;
        }
        self.pills.forget(mark);
        self.pills.cleared(mark);
        None
    }

    /// What was noted of its attempts is over.
    fn forget(&self, held: &Held) {
        self.pills.forget(held.mark);
    }

    async fn wait(&self, after: Duration) -> Option<()> {
        self.shutdown.run_until_cancelled(tokio::time::sleep(after)).await
    }

    fn random(&self) -> f64 {
        self.random.lock().unwrap_or_else(std::sync::PoisonError::into_inner).random()
    }
}

/// What makes two failures the same to the brake. It is told in logs, so the text of the error is only a number in it.
fn cause(failure: &Failure) -> Cause {
    let mut hasher = DefaultHasher::new();
    template(&failure.message).hash(&mut hasher);
    let class = if failure.class.is_empty() { "error" } else { &failure.class };
    let status = failure.http_status.map(|status| format!(" {status}")).unwrap_or_default();
    Cause(format!("{class}{status} #{:08x}", hasher.finish() as u32))
}

fn unheard(failure: Failure, reason: Reason, rule: &str) -> Death {
    Death { failure, reason, verdict: VerdictKind::DeadLetter, rule: rule.to_owned(), attempts: 0 }
}

fn circuit_open(dependency: String) -> Death {
    let message = format!("dependency `{dependency}` is down");
    let failure = Failure { dependency: Some(dependency), ..Failure::new("dlo.CircuitOpen", message) };
    unheard(failure, Reason::CircuitOpen, BY_BREAKER)
}

fn poison(crashes: u32) -> Death {
    let message =
        format!("the consumer did not survive it: {crashes} crashes with this message in the handler");
    unheard(Failure::new("dlo.Poison", message), Reason::Poison, BY_POISON)
}

fn parked_behind() -> Death {
    let message = "an earlier message of its key waits for its retry or was parked; replay that one first";
    unheard(Failure::new("dlo.ParkedBehind", message), Reason::Rejected, BY_LANE)
}

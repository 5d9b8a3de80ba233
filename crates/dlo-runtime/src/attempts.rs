//! One message, from its delivery to what the broker is told.
//!
//! Gate, handler, decision, deed; around again for a quick retry. A message that meets our own shutdown on the way goes
//! back as it came: not charged, not parked. Only one that was decided before is carried through.
//!
//! Everybody who waits for a place is such a future, a thousand of them: what only a failure needs is boxed, so that nobody
//! else keeps room for it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use dlo_core::brake::{Cause, Judgement};
use dlo_core::broker::{Settled, Settlement};
use dlo_core::classify::Place;
use dlo_core::envelope::{replay_mark, target_group};
use dlo_core::failure::Failure;
use dlo_core::fingerprint::template;
use dlo_core::poison::Standing;
use dlo_core::verdict::{Decision, Stage, Verdict, VerdictKind, decide};
use rand::RngExt;
use tokio::time::Instant;

use crate::act::{Held, Waited, circuit_open, parked_behind, poison};
use crate::events::Event;
use crate::gates::{Coming, Ended, Passage};
use crate::handler::{Context, Unhandled};
use crate::lanes::{Carried, Lane};
use crate::letters::Death;
use crate::outbox::Adopted;
use crate::receipts::Receipt;
use crate::shared::{Running, Shared};
use crate::story::Story;

/// When a message that is to be parked first looks whether others end alike; then after twice the time, up to the longest.
/// Where much is done enough others end within the first.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);

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

/// Works on one delivery until it is settled, or handed over to be. `None`: nothing is to be told now.
pub(crate) async fn process(
    shared: Arc<Shared>,
    carried: Carried,
    lane: Option<Lane>,
    errand: Errand,
    arrived: Instant,
) -> Option<Settled> {
    let Carried { delivery, weight } = carried;
    let (counted, returned) = (delivery.delivery_count.unwrap_or(1), delivery.returned);
    let remembered = shared.remembered(&delivery);
    let recalled = remembered.is_some();
    let mut story = Box::new(remembered.unwrap_or_else(|| shared.told(&delivery)));
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
    let mut held = Box::new(Held { message, place, right, lane, mark, unexplained, arrived, weight });
    if shared.outbox.has_graves() {
        let death = story.death_id(&held.message, &shared.letters.group);
        held.right = match shared.outbox.adopt(death, held.right) {
            Adopted::Unknown(right) => right,
            Adopted::Settled => return None,
            Adopted::Waits(confirmed) => {
                // What is behind it in its lane goes on when its letter is safe, as after parking it.
                if held.lane.is_some() && !shared.only_instance {
                    shared.shutdown.run_until_cancelled(confirmed).await?.ok()?;
                }
                return None;
            }
        };
    }
    if errand == Errand::ParkBehind {
        return Box::pin(shared.park_unheard(held, story, parked_behind())).await;
    }
    if shared.is_given_up_soon(&held, returned, counted) {
        match shared.renewed(held, &story) {
            Ok(settled) => return Some(settled),
            Err(back) => held = back,
        }
    }
    if let Some(early) = story.early(shared.clock.now()) {
        match Box::pin(shared.put_off(held, &mut story, early, Stage::Delayed)).await? {
            Waited::Here(back) => held = back,
            Waited::AtTheBroker(settled) => return Some(settled),
            Waited::HandedOver => return None,
        }
    }
    shared.attempts(held, story, &mut context).await
}

impl Shared {
    async fn attempts(
        &self,
        mut held: Box<Held>,
        mut story: Box<Story>,
        context: &mut Context,
    ) -> Option<Settled> {
        let mut in_vain = 0_u32;
        loop {
            context.attempt = story.attempt;
            match self.attempt(&held, context, &story, in_vain).await {
                Attempted::Handled { took } => {
                    self.watch.saw(&Event::Handled {
                        origin: &story.origin,
                        attempts: story.attempt.number(),
                        waited: held.arrived.elapsed().saturating_sub(took),
                        took,
                        replay: context.replay.as_ref(),
                    });
                    if let (Some(receipts), Some(mark)) = (&self.receipts, &context.replay) {
                        receipts.take(Receipt::new(mark, &self.letters.group, self.clock.now()));
                    }
                    self.forget(&held);
                    return Some(held.right.settle(Settlement::Done));
                }
                Attempted::AtNoCharge => in_vain = in_vain.saturating_add(1),
                Attempted::Interrupted => return None,
                Attempted::CircuitOpen(dependency) => {
                    return Box::pin(self.park_unheard(held, story, circuit_open(dependency))).await;
                }
                Attempted::Poison { crashes } => {
                    return Box::pin(self.park_unheard(held, story, poison(crashes))).await;
                }
                Attempted::Failed(failure, decision) => {
                    story.failed(&failure, &decision.verdict, self.clock.now());
                    let (reason, verdict) = match decision.verdict {
                        Verdict::Retry { after, stage } => {
                            self.tell_retry(&story, &failure, after, stage);
                            story.next_attempt();
                            match Box::pin(self.put_off(held, &mut story, after, stage)).await? {
                                Waited::Here(back) => held = back,
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
                    return Box::pin(self.park(held, story, death)).await;
                }
            }
        }
    }

    async fn attempt(&self, held: &Held, context: &Context, story: &Story, in_vain: u32) -> Attempted {
        let alone = match self.pills.look(held.mark, held.unexplained, self.clock.now()) {
            Standing::Innocent => false,
            Standing::Suspect => true,
            Standing::Poison { crashes } => return Attempted::Poison { crashes },
        };
        // What the broker delivers again after a crash or a deployment did not fail: it spends nothing of the budget.
        let is_retry = story.first_failed_at.is_some();
        let (passage, place) = match self.admitted(is_retry, alone, in_vain).await {
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
                Box::pin(self.failed(held, story, passage, failure.bounded())).await
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
    async fn admitted(
        &self,
        is_retry: bool,
        alone: bool,
        in_vain: u32,
    ) -> Result<(Passage, Running<'_>), Passage> {
        let mut coming = if is_retry { Coming::Retry } else { Coming::First };
        loop {
            let passage = self.gates.pass(coming, in_vain, &self.shutdown, &*self.watch).await;
            if matches!(passage, Passage::Closed(_) | Passage::Shutdown) {
                return Err(passage);
            }
            let place = self.shutdown.run_until_cancelled(self.running(alone)).await;
            let Some(place) = place else { return Err(Passage::Shutdown) };
            if !matches!(passage, Passage::Free) || !self.gates.is_shut() {
                return Ok((passage, place));
            }
            coming = Coming::Counted;
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
            Verdict::Retry { .. } => {
                self.gates.failed(&cause);
                Attempted::Failed(failure, decision)
            }
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
        let mut look = FIRST_LOOK;
        loop {
            match self.gates.judge(&doom, &*self.watch) {
                Judgement::Park | Judgement::ParkAndWarn => return Some(true),
                Judgement::Hold => return Some(false),
                Judgement::Wait(left) => self.wait(left.min(look)).await?,
            }
            look = (look * 2).min(LONGEST_LOOK);
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

    fn random(&self) -> f64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).random()
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

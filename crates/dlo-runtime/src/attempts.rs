//! One message, from its delivery to what the broker is told.
//!
//! Gate, handler, decision, deed; around again for a quick retry. A message that meets our own shutdown on the way goes
//! back as it came: not charged, not parked. Only one that was decided before is carried through.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dlo_core::broker::{Capabilities, Delivery, Publisher, Settled, Settlement, Unsettled};
use dlo_core::classify::{PROCESSING_TIMEOUT, Place, Ruleset};
use dlo_core::envelope::replay_mark;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::reason::Reason;
use dlo_core::time::Clock;
use dlo_core::units::HumanDuration;
use dlo_core::verdict::{Decision, Stage, Verdict, VerdictKind, decide};
use futures::FutureExt;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::act::{self, Death};
use crate::builder::Policy;
use crate::delay::{self, MOST_HELD, Means};
use crate::events::{Event, Watch};
use crate::gates::{Ended, Gates, Passage};
use crate::handler::{Context, Handler, Unhandled};
use crate::story::{Stories, Story};

/// What stands on the record when a message was parked because a dependency is down.
const BY_BREAKER: &str = "policy:circuit_open";

/// Everything that the messages of one consumer share.
pub(crate) struct Shared {
    pub(crate) group: String,
    pub(crate) consumer_id: Option<String>,
    pub(crate) consumer_version: Option<String>,
    pub(crate) policy: Policy,
    pub(crate) rules: Ruleset,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) capabilities: Capabilities,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) dead_letters: Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Box<dyn Watch>,
    pub(crate) gates: Gates,
    pub(crate) stories: Mutex<Stories>,
    pub(crate) random: Mutex<StdRng>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) held: AtomicUsize,
}

/// How one attempt ended.
enum Attempted {
    Handled,
    /// A probe found its dependency still down: the message waits on, at no charge.
    AtNoCharge,
    /// Our own shutdown came in between.
    Interrupted,
    Failed(Failure, Decision),
    /// A dependency is down and the policy parks.
    CircuitOpen(String),
}

/// A message out of its delivery.
pub(crate) struct Held {
    pub(crate) message: Message,
    /// Where it stands at the broker now; its first place is in its story.
    pub(crate) place: Origin,
    right: Unsettled,
}

/// Works on one delivery until it is settled. `None`: it goes back as it came.
pub(crate) async fn process(
    shared: Arc<Shared>,
    delivery: Delivery,
    mut slot: Option<OwnedSemaphorePermit>,
) -> Option<Settled> {
    let mut story = shared.story_of(&delivery);
    let mut context = Context {
        origin: story.origin.clone(),
        published_at: story.published_at,
        attempt: story.attempt,
        timeout: shared.policy.timeout,
        replay: replay_mark(&delivery.message.headers),
    };
    let (message, place, right) = delivery.split();
    let held = Held { message, place, right };
    let meant_for = context.replay.as_ref().and_then(|mark| mark.target_group.as_deref());
    if meant_for.is_some_and(|group| group != shared.group) {
        shared.watch.saw(&Event::Skipped { origin: &story.origin });
        return Some(held.right.settle(Settlement::Done));
    }
    loop {
        context.attempt = story.attempt;
        match shared.attempt(&held.message, &context, &story).await {
            Attempted::Handled => {
                let attempts = story.attempt.number();
                shared.watch.saw(&Event::Handled { origin: &story.origin, attempts });
                return Some(held.right.settle(Settlement::Done));
            }
            Attempted::AtNoCharge => {}
            Attempted::Interrupted => return None,
            Attempted::CircuitOpen(dependency) => return shared.park_unheard(held, story, dependency).await,
            Attempted::Failed(failure, decision) => {
                story.failed(&failure, &decision.verdict, shared.clock.now());
                let (reason, verdict) = match decision.verdict {
                    Verdict::Retry { after, stage } => {
                        shared.tell_retry(&story, &failure, after, stage);
                        story.next_attempt();
                        match shared.put_off(&held, &story, after, stage, &mut slot).await? {
                            Waited::Here => continue,
                            Waited::AtTheBroker(how) => return Some(held.right.settle(how)),
                        }
                    }
                    Verdict::DeadLetter { reason } => (reason, VerdictKind::DeadLetter),
                    Verdict::Discard { reason } => (reason, VerdictKind::Discard),
                };
                let attempts = story.attempt.number();
                let death = Death { failure, reason, verdict, rule: decision.rule, attempts };
                act::park(&shared, &held, &story, &death).await?;
                return Some(held.right.settle(Settlement::Done));
            }
        }
    }
}

/// How a retry waited for its time.
enum Waited {
    Here,
    /// It leaves our hands, settled like this.
    AtTheBroker(Settlement),
}

impl Shared {
    fn story_of(&self, delivery: &Delivery) -> Story {
        let mut stories = self.stories.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = if stories.is_empty() { None } else { stories.recall(&delivery.origin) };
        remembered.unwrap_or_else(|| Story::of(delivery, &self.policy.retry))
    }

    async fn attempt(&self, message: &Message, context: &Context, story: &Story) -> Attempted {
        let is_retry = context.attempt.number() > 1;
        let passage = self.gates.pass(is_retry, &self.shutdown, &*self.watch).await;
        match passage {
            Passage::Shutdown => return Attempted::Interrupted,
            Passage::Closed(dependency) => return Attempted::CircuitOpen(dependency),
            Passage::Free | Passage::Probe(..) => {}
        }
        let Err(failure) = self.handle(message.clone(), context).await else {
            self.gates.ended(passage, &Ended::Handled, &*self.watch);
            return Attempted::Handled;
        };
        // A handler that fails while we shut down may fail because of it: its message goes back as it came.
        if self.shutdown.is_cancelled() {
            return Attempted::Interrupted;
        }
        let failure = failure.bounded();
        let place = Place {
            queue: &story.origin.queue,
            consumer: Some(&self.group),
            event_type: message.headers.event_type(),
        };
        let classified = self.rules.classify(&failure, &place, self.policy.unknown);
        let ended = match (&classified.dependency, classified.verdict) {
            (Some(dependency), VerdictKind::Retry) => Ended::DependencyFailed(dependency),
            _ => Ended::OtherwiseFailed,
        };
        if self.gates.ended(passage, &ended, &*self.watch) {
            return Attempted::AtNoCharge;
        }
        let random = self.random.lock().unwrap_or_else(PoisonError::into_inner).random();
        let situation = story.situation(self.clock.now());
        let decision = decide(&classified, &failure, &situation, &self.policy.retry, random);
        Attempted::Failed(failure, decision)
    }

    /// Runs the handler. Running over time is a failure, and so is a panic.
    async fn handle(&self, message: Message, context: &Context) -> Result<(), Failure> {
        let running = AssertUnwindSafe(self.handler.handle(message, context)).catch_unwind();
        match tokio::time::timeout(self.policy.timeout, running).await {
            Ok(Ok(result)) => result.map_err(|unhandled| match unhandled {
                Unhandled::Failed(failure) => failure,
                Unhandled::Absent(what) | Unhandled::Lost(what) => Failure::new("dlo.HandlerGone", what),
            }),
            Ok(Err(_panic)) => Err(Failure::new("panic", "the handler panicked")),
            Err(_elapsed) => {
                let allowed = HumanDuration(self.policy.timeout);
                Err(Failure::new(PROCESSING_TIMEOUT, format!("the handler ran over its {allowed}")))
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
    async fn put_off(
        &self,
        held: &Held,
        story: &Story,
        after: Duration,
        stage: Stage,
        slot: &mut Option<OwnedSemaphorePermit>,
    ) -> Option<Waited> {
        if stage == Stage::Quick {
            return self.wait(after).await.map(|()| Waited::Here);
        }
        let waiting = self.stories.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        match delay::choose(&self.capabilities, after, waiting) {
            Means::Native { after } => {
                let mut stories = self.stories.lock().unwrap_or_else(PoisonError::into_inner);
                stories.remember(&held.place, story.clone());
                Some(Waited::AtTheBroker(Settlement::Again { after }))
            }
            Means::Republish { after } => {
                act::republish(self, held, story, after).await?;
                Some(Waited::AtTheBroker(Settlement::Done))
            }
            Means::Hold => self.hold(after, slot).await.map(|()| Waited::Here),
        }
    }

    async fn wait(&self, after: Duration) -> Option<()> {
        self.shutdown.run_until_cancelled(tokio::time::sleep(after)).await
    }

    /// Waits without a place among the handlers, so that others go on; beyond the bound, with it.
    async fn hold(&self, after: Duration, slot: &mut Option<OwnedSemaphorePermit>) -> Option<()> {
        if self.held.fetch_add(1, Ordering::Relaxed) < MOST_HELD {
            *slot = None;
        }
        let waited = self.wait(after).await;
        self.held.fetch_sub(1, Ordering::Relaxed);
        waited?;
        if slot.is_none() {
            *slot = Some(Arc::clone(&self.slots).acquire_owned().await.ok()?);
        }
        Some(())
    }

    /// Parks a message that was not tried, because the policy does not wait for a dependency that is down.
    async fn park_unheard(&self, held: Held, story: Story, dependency: String) -> Option<Settled> {
        let message = format!("dependency `{dependency}` is down");
        let death = Death {
            failure: Failure { dependency: Some(dependency), ..Failure::new("dlo.CircuitOpen", message) },
            reason: Reason::CircuitOpen,
            verdict: VerdictKind::DeadLetter,
            rule: BY_BREAKER.to_owned(),
            attempts: story.attempt.number() - 1,
        };
        act::park(self, &held, &story, &death).await?;
        Some(held.right.settle(Settlement::Done))
    }
}

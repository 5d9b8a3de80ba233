//! The ends that a process holds: calls that take their time, fail as the dice say, and go silent with the process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    BrokerError, Capabilities, Confirmed, Delivery, Outgoing, PublishError, Publisher, Settled, Settler,
    Source,
};
use dlo_core::envelope::{decode, target_group};
use dlo_core::verdict::VerdictKind;
use tokio::time::{Instant, sleep, timeout_at};

use super::queue::Queue;
use super::trouble::Fortune;
use super::{Copy, DLQ, Fact, Letter, Life, Number, QUEUE, Shared, number};

pub(super) fn connect(shared: &Arc<Shared>, life: &Arc<Life>) -> (Box<dyn Source>, Arc<dyn Publisher>) {
    let end = End {
        shared: Arc::clone(shared),
        life: Arc::clone(life),
        capabilities: Arc::new(shared.queue().shape().capabilities()),
    };
    (Box::new(end.clone()), Arc::new(end))
}

/// All three ends of one process.
#[derive(Debug, Clone)]
struct End {
    shared: Arc<Shared>,
    life: Arc<Life>,
    capabilities: Arc<Capabilities>,
}

fn away() -> BrokerError {
    BrokerError::Unavailable("scripted".to_owned())
}

impl End {
    /// One leg of a call: it takes its time, and the process may not live to see its end.
    async fn leg(&self) {
        self.life.step().await;
        let latency = self.shared.queue().dice.latency();
        if !latency.is_zero() {
            sleep(latency).await;
        }
        self.life.step().await;
    }

    fn rung(&self) {
        self.shared.came.notify_waiters();
    }
}

#[async_trait]
impl Source for End {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        self.leg().await;
        let fortune = self.shared.queue().dice.receive();
        match fortune {
            Fortune::Fine => {}
            Fortune::Nothing | Fortune::Refused => return Err(away()),
            Fortune::Half => {
                self.shared.queue().connection_lost(self.life.id);
                self.rung();
                return Err(away());
            }
        }
        loop {
            let mut came = std::pin::pin!(self.shared.came.notified());
            came.as_mut().enable();
            let (taken, due) = self.shared.queue().take(self.life.id, max);
            if !taken.is_empty() {
                // Nothing is awaited between taking and handing out, unless the process dies in between.
                self.life.step().await;
                return Ok(taken);
            }
            if Instant::now() >= deadline {
                return Ok(Vec::new());
            }
            // A wait that is over and a message that came are both only reasons to look again.
            let _ = timeout_at(due.map_or(deadline, |due| due.min(deadline)), came).await;
            self.life.step().await;
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(self.clone())
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        self.leg().await;
        self.shared.queue().leave(self.life.id);
        self.rung();
        Ok(())
    }
}

#[async_trait]
impl Settler for End {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        self.life.step().await;
        self.tell(&settled);
        self.leg().await;
        let all = {
            let mut queue = self.shared.queue();
            let fortune = queue.dice.settle();
            apply(&mut queue, &settled, fortune)
        };
        self.rung();
        self.leg().await;
        if all { Ok(()) } else { Err(away()) }
    }
}

impl End {
    fn tell(&self, settled: &[Settled]) {
        let queue = self.shared.queue();
        for one in settled {
            // What was taken back in the meantime has no name any more; it is lost on nobody.
            if let Some(message) = queue.of_tag(one.tag.0) {
                let told = Fact::Told { by: self.life.id, message, tag: one.tag.0, how: one.how };
                self.shared.log.note(told);
            }
        }
    }

    /// Puts one message where it belongs. What the sender hears of it is another matter.
    fn write(&self, queue: &mut Queue, outgoing: &Outgoing) -> Result<(), PublishError> {
        let by = self.life.id;
        let message = number(&outgoing.message).unwrap_or(Number::MAX);
        if outgoing.to.queue == QUEUE {
            let limit = self.capabilities.delayed_publish.map(|limits| limits.longest);
            let delay = outgoing.delay.unwrap_or_default();
            if outgoing.delay.is_some() && limit.is_none_or(|longest| delay > longest) {
                return Err(PublishError::Refused("no such delay here".to_owned()));
            }
            self.shared.log.note(Fact::Wrote {
                by,
                message,
                copy: Copy::Retry { aimed: target_group(&outgoing.message.headers).is_some() },
            });
            queue.put(outgoing.message.clone(), outgoing.to.partition.unwrap_or(0), delay);
            return Ok(());
        }
        if outgoing.to.queue != DLQ {
            return Err(PublishError::Refused(format!("there is no queue `{}`", outgoing.to.queue)));
        }
        let copy = Copy::Letter(Box::new(letter(outgoing)));
        self.shared.log.note(Fact::Wrote { by, message, copy });
        Ok(())
    }

    fn publish_one(&self, queue: &mut Queue, outgoing: &Outgoing) -> Result<Confirmed, PublishError> {
        let fortune = queue.dice.publish(outgoing.to.queue == DLQ);
        match fortune {
            Fortune::Fine => self.write(queue, outgoing).map(|()| Confirmed::default()),
            Fortune::Refused => Err(PublishError::Refused("scripted".to_owned())),
            Fortune::Nothing => Err(PublishError::Unconfirmed("scripted".to_owned())),
            Fortune::Half => {
                self.write(queue, outgoing)?;
                Err(PublishError::Unconfirmed("scripted, and it is there".to_owned()))
            }
        }
    }
}

fn apply(queue: &mut Queue, settled: &[Settled], fortune: Fortune) -> bool {
    let mut all = fortune == Fortune::Fine;
    for (at, one) in settled.iter().enumerate() {
        let arrives = match fortune {
            Fortune::Fine => true,
            Fortune::Half => at % 2 == 0,
            Fortune::Nothing | Fortune::Refused => false,
        };
        if arrives {
            all &= queue.settle(one.tag.0, one.how, one.carry.as_deref());
        } else {
            queue.untold(one.tag.0);
        }
    }
    all
}

fn letter(outgoing: &Outgoing) -> Letter {
    let story = decode(&outgoing.message.headers).unwrap_or_default();
    let key = outgoing.message.key.as_ref();
    Letter {
        death: story.death_id,
        is_recognised: story.redelivered
            || story.origin.origin().is_some_and(|origin| origin.has_coordinates()),
        reason: story.reason,
        verdict: story.verdict.unwrap_or(VerdictKind::DeadLetter),
        attempts: story.attempts,
        history: story.history.records().len(),
        key: key.map(|key| String::from_utf8_lossy(&key.0).into_owned()),
    }
}

#[async_trait]
impl Publisher for End {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        self.leg().await;
        let results: Vec<_> = {
            let mut queue = self.shared.queue();
            messages.iter().map(|outgoing| self.publish_one(&mut queue, outgoing)).collect()
        };
        self.rung();
        self.leg().await;
        for (outgoing, result) in messages.iter().zip(&results) {
            self.shared.log.note(Fact::Heard {
                by: self.life.id,
                message: number(&outgoing.message).unwrap_or(Number::MAX),
                of_letter: outgoing.to.queue != QUEUE,
                confirmed: result.is_ok(),
            });
        }
        results
    }
}

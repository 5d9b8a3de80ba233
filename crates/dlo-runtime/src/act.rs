//! Carries a decision out in the safe order: copy, confirm, and only then may the caller settle the original.
//!
//! A crash between the two leaves the copy and the original; the death's id is made from the origin, so the second
//! copy is recognised. The other order would leave nothing anywhere. When the copy cannot be written it is tried again,
//! with growing pauses, for as long as it takes: its message keeps its place, and a consumer whose places are all taken
//! receives no more. Nothing is acknowledged, nothing is dropped, nothing spins.

use std::time::Duration;

use dlo_core::broker::{Destination, Outgoing, PublishError};
use dlo_core::envelope::{BodyTooLarge, Envelope, OriginHeaders, encode, encode_hop, replay_mark};
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;

use crate::attempts::{Held, Shared};
use crate::events::{DeadLettered, Event};
use crate::story::Story;

/// Pauses while a dead letter cannot be written: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Why a message is given up, or dropped.
pub(crate) struct Death {
    pub(crate) failure: Failure,
    pub(crate) reason: Reason,
    /// `DeadLetter` or `Discard`. A discard goes the same way: its record is a letter as well (A6).
    pub(crate) verdict: VerdictKind,
    pub(crate) rule: String,
    pub(crate) attempts: u32,
}

/// Puts the message with its story into the dead-letter queue. `Some` when it is confirmed, `None` when the shutdown came
/// first.
pub(crate) async fn park(shared: &Shared, held: &Held, story: &Story, death: &Death) -> Option<()> {
    let queue = shared.dead_letters.clone().unwrap_or_else(|| format!("{}.dlq", held.place.queue));
    let envelope = envelope(shared, held, story, death);
    let copy = |limit| encode(&held.message, &envelope, limit);
    write(shared, Destination::queue(&queue), None, copy).await?;
    if let Some(id) = envelope.death_id {
        shared.watch.saw(&Event::DeadLettered(DeadLettered {
            death: id,
            origin: &story.origin,
            queue: &queue,
            consumer: &shared.group,
            event_type: held.message.headers.event_type(),
            error_class: &death.failure.class,
            reason: death.reason,
            verdict: death.verdict,
            rule: &death.rule,
            attempts: death.attempts,
        }));
    }
    Some(())
}

fn envelope(shared: &Shared, held: &Held, story: &Story, death: &Death) -> Envelope {
    let failure = &death.failure;
    let replays = replay_mark(&held.message.headers).map_or(0, |mark| mark.count);
    Envelope {
        death_id: Some(story.origin.death_id(Some(&shared.group), replays)),
        reason: Some(death.reason),
        verdict: Some(death.verdict).filter(|verdict| *verdict != VerdictKind::DeadLetter),
        rule: Some(death.rule.clone()),
        error_class: Some(failure.class.clone()).filter(|class| !class.is_empty()),
        error_message: Some(failure.message.clone()),
        error_stack: failure.stack.clone(),
        error_code: failure.code.clone().or_else(|| failure.http_status.map(|status| status.to_string())),
        attempts: Some(death.attempts),
        history: story.history.clone(),
        first_failed_at: story.first_failed_at,
        last_failed_at: story.last_failed_at,
        dead_at: Some(shared.clock.now()),
        origin: OriginHeaders::new(&story.origin, story.published_at),
        consumer_group: Some(shared.group.clone()),
        consumer_id: shared.consumer_id.clone(),
        consumer_version: shared.consumer_version.clone(),
        truncated: Vec::new(),
    }
}

/// Publishes the message anew, to come back after a while with its story in headers. `Some` when it is confirmed.
pub(crate) async fn republish(shared: &Shared, held: &Held, story: &Story, after: Duration) -> Option<()> {
    // The partition it came from, explicitly: clients hash keys differently.
    let to = Destination { queue: held.place.queue.clone(), partition: held.place.partition };
    let hop = story.hop();
    write(shared, to, Some(after), |limit| encode_hop(&held.message, &hop, limit)).await
}

async fn write(
    shared: &Shared,
    to: Destination,
    delay: Option<Duration>,
    copy: impl Fn(usize) -> Result<Message, BodyTooLarge>,
) -> Option<()> {
    let mut limit = shared.publisher.capabilities().max_message;
    let mut pause = FIRST_PAUSE;
    loop {
        let problem = match copy(limit) {
            Err(too_large) => too_large.to_string(),
            Ok(message) => {
                let outgoing = Outgoing { to: to.clone(), message, delay };
                match shared.publisher.publish(vec![outgoing]).await.pop() {
                    Some(Ok(_confirmed)) => return Some(()),
                    // It counts otherwise than we do: cut by what was too much, and try at once.
                    Some(Err(PublishError::TooLarge { size, limit: said }))
                        if size > said && limit > size - said =>
                    {
                        limit -= size - said;
                        continue;
                    }
                    Some(Err(error)) => error.to_string(),
                    None => "the publisher gave no result".to_owned(),
                }
            }
        };
        shared.watch.saw(&Event::NotWritten { queue: &to.queue, problem: &problem });
        shared.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await?;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

//! What a dead letter says, and to which queue it goes.
//!
//! The queue's own rules first (C7), the crash queue for what the consumer did not survive, else the one dead-letter
//! queue. A letter goes to the partition its message came from, where there are partitions.

use dlo_core::broker::Destination;
use dlo_core::conventions::emit::{Compatibility, emit};
use dlo_core::envelope::{BodyTooLarge, Envelope, OriginHeaders, encode};
use dlo_core::failure::Failure;
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;

use crate::config::DlqRule;
use crate::story::Story;

/// Why a message is given up, or dropped.
#[derive(Debug)]
pub(crate) struct Death {
    pub(crate) failure: Failure,
    pub(crate) reason: Reason,
    /// `DeadLetter` or `Discard`. A discard goes the same way: its record is a letter as well (A6).
    pub(crate) verdict: VerdictKind,
    pub(crate) rule: String,
    pub(crate) attempts: u32,
}

/// How this consumer writes its dead letters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Letters {
    pub(crate) group: String,
    pub(crate) consumer_id: Option<String>,
    pub(crate) consumer_version: Option<String>,
    pub(crate) dlq: Option<String>,
    pub(crate) crash_dlq: Option<String>,
    pub(crate) rules: Vec<DlqRule>,
}

impl Letters {
    /// Where the letter of a message of `queue` goes.
    pub(crate) fn destination(&self, queue: &str, partition: Option<i32>, death: &Death) -> Destination {
        let by_rule = self.rules.iter().find(|rule| fits(rule, death)).map(|rule| rule.queue.clone());
        let by_crash = self.crash_dlq.clone().filter(|_| death.reason == Reason::Poison);
        let queue =
            by_rule.or(by_crash).or_else(|| self.dlq.clone()).unwrap_or_else(|| format!("{queue}.dlq"));
        Destination { partition, ..Destination::queue(queue) }
    }

    pub(crate) fn envelope(&self, id: DeathId, story: &Story, death: &Death, now: Timestamp) -> Envelope {
        let failure = &death.failure;
        Envelope {
            death_id: Some(id),
            redelivered: story.redelivered,
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
            dead_at: Some(now),
            origin: OriginHeaders::new(&story.origin, story.published_at),
            consumer_group: Some(self.group.clone()),
            consumer_id: self.consumer_id.clone(),
            consumer_version: self.consumer_version.clone(),
            truncated: Vec::new(),
        }
    }
}

/// The message with its story, in our words and those of others, at most `limit` bytes.
pub(crate) fn write(
    message: &Message,
    envelope: &Envelope,
    words: &[Compatibility],
    limit: usize,
) -> Result<Message, BodyTooLarge> {
    if words.is_empty() {
        return encode(message, envelope, limit);
    }
    let mut told = message.clone();
    emit(words, envelope, &mut told.headers);
    encode(&told, envelope, limit)
}

fn fits(rule: &DlqRule, death: &Death) -> bool {
    rule.class.as_ref().is_none_or(|class| *class == death.failure.class)
        && rule.reason.is_none_or(|reason| reason == death.reason)
        && rule.rule.as_ref().is_none_or(|rule| *rule == death.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(class: &str, reason: Reason) -> Death {
        Death {
            failure: Failure::new(class, "…"),
            reason,
            verdict: VerdictKind::DeadLetter,
            rule: "builtin".to_owned(),
            attempts: 1,
        }
    }

    fn rule(queue: &str) -> DlqRule {
        DlqRule { queue: queue.to_owned(), class: None, reason: None, rule: None }
    }

    #[test]
    fn a_letter_goes_where_the_first_rule_says_that_fits() {
        let by_class = DlqRule { class: Some("KeyError".to_owned()), ..rule("orders.keys") };
        let by_reason = DlqRule { reason: Some(Reason::Timeout), ..rule("orders.slow") };
        let letters = Letters {
            rules: vec![by_class, by_reason],
            crash_dlq: Some("orders.crash".to_owned()),
            ..Letters::default()
        };
        let to = |class, reason| letters.destination("orders", Some(3), &death(class, reason)).queue;
        assert_eq!(to("KeyError", Reason::Timeout), "orders.keys");
        assert_eq!(to("Other", Reason::Timeout), "orders.slow");
        assert_eq!(to("Other", Reason::Poison), "orders.crash");
        assert_eq!(to("Other", Reason::Rejected), "orders.dlq");
    }
}

//! The sends that a queue remembers, so that one that is repeated is not added again.
//!
//! Bounded: a send is forgotten after [`SENDS_REMEMBERED`], and the oldest when there are [`MOST`].

use std::collections::{HashMap, VecDeque};

use dlo_core::broker::{Confirmed, SENDS_REMEMBERED};
use dlo_core::envelope::replay_mark;
use dlo_core::message::Message;
use tokio::time::Instant;

/// Sends of one queue. A replay of more at once does not fit into the queue either, unless somebody consumes it.
const MOST: usize = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Sent {
    places: HashMap<String, Confirmed>,
    /// In the order in which they were made.
    made: VecDeque<(Instant, String)>,
}

/// The id of a send, where the message has one.
pub(super) fn id_of(message: &Message) -> Option<String> {
    replay_mark(&message.headers).map(|mark| mark.replay_id)
}

impl Sent {
    /// Where a send stands that was made before.
    pub(super) fn place(&self, id: &str) -> Option<Confirmed> {
        self.places.get(id).copied()
    }

    pub(super) fn remember(&mut self, id: String, place: Confirmed, now: Instant) {
        let over = |at: Instant| now.saturating_duration_since(at) >= SENDS_REMEMBERED;
        while self.made.len() >= MOST || self.made.front().is_some_and(|(at, _)| over(*at)) {
            let Some((_, oldest)) = self.made.pop_front() else { break };
            self.places.remove(&oldest);
        }
        if self.places.insert(id.clone(), place).is_none() {
            self.made.push_back((now, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_send_is_remembered_for_its_time_and_then_forgotten() {
        let (mut sent, now) = (Sent::default(), Instant::now());
        sent.remember("a".to_owned(), Confirmed::default(), now);
        sent.remember("b".to_owned(), Confirmed::default(), now + SENDS_REMEMBERED - Duration::from_secs(1));
        assert!(sent.place("a").is_some());
        sent.remember("c".to_owned(), Confirmed::default(), now + SENDS_REMEMBERED);
        assert!(sent.place("a").is_none() && sent.place("b").is_some() && sent.made.len() == 2);
    }
}

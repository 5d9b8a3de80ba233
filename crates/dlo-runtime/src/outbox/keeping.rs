//! Letters on their way to where large ones are kept: a few at once, so that the letters behind them flow.
//!
//! What waits here is bounded by what may be unsettled, and its bodies by the bytes that may be in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use dlo_core::time::Clock as _;
use tokio::task::JoinSet;

use super::chute::Chute;
use super::{Content, Parcel};
use crate::clock::SystemClock;
use crate::large::{Kept, LargeLetter, LargeLetters};

/// Letters that are handed over at once.
const AT_ONCE: usize = 4;

/// A letter, and where it is kept or why it is not.
pub(super) type Outcome = (Parcel, Result<Kept, String>);

#[derive(Default)]
pub(super) struct Keeping {
    waiting: VecDeque<Parcel>,
    tasks: JoinSet<Outcome>,
}

impl Keeping {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.tasks.is_empty()
    }

    fn push(&mut self, parcel: Parcel, large: &Arc<dyn LargeLetters>) {
        self.waiting.push_back(parcel);
        self.start(large);
    }

    fn start(&mut self, large: &Arc<dyn LargeLetters>) {
        while self.tasks.len() < AT_ONCE
            && let Some(parcel) = self.waiting.pop_front()
        {
            self.tasks.spawn(keep(parcel, Arc::clone(large)));
        }
    }

    /// An outcome that is there already.
    pub(super) fn finished(&mut self) -> Option<Outcome> {
        loop {
            match self.tasks.try_join_next()? {
                Ok(outcome) => return Some(outcome),
                Err(defect) => tracing::error!(%defect, "consumer.defect"),
            }
        }
    }

    /// The next outcome; none when nothing is under way. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Outcome> {
        loop {
            match self.tasks.join_next().await? {
                Ok(outcome) => return Some(outcome),
                // Its original is unsettled and comes again.
                Err(defect) => tracing::error!(%defect, "consumer.defect"),
            }
        }
    }
}

async fn keep(parcel: Parcel, large: Arc<dyn LargeLetters>) -> Outcome {
    let (Content::Letter { envelope, .. }, Some(name)) = (&parcel.content, &parcel.large_name) else {
        return (parcel, Err("it is no letter".to_owned()));
    };
    let kept = large.keep(LargeLetter { message: &parcel.message, envelope, name }).await;
    (parcel, kept)
}

/// Names sort by the time at which they were given.
fn new_name() -> String {
    format!("{:016x}-{:016x}", SystemClock.now().as_micros(), rand::random::<u64>())
}

impl Chute {
    /// A body is larger than the queue takes. A letter goes to where large ones are kept; everything else waits.
    pub(super) fn does_not_fit(&mut self, mut parcel: Parcel, problem: &str) {
        match (&self.ways.large, &parcel.content) {
            (Some(large), Content::Letter { file: None, .. }) => {
                parcel.large_name.get_or_insert_with(new_name);
                self.keeping.push(parcel, &Arc::clone(large));
                self.limit = self.ways.publisher.capabilities().max_message;
            }
            (Some(_) | None, _) => self.put_aside(parcel, problem),
        }
    }

    /// The consumer ends: what is under way is settled if the office takes it, the others go back to the broker.
    pub(super) async fn finish_keeping(&mut self) {
        self.keeping.waiting.clear();
        while let Some(outcome) = self.keeping.next().await {
            self.on_kept(Some(outcome));
        }
    }

    pub(super) fn on_kept(&mut self, outcome: Option<Outcome>) {
        if let Some(large) = self.ways.large.clone() {
            self.keeping.start(&large);
        }
        match outcome {
            None => {}
            Some((parcel, Ok(Kept::InOffice))) => self.confirmed(parcel),
            Some((mut parcel, Ok(Kept::OnDisk(file)))) => {
                parcel.point_to(file);
                self.waiting.push_back(parcel);
            }
            Some((parcel, Err(problem))) => self.put_aside(parcel, &problem),
        }
    }
}

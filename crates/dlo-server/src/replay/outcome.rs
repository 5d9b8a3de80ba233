//! What became of what was sent: it came back, the consumer passed it, or its window is over and nothing is known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::replay::guard::CameBack;
use dlo_core::replay::run::{ripe, window};
use dlo_core::replay::{Item, ReplayState, Settings, Target};
use dlo_core::time::Timestamp;
use dlo_store::StoreError;
use dlo_store::replays::{Conclusion, Return};

use super::calls::Did;
use super::flaw::Flaw;
use super::hand::Hand;

/// Items of one question to the store.
const PAGE: usize = 500;
/// Pages of one look; the rest has its turn a moment later.
const PAGES: usize = 8;
/// Returns may be stored a little after their time; they are looked for again this far back.
const LATE: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) state: ReplayState,
    pub(super) settings: Settings,
    /// What letters of this kind take to die.
    pub(super) usual: Option<Duration>,
    /// Returns up to here were judged.
    pub(super) judged: Option<Timestamp>,
    /// When it was last asked.
    pub(super) last: Option<Timestamp>,
    /// Everything that was sent went to one queue, so that offsets can be compared.
    pub(super) one_queue: bool,
    /// Whether anything sent has no outcome yet.
    pub(super) open: bool,
    /// Whose progress tells: the group that the config names, else the one that failed.
    pub(super) group: Option<String>,
    /// Whether the traffic of the consumer matters.
    pub(super) traffic: bool,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) at: Timestamp,
    pub(super) returns: Vec<(u64, CameBack)>,
    pub(super) concluded: u64,
    pub(super) canary_ripe: Option<Timestamp>,
    pub(super) backlog: Option<u64>,
    /// Records that the queue ever had, where it says so.
    pub(super) published: Option<i64>,
}

/// How the consumer's progress is known.
#[derive(Debug)]
enum Progress {
    /// Next offset by partition.
    Positions(BTreeMap<i32, i64>),
    /// The queue was seen empty at this time: what was sent before is with a consumer, or done.
    EmptyAt(Timestamp),
    /// The broker cannot tell.
    Unknown,
    /// The broker did not answer: it is asked again, and nothing is concluded before.
    Away,
}

impl Progress {
    /// The outcome of an item that did not come back.
    fn conclusion(&self, item: &Item) -> Conclusion {
        match self {
            Self::Positions(_) if self.passed(item) => Conclusion::Passed,
            Self::EmptyAt(_) if self.passed(item) => Conclusion::Presumed,
            Self::Positions(_) | Self::EmptyAt(_) | Self::Unknown | Self::Away => Conclusion::Unknown,
        }
    }

    fn passed(&self, item: &Item) -> bool {
        match self {
            Self::Positions(next) => item.offset.is_some_and(|offset| {
                next.get(&item.partition.unwrap_or(0)).is_some_and(|next| offset < *next)
            }),
            Self::EmptyAt(at) => item.sent_at.is_some_and(|sent| sent < *at),
            Self::Unknown | Self::Away => false,
        }
    }
}

impl Hand {
    pub(super) async fn look(self: Arc<Self>, question: Question) -> Did {
        Did::Looked(Box::new(self.look_at(&question).await))
    }

    async fn look_at(&self, question: &Question) -> Result<Looked, StoreError> {
        let mut looked = Looked { at: self.now(), ..Looked::default() };
        looked.returns = self.returned(question).await?;
        let queue = self.queue(&question.settings.target);
        let (progress, backlog) = self.progress(queue, question).await;
        looked.backlog = backlog;
        if question.open && matches!(question.settings.target, Target::Route(_)) {
            // The broker has it, and that is all there is to wait for.
            looked.concluded = self.conclude(Duration::ZERO, |_| Conclusion::Routed).await?;
        } else if question.open && !matches!(progress, Progress::Away) {
            let window = window(&question.settings, question.usual);
            let window = if self.engine.flaw.has(Flaw::ConcludeEarly) { window / 4 } else { window };
            looked.concluded = self.conclude(window, |item| progress.conclusion(item)).await?;
            if question.state == ReplayState::Canary {
                looked.canary_ripe = self.canary_ripe(window, question.usual, &progress).await?;
            }
        }
        if question.traffic
            && self.broker().ends_count()
            && let Ok(ends) = self.broker().ends(queue).await
        {
            looked.published = Some(ends.iter().map(|end| end.next).sum());
        }
        Ok(looked)
    }

    async fn returned(&self, question: &Question) -> Result<Vec<(u64, CameBack)>, StoreError> {
        let judged = question.judged.unwrap_or(Timestamp::EPOCH);
        let mut since = question.last.map_or(judged, |last| judged.max(last.minus(LATE)));
        let mut all = Vec::new();
        for _ in 0..PAGES {
            let page = self.replays().returns(self.id, since, PAGE).await?;
            // What has the time of the last comes along past the page.
            let full = page.len() >= PAGE;
            since = page.last().map_or(since, |last| last.at);
            all.extend(page.into_iter().map(came_back));
            if !full {
                break;
            }
        }
        Ok(all)
    }

    fn is_away(&self, error: &BrokerError) -> bool {
        error.is_transient() && !self.engine.flaw.has(Flaw::ConcludeBlindly)
    }

    /// How far the consumer is, and how much is before it.
    async fn progress(&self, queue: &str, question: &Question) -> (Progress, Option<u64>) {
        let group = question.group.as_deref();
        let before = self.now();
        let state = match self.broker().inspector().inspect(queue, group).await {
            Ok(state) => Some(state),
            Err(error) if self.is_away(&error) => return (Progress::Away, None),
            Err(_) => None,
        };
        // Without a group a log says how much it holds, not how much is still to be read.
        let known = group.is_some() || !self.broker().capabilities().groups;
        let backlog = state.as_ref().filter(|_| known).and_then(|state| state.depth);
        if let Some(group) = group.filter(|_| question.one_queue && question.open) {
            match self.broker().passed(queue, group).await {
                Ok(passed) => {
                    let next = passed.into_iter().map(|one| (one.partition, one.next)).collect();
                    return (Progress::Positions(next), backlog);
                }
                Err(error) if self.is_away(&error) => return (Progress::Away, backlog),
                Err(_) => {}
            }
        }
        let empty = state.is_some_and(|state| state.depth == Some(0) && state.in_flight.unwrap_or(0) == 0);
        let progress =
            if empty && question.one_queue { Progress::EmptyAt(before) } else { Progress::Unknown };
        (progress, backlog)
    }

    /// Ends what has had its window.
    async fn conclude(
        &self,
        window: Duration,
        conclusion: impl Fn(&Item) -> Conclusion,
    ) -> Result<u64, StoreError> {
        use Conclusion::{Passed, Presumed, Routed, Unknown};
        let mut concluded = 0;
        for _ in 0..PAGES {
            let now = self.now();
            let items = self.replays().waiting(self.id, now.minus(window), PAGE).await?;
            if items.is_empty() {
                break;
            }
            for how in [Passed, Presumed, Routed, Unknown] {
                let ended = items.iter().filter(|item| conclusion(item) == how);
                let numbers: Vec<u64> = ended.map(|item| item.number).collect();
                if !numbers.is_empty() {
                    let lease = self.lease();
                    concluded += self.replays().conclude(&self.run(&lease), &numbers, how, now).await?;
                }
            }
        }
        Ok(concluded)
    }

    /// When the last of those that are out has had its time.
    async fn canary_ripe(
        &self,
        window: Duration,
        usual: Option<Duration>,
        progress: &Progress,
    ) -> Result<Option<Timestamp>, StoreError> {
        let items = self.replays().waiting(self.id, self.now(), PAGE).await?;
        let ripe =
            |item: &Item| ripe(item.sent_at.unwrap_or(self.now()), progress.passed(item), window, usual);
        Ok(items.iter().map(ripe).max())
    }
}

fn came_back(back: Return) -> (u64, CameBack) {
    let Return { number, letter, sent_at, at, error_class, former_class } = back;
    (number, CameBack { letter, sent_at, at, class: error_class, former: former_class })
}

#[cfg(test)]
mod tests {
    use dlo_core::id::LetterId;
    use dlo_core::replay::ItemState;

    use super::*;

    #[test]
    fn only_the_position_of_a_group_proves_that_an_item_was_passed() {
        let at = Timestamp::from_millis;
        let item = Item {
            number: 0,
            letter: LetterId(uuid::Uuid::nil()),
            state: ItemState::Sent,
            at: Some(at(10)),
            sent_at: Some(at(10)),
            partition: Some(3),
            offset: Some(7),
            note: None,
        };
        let positions = |next| Progress::Positions([(3, next)].into());
        assert_eq!(positions(8).conclusion(&item), Conclusion::Passed);
        assert_eq!(positions(7).conclusion(&item), Conclusion::Unknown);
        assert_eq!(Progress::EmptyAt(at(11)).conclusion(&item), Conclusion::Presumed);
        assert_eq!(Progress::EmptyAt(at(10)).conclusion(&item), Conclusion::Unknown);
        assert_eq!(Progress::Unknown.conclusion(&item), Conclusion::Unknown);
    }
}

//! What a run has seen, as its guards are shown it: what came back and since when it counts, and the traffic beside it.

use std::collections::BTreeSet;

use dlo_core::replay::Replay;
use dlo_core::replay::guard::CameBack;
use dlo_store::replays::SendEnd;
use tokio::time::Instant;

use super::calls::End;
use super::flaw::Flaw;
use super::note::Judged;
use super::outcome::Looked;
use super::runner::Runner;

/// Returns that are kept for the guards, the latest; more say nothing more.
const RETURNS: usize = 1_000;

impl Runner {
    pub(super) fn saw(&mut self, looked: Looked) {
        self.looked = Some((looked.at, Instant::now()));
        self.failed_seen = self.failed_asked;
        self.backlog = looked.backlog;
        self.canary_ripe = looked.canary_ripe;
        for (number, back) in looked.returns {
            self.came_back(number, back);
        }
        if looked.concluded > 0 {
            self.writes += 1;
            self.dry = false;
            self.refreshed = None;
        }
        if let Some(published) = looked.published {
            self.normal.seen(published, self.tally.sent + self.normal.markers);
        }
    }

    /// What was sent before a person last let it go on says nothing about what they let go: its deaths may be stored later.
    fn came_back(&mut self, number: u64, back: CameBack) {
        let by_death = self.hand.engine.flaw.has(Flaw::JudgeByDeath);
        let sent_at = back.sent_at.filter(|_| !by_death).unwrap_or(back.at);
        if self.note.judged.until.is_some_and(|until| sent_at <= until) {
            self.earlier.insert(number);
            return;
        }
        if self.returned.insert(number) {
            self.returned_lately.push_back(back.at);
            if self.returns.len() >= RETURNS {
                self.returns.remove(0);
            }
            self.returns.push(back);
        }
    }

    /// What was seen up to now is judged: what a person lets go on has a canary of its own. What is with the broker at
    /// this moment belongs to what was before.
    pub(super) fn judge(&mut self, replay: &Replay) {
        let with_broker = self.tally.in_hand.saturating_sub(self.tally.ready);
        self.note.judged = Judged::now(&replay.counts, self.tally.sent + with_broker, self.hand.now());
        self.to_judge = true;
        self.returns.clear();
        self.earlier.clear();
        self.returned_lately.clear();
    }
}

/// Partitions that a batch went to.
pub(super) fn partitions(ends: &[End]) -> u64 {
    let partition = |end: &End| match end.end {
        SendEnd::Sent { partition, .. } => Some(partition),
        SendEnd::Unsent | SendEnd::Refused(_) | SendEnd::Doubtful => None,
    };
    ends.iter().filter_map(partition).collect::<BTreeSet<_>>().len() as u64
}

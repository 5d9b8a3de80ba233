//! The repairs that stand beside a letter. Their differences show payload, so they come only with it.
//!
//! Which repair a replay would send, and which one failed last, are told apart: a repair that died is no good news.

use std::sync::Arc;

use dlo_core::id::LetterId;
use dlo_core::letter::{LetterDetail, Status, Step};
use dlo_core::time::Timestamp;
use dlo_store::{Event, Repair, TimelineEntry};

use crate::api::error::Answer;
use crate::api::repairs::{one, shown_repairs};
use crate::office::Office;
use crate::ui::show::When;

/// How repairs bear on what is sent and on what failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mending {
    /// The repair that a replay sends, unless the original is sent.
    pub(super) active: Option<u32>,
    /// The repair that was sent and died last, unless that was the original.
    pub(super) failed: Option<u32>,
    status: Status,
}

impl Mending {
    pub(super) fn of(repairs: &[Repair], detail: &LetterDetail, timeline: &[TimelineEntry]) -> Self {
        let number = |repair: &Repair| (!repair.is_as_captured()).then_some(repair.number);
        let failed = sent_before_last_death(detail, timeline)
            .and_then(|at| repairs.iter().rev().find(|repair| repair.at <= at))
            .and_then(number);
        let active = repairs.iter().find(|repair| repair.active).and_then(number);
        Self { active, failed, status: detail.letter.status }
    }

    /// The active one is what failed: sending it once more changes nothing.
    pub(super) fn is_spent(&self) -> bool {
        self.active.is_some() && self.active == self.failed
    }

    /// How the badge of a repair looks, and what it says.
    fn badge(&self, repair: &Repair) -> Option<(&'static str, &'static str)> {
        let open = self.status == Status::Open;
        match (repair.active, self.failed == Some(repair.number)) {
            (true, _) if repair.is_as_captured() => Some(("", "withdrawn: a replay sends the original")),
            (true, true) if open => {
                Some(("warn", "it was sent, and died again; a replay would send it once more"))
            }
            (_, true) => Some(("warn", "it was sent, and died again")),
            (true, false) if open => Some(("good", "a replay sends this one")),
            (true, false) => Some(("", "the latest")),
            (false, false) => None,
        }
    }
}

/// When the message was sent that died last; `None`: it died on its way to no replay.
fn sent_before_last_death(detail: &LetterDetail, timeline: &[TimelineEntry]) -> Option<Timestamp> {
    let death = detail.deaths.last()?;
    let send = death.replay_id.as_deref()?;
    let is_send = |entry: &&TimelineEntry| {
        matches!(entry.what, Event::Step(Step::Send | Step::FoundSent))
            && entry.reference.as_deref() == Some(send)
    };
    // A death can arrive before the record that it was sent.
    Some(timeline.iter().rev().find(is_send).map_or(death.captured_at, |entry| entry.at))
}

pub(super) struct RepairLine {
    pub(super) number: u32,
    /// Whether a replay sends this one, and it is not the original.
    pub(super) active: bool,
    /// It took the ones before back.
    pub(super) as_captured: bool,
    pub(super) badge: Option<(&'static str, &'static str)>,
    pub(super) at: When,
    pub(super) author: String,
    pub(super) reason: String,
    pub(super) expression: Option<String>,
    /// Lines with the class that marks them.
    pub(super) diff: Option<Vec<(&'static str, String)>>,
}

/// The repairs, latest first; `shows`: with their differences.
pub(super) async fn lines(
    office: &Arc<Office>,
    id: LetterId,
    repairs: Vec<Repair>,
    mending: Mending,
    shows: bool,
) -> Answer<Vec<RepairLine>> {
    if repairs.is_empty() {
        return Ok(Vec::new());
    }
    let diffs: Vec<Option<String>> = if shows {
        // The look at it was written down when the payload was read for the same page.
        let opened = one(office, id, None).await?;
        shown_repairs(office, opened, repairs.clone())
            .await?
            .into_iter()
            .map(|shown| Some(shown.diff))
            .collect()
    } else {
        repairs.iter().map(|_| None).collect()
    };
    let line = |(repair, diff)| line(office, repair, diff, mending);
    Ok(repairs.into_iter().zip(diffs).rev().map(line).collect())
}

fn line(office: &Office, repair: Repair, diff: Option<String>, mending: Mending) -> RepairLine {
    RepairLine {
        number: repair.number,
        active: mending.active == Some(repair.number),
        as_captured: repair.is_as_captured(),
        badge: mending.badge(&repair),
        at: When::new(repair.at, office.now()),
        author: repair.author,
        reason: office.mask.over(repair.reason).unwrap_or_default(),
        expression: office.mask.over(repair.expression),
        diff: diff.map(|diff| marked(&diff)),
    }
}

/// Each line of a difference with how it is marked.
fn marked(diff: &str) -> Vec<(&'static str, String)> {
    let class = |line: &str| match line.as_bytes().first() {
        Some(b'+') => "in",
        Some(b'-') => "out",
        Some(b'@') => "place",
        _ => "both",
    };
    diff.lines().map(|line| (class(line), line.to_string())).collect()
}

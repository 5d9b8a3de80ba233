//! Splitting on the Group screen: a condition that is tried before it is made, and the conditions that hold.
//!
//! Trying is a question in the address, so it works without script, and says what would become of the letters that are here.

use dlo_core::group::{Condition, Group};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::time::Timestamp;
use dlo_store::Glimpse;
use dlo_store::triage::Split;

use super::Failed;
use super::groups::GroupLine;
use super::show::When;
use crate::office::Office;

/// Matches counted for people who wait.
const COUNTED: u64 = 100_000;

/// A condition that was typed, and what is to be said of it.
#[derive(Default)]
pub(super) struct Trial {
    pub(super) typed: String,
    /// Whether it can be made, and how many letters match or why not.
    pub(super) answer: Option<(bool, String)>,
}

impl Trial {
    pub(super) async fn new(office: &Office, group: &Group, typed: Option<&str>) -> Result<Self, Failed> {
        let Some(typed) = typed.map(str::trim).filter(|typed| !typed.is_empty()) else {
            return Ok(Self::default());
        };
        let answer = match Condition::parse(typed) {
            Err(refused) => (false, refused.to_string()),
            Ok(condition) => match office.mask.forbids(&condition) {
                Some(why) => (false, why),
                None => {
                    let mut query = office.mask.query(condition.query().clone());
                    query.terms.push(Term { negated: false, matcher: Matcher::Group(group.id) });
                    (true, matching(office, group, &query).await?)
                }
            },
        };
        Ok(Self { typed: typed.to_string(), answer: Some(answer) })
    }
}

async fn matching(office: &Office, group: &Group, query: &Query) -> Result<String, Failed> {
    let Glimpse { letters, whole } = office.store.glimpse(query, COUNTED).await?;
    let least = if whole { "" } else { "at least " };
    Ok(format!("{least}{letters} of its {} letters match now", group.counts.total()))
}

/// A condition that holds.
pub(super) struct SplitLine {
    pub(super) group: GroupLine,
    pub(super) condition: String,
    pub(super) at: When,
    pub(super) author: String,
    pub(super) moving: bool,
}

impl SplitLine {
    pub(super) fn new(split: &Split, now: Timestamp) -> Self {
        let condition = split.group.split.as_ref().map(|off| off.condition.clone());
        Self {
            group: GroupLine::new(&split.group, now),
            condition: condition.unwrap_or_default(),
            at: When::new(split.at, now),
            author: split.author.clone(),
            moving: split.moving,
        }
    }
}

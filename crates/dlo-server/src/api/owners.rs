//! Owners: each team with its contact, its promise, and how much waits for it; and what nobody owns.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::letter::Status;
use dlo_core::teams::Standing;
use dlo_core::time::Timestamp;
use dlo_store::triage::GroupOrder;
use dlo_store::{GroupFilter, Page};
use serde::Serialize;

use super::error::Answer;
use crate::office::Office;

/// One team, or nobody.
#[derive(Debug, Default, Serialize)]
pub(crate) struct OwnerLine {
    /// `None`: groups that nobody owns.
    pub(crate) owner: Option<String>,
    pub(crate) contact: Option<String>,
    pub(crate) sla_seconds: Option<u64>,
    /// Groups with open letters that wait for somebody: neither closed nor put off.
    pub(crate) groups: u64,
    pub(crate) open: u64,
    pub(crate) oldest_open: Option<Timestamp>,
    /// Whether the oldest letter is older than was promised.
    pub(crate) overdue: bool,
    /// The same with how much, for people.
    #[serde(skip)]
    pub(crate) standing: Option<Standing>,
}

#[derive(Serialize)]
struct OwnersOut {
    owners: Vec<OwnerLine>,
}

pub(crate) async fn list(State(office): State<Arc<Office>>) -> Answer<Response> {
    Ok(Json(OwnersOut { owners: lines(&office).await? }).into_response())
}

/// Every team that is known or owns something, nobody first, then those with the most open letters.
pub(crate) async fn lines(office: &Office) -> Answer<Vec<OwnerLine>> {
    let teams = office.triage.teams();
    let empty = |owner: &Option<String>| {
        let team = owner.as_deref().and_then(|owner| teams.get(owner)).cloned().unwrap_or_default();
        let sla_seconds = team.sla.map(|sla| sla.as_secs());
        OwnerLine { owner: owner.clone(), contact: team.contact, sla_seconds, ..OwnerLine::default() }
    };
    let mut lines: BTreeMap<Option<String>, OwnerLine> =
        teams.0.keys().map(|name| Some(name.clone())).map(|owner| (owner.clone(), empty(&owner))).collect();
    // Oldest first, so that the first group of an owner has its oldest letter.
    let filter = GroupFilter { order: GroupOrder::OldestOpen, ..GroupFilter::default() };
    let mut page = Page::first(Page::MOST);
    loop {
        let found = office.shown().groups(&filter, &page).await?;
        for group in &found.groups {
            let line = lines.entry(group.owner.clone()).or_insert_with_key(empty);
            if line.oldest_open.is_none() {
                line.oldest_open = office.store.oldest_open(&[group.id]).await?.into_iter().next().flatten();
            }
            line.groups += u64::from(group.life.status.is_active());
            line.open += group.counts.get(Status::Open);
        }
        match found.next {
            Some(next) => page.cursor = Some(next),
            None => break,
        }
    }
    let now = office.now();
    let mut lines: Vec<OwnerLine> = lines.into_values().collect();
    for line in &mut lines {
        line.standing = teams.standing(line.owner.as_deref(), line.oldest_open, now);
        line.overdue = matches!(line.standing, Some(Standing::Over { .. }));
    }
    lines.sort_by_key(|line| (line.owner.is_some(), std::cmp::Reverse(line.open)));
    Ok(lines)
}

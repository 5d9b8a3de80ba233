//! A group with everything that belongs to it, and a look into its newest letters.

use dlo_core::deploy::{Deploy, SHORTLY, began_after};
use dlo_core::group::{Group, Similar};
use dlo_core::id::GroupId;
use dlo_core::known::{Known, Symptom};
use dlo_core::limits;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::sample::{Sample, break_down};
use dlo_core::teams::{Standing, Team};
use dlo_core::time::Timestamp;
use dlo_store::triage::{Link, Note, Runbook, Split};
use dlo_store::{AuditEntry, Deed, Event, Page, StoreError};

use crate::api::error::Answer;
use crate::office::Office;

/// Entries of a group's history that are told.
const HISTORY: usize = 50;
/// Marks that are looked at before a beginning.
const MARKS: usize = 200;

/// Everything that is told of one group.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) group: Group,
    pub(crate) members: Vec<Group>,
    /// The conditions that lead from it to other groups.
    pub(crate) splits: Vec<Split>,
    pub(crate) oldest_open: Option<Timestamp>,
    pub(crate) team: Option<Team>,
    pub(crate) standing: Option<Standing>,
    pub(crate) known: Option<Known>,
    pub(crate) similar: Vec<(Group, Similar)>,
    pub(crate) notes: Vec<Note>,
    pub(crate) links: Vec<Link>,
    pub(crate) runbook: Option<Runbook>,
    /// Marks shortly before it began or came back; [`began_after`] says which is the likely one.
    pub(crate) deploys: Vec<Deploy>,
    pub(crate) history: Vec<AuditEntry>,
}

/// Puts together what is told of a group, masked.
pub(crate) async fn whole(office: &Office, id: GroupId) -> Answer<Whole> {
    let shown = office.shown();
    let group = office.store.group(id).await?;
    let id = group.id;
    let known = known(office, &group).await?;
    let began = group.life.regressed_at.unwrap_or(group.first_seen);
    let oldest_open = office.store.oldest_open(&[id]).await?.into_iter().next().flatten();
    let teams = office.triage.teams();
    let members = if group.members > 0 { shown.members(id).await? } else { Vec::new() };
    let group = office.mask.over(group);
    Ok(Whole {
        standing: teams.standing(group.owner.as_deref(), oldest_open, office.now()),
        team: group.owner.as_deref().and_then(|owner| teams.get(owner)).cloned(),
        known,
        members,
        splits: shown.splits(id).await?,
        oldest_open,
        similar: shown.similar_groups(id).await?,
        notes: shown.notes(id).await?,
        links: shown.links(id).await?,
        runbook: shown.runbook(id).await?,
        deploys: shown.deploys(Some(began.minus(SHORTLY)), Some(began), MARKS).await?,
        history: shown.group_history(id, HISTORY).await?,
        group,
    })
}

impl Whole {
    /// The deployment after which it began or came back.
    pub(crate) fn began_after(&self) -> Option<dlo_core::deploy::BeganAfter<'_>> {
        began_after(&self.group, &self.deploys)
    }
}

/// What a group usually means: its words speak first, then the code and the reason of its newest letter.
async fn known(office: &Office, group: &Group) -> Answer<Option<Known>> {
    let Some(patterns) = office.triage.known() else { return Ok(None) };
    let term = Term { negated: false, matcher: Matcher::Group(group.id) };
    let newest = office.store.letters(&Query { terms: vec![term] }, &Page::first(1)).await?.letters.pop();
    Ok(patterns.find(&Symptom {
        queue: &group.queue,
        consumer: group.consumer.as_deref(),
        event_type: group.event_type.as_deref(),
        class: group.error_class.as_deref(),
        message: &group.template,
        code: newest.as_ref().and_then(|letter| letter.error_code.as_deref()),
        reason: newest.as_ref().map(|letter| letter.reason),
    }))
}

/// What the newest letters of a group have in common. Payloads are read for it, so that is audited; what is hidden stays so.
pub(crate) async fn sample(office: &Office, id: GroupId, most: usize, reader: &Deed) -> Answer<Sample> {
    let sampled = office.shown().sample(id, most.min(limits::SAMPLE)).await?;
    if !sampled.is_empty() {
        // Which letters were looked into is told by the group whose newest they are.
        let reader = Deed { reference: Some(Matcher::Group(id).to_string()), ..reader.clone() };
        office.store.note(Event::PayloadRead, sampled.len() as u64, &reader, office.now()).await?;
    }
    // Documents of some megabytes are read: not on a thread that answers others.
    let work = move || break_down(sampled.iter().map(|one| (one.key.as_deref(), &one.payload[..])));
    let broken_down = tokio::task::spawn_blocking(work).await;
    broken_down.map_err(|e| StoreError::Refused(format!("a sample could not be broken down: {e}")).into())
}

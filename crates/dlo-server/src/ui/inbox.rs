//! The inbox: what is wrong right now, one line for each cause.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::group::Group;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use dlo_store::{GroupFilter, Stats};
use serde::Deserialize;

use super::show::ago;
use super::{Failed, Shell, render};
use crate::office::Office;
use crate::query_text::{Params, page as page_of};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboxParams {
    /// `all`: also groups that have nothing open.
    show: Option<String>,
    cursor: Option<String>,
}

/// A group as a line.
#[derive(Debug)]
pub(crate) struct GroupLine {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) consumer: String,
    pub(crate) event_type: String,
    pub(crate) class: String,
    pub(crate) status: String,
    pub(crate) open: u64,
    pub(crate) total: u64,
    pub(crate) first: When,
    pub(crate) last: When,
    pub(crate) owner: Option<String>,
}

/// A time, relative for reading and exact for pointing at.
#[derive(Debug)]
pub(crate) struct When {
    pub(crate) exact: String,
    pub(crate) ago: String,
}

impl When {
    pub(crate) fn new(time: Timestamp, now: Timestamp) -> Self {
        Self { exact: time.to_string(), ago: ago(time, now) }
    }
}

impl GroupLine {
    pub(crate) fn new(group: &Group, now: Timestamp) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self {
            id: group.id.to_string(),
            title: group.title(),
            source: group.source.clone(),
            consumer: text(&group.consumer),
            event_type: text(&group.event_type),
            class: text(&group.error_class),
            status: group.life.status.to_string(),
            open: group.counts.get(Status::Open),
            total: group.counts.total(),
            first: When::new(group.first_seen, now),
            last: When::new(group.last_seen, now),
            owner: group.owner.clone(),
        }
    }
}

struct SourceLine {
    name: String,
    open: u64,
    captured: u64,
    oldest: Option<When>,
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct Inbox {
    shell: Shell,
    q: String,
    all: bool,
    open: u64,
    total: u64,
    group_count: u64,
    unowned: u64,
    sources: Vec<SourceLine>,
    groups: Vec<GroupLine>,
    next: Option<String>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<InboxParams>,
) -> Result<Response, Failed> {
    let all = params.show.as_deref() == Some("all");
    let filter = GroupFilter { holding: (!all).then_some(Status::Open), ..GroupFilter::default() };
    let stats = office.store.stats().await?;
    let mut found = office.store.groups(&filter, &page_of(None, params.cursor)?).await?;
    office.mask.groups(&mut found.groups);
    let now = office.now();
    Ok(render(&Inbox {
        shell,
        q: String::new(),
        all,
        open: stats.letters.get(Status::Open),
        total: stats.letters.total(),
        group_count: stats.groups,
        unowned: stats.unowned,
        sources: sources(&stats, now),
        groups: found.groups.iter().map(|group| GroupLine::new(group, now)).collect(),
        next: found.next.map(|cursor| cursor.0),
    }))
}

fn sources(stats: &Stats, now: Timestamp) -> Vec<SourceLine> {
    let line = |source: &dlo_store::SourceStats| SourceLine {
        name: source.source.clone(),
        open: source.counts.get(Status::Open),
        captured: source.captured,
        oldest: source.oldest_open.map(|oldest| When::new(oldest, now)),
    };
    stats.sources.iter().map(line).collect()
}

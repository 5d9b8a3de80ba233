//! One group: what failed, who has it, whether it can be replayed; how it went, what its letters share, what people
//! wrote beside it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::deploy::Deploy;
use dlo_core::group::{Change, Group, why};
use dlo_core::id::GroupId;
use dlo_core::known::Known;
use dlo_core::letter::Status;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::teams::Standing;
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use dlo_store::triage::{Link, Note, Runbook};
use dlo_store::{AuditEntry, Page};
use serde::Deserialize;

mod answers;
mod teams;

use super::draw::{Layer, Mark, Svg, Trend, trend};
use super::groups::GroupLine;
use super::held::Held;
use super::letters::LetterLine;
use super::markdown::Prose;
use super::shared::Shared;
use super::show::{When, columns};
use super::splits::{SplitLine, Trial};
use super::{Failed, Shell, render, words};
use crate::office::Office;
use crate::query_text::{Author, Id, Params};
use crate::triage::{sample, whole};
use answers::Ahead;
use teams::Teams;

/// Letters shown as samples, letters looked into for what they share, deployments marked, deeds told.
const SAMPLES: usize = 12;
const LOOKED_INTO: usize = 200;
const DEPLOYS: usize = 20;
const DEEDS: usize = 15;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupParams {
    #[serde(default)]
    span: Span,
    /// `payloads`: compare the newest ones, which is written to the audit log.
    look: Option<String>,
    /// A condition that is tried: how many letters it would split off.
    #[serde(rename = "where")]
    condition: Option<String>,
}

/// How far back the trend goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Span {
    Hours2,
    #[default]
    Days2,
    Days90,
}

impl Span {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Hours2, "hours2", "2 hours by the minute"),
        (Self::Days2, "days2", "2 days by the hour"),
        (Self::Days90, "days90", "90 days by the day"),
    ];

    fn window(self, now: Timestamp) -> Window {
        match self {
            Self::Hours2 => Window::until(now, Resolution::Minute, 120),
            Self::Days2 => Window::until(now, Resolution::Hour, 48),
            Self::Days90 => Window::until(now, Resolution::Day, 90),
        }
    }
}

struct NoteLine {
    at: When,
    author: String,
    text: String,
}

struct DeedLine {
    at: When,
    what: String,
    author: String,
    reason: String,
}

/// A button that may be pressed, or says why not.
struct Button {
    word: &'static str,
    name: &'static str,
    key: &'static str,
    refused: Option<String>,
}

#[derive(Template)]
#[template(path = "group.html")]
struct GroupPage {
    shell: Shell,
    q: String,
    group: GroupLine,
    standing: String,
    /// When a snooze ends.
    wakes: Option<Ahead>,
    /// How its letters ended, when nothing is left to do with any of them.
    handled: Option<String>,
    teams: Teams,
    known: Option<Known>,
    /// How the answer looks, and what it is.
    replay: (&'static str, String),
    /// Letters in the hand of a replay, and of which.
    held: Option<(String, Held)>,
    contact: Option<String>,
    /// Whether the team's time is kept, and how it stands.
    promise: Option<(bool, String)>,
    began: Option<String>,
    spans: Vec<(&'static str, &'static str, bool)>,
    trend: Svg,
    parts: Vec<(String, String)>,
    version: u32,
    counts: Vec<(String, u64)>,
    /// What the payloads share, if somebody asked to compare them.
    sample: Option<Shared>,
    similar: Vec<(GroupLine, String)>,
    members: Vec<GroupLine>,
    /// The group it was split off, and by which condition.
    split_off: Option<(GroupId, String)>,
    splits: Vec<SplitLine>,
    trial: Trial,
    notes: Vec<NoteLine>,
    links: Vec<Link>,
    runbook: Option<Runbook>,
    prose: Prose,
    buttons: Vec<Button>,
    deeds: Vec<DeedLine>,
    letters: Vec<LetterLine>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    author: Author,
    Id(id): Id<GroupId>,
    Params(params): Params<GroupParams>,
) -> Result<Response, Failed> {
    let now = office.now();
    let whole = whole(&office, id).await?;
    let group = &whole.group;
    let query = Query { terms: vec![Term { negated: false, matcher: Matcher::Group(group.id) }] };
    let found = office.shown().letters(&query, &Page::first(SAMPLES)).await?;
    let sample = match params.look.as_deref() {
        Some("payloads") => Some(sample(&office, group.id, LOOKED_INTO, &author.looks()).await?),
        _ => None,
    };
    let line = |group: &Group| GroupLine::new(group, now);
    let alike = whole.similar.iter().map(|(group, similar)| (line(group), similar.because.join(", ")));
    Ok(render(&GroupPage {
        shell,
        q: format!("group:{}", group.id),
        standing: answers::standing(group, now),
        wakes: answers::wakes(group, now),
        handled: answers::handled(group),
        teams: Teams::read(&office, group.owner.as_deref()).await?,
        replay: answers::replayable(group, whole.known.as_ref()),
        held: held(&office, group).await?,
        contact: whole.team.as_ref().and_then(|team| team.contact.clone()),
        promise: whole
            .standing
            .map(|standing| (!matches!(standing, Standing::Over { .. }), words::standing(standing))),
        began: whole.began_after().and_then(|found| answers::began(&found, whole.known.as_ref(), now)),
        spans: Span::ALL.iter().map(|(span, word, name)| (*word, *name, *span == params.span)).collect(),
        trend: drawn(&office, group, params.span.window(now)).await?,
        parts: parts(group),
        version: group.fingerprint_version,
        counts: counts(group),
        sample: sample.as_ref().map(Shared::new),
        similar: alike.collect(),
        members: whole.members.iter().map(line).collect(),
        split_off: group.split.as_ref().map(|split| (split.from, split.condition.clone())),
        splits: whole.splits.iter().map(|split| SplitLine::new(split, now)).collect(),
        trial: Trial::new(&office, group, params.condition.as_deref()).await?,
        notes: whole.notes.iter().map(|note| NoteLine::new(note, now)).collect(),
        prose: whole.runbook.as_ref().map(|runbook| Prose::of(&runbook.text)).unwrap_or_default(),
        buttons: buttons(group, now),
        deeds: whole.history.iter().take(DEEDS).map(|row| DeedLine::new(row, now)).collect(),
        letters: found.letters.iter().map(|letter| LetterLine::new(letter, now)).collect(),
        group: line(group),
        known: whole.known,
        links: whole.links,
        runbook: whole.runbook,
    }))
}

fn counts(group: &Group) -> Vec<(String, u64)> {
    let some = group.counts.iter().filter(|(_, count)| *count > 0);
    some.map(|(status, count)| (status.to_string().replace('_', " "), count)).collect()
}

/// The replay that has letters of it in hand, and how many.
async fn held(office: &Office, group: &Group) -> Result<Option<(String, Held)>, Failed> {
    let count = group.counts.get(Status::Claimed);
    let held = if count > 0 { Held::of_group(office, group.id).await? } else { None };
    Ok(held.map(|held| (words::letters(count), held)))
}

async fn drawn(office: &Office, group: &Group, window: Window) -> Result<Svg, Failed> {
    let points = office.store.trends(&[group.id], window).await?.pop().unwrap_or_default();
    let deploys = office.shown().deploys(Some(window.begins()), None, Page::MOST).await?;
    let sum: u64 = points.iter().sum();
    let mark = |deploy: &Deploy| {
        let at = window.index(window.resolution.bucket(deploy.at))?;
        Some(Mark { at, text: format!("deployed {}", deploy.what.version) })
    };
    Ok(trend(&Trend {
        says: format!("{sum} letters of this group, by the {}", window.resolution),
        columns: columns(window),
        layers: vec![Layer { name: "letters".to_string(), points }],
        marks: deploys
            .iter()
            .filter(|deploy| deploy.what.may_concern(group))
            .filter_map(mark)
            .take(DEPLOYS)
            .collect(),
    }))
}

fn parts(group: &Group) -> Vec<(String, String)> {
    let part = |part: dlo_core::group::Part<'_>| {
        (part.name.replace('_', " "), part.value.unwrap_or("(the letters do not say)").to_string())
    };
    why(group).into_iter().map(part).collect()
}

/// What can be done with it from where it stands; what cannot says why.
fn buttons(group: &Group, now: Timestamp) -> Vec<Button> {
    let all = [
        ("acknowledge", "Acknowledge", "A", Change::Acknowledge),
        ("fix", "Being fixed", "F", Change::Fix),
        ("ignore", "Ignore", "I", Change::Ignore),
        ("reopen", "Reopen", "O", Change::Reopen),
    ];
    let button = |(word, name, key, change): (&'static str, &'static str, &'static str, Change)| Button {
        word,
        name,
        key,
        refused: change.apply(&group.life, now).err().map(|why| why.to_string()),
    };
    all.into_iter().map(button).collect()
}

impl DeedLine {
    fn new(row: &AuditEntry, now: Timestamp) -> Self {
        Self {
            at: When::new(row.at, now),
            what: row.what.as_str().trim_start_matches("group_").replace('_', " "),
            author: row.author.clone(),
            reason: [&row.reason, &row.reference]
                .into_iter()
                .flatten()
                .cloned()
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

impl NoteLine {
    fn new(note: &Note, now: Timestamp) -> Self {
        Self { at: When::new(note.at, now), author: note.author.clone(), text: note.text.clone() }
    }
}

//! One group: what failed, who has it, whether it can be replayed; how it went, what its letters share, what people
//! wrote beside it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::deploy::{Beginning, Deploy, began_after};
use dlo_core::group::{Change, Group, GroupStatus, why};
use dlo_core::id::GroupId;
use dlo_core::known::{Known, ReplayHelps};
use dlo_core::letter::Status;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::sample::{Sample, break_down};
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use dlo_store::Page;
use dlo_store::triage::{Link, Note, Runbook};
use serde::Deserialize;

use super::draw::{Layer, Mark, Svg, Trend, meter, trend};
use super::groups::GroupLine;
use super::letters::LetterLine;
use super::markdown::Prose;
use super::show::{When, clock};
use super::{Failed, Shell, render};
use crate::office::Office;
use crate::query_text::{Id, Params};

/// Letters shown as samples, letters looked into for what they share, fields told, deployments marked, deeds told.
const SAMPLES: usize = 12;
const LOOKED_INTO: usize = 200;
const FIELDS: usize = 8;
const DEPLOYS: usize = 20;
const DEEDS: usize = 15;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupParams {
    #[serde(default)]
    span: Span,
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

struct FieldLine {
    path: String,
    distinct: String,
    values: Vec<ValueLine>,
}

struct ValueLine {
    value: String,
    query: Option<String>,
    percent: String,
    bar: Svg,
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
    known: Option<Known>,
    replay: (bool, String),
    contact: Option<String>,
    began: Option<String>,
    spans: Vec<(&'static str, &'static str, bool)>,
    trend: Svg,
    parts: Vec<(String, String)>,
    version: u32,
    counts: Vec<(String, u64)>,
    keys: String,
    looked: usize,
    fields: Vec<FieldLine>,
    similar: Vec<(GroupLine, String)>,
    members: Vec<GroupLine>,
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
    Id(id): Id<GroupId>,
    Params(params): Params<GroupParams>,
) -> Result<Response, Failed> {
    let now = office.now();
    let store = &office.store;
    let mut group = store.group(id).await?;
    office.mask.groups(std::slice::from_mut(&mut group));
    let query = Query { terms: vec![Term { negated: false, matcher: Matcher::Group(group.id) }] };
    let mut found = store.letters(&query, &Page::first(SAMPLES)).await?;
    office.mask.letters(&mut found.letters);
    let deploys = store.deploys(None, None, DEPLOYS).await?;
    let sample = looked_into(&office, group.id).await?;
    let known = known(&group);
    let runbook = store.runbook(group.id).await?;
    let lines = |groups: &mut Vec<Group>| {
        office.mask.groups(groups);
        groups.iter().map(|group| GroupLine::new(group, now)).collect::<Vec<_>>()
    };
    let (mut alike, because): (Vec<Group>, Vec<String>) = store
        .similar_groups(group.id)
        .await?
        .into_iter()
        .map(|(group, similar)| (group, similar.because.join(", ")))
        .unzip();
    Ok(render(&GroupPage {
        q: format!("group:{}", group.id),
        standing: standing(&group, now),
        replay: replayable(&group, known.as_ref()),
        contact: None,
        began: began(&group, &deploys, now),
        spans: Span::ALL.iter().map(|(span, word, name)| (*word, *name, *span == params.span)).collect(),
        trend: drawn(&office, &group, params.span.window(now), &deploys).await?,
        parts: parts(&group),
        version: group.fingerprint_version,
        counts: group
            .counts
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(status, n)| (status.to_string().replace('_', " "), n))
            .collect(),
        keys: keys(&sample),
        looked: sample.letters,
        fields: fields(&sample),
        similar: lines(&mut alike).into_iter().zip(because).collect(),
        members: lines(&mut store.members(group.id).await?),
        notes: store.notes(group.id).await?.into_iter().map(|note| NoteLine::new(note, now)).collect(),
        links: store.links(group.id).await?,
        prose: runbook.as_ref().map(|runbook| Prose::of(&runbook.text)).unwrap_or_default(),
        runbook,
        buttons: buttons(&group, now),
        deeds: deeds(&office, group.id, now).await?,
        letters: found.letters.iter().map(|letter| LetterLine::new(letter, now)).collect(),
        group: GroupLine::new(&group, now),
        known,
        shell,
    }))
}

async fn looked_into(office: &Office, id: GroupId) -> Result<Sample, Failed> {
    let sampled = office.store.sample(id, LOOKED_INTO).await?;
    Ok(break_down(sampled.iter().map(|one| (one.key.as_deref(), &one.payload[..]))))
}

fn known(group: &Group) -> Option<Known> {
    dlo_core::known::KnownPatterns::compile(Vec::new()).ok()?.find(&dlo_core::known::Symptom {
        queue: &group.queue,
        consumer: group.consumer.as_deref(),
        event_type: group.event_type.as_deref(),
        class: group.error_class.as_deref(),
        message: &group.template,
        code: None,
        reason: None,
    })
}

/// Where people stand with it, in a sentence.
fn standing(group: &Group, now: Timestamp) -> String {
    let since =
        group.life.since.map(|since| format!(", {}", super::show::ago(since, now))).unwrap_or_default();
    let version = group.life.resolved_in.as_deref();
    match group.life.status {
        GroupStatus::New => "Nobody has looked at it yet".to_string(),
        GroupStatus::Acknowledged => format!("Somebody has seen it{since}"),
        GroupStatus::Fixing => format!("It is being fixed{since}"),
        GroupStatus::Resolved => {
            format!("Resolved{}{since}", version.map(|v| format!(" in {v}")).unwrap_or_default())
        }
        GroupStatus::Regressed => {
            format!(
                "It came back{since}{}",
                version.map(|v| format!(", although it was said to be fixed in {v}")).unwrap_or_default()
            )
        }
        GroupStatus::Snoozed => {
            let snooze = group.life.snooze;
            let until = snooze.and_then(|snooze| snooze.until).map(|until| format!(" until {until}"));
            let letters = snooze
                .and_then(|snooze| snooze.letters)
                .map(|letters| format!(" until {letters} more letters came"));
            format!("Snoozed{}{}", until.unwrap_or_default(), letters.unwrap_or_default())
        }
        GroupStatus::Ignored => format!("Ignored{since}"),
    }
}

/// Whether sending the letters on can help, and why.
fn replayable(group: &Group, known: Option<&Known>) -> (bool, String) {
    if group.counts.get(Status::Open) == 0 {
        return (false, "No letter is open: there is nothing to send.".to_string());
    }
    match known.map(|known| known.replay_helps) {
        Some(ReplayHelps::Unchanged) => (
            true,
            "Yes, when whatever was away is back. A few go first, and it stops if they fail again.".into(),
        ),
        Some(ReplayHelps::AfterAFix) => {
            (true, "Yes, once the cause is fixed. A few go first, and it stops if they fail again.".into())
        }
        Some(ReplayHelps::AfterARepair) => (
            true,
            "After a repair: the message itself is wrong. Open a letter, or repair on the way in the plan."
                .into(),
        ),
        Some(ReplayHelps::Never) => {
            (false, "Sending them again will not help. Discard or compensate them, with a reason.".into())
        }
        Some(ReplayHelps::Unknown) | None => {
            (true, "It can be tried: a few go first, and it stops by itself if they fail again.".into())
        }
    }
}

fn began(group: &Group, deploys: &[Deploy], now: Timestamp) -> Option<String> {
    let found = began_after(group, deploys)?;
    let what = match found.what {
        Beginning::FirstSeen => "It began",
        Beginning::Regressed => "It came back",
    };
    let of = found.deploy.what.consumer.as_deref().or(found.deploy.what.source.as_deref());
    let of = of.map(|name| format!(" of {name}")).unwrap_or_default();
    let when = super::show::ago(found.deploy.at, now);
    Some(format!("{what} after deployment {}{of} ({when}).", found.deploy.what.version))
}

async fn drawn(office: &Office, group: &Group, window: Window, deploys: &[Deploy]) -> Result<Svg, Failed> {
    let points = office.store.trends(&[group.id], window).await?.pop().unwrap_or_default();
    let sum: u64 = points.iter().sum();
    let mark = |deploy: &Deploy| {
        let at = window.index(window.resolution.bucket(deploy.at))?;
        Some(Mark { at, text: format!("deployed {}", deploy.what.version) })
    };
    Ok(trend(&Trend {
        says: format!("{sum} letters of this group, by the {}", window.resolution),
        columns: (0..window.buckets)
            .map(|at| clock(window.resolution.begins(window.from + at as i64)))
            .collect(),
        layers: vec![Layer { name: "letters".to_string(), points }],
        marks: deploys.iter().filter_map(mark).collect(),
    }))
}

fn parts(group: &Group) -> Vec<(String, String)> {
    let part = |part: dlo_core::group::Part<'_>| {
        (part.name.replace('_', " "), part.value.unwrap_or("(the letters do not say)").to_string())
    };
    why(group).into_iter().map(part).collect()
}

fn keys(sample: &Sample) -> String {
    match (sample.distinct_keys, sample.keys.first()) {
        (0, _) | (_, None) => "The letters carry no keys.".to_string(),
        (1, Some(key)) => format!("All of one key: {}", key.value),
        (many, Some(key)) => format!(
            "{many} different keys among the newest {}; most often {} ({})",
            sample.letters, key.value, key.count
        ),
    }
}

fn fields(sample: &Sample) -> Vec<FieldLine> {
    let line = |field: &dlo_core::sample::Field| FieldLine {
        path: field.path.clone(),
        distinct: if field.many {
            "very many values".into()
        } else if field.distinct == 1 {
            "one value".into()
        } else {
            format!("{} values", field.distinct)
        },
        values: field.values.iter().map(|value| value_line(field, value)).collect(),
    };
    sample.fields.iter().take(FIELDS).map(line).collect()
}

fn value_line(field: &dlo_core::sample::Field, value: &dlo_core::sample::Counted) -> ValueLine {
    let percent = format!("{:.0} %", value.share * 100.0);
    let (part, whole) = (value.count as u64, field.count as u64);
    let simple = !value.value.contains(['"', '\\', '…']) && value.value != "***";
    ValueLine {
        query: simple.then(|| super::encoded(&format!("payload.{}:\"{}\"", field.path, value.value))),
        bar: meter(&format!("{}: {percent}", value.value), part, whole, 0),
        value: value.value.clone(),
        percent,
    }
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

async fn deeds(office: &Office, id: GroupId, now: Timestamp) -> Result<Vec<DeedLine>, Failed> {
    let rows = office.store.group_history(id, DEEDS).await?;
    let line = |row: dlo_store::AuditEntry| DeedLine {
        at: When::new(row.at, now),
        what: row.what.as_str().trim_start_matches("group_").replace('_', " "),
        author: row.author,
        reason: [row.reason, row.reference].into_iter().flatten().collect::<Vec<_>>().join(", "),
    };
    Ok(rows.into_iter().map(line).collect())
}

impl NoteLine {
    fn new(note: Note, now: Timestamp) -> Self {
        Self { at: When::new(note.at, now), author: note.author, text: note.text }
    }
}

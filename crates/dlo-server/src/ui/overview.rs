//! The overview: how the office stands, what is new, and what is being sent on, on one screen.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::group::GroupStatus;
use dlo_core::letter::Status;
use dlo_core::replay::{ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use dlo_core::trouble::{Trouble, TroubleScope};
use dlo_store::triage::{AgeCount, GroupOrder};
use dlo_store::{GroupFilter, Page, Stats};

use super::draw::{Bar, Layer, ROADS, Road, Svg, Trend, bars, legend_class, map, trend};
use super::groups::{self, GroupLine};
use super::held::Held;
use super::replays::badge;
use super::show::{When, age, columns};
use super::{Failed, Shell, render, words};
use crate::capture::CaptureStatus;
use crate::office::Office;
use crate::server::Switch;

/// Hours of the trend, groups that are news, replays that are named.
const HOURS: usize = 48;
const NEWS: usize = 6;
const REPLAYS: usize = 5;
/// Classes that have a colour of their own; the rest is drawn together.
const COLOURS: usize = 5;

struct SourceLine {
    name: String,
    open: u64,
    captured: u64,
    oldest: Option<When>,
    waiting: String,
    trouble: Option<String>,
    /// What its consumer does not do.
    consumer: Option<String>,
}

struct ReplayLine {
    id: String,
    state: &'static str,
    state_word: String,
    reason: String,
    done: u64,
    total: u64,
    returned: u64,
    planned: When,
}

/// A replay that waits for a person, and why.
struct Halted {
    replay: Held,
    holds: String,
    stop: String,
}

/// A switch of whoever embeds the office.
struct Press {
    path: &'static str,
    label: &'static str,
    hint: &'static str,
    /// What it did, once it is on.
    done: Option<&'static str>,
}

struct Legend {
    class: String,
    name: String,
    total: u64,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    q: String,
    open: u64,
    total: u64,
    in_doubt: u64,
    /// In the hand of replays: neither open nor over.
    held: u64,
    /// Sent, and not known to be handled: the outcome is open, unknown or only presumed.
    sent: u64,
    recovered: u64,
    routed: u64,
    discarded: u64,
    compensated: u64,
    halted: Vec<Halted>,
    unowned: u64,
    new: u64,
    regressed: u64,
    oldest: Option<When>,
    trend: Svg,
    legend: Vec<Legend>,
    ages: Option<Svg>,
    news: Vec<GroupLine>,
    map: Option<Svg>,
    sources: Vec<SourceLine>,
    /// Dead-letter queues that are captured, by name.
    captured: Vec<String>,
    replays: Vec<ReplayLine>,
    presses: Vec<Press>,
}

pub(crate) async fn page(State(office): State<Arc<Office>>, shell: Shell) -> Result<Response, Failed> {
    let now = office.now();
    let stats = office.store.stats().await?;
    let tally = office.store.tally_groups(None).await?;
    let (drawn, legend) = by_class(&office, now).await?;
    let captures = office.capture_status();
    let troubles = office.troubles();
    let news = GroupFilter {
        statuses: vec![GroupStatus::New, GroupStatus::Regressed],
        holding: Some(Status::Open),
        order: GroupOrder::FirstSeen,
        ..GroupFilter::default()
    };
    let oldest = stats.sources.iter().filter_map(|source| source.oldest_open).min();
    Ok(render(&Overview {
        shell,
        q: String::new(),
        open: stats.letters.get(Status::Open),
        total: stats.letters.total(),
        in_doubt: stats.letters.get(Status::InDoubt),
        held: stats.letters.get(Status::Claimed),
        sent: stats.letters.get(Status::Sent),
        recovered: stats.letters.get(Status::Recovered),
        routed: stats.letters.get(Status::Routed),
        discarded: stats.letters.get(Status::Discarded),
        compensated: stats.letters.get(Status::Compensated),
        halted: halted(&office).await?,
        unowned: stats.unowned,
        new: tally.get(GroupStatus::New),
        regressed: tally.get(GroupStatus::Regressed),
        oldest: oldest.map(|oldest| When::new(oldest, now)),
        trend: drawn,
        legend,
        ages: office
            .triage
            .ages()
            .map(|ages| bars("Open letters by age", &ages.counts.iter().map(bar).collect::<Vec<_>>())),
        news: groups::some(&office, &news, NEWS).await?,
        map: if captures.is_empty() {
            None
        } else {
            Some(map(&roads(&office, &captures, &stats, &troubles).await?))
        },
        sources: sources(&stats, &captures, &troubles, now),
        captured: captures.iter().map(|capture| capture.dlq.clone()).collect(),
        replays: replays(&office, now).await?,
        presses: office.hooks.0.iter().map(press).collect(),
    }))
}

fn press(switch: &Switch) -> Press {
    let Switch { path, label, hint, done, .. } = *switch;
    Press { path, label, hint, done: (switch.is_on)().then_some(done) }
}

/// Replays that stand still with letters in hand; without them a failed replay would look like progress.
async fn halted(office: &Office) -> Result<Vec<Halted>, Failed> {
    let mut all = Vec::new();
    for state in [ReplayState::Stopped, ReplayState::Paused] {
        for replay in office.shown().replays(Some(state), &Page::first(REPLAYS)).await?.replays {
            let held = replay.counts.get(ItemState::Claimed) + replay.counts.get(ItemState::Intended);
            all.push(Halted {
                replay: Held::new(&replay),
                holds: words::letters(held),
                stop: replay.stop_reason.unwrap_or_default(),
            });
        }
    }
    Ok(all)
}

fn bar(age: &AgeCount) -> Bar {
    let name = match age.younger_than.map(|limit| limit.as_secs() / 3_600) {
        None => "older".to_string(),
        Some(hours @ 0..=24) => format!("< {hours} h"),
        Some(hours) => format!("< {} d", hours / 24),
    };
    Bar { name, count: age.count }
}

/// What failed in the last two days, stacked by class.
async fn by_class(office: &Office, now: Timestamp) -> Result<(Svg, Vec<Legend>), Failed> {
    let window = Window::until(now, Resolution::Hour, HOURS);
    let classes = office.shown().trend_by_class(None, window).await?;
    let mut layers: Vec<Layer> = Vec::new();
    let mut rest = Layer { name: "other classes".to_string(), points: vec![0; window.buckets] };
    for class in classes {
        if layers.len() < COLOURS && class.others == 0 {
            let name = class.error_class.unwrap_or_else(|| "no class".to_string());
            layers.push(Layer { name, points: class.counts });
        } else {
            for (sum, count) in rest.points.iter_mut().zip(class.counts) {
                *sum += count;
            }
        }
    }
    if rest.points.iter().any(|count| *count > 0) {
        layers.resize_with(COLOURS, Layer::default);
        layers.push(rest);
    }
    let legend =
        layers.iter().enumerate().filter(|(_, layer)| !layer.points.is_empty()).map(|(at, layer)| Legend {
            class: legend_class(at),
            name: layer.name.clone(),
            total: layer.points.iter().sum(),
        });
    let legend: Vec<Legend> = legend.filter(|entry| entry.total > 0).collect();
    let sum: u64 = legend.iter().map(|entry| entry.total).sum();
    let says = format!("{sum} letters in the last {HOURS} hours, by error class");
    Ok((trend(&Trend { says, columns: columns(window), layers, marks: Vec::new() }), legend))
}

async fn roads(
    office: &Office,
    captures: &[CaptureStatus],
    stats: &Stats,
    troubles: &[Trouble],
) -> Result<Vec<Road>, Failed> {
    let mut roads = Vec::new();
    for capture in captures.iter().take(ROADS) {
        let known = stats.sources.iter().find(|source| source.source == capture.source);
        let open = known.map_or(0, |source| source.counts.get(Status::Open));
        roads.push(Road {
            queue: capture.queue.clone(),
            consumer: consumer(office, &capture.source).await?,
            dlq: capture.dlq.clone(),
            waiting: waiting(capture),
            open: format!("{open} open"),
            broken: capture.problem.is_some(),
            paused: of_consumer(troubles, &capture.queue).is_some(),
        });
    }
    Ok(roads)
}

/// Who failed last there.
async fn consumer(office: &Office, source: &str) -> Result<String, Failed> {
    let filter = GroupFilter { source: Some(source.to_string()), ..GroupFilter::default() };
    let last = office.shown().groups(&filter, &Page::first(1)).await?.groups.into_iter().next();
    Ok(last.and_then(|group| group.consumer).unwrap_or_else(|| "not known".to_string()))
}

fn waiting(capture: &CaptureStatus) -> String {
    match capture.depth {
        Some(depth) => format!("{depth} waiting"),
        None => String::new(),
    }
}

/// What is wrong with a consumer of this queue.
fn of_consumer(troubles: &[Trouble], queue: &str) -> Option<String> {
    let concerns = |trouble: &&Trouble| {
        trouble.scope == TroubleScope::Consumer && trouble.queue.as_deref() == Some(queue)
    };
    troubles.iter().find(concerns).map(|trouble| format!("{}: {}", trouble.title, trouble.why))
}

/// Every source that has letters or is captured, also one that never got a letter.
fn sources(
    stats: &Stats,
    captures: &[CaptureStatus],
    troubles: &[Trouble],
    now: Timestamp,
) -> Vec<SourceLine> {
    let kept = stats.sources.iter().map(|source| source.source.as_str());
    let mut names: Vec<&str> = kept.chain(captures.iter().map(|capture| capture.source.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let line = |name: &str| {
        let kept = stats.sources.iter().find(|source| source.source == name);
        let capture = captures.iter().find(|capture| capture.source == name);
        let oldest = kept.and_then(|kept| kept.oldest_open);
        let depth = capture.and_then(|capture| capture.depth);
        SourceLine {
            name: name.to_owned(),
            open: kept.map_or(0, |kept| kept.counts.get(Status::Open)),
            captured: kept.map_or(0, |kept| kept.captured),
            oldest: oldest.map(|oldest| When { ago: age(oldest, now), exact: oldest.to_string() }),
            waiting: depth.map(|depth| depth.to_string()).unwrap_or_default(),
            trouble: capture.and_then(|capture| capture.problem.clone()),
            consumer: capture.and_then(|capture| of_consumer(troubles, &capture.queue)),
        }
    };
    names.into_iter().map(line).collect()
}

async fn replays(office: &Office, now: Timestamp) -> Result<Vec<ReplayLine>, Failed> {
    let found = office.shown().replays(None, &Page::first(REPLAYS)).await?;
    let line = |replay: &Replay| {
        let (state, state_word) = badge(replay, &office.replays);
        ReplayLine {
            id: replay.id.to_string(),
            state,
            state_word,
            reason: replay.reason.clone(),
            done: replay.counts.sent(),
            total: replay.counts.total(),
            returned: replay.counts.failed_again(),
            planned: When::new(replay.created_at, now),
        }
    };
    Ok(found.replays.iter().map(line).collect())
}

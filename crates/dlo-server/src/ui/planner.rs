//! The planner: which letters are meant, in words and as a query, how they would be sent, and the same as a command.
//!
//! Nothing is frozen here. The form asks the API for a plan, and the plan has the exact count; it is read and started on
//! its own page. A query that means everything is refused.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::{Letter, Status};
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::replay::Settings;
use dlo_core::time::Timestamp;
use dlo_store::{Glimpse, Page};
use serde::Deserialize;

use super::letters::LetterLine;
use super::{Failed, Shell, cli, render, scope, source, words};
use crate::api::error::Problem;
use crate::office::Office;
use crate::query_text::Params;

/// Counted up to here while one looks; the plan counts all.
const COUNTED: u64 = 10_000;
/// Letters that are shown of those that match.
const SAMPLES: usize = 5;
/// A failure this young says that the cause may still be there.
const FRESH: Duration = Duration::from_secs(300);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlannerParams {
    #[serde(default)]
    q: String,
    /// Those that came back from this replay, in place of a query.
    came_back_from: Option<ReplayId>,
    /// Those that were selected, in place of a query: ids with commas between them.
    ids: Option<String>,
}

#[derive(Template)]
#[template(path = "planner.html")]
struct Planner {
    shell: Shell,
    q: String,
    mistake: Option<(String, String)>,
    came_back_from: Option<String>,
    /// As the form sends them: with spaces between them.
    ids: Option<String>,
    scope: Vec<String>,
    /// How many match now; `None`: nothing was asked for yet.
    count: Option<String>,
    nothing: bool,
    warnings: Vec<String>,
    afterwards: Vec<String>,
    letters: Vec<LetterLine>,
    settings: Settings,
    rate: String,
    cli: String,
}

impl Planner {
    fn new(shell: Shell, q: &str, settings: Settings) -> Self {
        let rate = match settings.pace {
            dlo_core::replay::Pace::Rate(rate) => rate.to_string(),
            dlo_core::replay::Pace::Share(_) | dlo_core::replay::Pace::Max => String::new(),
        };
        Self {
            shell,
            q: q.to_string(),
            mistake: None,
            came_back_from: None,
            ids: None,
            scope: Vec::new(),
            count: None,
            nothing: false,
            warnings: Vec::new(),
            afterwards: Vec::new(),
            letters: Vec::new(),
            settings,
            rate,
            cli: String::new(),
        }
    }
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<PlannerParams>,
) -> Result<Response, Failed> {
    if let Some(id) = params.came_back_from {
        return came_back(&office, shell, id).await;
    }
    if let Some(ids) = &params.ids {
        return selected(&office, shell, ids).await;
    }
    let now = office.now();
    let query = match office.query(&params.q) {
        Ok(query) => query,
        Err(error) => {
            let mistake = Some((error.pointing(&params.q), error.problem.to_string()));
            let page = Planner { mistake, ..Planner::new(shell, &params.q, Settings::default()) };
            return Ok((StatusCode::BAD_REQUEST, render(&page)).into_response());
        }
    };
    if query.terms.is_empty() {
        return Ok(render(&Planner::new(shell, "", Settings::default())));
    }
    let scope = scope::named(&office, &query).await?;
    let open = with_open(query.clone());
    let seen = office.store.glimpse(&open, COUNTED).await?;
    let found = office.shown().letters(&open, &Page::first(SAMPLES)).await?;
    let one = one_source(&office, &query, &found.letters);
    let warnings = warnings(&office, one.as_deref(), seen.letters, &found.letters, now);
    let rules = one.as_ref().and_then(|name| office.config.replay.sources.get(name));
    let facts = one.as_ref().and_then(|name| office.brokers.get(name));
    Ok(render(&Planner {
        scope,
        count: Some(told(seen)),
        nothing: seen == Glimpse { letters: 0, whole: true },
        warnings,
        afterwards: facts.map(|facts| source::afterwards(&facts.capabilities)).unwrap_or_default(),
        letters: found.letters.iter().map(|letter| LetterLine::new(letter, now)).collect(),
        cli: cli::line(["dlo", "replay", "plan", &params.q, "--reason", "…"]),
        ..Planner::new(shell, &params.q, rules.map(|rules| rules.settings.clone()).unwrap_or_default())
    }))
}

fn told(seen: Glimpse) -> String {
    let least = if seen.whole { "" } else { "at least " };
    let more = if seen.letters == 1 { "" } else { "s" };
    format!("{least}{} open letter{more}", words::number(seen.letters))
}

/// Only the letters of a replay that died again.
async fn came_back(office: &Office, shell: Shell, id: ReplayId) -> Result<Response, Failed> {
    let replay = office.shown().replay(id).await?;
    let count = replay.counts.failed_again();
    let rules = replay.source.as_ref().and_then(|name| office.config.replay.sources.get(name));
    let facts = replay.source.as_ref().and_then(|name| office.brokers.get(name));
    let id = id.to_string();
    Ok(render(&Planner {
        scope: vec![format!("that came back from the replay {id}")],
        count: Some(words::letters(count)),
        nothing: count == 0,
        afterwards: facts.map(|facts| source::afterwards(&facts.capabilities)).unwrap_or_default(),
        cli: cli::line(["dlo", "replay", "plan", "--came-back-from", &id, "--reason", "…"]),
        came_back_from: Some(id),
        ..Planner::new(shell, "", rules.map(|rules| rules.settings.clone()).unwrap_or(replay.settings))
    }))
}

/// Letters that somebody selected on a page, by their ids.
async fn selected(office: &Office, shell: Shell, ids: &str) -> Result<Response, Failed> {
    let wrong =
        |_| Problem::bad_request("bad_id", "`ids` are ids of letters, with commas between them").field("ids");
    let ids: Vec<LetterId> =
        ids.split(',').map(|id| id.trim().parse()).collect::<Result<_, _>>().map_err(wrong)?;
    if ids.len() > Page::MOST {
        let detail = format!("`ids` are at most {}; plan more by a query", Page::MOST);
        return Err(Problem::bad_request("bad_ids", detail).field("ids").into());
    }
    let Some(first) = ids.first() else {
        return Ok(render(&Planner::new(shell, "", Settings::default())));
    };
    let source = office.shown().letter(*first).await?.letter.source;
    let rules = office.config.replay.sources.get(&source);
    let facts = office.brokers.get(&source);
    let texts: Vec<String> = ids.iter().map(LetterId::to_string).collect();
    let line = ["dlo", "replay", "plan"].into_iter().chain(texts.iter().map(String::as_str));
    Ok(render(&Planner {
        scope: vec!["that were selected".to_string()],
        count: Some(words::letters(ids.len() as u64)),
        afterwards: facts.map(|facts| source::afterwards(&facts.capabilities)).unwrap_or_default(),
        cli: cli::line(line.chain(["--reason", "…"])),
        ids: Some(texts.join(" ")),
        ..Planner::new(shell, "", rules.map(|rules| rules.settings.clone()).unwrap_or_default())
    }))
}

/// Only open letters are replayed, so only they are counted.
fn with_open(mut query: Query) -> Query {
    query.terms.push(Term { negated: false, matcher: Matcher::Status(Status::Open) });
    query
}

/// The source that all of them have, as far as it is known without looking at all.
fn one_source(office: &Office, query: &Query, sample: &[Letter]) -> Option<String> {
    let named = query.terms.iter().find_map(|term| match &term.matcher {
        Matcher::Source(name) if !term.negated => Some(name.clone()),
        _ => None,
    });
    named.or_else(|| {
        let first = &sample.first()?.source;
        let same = sample.iter().all(|letter| letter.source == *first);
        (same && office.brokers.contains_key(first)).then(|| first.clone())
    })
}

/// What should be known before a plan is made; the plan says the same of every letter.
fn warnings(
    office: &Office,
    source: Option<&str>,
    count: u64,
    sample: &[Letter],
    now: Timestamp,
) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(newest) = sample.first()
        && now.since(newest.failed_at) < FRESH
    {
        let ago = super::show::ago(newest.failed_at, now);
        all.push(format!("The newest of them failed {ago}: the cause may still be there."));
    }
    let rules = source.map(|name| (name, office.config.replay.sources.get(name)));
    match rules {
        Some((name, None)) => {
            all.push(format!("The source {name} has no queue to send to: its letters are left out."));
        }
        Some((name, Some(rules))) if rules.approvals > 0 => {
            let who = if rules.approvals == 1 { "somebody else" } else { "several others" };
            all.push(format!("The source {name} is critical: {who} must approve the plan before it starts."));
        }
        Some((_, Some(_))) | None => {}
    }
    if let Some(large) = office.config.replay.large
        && count.min(COUNTED) >= large.min(COUNTED)
        && count > 0
    {
        all.push(format!("A plan of more than {} letters needs one approval more.", words::number(large)));
    }
    all
}

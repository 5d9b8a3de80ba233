//! One source: how its capture stands, what its broker can and cannot do in words, and what the office may do with it.

mod able;

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dlo_core::letter::Status;

use super::sources::SourceLine;
use super::{Failed, Shell, render, replay, rules, words};
use crate::api::error::Problem;
use crate::office::Office;
use crate::query_text::Name;

use able::Ability;
pub(crate) use able::afterwards;

/// Causes that are shown; the letters have all.
const CAUSES: usize = 10;

struct CauseLine {
    class: String,
    event_type: String,
    open: String,
    total: String,
    q: String,
}

#[derive(Template)]
#[template(path = "source.html")]
struct SourcePage {
    shell: Shell,
    q: String,
    source: SourceLine,
    letters_q: String,
    counts: Vec<(String, &'static str, String)>,
    abilities: Vec<Ability>,
    afterwards: Vec<String>,
    policy: Vec<(&'static str, String)>,
    rules: Vec<(String, String)>,
    causes: Vec<CauseLine>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Name(name): Name,
) -> Result<Response, Failed> {
    let now = office.now();
    let stats = office.store.stats().await?;
    let kept = stats.sources.iter().find(|source| source.source == name);
    let captures = office.capture_status();
    let capture = captures.iter().find(|capture| capture.source == name);
    let facts = office.brokers.get(&name);
    if kept.is_none() && capture.is_none() && facts.is_none() {
        let detail = format!("there is no source {name}: none is configured, and no letter came from one");
        return Err(Problem::new(StatusCode::NOT_FOUND, "no_source", detail).into());
    }
    let capabilities = facts.map(|facts| &facts.capabilities);
    let counts = kept.iter().flat_map(|kept| kept.counts.iter()).filter(|(_, count)| *count > 0);
    let told = |(status, count): (Status, u64)| {
        (words::phrase(status.as_str()), words::status(status), words::number(count))
    };
    Ok(render(&SourcePage {
        shell,
        q: String::new(),
        letters_q: source_query(&name),
        counts: counts.map(told).collect(),
        abilities: capabilities.map(able::all).unwrap_or_default(),
        afterwards: capabilities.map(afterwards).unwrap_or_default(),
        policy: policy(&office, &name),
        rules: rules::of_source(&office.config.automation, &name),
        causes: causes(&office, &name).await?,
        source: SourceLine::new(&name, kept, capture, now),
    }))
}

pub(crate) fn source_query(name: &str) -> String {
    dlo_core::query::Matcher::Source(name.to_string()).to_string()
}

fn policy(office: &Office, name: &str) -> Vec<(&'static str, String)> {
    let Some(rules) = office.config.replay.sources.get(name) else {
        let none = "not possible: no broker is configured for this source, so there is no queue to send to";
        return vec![("Replay", none.to_string())];
    };
    let approvals = match rules.approvals {
        0 => "none is needed".to_string(),
        1 => "one person, other than the planner, must approve".to_string(),
        count => format!("{count} people, other than the planner, must approve"),
    };
    let mut all = vec![("Approval", approvals)];
    if let Some(large) = office.config.replay.large {
        all.push(("Large plans", format!("over {} letters need one approval more", words::number(large))));
    }
    all.extend(replay::settings(&rules.settings));
    all
}

async fn causes(office: &Office, name: &str) -> Result<Vec<CauseLine>, Failed> {
    let mut causes = office.shown().causes(Some(name)).await?;
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.counts.get(Status::Open)));
    causes.truncate(CAUSES);
    let line = |cause: &dlo_store::CauseCount| {
        let mut q = format!("status:open {}", source_query(name));
        for (field, value) in [("class", &cause.error_class), ("type", &cause.event_type)] {
            let Some(value) = value else { continue };
            let matcher = match field {
                "class" => dlo_core::query::Matcher::Class(value.clone()),
                _ => dlo_core::query::Matcher::Type(value.clone()),
            };
            q.push_str(&format!(" {matcher}"));
        }
        CauseLine {
            class: cause.error_class.clone().unwrap_or_default(),
            event_type: cause.event_type.clone().unwrap_or_default(),
            open: words::number(cause.counts.get(Status::Open)),
            total: words::number(cause.counts.total()),
            q,
        }
    };
    Ok(causes.iter().map(line).collect())
}

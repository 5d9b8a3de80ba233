//! Owners: each team with how to reach it, what it promised, and what waits for it; what nobody owns stands on top.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::query::Matcher;
use dlo_core::time::Timestamp;
use dlo_core::units::HumanDuration;

use super::show::When;
use super::{Failed, Shell, render, words};
use crate::api::owners::{OwnerLine, lines};
use crate::office::Office;

struct TeamLine {
    /// `None`: nobody.
    team: Option<String>,
    contact: String,
    sla: String,
    open: String,
    groups: String,
    oldest: Option<When>,
    /// How the oldest stands against what was promised.
    standing: String,
    overdue: bool,
    q: String,
    groups_q: String,
}

#[derive(Template)]
#[template(path = "owners.html")]
struct OwnersPage {
    shell: Shell,
    q: String,
    teams: Vec<TeamLine>,
    overdue: usize,
}

pub(crate) async fn page(State(office): State<Arc<Office>>, shell: Shell) -> Result<Response, Failed> {
    let now = office.now();
    let teams: Vec<TeamLine> =
        lines(&office).await?.into_iter().map(|line| TeamLine::new(line, now)).collect();
    let overdue = teams.iter().filter(|team| team.overdue).count();
    Ok(render(&OwnersPage { shell, q: String::new(), teams, overdue }))
}

impl TeamLine {
    fn new(line: OwnerLine, now: Timestamp) -> Self {
        let sla = line.sla_seconds.map(|seconds| HumanDuration(Duration::from_secs(seconds)));
        Self {
            contact: line.contact.unwrap_or_default(),
            sla: sla.map(|sla| sla.to_string()).unwrap_or_default(),
            open: words::number(line.open),
            groups: words::number(line.groups),
            oldest: line.oldest_open.map(|oldest| When::new(oldest, now)),
            standing: line.standing.map(words::standing).unwrap_or_default(),
            overdue: line.overdue,
            q: format!("status:open {}", Matcher::Owner(line.owner.clone())),
            groups_q: line.owner.clone().unwrap_or_else(|| "none".to_string()),
            team: line.owner,
        }
    }
}

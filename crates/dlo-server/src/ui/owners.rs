//! Owners: whose letters are open, how old the oldest is, and what nobody owns, on top.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::letter::Status;
use dlo_core::query::Matcher;
use dlo_core::time::Timestamp;
use dlo_store::{GroupFilter, Page};

use super::show::When;
use super::{Failed, Shell, render, words};
use crate::office::Office;

/// Pages of groups that are added up; past that the page says so.
const PAGES: usize = 10;

struct TeamLine {
    /// `None`: nobody.
    team: Option<String>,
    open: String,
    groups: String,
    last: When,
    q: String,
    groups_q: String,
}

#[derive(Template)]
#[template(path = "owners.html")]
struct OwnersPage {
    shell: Shell,
    q: String,
    teams: Vec<TeamLine>,
    /// There are more groups than were added up.
    more: bool,
}

#[derive(Default)]
struct Sum {
    open: u64,
    groups: u64,
    last: Timestamp,
}

pub(crate) async fn page(State(office): State<Arc<Office>>, shell: Shell) -> Result<Response, Failed> {
    let filter = GroupFilter { holding: Some(Status::Open), ..GroupFilter::default() };
    let mut sums: BTreeMap<Option<String>, Sum> = BTreeMap::new();
    let mut page = Page::first(Page::MOST);
    let mut more = false;
    for left in (0..PAGES).rev() {
        let found = office.store.groups(&filter, &page).await?;
        for group in found.groups {
            let sum = sums.entry(group.owner.clone()).or_default();
            sum.open += group.counts.get(Status::Open);
            sum.groups += 1;
            sum.last = sum.last.max(group.last_seen);
        }
        page.cursor = found.next;
        more = left == 0 && page.cursor.is_some();
        if page.cursor.is_none() {
            break;
        }
    }
    let now = office.now();
    // `None` sorts first, so what nobody owns stands on top.
    let teams = sums.into_iter().map(|(team, sum)| line(team, &sum, now)).collect();
    Ok(render(&OwnersPage { shell, q: String::new(), teams, more }))
}

fn line(team: Option<String>, sum: &Sum, now: Timestamp) -> TeamLine {
    TeamLine {
        open: words::number(sum.open),
        groups: words::number(sum.groups),
        last: When::new(sum.last, now),
        q: format!("status:open {}", Matcher::Owner(team.clone())),
        groups_q: team.clone().unwrap_or_else(|| "none".to_string()),
        team,
    }
}

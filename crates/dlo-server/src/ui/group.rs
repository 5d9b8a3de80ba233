//! One group: why its letters belong together, how many stand where, the latest of them.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::id::GroupId;
use dlo_core::query::{Matcher, Query, Term};
use dlo_store::Page;

use super::inbox::GroupLine;
use super::letters::LetterLine;
use super::{Failed, Shell, render};
use crate::office::Office;
use crate::query_text::Id;

/// Letters shown as samples.
const SAMPLES: usize = 20;

#[derive(Template)]
#[template(path = "group.html")]
struct GroupPage {
    shell: Shell,
    q: String,
    group: GroupLine,
    queue: String,
    template: String,
    version: u32,
    counts: Vec<(String, u64)>,
    letters: Vec<LetterLine>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Id(id): Id<GroupId>,
) -> Result<Response, Failed> {
    let mut group = office.store.group(id).await?;
    office.mask.groups(std::slice::from_mut(&mut group));
    let query = Query { terms: vec![Term { negated: false, matcher: Matcher::Group(id) }] };
    let mut found = office.store.letters(&query, &Page::first(SAMPLES)).await?;
    office.mask.letters(&mut found.letters);
    let now = office.now();
    let counts = group.counts.iter().filter(|(_, count)| *count > 0);
    Ok(render(&GroupPage {
        shell,
        q: format!("group:{id}"),
        queue: group.queue.clone(),
        template: group.template.clone(),
        version: group.fingerprint_version,
        counts: counts.map(|(status, count)| (status.to_string(), count)).collect(),
        letters: found.letters.iter().map(|letter| LetterLine::new(letter, now)).collect(),
        group: GroupLine::new(&group, now),
    }))
}

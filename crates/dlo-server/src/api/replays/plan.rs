//! `POST /replays`: a plan, frozen. Nothing is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{
    DoubtPolicy, Guards, Item, ItemState, Pace, PlannerIdentity, Repairing, ReplayCause, Settings, Target,
};
use dlo_core::suspect::Suspicion;
use dlo_core::units::HumanDuration;
use dlo_store::Page;
use dlo_store::replays::{Members, NewReplay, PlanPolicy};
use serde::Deserialize;

use super::ReplayOut;
use crate::api::error::{Answer, Problem};
use crate::body;
use crate::config::{ReplayRules, SourceReplay};
use crate::guard::Proven;
use crate::office::Office;
use crate::query_text::{self, Author};
use crate::replay::differences;

/// Ids of one plan; a query names more.
const IDS: usize = 10_000;
/// Messages a second that may be asked for.
const FASTEST: f64 = 1_000_000.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    query: Option<String>,
    ids: Option<Vec<LetterId>>,
    /// A replay: those of its letters that died again are meant.
    came_back_from: Option<ReplayId>,
    reason: Option<String>,
    cause: Option<ReplayCause>,
    rate: Option<f64>,
    share: Option<f64>,
    #[serde(default)]
    max: bool,
    canary: Option<u32>,
    ramp: Option<u32>,
    window: Option<HumanDuration>,
    guards: Option<Guards>,
    target: Option<Target>,
    doubts: Option<DoubtPolicy>,
    order: Option<bool>,
    /// A jq expression.
    repair: Option<String>,
    limit: Option<u32>,
    /// Letters that may repeat another one are sent too.
    #[serde(default)]
    include_suspected: bool,
}

/// How fast, said in one of three ways; `None` where nothing was said.
pub(super) fn pace(rate: Option<f64>, share: Option<f64>, max: bool) -> Answer<Option<Pace>> {
    let wrong = |detail: String, field| Problem::unprocessable("bad_pace", detail).field(field);
    match (rate, share, max) {
        (None, None, false) => Ok(None),
        (Some(rate), None, false) if rate > 0.0 && rate <= FASTEST => Ok(Some(Pace::Rate(rate))),
        (Some(rate), None, false) => Err(wrong(
            format!("`rate` is messages a second, more than 0 and at most {FASTEST}, found {rate}"),
            "rate",
        )),
        (None, Some(share), false) if share > 0.0 && share <= 1.0 => Ok(Some(Pace::Share(share))),
        (None, Some(share), false) => Err(wrong(
            format!("`share` is a part of the normal traffic, more than 0 and at most 1, found {share}"),
            "share",
        )),
        (None, None, true) => Ok(Some(Pace::Max)),
        _ => Err(wrong("say one of `rate`, `share` and `max`".to_string(), "rate")),
    }
}

pub(crate) async fn plan(
    State(office): State<Arc<Office>>,
    Author(author): Author,
    request: Request<Body>,
) -> Answer<Response> {
    let planner = match request.extensions().get::<Proven>() {
        Some(_) => PlannerIdentity::Proven,
        None => PlannerIdentity::Claimed,
    };
    let asked: Asked = body::json(request, &office).await?;
    let now = office.now();
    let reason = query_text::note("reason", asked.reason.clone())?.unwrap_or_default();
    let members = match asked.came_back_from {
        Some(replay) => came_back(&office, &asked, replay).await?,
        None => members(&asked, &office)?,
    };
    let rules = &office.config.replay;
    let policy = PlanPolicy {
        settings: by_source(&asked, rules)?,
        include_suspected: asked.include_suspected,
        planner,
        ..rules.policy()
    };
    let settings = settings(&asked, Settings::default())?;
    if let Some(repair) = &settings.repair {
        // A typo is told now, and not by every letter later.
        office.repairs.check(&repair.expression).await?;
    }
    let place = office.long_reading()?;
    let new = NewReplay {
        id: ReplayId::new(now, rand::random()),
        policy,
        expires_at: now.plus(rules.expires),
        cause: asked.cause,
        members,
        settings,
        author,
        reason,
    };
    // A task of its own: a client that goes away leaves a whole plan or none.
    let store = Arc::clone(&office.store);
    let planned = tokio::spawn(async move {
        let _held = place;
        let replay = store.plan(new, now).await?;
        let children = store.children(replay.id).await?;
        Ok::<_, dlo_store::StoreError>((replay, children))
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    let (replay, children) = planned.await.map_err(failed)??;
    let differences = differences(&office, &replay, &children).await?;
    let (replay, children) = (office.mask.over(replay), office.mask.over(children));
    let mut out = ReplayOut::new(&replay, &children, &office.replays);
    out.differs(differences);
    Ok((StatusCode::CREATED, Json(out)).into_response())
}

/// The letters of a replay, and of its parts, that died again.
async fn came_back(office: &Office, asked: &Asked, replay: ReplayId) -> Answer<Members> {
    if asked.ids.is_some() || asked.query.is_some() {
        let detail = "say which letters are meant by one of `query`, `ids` and `came_back_from`";
        return Err(Problem::unprocessable("bad_body", detail).field("came_back_from"));
    }
    office.store.replay(replay).await?;
    let parts = office.store.children(replay).await?;
    let replays = if parts.is_empty() { vec![replay] } else { parts.iter().map(|part| part.id).collect() };
    let mut ids = Vec::new();
    for replay in replays {
        for state in [ItemState::Returned, ItemState::SuspectedReturn] {
            let mut page = Page::first(Page::MOST);
            while ids.len() <= IDS {
                let found = office.store.items(replay, Some(state), &page).await?;
                for item in &found.items {
                    ids.extend(died_as(office, item).await?);
                }
                let Some(next) = found.next else { break };
                page.cursor = Some(next);
            }
        }
    }
    match ids.len() {
        0 => Err(Problem::unprocessable("none_came_back", "no letter of this replay came back")
            .field("came_back_from")),
        count if count > IDS => {
            let detail = format!(
                "more than {IDS} letters came back; plan them by a query, such as their class and `replays:>0`"
            );
            Err(Problem::unprocessable("bad_ids", detail).field("came_back_from"))
        }
        _ => {
            ids.sort_unstable();
            ids.dedup();
            Ok(Members::Ids(ids))
        }
    }
}

/// The letters that an item is now: its own, or those that are suspected to be its return.
async fn died_as(office: &Office, item: &Item) -> Answer<Vec<LetterId>> {
    if item.state != ItemState::SuspectedReturn {
        return Ok(vec![item.letter]);
    }
    let suspects = office.store.letter(item.letter).await?.suspects.into_iter();
    Ok(suspects.filter(|one| one.kind == Suspicion::Return).map(|one| one.letter).collect())
}

fn members(asked: &Asked, office: &Office) -> Answer<Members> {
    match (&asked.ids, &asked.query) {
        (Some(ids), None) if !ids.is_empty() && ids.len() <= IDS => {
            let mut ids = ids.clone();
            ids.sort_unstable();
            ids.dedup();
            Ok(Members::Ids(ids))
        }
        (Some(ids), None) => {
            let detail = format!("`ids` names 1 to {IDS} letters, found {}; a query names more", ids.len());
            Err(Problem::unprocessable("bad_ids", detail).field("ids"))
        }
        (None, Some(text)) => {
            let query = query_text::query_of_shown(text, office)?;
            if query.terms.is_empty() {
                let detail = "an empty query means every letter there is; say which are meant, such as `source:orders`";
                return Err(Problem::unprocessable("empty_query", detail).field("query"));
            }
            Ok(Members::Query { query, text: text.trim().to_string() })
        }
        _ => Err(Problem::unprocessable("bad_body", "say which letters are meant, by `query` or by `ids`")
            .field("query")),
    }
}

/// The settings of each source, with what was asked laid over them.
fn by_source(asked: &Asked, rules: &ReplayRules) -> Answer<BTreeMap<String, Settings>> {
    let one = |(name, source): (&String, &SourceReplay)| {
        Ok((name.clone(), settings(asked, source.settings.clone())?))
    };
    rules.sources.iter().map(one).collect()
}

fn settings(asked: &Asked, base: Settings) -> Answer<Settings> {
    let mut settings = base;
    if let Some(pace) = pace(asked.rate, asked.share, asked.max)? {
        settings.pace = pace;
    }
    settings.canary = asked.canary.unwrap_or(settings.canary);
    settings.ramp = asked.ramp.unwrap_or(settings.ramp).max(1);
    settings.window = asked.window.unwrap_or(settings.window);
    settings.guards = asked.guards.clone().unwrap_or(settings.guards);
    settings.target = asked.target.clone().unwrap_or(settings.target);
    settings.doubts = asked.doubts.unwrap_or(settings.doubts);
    settings.order = asked.order.unwrap_or(settings.order);
    settings.limit = asked.limit.unwrap_or(settings.limit);
    settings.repair = asked.repair.clone().map(|expression| Repairing { expression }).or(settings.repair);
    if settings.limit == 0 {
        let detail = "`limit` is how often a letter may be replayed, at least 1, found 0";
        return Err(Problem::unprocessable("bad_limit", detail).field("limit"));
    }
    Ok(settings)
}

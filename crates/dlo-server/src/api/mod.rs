//! The route table, and what every request passes on its way.
//!
//! From outside in: counted and given its security headers · a panic becomes a problem · guarded · within the number
//! that is served at once · routed. One file per resource; `error.rs` turns errors into answers, `dto.rs` letters into JSON.

pub(crate) mod audit;
mod backup;
mod complete;
mod decide;
mod deploys;
pub(crate) mod dto;
pub(crate) mod error;
mod events;
mod export;
mod groups;
mod health;
pub(crate) mod layers;
pub(crate) mod letters;
mod openapi;
pub(crate) mod owners;
mod post;
pub(crate) mod repairs;
mod replays;
mod rules;
mod sources;
mod stats;
mod status;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post as posted};

use crate::office::Office;
use crate::{guard, ui};

/// One line of the table.
struct Route {
    method: &'static str,
    path: &'static str,
    handler: MethodRouter<Arc<Office>>,
}

/// Everything the office answers to.
fn table() -> Vec<Route> {
    [letters_and_replays(), triage(), pages()].into_iter().flatten().collect()
}

fn letters_and_replays() -> Vec<Route> {
    vec![
        // Letters in and out.
        writes("/api/v1/letters", post::letters),
        reads("/api/v1/letters", letters::list),
        reads("/api/v1/letters/count", letters::count),
        reads("/api/v1/letters/export", export::letters),
        writes("/api/v1/letters/discard", decide::discard),
        writes("/api/v1/letters/compensate", decide::compensate),
        reads("/api/v1/letters/{id}", letters::show),
        reads("/api/v1/letters/{id}/payload", letters::payload),
        reads("/api/v1/letters/{id}/timeline", letters::timeline),
        reads("/api/v1/letters/{id}/repairs", repairs::list),
        writes("/api/v1/repairs", repairs::apply),
        writes("/api/v1/repairs/preview", repairs::preview),
        // Sending letters on.
        writes("/api/v1/replays", replays::plan),
        reads("/api/v1/replays", replays::list),
        reads("/api/v1/replays/{id}", replays::show),
        reads("/api/v1/replays/{id}/items", replays::items),
        reads("/api/v1/replays/{id}/doubts", replays::doubts),
        writes("/api/v1/replays/{id}/start", replays::start),
        writes("/api/v1/replays/{id}/pause", replays::pause),
        writes("/api/v1/replays/{id}/resume", replays::resume),
        writes("/api/v1/replays/{id}/cancel", replays::cancel),
        writes("/api/v1/replays/{id}/approve", replays::approve),
        writes("/api/v1/replays/{id}/pace", replays::adjust),
        writes("/api/v1/replays/{id}/settle", replays::settle),
        writes("/api/v1/receipts", replays::receive),
        writes("/api/v1/consumers", replays::hear),
        reads("/api/v1/events", events::follow),
        // Proof and safekeeping.
        reads("/api/v1/audit", audit::list),
        writes("/api/v1/audit/verify", audit::verify),
        writes("/api/v1/backup", backup::backup),
        writes("/api/v1/restore", backup::restore),
        reads("/api/v1/openapi.json", openapi::document),
        // For machines that watch.
        reads("/api/v1/status", status::show),
        reads("/healthz", health::alive),
        reads("/readyz", health::ready),
        reads("/metrics", stats::metrics),
    ]
}

/// What letters tell together.
fn triage() -> Vec<Route> {
    vec![
        reads("/api/v1/groups", groups::list),
        writes("/api/v1/groups/change", groups::many),
        reads("/api/v1/groups/{id}", groups::show),
        reads("/api/v1/groups/{id}/trend", groups::trend),
        reads("/api/v1/groups/{id}/sample", groups::sample),
        writes("/api/v1/groups/{id}/acknowledge", groups::acknowledge),
        writes("/api/v1/groups/{id}/fix", groups::fix),
        writes("/api/v1/groups/{id}/resolve", groups::resolve),
        writes("/api/v1/groups/{id}/snooze", groups::snooze),
        writes("/api/v1/groups/{id}/ignore", groups::ignore),
        writes("/api/v1/groups/{id}/reopen", groups::reopen),
        writes("/api/v1/groups/{id}/assign", groups::assign),
        writes("/api/v1/groups/{id}/own", groups::own),
        writes("/api/v1/groups/{id}/note", groups::add_note),
        writes("/api/v1/groups/{id}/link", groups::add_link),
        writes("/api/v1/groups/{id}/unlink", groups::remove_link),
        reads("/api/v1/groups/{id}/runbook", groups::runbook),
        writes("/api/v1/groups/{id}/runbook", groups::write_runbook),
        writes("/api/v1/groups/{id}/merge", groups::merge),
        writes("/api/v1/groups/{id}/split", groups::split),
        writes("/api/v1/groups/{id}/unsplit", groups::unsplit),
        reads("/api/v1/owners", owners::list),
        reads("/api/v1/deploys", deploys::list),
        writes("/api/v1/deploys", deploys::mark),
        reads("/api/v1/views", views::list),
        writes("/api/v1/views", views::save),
        writes("/api/v1/views/remove", views::remove),
        reads("/api/v1/sources", sources::list),
        reads("/api/v1/stats", stats::office),
        reads("/api/v1/stats/causes", stats::causes),
        reads("/api/v1/stats/trend", groups::by_class),
        reads("/api/v1/stats/ages", stats::ages),
        reads("/api/v1/complete", complete::complete),
        reads("/api/v1/rules", rules::list),
        writes("/api/v1/rules/test", rules::test),
        writes("/api/v1/rules/test-automation", rules::test_automation),
    ]
}

fn pages() -> Vec<Route> {
    vec![
        reads("/", ui::overview::page),
        reads("/groups", ui::groups::page),
        reads("/letters", ui::letters::list),
        reads("/letters/{id}", ui::letter::page),
        reads("/groups/{id}", ui::group::page),
        reads("/replays", ui::replays::page),
        reads("/replays/new", ui::planner::page),
        reads("/replays/{id}", ui::replay::page),
        reads("/sources", ui::sources::page),
        reads("/sources/{name}", ui::source::page),
        reads("/rules", ui::rules::page),
        reads("/owners", ui::owners::page),
        reads("/audit", ui::audit::page),
        reads("/banner", ui::banner::fragment),
        reads("/assets/{name}", ui::assets::serve),
    ]
}

/// Method and path of everything the office answers to, for documents that list them.
pub fn routes() -> Vec<(&'static str, &'static str)> {
    table().iter().map(|route| (route.method, route.path)).collect()
}

fn reads<H, T>(path: &'static str, handler: H) -> Route
where
    H: Handler<T, Arc<Office>>,
    T: 'static,
{
    Route { method: "GET", path, handler: get(handler) }
}

fn writes<H, T>(path: &'static str, handler: H) -> Route
where
    H: Handler<T, Arc<Office>>,
    T: 'static,
{
    Route { method: "POST", path, handler: posted(handler) }
}

pub(crate) fn router(office: Arc<Office>) -> Router {
    let mut routes =
        table().into_iter().fold(Router::new(), |router, route| router.route(route.path, route.handler));
    for switch in &office.hooks.0 {
        let (press, said) = (Arc::clone(&switch.press), format!("{}\n", switch.done));
        let does = move || {
            press();
            std::future::ready(said.clone())
        };
        routes = routes.route(switch.path, posted(does));
    }
    routes
        .fallback(layers::no_such_path)
        .method_not_allowed_fallback(layers::wrong_method)
        // Bodies are read by `body.rs`, which has limits of size and time. No handler may read one through an extractor.
        .layer(DefaultBodyLimit::max(0))
        .layer(from_fn_with_state(office.clone(), ui::frame))
        .layer(from_fn_with_state(office.clone(), layers::within_limit))
        .layer(from_fn_with_state(office.clone(), guard::check))
        .layer(from_fn(layers::catch_panic))
        .layer(from_fn_with_state(office.clone(), layers::observe))
        .with_state(office)
}

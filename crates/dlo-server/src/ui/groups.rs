//! Groups, the inbox: what is wrong right now, one line for each cause, by the questions that people come with.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::group::{Group, GroupStatus};
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use dlo_core::view::ViewOf;
use dlo_store::triage::{GroupOrder, GroupTally};
use dlo_store::{GroupFilter, Page};
use serde::Deserialize;

use super::draw::{Svg, spark};
use super::show::When;
use super::views::Saved;
use super::{Failed, Shell, render};
use crate::office::Office;
use crate::query_text::{Params, page as page_of};

/// Hours that a sparkline shows.
pub(super) const HOURS: usize = 24;
/// Groups on a page.
const SHOWN: usize = 50;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupParams {
    #[serde(default)]
    view: ViewName,
    /// Words that name a group.
    #[serde(default)]
    text: String,
    source: Option<String>,
    owner: Option<String>,
    order: Option<GroupOrder>,
    cursor: Option<String>,
}

impl GroupParams {
    /// As it was chosen, else as the view has it.
    fn order(&self) -> GroupOrder {
        let by_view =
            if self.view == ViewName::Oldest { GroupOrder::OldestOpen } else { GroupOrder::default() };
        self.order.unwrap_or(by_view)
    }
}

/// What an order is called.
const fn called(order: GroupOrder) -> &'static str {
    match order {
        GroupOrder::LastSeen => "Last seen first",
        GroupOrder::FirstSeen => "Newest kind first",
        GroupOrder::MostOpen => "Most open first",
        GroupOrder::OldestOpen => "Oldest open letter first",
    }
}

/// A question that people come with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ViewName {
    /// Something is open and nobody has closed the matter.
    #[default]
    Open,
    Mine,
    Unowned,
    New,
    Regressed,
    Oldest,
    Snoozed,
    /// Nothing is left to do with any letter, and nobody has closed the matter.
    Handled,
    Closed,
    All,
}

impl ViewName {
    const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Open, "open", "Open"),
        (Self::Mine, "mine", "Mine"),
        (Self::Unowned, "unowned", "Without an owner"),
        (Self::New, "new", "New"),
        (Self::Regressed, "regressed", "Came back"),
        (Self::Oldest, "oldest", "Oldest"),
        (Self::Snoozed, "snoozed", "Snoozed"),
        (Self::Handled, "handled", "All handled"),
        (Self::Closed, "closed", "Resolved or ignored"),
        (Self::All, "all", "All"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(view, ..)| *view == self).map_or("open", |(_, word, _)| *word)
    }

    fn statuses(self) -> Vec<GroupStatus> {
        match self {
            Self::Open | Self::Mine | Self::Unowned | Self::Oldest | Self::Handled => {
                GroupStatus::ACTIVE.to_vec()
            }
            Self::New => vec![GroupStatus::New],
            Self::Regressed => vec![GroupStatus::Regressed],
            Self::Snoozed => vec![GroupStatus::Snoozed],
            Self::Closed => vec![GroupStatus::Resolved, GroupStatus::Ignored],
            Self::All => Vec::new(),
        }
    }

    /// How many groups it holds, where that is kept.
    fn count(self, tally: &GroupTally) -> Option<u64> {
        match self {
            Self::Open => Some(GroupStatus::ACTIVE.iter().map(|status| tally.get(*status)).sum()),
            Self::Mine => Some(tally.mine),
            Self::Unowned => Some(tally.unowned),
            Self::New => Some(tally.get(GroupStatus::New)),
            Self::Regressed => Some(tally.get(GroupStatus::Regressed)),
            // The numbers are of groups with open letters, and these may have none.
            Self::Oldest | Self::Snoozed | Self::Handled | Self::Closed | Self::All => None,
        }
    }
}

/// A tab above the list.
struct Tab {
    word: &'static str,
    name: &'static str,
    count: Option<u64>,
    current: bool,
}

/// A group as a line.
#[derive(Debug)]
pub(crate) struct GroupLine {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) consumer: String,
    pub(crate) event_type: String,
    pub(crate) status: String,
    pub(crate) open: u64,
    pub(crate) total: u64,
    pub(crate) first: When,
    pub(crate) last: When,
    pub(crate) owner: Option<String>,
    pub(crate) assignee: Option<String>,
    pub(crate) members: u64,
    pub(crate) trend: Svg,
}

impl GroupLine {
    pub(crate) fn new(group: &Group, now: Timestamp) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self {
            id: group.id.to_string(),
            title: group.title(),
            source: group.source.clone(),
            consumer: text(&group.consumer),
            event_type: text(&group.event_type),
            status: group.life.status.to_string(),
            open: group.counts.get(Status::Open),
            total: group.counts.total(),
            first: When::new(group.first_seen, now),
            last: When::new(group.last_seen, now),
            owner: group.owner.clone(),
            assignee: group.assignee.clone(),
            members: group.members,
            trend: Svg::default(),
        }
    }
}

/// Groups as lines, each with its last day drawn. One call for all of them.
pub(super) async fn lines(
    office: &Office,
    groups: &[Group],
    now: Timestamp,
) -> Result<Vec<GroupLine>, Failed> {
    let ids: Vec<_> = groups.iter().map(|group| group.id).collect();
    let trends = office.store.trends(&ids, Window::until(now, Resolution::Hour, HOURS)).await?;
    let drawn = |(group, points): (&Group, Vec<u64>)| {
        let says = format!("{} letters in the last {HOURS} hours", points.iter().sum::<u64>());
        GroupLine { trend: spark(&says, &points), ..GroupLine::new(group, now) }
    };
    Ok(groups.iter().zip(trends).map(drawn).collect())
}

#[derive(Template)]
#[template(path = "groups.html")]
struct GroupsPage {
    shell: Shell,
    q: String,
    tabs: Vec<Tab>,
    saved: Saved,
    view: &'static str,
    text: String,
    /// Word and name of every order, and whether it is the one.
    orders: Vec<(&'static str, &'static str, bool)>,
    /// The other filters, for links that keep them.
    kept: String,
    /// What the list is narrowed to from elsewhere: field, value, and the address without it.
    within: Vec<(&'static str, String, String)>,
    /// The same for the links of the tabs.
    kept_within: String,
    groups: Vec<GroupLine>,
    next: Option<String>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<GroupParams>,
) -> Result<Response, Failed> {
    let now = office.now();
    let me = Some(shell.who.clone()).filter(|who| !who.is_empty());
    let tally = office.store.tally_groups(me.as_deref()).await?;
    let filter = filter(&params, me);
    let page = page_of(Some(SHOWN), params.cursor.clone())?;
    let found = office.shown().groups(&filter, &page).await?;
    let within = within(&params);
    let tab = |(view, word, name): (ViewName, &'static str, &'static str)| Tab {
        word,
        name,
        // The numbers are of all groups, and these are some.
        count: view.count(&tally).filter(|_| within.is_empty()),
        current: view == params.view,
    };
    let kept = kept(&params);
    let shown = format!("view={}{kept}", params.view.word());
    Ok(render(&GroupsPage {
        q: String::new(),
        saved: Saved::of(&office, &shell, ViewOf::Groups, shown).await?,
        tabs: ViewName::ALL.into_iter().map(tab).collect(),
        view: params.view.word(),
        orders: GroupOrder::ALL
            .iter()
            .map(|one| (one.as_str(), called(*one), *one == params.order()))
            .collect(),
        kept,
        kept_within: joined(&[("source", params.source.as_deref()), ("owner", params.owner.as_deref())]),
        within,
        groups: lines(&office, &found.groups, now).await?,
        next: found.next.map(|cursor| cursor.0),
        text: params.text,
        shell,
    }))
}

fn filter(params: &GroupParams, me: Option<String>) -> GroupFilter {
    let holding = match params.view {
        ViewName::Snoozed | ViewName::Handled | ViewName::Closed | ViewName::All => None,
        ViewName::Open
        | ViewName::Mine
        | ViewName::Unowned
        | ViewName::New
        | ViewName::Regressed
        | ViewName::Oldest => Some(Status::Open),
    };
    let owner = match (params.view, &params.owner) {
        (ViewName::Unowned, _) => Some(None),
        (_, Some(owner)) if owner == "none" => Some(None),
        (_, Some(owner)) => Some(Some(owner.clone())),
        (_, None) => None,
    };
    GroupFilter {
        source: params.source.clone(),
        owner,
        holding,
        handled: params.view == ViewName::Handled,
        statuses: params.view.statuses(),
        // Without a name nobody's groups are mine.
        assignee: (params.view == ViewName::Mine).then(|| Some(me.unwrap_or_default())),
        text: Some(params.text.trim().to_string()).filter(|text| !text.is_empty()),
        order: params.order(),
        ..GroupFilter::default()
    }
}

fn kept(params: &GroupParams) -> String {
    joined(&[
        ("text", Some(params.text.as_str()).filter(|text| !text.is_empty())),
        ("source", params.source.as_deref()),
        ("owner", params.owner.as_deref()),
        ("order", params.order.map(GroupOrder::as_str)),
    ])
}

/// Parameters behind the first of an address; those without a value are left out.
fn joined(pairs: &[(&str, Option<&str>)]) -> String {
    let some = pairs.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    some.map(|(name, value)| format!("&{name}={}", super::encoded(value))).collect()
}

fn within(params: &GroupParams) -> Vec<(&'static str, String, String)> {
    let fields = [("source", &params.source), ("owner", &params.owner)];
    let one = |(name, value): (&'static str, &Option<String>)| {
        let others: Vec<_> = fields
            .iter()
            .filter(|(other, _)| *other != name)
            .map(|(other, value)| (*other, value.as_deref()))
            .collect();
        let without = format!("/groups?view={}{}", params.view.word(), joined(&others));
        value.clone().map(|value| (name, value, without))
    };
    fields.into_iter().filter_map(one).collect()
}

/// The first groups of a list, for other screens.
pub(super) async fn some(
    office: &Office,
    filter: &GroupFilter,
    most: usize,
) -> Result<Vec<GroupLine>, Failed> {
    let found = office.shown().groups(filter, &Page::first(most)).await?;
    lines(office, &found.groups, office.now()).await
}

//! Reads from the store and masks the result. Pages and the API read through here.
//!
//! What acts on letters reads the store itself: a repair, a replay and a rule of the config work on the real values.

use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::group::{Change, Group, Similar};
use dlo_core::id::{GroupId, LetterId, ReplayId};
use dlo_core::letter::LetterDetail;
use dlo_core::query::complete::Known;
use dlo_core::query::{Named, Query};
use dlo_core::replay::{ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;
use dlo_core::trend::Window;
use dlo_core::view::View;
use dlo_store::replays::{ItemPage, ReplayPage};
use dlo_store::triage::{
    Changed, ClassTrend, Link, NewLink, NewSplit, NewView, Note, Runbook, Sampled, Split,
};
use dlo_store::{
    AuditEntry, AuditPage, CauseCount, Deed, GroupFilter, GroupPage, LetterPage, Page, StoreError,
    StoredPayload, TimelineEntry, Verification,
};

use crate::office::Office;

/// The store as people see it.
#[derive(Debug)]
pub(crate) struct Shown<'o>(pub(crate) &'o Office);

/// The store's method of the same name, with its result masked.
macro_rules! masked {
    ($($name:ident($($argument:ident: $of:ty),*) -> $out:ty;)*) => {
        impl Shown<'_> {
            $(pub(crate) async fn $name(&self, $($argument: $of),*) -> Result<$out, StoreError> {
                Ok(self.0.mask.over(self.0.store.$name($($argument),*).await?))
            })*
        }
    };
}

masked! {
    letters(query: &Query, page: &Page) -> LetterPage;
    letter(id: LetterId) -> LetterDetail;
    payload(id: LetterId, reader: Option<(&Deed, Timestamp)>) -> StoredPayload;
    timeline(id: LetterId) -> Vec<TimelineEntry>;
    group(id: GroupId) -> Group;
    causes(source: Option<&str>) -> Vec<CauseCount>;
    audit(page: &Page) -> AuditPage;
    verify() -> Verification;
    replay(id: ReplayId) -> Replay;
    children(id: ReplayId) -> Vec<Replay>;
    replays(state: Option<ReplayState>, page: &Page) -> ReplayPage;
    items(id: ReplayId, state: Option<ItemState>, page: &Page) -> ItemPage;
    change_groups(ids: &[GroupId], change: &Change, deed: &Deed, now: Timestamp) -> Vec<Changed>;
    similar_groups(id: GroupId) -> Vec<(Group, Similar)>;
    group_history(id: GroupId, most: usize) -> Vec<AuditEntry>;
    members(head: GroupId) -> Vec<Group>;
    merge_groups(head: GroupId, members: &[GroupId], deed: &Deed, now: Timestamp) -> Group;
    split_group(member: GroupId, deed: &Deed, now: Timestamp) -> Group;
    split_by(id: GroupId, split: &NewSplit, deed: &Deed, now: Timestamp) -> Group;
    unsplit(split: GroupId, deed: &Deed, now: Timestamp) -> Group;
    splits(id: GroupId) -> Vec<Split>;
    add_note(id: GroupId, text: &str, deed: &Deed, now: Timestamp) -> Note;
    notes(id: GroupId) -> Vec<Note>;
    add_link(id: GroupId, link: &NewLink, deed: &Deed, now: Timestamp) -> Link;
    links(id: GroupId) -> Vec<Link>;
    runbook(id: GroupId) -> Option<Runbook>;
    write_runbook(id: GroupId, text: &str, known: i64, deed: &Deed, now: Timestamp) -> Runbook;
    trend_by_class(source: Option<&str>, window: Window) -> Vec<ClassTrend>;
    mark_deploy(what: &NewDeploy, at: Timestamp, deed: &Deed, now: Timestamp) -> Deploy;
    deploys(from: Option<Timestamp>, until: Option<Timestamp>, most: usize) -> Vec<Deploy>;
    save_view(view: &NewView, deed: &Deed, now: Timestamp) -> View;
    views(person: Option<&str>) -> Vec<View>;
    sample(id: GroupId, most: usize) -> Vec<Sampled>;
}

impl Shown<'_> {
    /// Groups are chosen by what is shown of them.
    pub(crate) async fn groups(&self, filter: &GroupFilter, page: &Page) -> Result<GroupPage, StoreError> {
        let filter = GroupFilter { shown_by: self.0.mask.shown_by(), ..filter.clone() };
        Ok(self.0.mask.over(self.0.store.groups(&filter, page).await?))
    }

    /// Names for somebody who types one. A hidden one is not offered.
    pub(crate) async fn names(
        &self,
        named: &[Named],
        typed: &str,
        most: usize,
    ) -> Result<Vec<Known>, StoreError> {
        self.0.store.names(named, typed, self.0.mask.shown_by().as_ref(), most).await
    }
}

//! Saved views beside the built-in ones: links that need no script, the list that is looked at as something to save, and
//! each view as something to take away. What a view is saved as is an address, so that it is shared by its link.

use dlo_core::view::{View, ViewOf};

use super::{Failed, Shell, encoded};
use crate::office::Office;

/// What people saved of one list, and what would be saved of the one that is looked at.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// The list, as the API calls it.
    pub(super) of: &'static str,
    /// What is looked at: of letters a query, of groups the parameters of their list.
    pub(super) query: String,
    pub(super) views: Vec<SavedView>,
}

#[derive(Debug)]
pub(super) struct SavedView {
    pub(super) name: String,
    pub(super) href: String,
    /// Everybody's, and who saved it.
    pub(super) shared_by: Option<String>,
    pub(super) current: bool,
}

impl Saved {
    /// The shared views of a list, and those of whoever looks.
    pub(super) async fn of(
        office: &Office,
        shell: &Shell,
        of: ViewOf,
        query: String,
    ) -> Result<Self, Failed> {
        let who = Some(shell.who.as_str()).filter(|who| !who.is_empty());
        let views = office.shown().views(who).await?;
        let views = views.into_iter().filter(|view| view.of == of).map(|view| saved(view, &query)).collect();
        Ok(Self { of: of.as_str(), views, query })
    }

    /// Something was asked for, and it has no name yet.
    pub(super) fn can_be_saved(&self) -> bool {
        !self.query.trim().is_empty() && !self.views.iter().any(|view| view.current)
    }
}

fn saved(view: View, query: &str) -> SavedView {
    SavedView {
        href: match view.of {
            ViewOf::Groups => format!("/groups?{}", view.query),
            ViewOf::Letters => format!("/letters?q={}", encoded(&view.query)),
        },
        current: view.query.trim() == query.trim(),
        shared_by: view.owner.is_none().then_some(view.author),
        name: view.name,
    }
}

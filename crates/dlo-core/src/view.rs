//! Saved views: a query with a name, of groups or of letters, for oneself or for all.

use serde::Serialize;

use crate::codes::coded;
use crate::time::Timestamp;

coded! {
    /// What a view lists.
    pub enum ViewOf as "kind of view" {
        Groups = 1 => "groups",
        Letters = 2 => "letters",
    }
}

/// A saved view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// Unique among the shared ones, and among those of one person.
    pub name: String,
    pub of: ViewOf,
    /// Of letters: the search language. Of groups: the parameters of the page's list of them, as in its address.
    pub query: String,
    /// Whose it is; `None`: everybody's.
    pub owner: Option<String>,
    pub author: String,
    pub saved_at: Timestamp,
}

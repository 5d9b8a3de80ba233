//! Whose a group can be: the teams that are known, to choose from, and whether the one it has is one of them.
//!
//! A team that nobody has named yet is taken all the same: rules are written after people.

use std::collections::BTreeSet;

use dlo_core::query::Named;
use dlo_core::query::complete::OFFERED;

use crate::office::Office;
use crate::ui::Failed;

/// Teams to choose from, and what is odd about the one that was chosen.
pub(in crate::ui) struct Teams {
    /// Of the config, of the rules, and of groups with letters.
    pub(in crate::ui) offered: BTreeSet<String>,
    /// The owner is named neither by the config nor by a rule.
    pub(in crate::ui) unknown: bool,
}

impl Teams {
    pub(super) async fn read(office: &Office, owner: Option<&str>) -> Result<Self, Failed> {
        let mut offered: BTreeSet<String> = office.triage.teams().0.keys().cloned().collect();
        offered.extend(office.written.get().owners.iter().map(|rule| rule.owner.clone()));
        let unknown = owner.is_some_and(|owner| !offered.contains(owner));
        let used = office.shown().names(&[Named::Owner], "", OFFERED).await?;
        offered.extend(used.into_iter().map(|known| known.name));
        Ok(Self { offered, unknown })
    }
}

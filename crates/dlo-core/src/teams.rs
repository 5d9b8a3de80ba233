//! Teams: how to reach who owns letters, and how long they may lie (E4).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::time::Timestamp;

/// A team as config tells it: `[teams.payments]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Team {
    /// A channel, an address, a rota: whatever people of that team look at.
    pub contact: Option<String>,
    /// How long a letter of theirs may be open.
    #[serde(skip)]
    pub sla: Option<Duration>,
}

/// Teams by name. An owner that is not here is still an owner; nothing more is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Teams(pub BTreeMap<String, Team>);

/// How the oldest open letter of a team stands against what was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Within { left: Duration },
    Over { by: Duration },
}

impl Teams {
    pub fn get(&self, owner: &str) -> Option<&Team> {
        self.0.get(owner)
    }

    /// Where the oldest open letter stands against its owner's SLA; `None` without one of them.
    pub fn standing(
        &self,
        owner: Option<&str>,
        oldest_open: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Standing> {
        let sla = self.get(owner?)?.sla?;
        let age = now.since(oldest_open?);
        Some(match sla.checked_sub(age) {
            Some(left) => Standing::Within { left },
            None => Standing::Over { by: age.saturating_sub(sla) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_letter_is_held_against_its_teams_sla() {
        let hour = Duration::from_secs(3600);
        let team = Team { contact: Some("#payments".into()), sla: Some(hour) };
        let teams = Teams(BTreeMap::from([("payments".into(), team), ("mail".into(), Team::default())]));
        let now = Timestamp::from_millis(10_000_000);
        let standing =
            |owner, back: u64| teams.standing(owner, Some(now.minus(Duration::from_secs(back))), now);
        assert_eq!(
            standing(Some("payments"), 600),
            Some(Standing::Within { left: Duration::from_secs(3000) })
        );
        assert_eq!(standing(Some("payments"), 4600), Some(Standing::Over { by: Duration::from_secs(1000) }));
        assert_eq!(standing(Some("mail"), 4600), None);
        assert_eq!(standing(None, 4600), None);
        assert_eq!(teams.standing(Some("payments"), None, now), None);
    }
}

//! Marks of deployments, and "it began after deployment X" (E3).
//!
//! A mark says that something changed, when, and where. Nobody proves a cause here: the newest deployment shortly before
//! a group was first seen, or came back, is shown as the likely one, and said to be no more than that.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::group::Group;
use crate::time::Timestamp;

/// How long before a beginning a deployment may lie to be named with it.
pub const SHORTLY: Duration = Duration::from_secs(60 * 60);

/// A deployment that somebody, or a pipeline, marked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deploy {
    /// Grows with every mark.
    pub number: i64,
    pub at: Timestamp,
    #[serde(flatten)]
    pub what: NewDeploy,
    pub author: String,
}

/// What is said of a deployment. Without consumer and source it may concern everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NewDeploy {
    /// `2.3.1`, a commit, the name of a change.
    pub version: String,
    /// The consumer group that was deployed.
    pub consumer: Option<String>,
    pub source: Option<String>,
    /// Where to read more.
    pub url: Option<String>,
}

/// What began behind a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Beginning {
    FirstSeen,
    Regressed,
}

/// A group that began, or came back, shortly after a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BeganAfter<'d> {
    pub deploy: &'d Deploy,
    pub what: Beginning,
    pub began_at: Timestamp,
    /// Whether it was a deployment of the group's own consumer or source.
    pub own: bool,
}

/// The deployment after which a group began: the newest of its own consumer or source at most [`SHORTLY`] before, else the
/// newest of anything else. A group that came back is asked about that time.
pub fn began_after<'d>(group: &Group, deploys: &'d [Deploy]) -> Option<BeganAfter<'d>> {
    let (what, began_at) = match group.life.regressed_at {
        Some(at) => (Beginning::Regressed, at),
        None => (Beginning::FirstSeen, group.first_seen),
    };
    let shortly_before = |deploy: &&Deploy| deploy.at <= began_at && began_at.since(deploy.at) <= SHORTLY;
    let newest = |own: bool| {
        let fitting = deploys.iter().filter(|deploy| deploy.what.is_of(group) == own).filter(shortly_before);
        fitting.max_by_key(|deploy| (deploy.at, deploy.number)).map(|deploy| (deploy, own))
    };
    let (deploy, own) = newest(true).or_else(|| newest(false))?;
    Some(BeganAfter { deploy, what, began_at, own })
}

impl NewDeploy {
    /// Whether it names this group's consumer or source, and nothing that is not the group's.
    pub fn is_of(&self, group: &Group) -> bool {
        let consumer = self.consumer.as_ref().map(|name| group.consumer.as_ref() == Some(name));
        let source = self.source.as_ref().map(|name| group.source == *name);
        match (consumer, source) {
            (None, None) => false,
            (consumer, source) => consumer.unwrap_or(true) && source.unwrap_or(true),
        }
    }

    /// Whether it may have changed something for this group: it is the group's own, or it names nobody in particular.
    pub fn may_concern(&self, group: &Group) -> bool {
        self.is_of(group) || (self.consumer.is_none() && self.source.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::group;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    fn deploy(number: i64, minute: i64, consumer: Option<&str>) -> Deploy {
        let what = NewDeploy {
            version: format!("v{number}"),
            consumer: consumer.map(String::from),
            ..NewDeploy::default()
        };
        Deploy { number, at: at(minute), what, author: "ci".into() }
    }

    fn began(minute: i64) -> Group {
        Group { consumer: Some("pricing".into()), first_seen: at(minute), ..group("orders", 1) }
    }

    fn named(group: &Group, deploys: &[Deploy]) -> Option<(i64, bool)> {
        began_after(group, deploys).map(|found| (found.deploy.number, found.own))
    }

    #[test]
    fn the_newest_deployment_of_the_same_consumer_within_the_hour_is_named() {
        let deploys = [
            deploy(1, 100, Some("pricing")),
            deploy(2, 140, Some("pricing")),
            deploy(3, 149, Some("mail")),
            deploy(4, 151, Some("pricing")),
        ];
        assert_eq!(named(&began(150), &deploys), Some((2, true)));
        assert_eq!(named(&began(120), &deploys), Some((1, true)));
        assert_eq!(named(&began(99), &deploys), None);
        assert_eq!(named(&began(212), &deploys), None);
    }

    #[test]
    fn without_one_of_its_own_the_newest_of_anything_is_named_as_such() {
        let deploys = [deploy(1, 140, Some("mail")), deploy(2, 145, None)];
        assert_eq!(named(&began(150), &deploys), Some((2, false)));
    }

    #[test]
    fn a_group_that_came_back_is_asked_about_that_time() {
        let mut group = began(10);
        group.life.regressed_at = Some(at(150));
        let deploys = [deploy(1, 5, Some("pricing")), deploy(2, 145, Some("pricing"))];
        let found = began_after(&group, &deploys).unwrap();
        assert_eq!((found.deploy.number, found.what), (2, Beginning::Regressed));
    }

    #[test]
    fn a_mark_of_another_source_is_not_the_groups_own() {
        let other = NewDeploy {
            consumer: Some("pricing".into()),
            source: Some("mail".into()),
            ..NewDeploy::default()
        };
        assert!(!other.is_of(&began(1)));
        assert!(NewDeploy { source: Some("orders".into()), ..NewDeploy::default() }.is_of(&began(1)));
        assert!(!other.may_concern(&began(1)));
        let of_anything = NewDeploy { version: "2026-11-16".into(), ..NewDeploy::default() };
        assert!(of_anything.may_concern(&began(1)) && !of_anything.is_of(&began(1)));
    }
}

//! Which plans are refused. A plan is checked before anything is written, and again when it is started.

use super::{PlanPolicy, SourcePolicy};
use crate::replay::{DoubtPolicy, Pace, Settings};

/// How sure it is who makes a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlannerIdentity {
    /// A person with a token of their own, or a rule of this office.
    Proven,
    /// A name that nobody proved. Under it a person could make a plan, and approve it under their own.
    #[default]
    Claimed,
}

/// Why a plan is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefusal {
    #[error(
        "this plan needs an approval, so who makes it proves who it is: use a token with a name ([server.tokens])"
    )]
    UnprovenPlanner,
    #[error(
        "`{0}` is critical: what is in doubt there is for a person, and not sent again; leave `doubts` out, or plan its letters alone"
    )]
    CriticalSource(String),
    #[error(
        "the broker of `{0}` does not tell how much its queue gets, so there is no share of it; say a `rate`, in messages a second"
    )]
    UncountedTraffic(String),
}

impl SourcePolicy {
    /// Refuses settings that do not go with a source.
    pub fn check(self, source: &str, settings: &Settings) -> Result<(), PlanRefusal> {
        if self.critical && settings.doubts == DoubtPolicy::SendAgain {
            return Err(PlanRefusal::CriticalSource(source.to_owned()));
        }
        if !self.counts_traffic && matches!(settings.pace, Pace::Share(_)) {
            return Err(PlanRefusal::UncountedTraffic(source.to_owned()));
        }
        Ok(())
    }
}

impl PlanPolicy {
    /// Refuses settings that do not go with a source; one without a policy allows all.
    pub fn check(&self, source: &str, settings: &Settings) -> Result<(), PlanRefusal> {
        self.sources.get(source).map_or(Ok(()), |policy| policy.check(source, settings))
    }
}

impl PlannerIdentity {
    /// Refuses a plan that needs approvals of somebody whose name is only claimed.
    pub fn check(self, approvals_needed: u8) -> Result<(), PlanRefusal> {
        match self {
            Self::Claimed if approvals_needed > 0 => Err(PlanRefusal::UnprovenPlanner),
            Self::Claimed | Self::Proven => Ok(()),
        }
    }
}

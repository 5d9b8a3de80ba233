//! Mistakes that can be made on purpose, so that the simulation shows that it would find them.
//!
//! Outside of tests nothing is ever planted, and the compiler sees that.

/// One mistake in the driver. Those of a store are planted in the simulated store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// A send is recorded before the broker was asked.
    RecordBeforePublish,
    /// A lost confirmation is taken for a message that was not sent.
    DoubtIsUnsent,
    /// Whoever takes over does not look at what its predecessor had intended.
    ForgetDoubts,
    /// Sending again is taken to be safe however late.
    ForgetWindow,
    /// The queue is read back while a predecessor can still publish.
    SkipFence,
    /// Outcomes are concluded before their window is over.
    ConcludeEarly,
    /// What the guards say is not heard.
    IgnoreGuards,
    /// What was intended goes out although the replay was paused meanwhile.
    IgnorePause,
    /// Everything that may be sent goes at once.
    IgnorePace,
    /// Doubts are left to nobody: sent again whatever the policy says.
    IgnorePolicy,
    /// What came back after a person let it go on is held against it, whenever it was sent.
    JudgeByDeath,
    /// A broker that does not answer is taken for one that has nothing to say.
    ConcludeBlindly,
    /// Letters are intended far ahead of what is sent.
    IntendFarAhead,
}

#[cfg(test)]
impl Flaw {
    pub(super) const ALL: [Self; 13] = [
        Self::RecordBeforePublish,
        Self::DoubtIsUnsent,
        Self::ForgetDoubts,
        Self::ForgetWindow,
        Self::SkipFence,
        Self::ConcludeEarly,
        Self::IgnoreGuards,
        Self::IgnorePause,
        Self::IgnorePace,
        Self::IgnorePolicy,
        Self::JudgeByDeath,
        Self::ConcludeBlindly,
        Self::IntendFarAhead,
    ];
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Planted {
    #[cfg(test)]
    pub(super) flaw: Option<Flaw>,
}

impl Planted {
    #[cfg(test)]
    pub(super) fn has(self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    #[cfg(not(test))]
    pub(super) const fn has(self, _: Flaw) -> bool {
        false
    }
}

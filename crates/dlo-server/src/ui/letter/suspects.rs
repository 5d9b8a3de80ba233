//! Letters that are perhaps one letter twice, named on both pages.

use dlo_core::letter::LetterDetail;
use dlo_core::suspect::Suspicion;

/// One sentence, with the other letter behind it.
pub(super) struct SuspectLine {
    pub(super) told: &'static str,
    pub(super) letter: String,
    /// Why it is suspected, and what a person can do.
    pub(super) why: &'static str,
}

pub(super) fn lines(detail: &LetterDetail) -> Vec<SuspectLine> {
    let own = detail.letter.suspect.iter().map(|first| SuspectLine {
        told: match first.kind {
            Suspicion::Duplicate => "Suspected duplicate of",
            Suspicion::Return => "Suspected return of",
        },
        letter: first.letter.to_string(),
        why: match first.kind {
            Suspicion::Duplicate => {
                "A consumer went down and may have parked one message twice. A plan leaves this letter out unless you \
                 include it. If both are one message, discard this one."
            }
            Suspicion::Return => {
                "It has the payload and the key of a message that a replay had just sent. It counts as failed again there."
            }
        },
    });
    let others = detail.suspects.iter().map(|other| SuspectLine {
        told: match other.kind {
            Suspicion::Duplicate => "Has a suspected duplicate:",
            Suspicion::Return => "Has a suspected return:",
        },
        letter: other.letter.to_string(),
        why: "",
    });
    own.chain(others).collect()
}

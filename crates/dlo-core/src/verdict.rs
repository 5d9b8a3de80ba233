//! What becomes of a message whose handler failed: the one place where retry, dead-letter or discard is chosen.

use crate::codes::coded;

coded! {
    /// The three ways out (A1). There is no fourth: an unknown error is terminal.
    pub enum VerdictKind as "verdict" {
        Retry = 1 => "retry",
        DeadLetter = 2 => "dead_letter",
        Discard = 3 => "discard",
    }
}

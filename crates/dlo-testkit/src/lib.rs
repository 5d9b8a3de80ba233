//! The workshop: what tests of all crates share. Never shipped.
//!
//! | room | what |
//! |---|---|
//! | `backups` | mutated copies of a SQLite backup, by seed; a feature of its own |
//! | [`conformance`] | what every broker adapter must do, by declared capability |
//! | [`clock`] | clocks that tests own |
//! | [`faults`] | wrappers that fail when the test says so |
//! | [`harness`] | real servers, started for the tests and gone with them |
//! | [`retry`] | how a test declares that it may be run a second time |
//! | [`sim`] | a broker that follows a seed, for runs in which everything goes wrong |

#![expect(clippy::expect_used, clippy::panic, reason = "in tests, to stop is how a failure is told")]

#[cfg(feature = "backups")]
pub mod backups;
pub mod clock;
pub mod conformance;
pub mod faults;
pub mod harness;
pub mod retry;
pub mod sim;

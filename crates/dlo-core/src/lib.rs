//! The words and the decisions of Dead Letter Office. No I/O, no async runtime, no clock, no SQL.
//!
//! | word | meaning |
//! |---|---|
//! | [`letter`] | one message that could not be processed, from its first death until its final destination |
//! | [`letter::Death`] | one time it was parked: where, when, by which consumer, why |
//! | [`group`] | letters with the same [`fingerprint`]: one cause, one owner, one life cycle |
//! | [`verdict`] | what becomes of a message whose handler failed: retry, dead-letter or discard |
//! | [`reason`] | why it was parked |
//! | [`origin`] | where it came from, in its broker's own coordinates |
//! | [`replay`] | a plan and its run over a frozen list of letters |
//! | [`query`] | the search language |
//! | [`broker`] | the port that every broker adapter implements |

pub mod attempt;
pub mod automation;
pub mod brake;
pub mod breaker;
pub mod broker;
pub mod budget;
pub mod capacity;
pub mod classify;
mod codes;
pub mod conventions;
pub mod deploy;
pub mod envelope;
pub mod failure;
pub mod fingerprint;
pub mod group;
pub mod id;
pub mod known;
pub mod letter;
pub mod limits;
pub mod message;
pub mod origin;
pub mod owners;
pub mod pattern;
pub mod poison;
pub mod policy;
pub mod query;
pub mod reason;
pub mod redact;
pub mod replay;
pub mod sample;
pub mod setting;
pub mod suspect;
pub mod teams;
pub mod time;
pub mod trend;
pub mod trouble;
pub mod units;
pub mod verdict;
pub mod version;
pub mod view;
mod window;
pub mod words;

pub use codes::UnknownCode;

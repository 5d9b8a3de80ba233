//! How a command ends: a stable number for scripts, and words for people.
//!
//! The numbers are documented in `docs/reference/cli.md` and never change their meaning.

use std::fmt;

/// The exit codes of `dlo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It ran and something did not work out.
    Failed = 1,
    /// The command line, the query or the config is not understood.
    Usage = 2,
    /// What was asked for is not there.
    NotFound = 3,
    /// A guard said no: a missing right, a state that does not allow it, a lock that somebody else holds.
    Refused = 4,
    /// The server did not answer.
    Unreachable = 5,
    /// A replay went on to its end, and letters of it died again.
    CameBack = 6,
    /// Something does not work: a source, a consumer, a replay, the store or a disk.
    Trouble = 7,
}

/// A command that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Ready to print; may have several lines. Empty: everything was said already.
    pub(crate) words: String,
    /// The office has no room now: the same request may succeed shortly.
    pub(crate) busy: bool,
    /// Where in the text that was sent the mistake stands, counted in bytes.
    pub(crate) position: Option<usize>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, words: impl Into<String>) -> Self {
        Self { exit, words: words.into(), busy: false, position: None }
    }

    pub(crate) fn failed(words: impl Into<String>) -> Self {
        Self::new(Exit::Failed, words)
    }

    pub(crate) fn usage(words: impl Into<String>) -> Self {
        Self::new(Exit::Usage, words)
    }

    /// The reader of our output went away (`dlo … | head`): nobody is left to tell anything.
    pub(crate) fn is_silent(&self) -> bool {
        self.words.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failure {}

impl From<std::io::Error> for Failure {
    fn from(cause: std::io::Error) -> Self {
        match cause.kind() {
            std::io::ErrorKind::BrokenPipe => Self::failed(""),
            _ => Self::failed(cause.to_string()),
        }
    }
}

impl From<crate::config::Problems> for Failure {
    fn from(problems: crate::config::Problems) -> Self {
        Self::usage(problems.to_string())
    }
}

/// What commands return.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

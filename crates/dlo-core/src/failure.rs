//! What a handler reports when it could not process a message.

use std::time::Duration;

use crate::limits;
use crate::verdict::VerdictKind;

/// One failure, before anybody decided what becomes of it. Texts are cut to their limits by [`Failure::bounded`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// Exception class, problem type or error name. Empty when the handler gave none.
    pub class: String,
    pub message: String,
    /// A code of the application's own.
    pub code: Option<String>,
    pub http_status: Option<u16>,
    pub stack: Option<String>,
    /// The downstream that failed; breaker and brake are per dependency.
    pub dependency: Option<String>,
    /// A server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The handler's own word on it, which comes before every rule.
    pub says: Option<VerdictKind>,
}

impl Failure {
    pub fn new(class: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class: class.into(), message: message.into(), ..Self::default() }
    }

    /// The same failure with every text cut to its limit.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        limits::cut(&mut self.class, limits::NAME);
        limits::cut(&mut self.message, limits::ERROR_MESSAGE);
        if let Some(code) = &mut self.code {
            limits::cut(code, limits::NAME);
        }
        if let Some(stack) = &mut self.stack {
            limits::cut(stack, limits::ERROR_STACK);
        }
        if let Some(dependency) = &mut self.dependency {
            limits::cut(dependency, limits::NAME);
        }
        self
    }
}

//! What a service writes: a handler, and how its errors tell of themselves.
//!
//! A closure `|message: Message| async { … }` is a handler. An error type that knows more than its text (a code, a
//! status, a dependency, its own verdict) says so through [`IntoFailure`]; everything else is classified by rules.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::attempt::Attempt;
use dlo_core::envelope::ReplayMark;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::time::Timestamp;

/// What is known of a message beside itself.
#[derive(Debug, Clone)]
pub struct Context {
    /// Where it was read first, over all its retries.
    pub origin: Origin,
    /// By the broker's or producer's clock.
    pub published_at: Option<Timestamp>,
    pub attempt: Attempt,
    /// How long this attempt may take.
    pub timeout: Duration,
    /// Set when the office sent it on: the replay id is the same over retries of one send.
    pub replay: Option<ReplayMark>,
}

/// Handles messages of one consumer, several at once.
#[async_trait]
pub trait Handler: Send + Sync {
    /// `Ok` means done: the message is settled and never seen again. Dropped when it runs over its time.
    async fn handle(&self, message: Message, context: &Context) -> Result<(), Unhandled>;

    /// Whether the handler is another process, which lives on when this one dies. Then the death of this process is no
    /// evidence against the messages in the handler; only [`Unhandled::Lost`] is.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Why a message was not handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unhandled {
    /// The handler had it and says so.
    Failed(Box<Failure>),
    /// Nobody was there to take it (connection refused, no route): it waits, at no charge, until somebody is.
    Absent(String),
    /// The handler went away with it (connection lost after the request was sent): whoever was there is a suspect.
    Lost(String),
}

impl From<Failure> for Unhandled {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

#[async_trait]
impl<F, Running, E> Handler for F
where
    F: Fn(Message) -> Running + Send + Sync,
    Running: Future<Output = Result<(), E>> + Send,
    E: IntoFailure,
{
    async fn handle(&self, message: Message, _context: &Context) -> Result<(), Unhandled> {
        let running = self(message);
        running.await.map_err(|error| error.into_failure().into())
    }
}

/// How an error of a handler tells what it is.
pub trait IntoFailure {
    fn into_failure(self) -> Failure;
}

impl IntoFailure for Failure {
    fn into_failure(self) -> Failure {
        self
    }
}

/// Text alone: no class, so only rules on the message speak.
impl IntoFailure for String {
    fn into_failure(self) -> Failure {
        Failure::new("", self)
    }
}

impl IntoFailure for Box<dyn std::error::Error + Send + Sync> {
    fn into_failure(self) -> Failure {
        Failure::new("", chain(&*self))
    }
}

impl IntoFailure for std::io::Error {
    /// The kind is what rules know: `ConnectionRefused`, `TimedOut`.
    fn into_failure(self) -> Failure {
        Failure { code: Some(format!("{:?}", self.kind())), ..describe(&self) }
    }
}

/// Any other error: its type is the class, its text and that of its causes the message.
pub fn describe<E: std::error::Error>(error: &E) -> Failure {
    Failure::new(std::any::type_name::<E>(), chain(error))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    // Bounded: a chain that bites its own tail ends as well.
    for _ in 0..16 {
        let Some(inner) = cause else { break };
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no price for the order")]
    struct NoPrice(#[source] std::io::Error);

    #[test]
    fn an_error_is_described_by_its_type_and_the_chain_of_its_causes() {
        let failure = describe(&NoPrice(std::io::Error::other("disk full")));
        assert!(failure.class.ends_with("NoPrice"), "{}", failure.class);
        assert_eq!(failure.message, "no price for the order: disk full");
    }

    #[test]
    fn an_io_error_says_its_kind_as_a_code() {
        let failure = std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into_failure();
        assert_eq!(failure.code.as_deref(), Some("ConnectionRefused"));
    }
}

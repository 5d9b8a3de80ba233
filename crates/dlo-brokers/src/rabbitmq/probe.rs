//! How a queue that exists was made, as far as it can be told without changing anything.
//!
//! The management plugin says it all, policies included. Without it there is a way through AMQP: to declare the queue
//! once more, which the server refuses with the first argument that is not as it stands, and its value. Answered
//! with that value, it names the next one. A queue that is there is never changed by that.

use std::collections::BTreeMap;

use dlo_core::broker::BrokerError;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{ErrorKind, ExchangeKind};

use super::Shared;
use super::connection::{answered, failure};
use super::seat::short;
use super::table::long_string;

/// Questions before we give up; there are fewer arguments than that.
const QUESTIONS: usize = 24;

/// What a queue is made of, by argument (`x-…`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    arguments: BTreeMap<String, String>,
    pub(super) durable: bool,
    /// Whether policies were seen too.
    pub(super) policies: bool,
}

impl Found {
    /// A setting by its argument's name; a policy that makes the same setting counts.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    pub(super) fn is_quorum(&self) -> bool {
        self.setting("x-queue-type") == Some("quorum")
    }
}

impl Shared {
    /// How `queue`, which exists, was made.
    pub(super) async fn probe(&self, queue: &str, wanted: &FieldTable) -> Result<Found, BrokerError> {
        match &self.management {
            Some(management) => {
                let seen = management.queue(queue).await?;
                let text = |value: &serde_json::Value| {
                    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                };
                let mut arguments: BTreeMap<String, String> =
                    seen.policies().map(|(name, value)| (format!("x-{name}"), text(value))).collect();
                // Where both say something, the argument stands.
                arguments.extend(seen.arguments.iter().map(|(name, value)| (name.clone(), text(value))));
                arguments.entry("x-queue-type".to_owned()).or_insert_with(|| seen.kind().to_owned());
                Ok(Found { arguments, durable: seen.durable.unwrap_or(true), policies: true })
            }
            None => self.ask(queue, wanted).await,
        }
    }

    async fn ask(&self, queue: &str, wanted: &FieldTable) -> Result<Found, BrokerError> {
        let name = short(queue)?;
        let mut asked = wanted.inner().clone();
        let mut options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        for _ in 0..QUESTIONS {
            // Each refusal closes the channel.
            let channel = self.consuming.channel().await?;
            let question = channel.queue_declare(name.clone(), options, FieldTable::from(asked.clone()));
            let Err(error) = tokio::time::timeout(super::connection::ANSWER, question)
                .await
                .map_err(|_| BrokerError::Unavailable(format!("no answer about `{queue}`")))?
            else {
                let arguments =
                    asked.iter().filter_map(|(name, value)| Some((name.to_string(), shown(value)?)));
                return Ok(Found {
                    arguments: arguments.collect(),
                    durable: options.durable,
                    policies: false,
                });
            };
            let ErrorKind::ProtocolError(told) = error.kind() else { return Err(failure(&error)) };
            let Some((argument, current)) = difference(told.get_message().as_str()) else {
                return Err(failure(&error));
            };
            match argument.as_str() {
                "durable" => options.durable = !options.durable,
                "auto_delete" => options.auto_delete = !options.auto_delete,
                "exclusive" => options.exclusive = !options.exclusive,
                _ => {
                    let argument = ShortString::try_new(argument).map_err(|_| failure(&error))?;
                    match current {
                        Some(value) => asked.insert(argument, value),
                        None => asked.remove(argument.as_str()),
                    };
                }
            }
        }
        Err(BrokerError::Refused(format!(
            "how `{queue}` was made could not be found out; configure `management`"
        )))
    }

    /// Whether an exchange is there.
    pub(super) async fn has_exchange(&self, exchange: &str) -> Result<bool, BrokerError> {
        let channel = self.consuming.channel().await?;
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let question =
            channel.exchange_declare(short(exchange)?, ExchangeKind::Direct, passive, FieldTable::default());
        match answered(question).await {
            Ok(()) => Ok(true),
            // Not a queue, so no name was read from it.
            Err(BrokerError::Unavailable(why)) if why.starts_with("NOT_FOUND") => Ok(false),
            Err(other) => Err(other),
        }
    }
}

fn shown(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::Boolean(yes) => Some(yes.to_string()),
        other => super::hops::whole(other).map(|number| number.to_string()),
    }
}

/// The argument in a refusal, and the value it has. `None` for the value: the queue has none.
///
/// `PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is the
/// value '10' of type 'signedint'`
fn difference(text: &str) -> Option<(String, Option<AMQPValue>)> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let (_, current) = rest.rsplit_once("but current is ")?;
    // Flags are told without their type, and are turned over without being read.
    let value = current.strip_prefix("the value '").and_then(|rest| rest.rsplit_once("' of type '"));
    let value = value.map(|(value, kind)| match kind.trim_end_matches('\'') {
        "longstr" => long_string(value.as_bytes()),
        "bool" => AMQPValue::Boolean(value == "true"),
        _ => value.parse().map_or_else(|_| long_string(value.as_bytes()), AMQPValue::LongLongInt),
    });
    Some((argument.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_argument_and_its_value() {
        let read = |current: &str| {
            difference(&format!(
                "PRECONDITION_FAILED - inequivalent arg 'x-y' for queue 'q' in vhost '/': received none but current is {current}"
            ))
            .unwrap()
        };
        assert_eq!(
            read("the value '10' of type 'signedint'"),
            ("x-y".into(), Some(AMQPValue::LongLongInt(10)))
        );
        assert_eq!(read("the value 'it's' of type 'longstr'"), ("x-y".into(), Some(long_string(b"it's"))));
        assert_eq!(read("none"), ("x-y".into(), None));
        assert_eq!(read("'true'"), ("x-y".into(), None));
        assert_eq!(difference("something else"), None);
    }
}

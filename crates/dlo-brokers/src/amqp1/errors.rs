//! What the client's errors mean to us: come back later, no such queue, or do something about it.

use dlo_core::broker::BrokerError;
use fe2o3_amqp::connection::OpenError;
use fe2o3_amqp::link::{ReceiverAttachError, SenderAttachError};
use fe2o3_amqp::types::definitions::{AmqpError, Error, ErrorCondition};
use fe2o3_amqp::types::sasl::SaslCode;

/// Why a connection was not opened.
pub(super) fn opening(cause: OpenError, place: &str) -> BrokerError {
    let refused = |why: &str| BrokerError::Refused(format!("{place}: {why}"));
    match cause {
        OpenError::SaslError { code: SaslCode::Auth, .. } => {
            refused("user name or password is wrong; see `username` and `password`")
        }
        OpenError::SaslError { code: SaslCode::SysPerm, .. } => refused("the server cannot authenticate us"),
        OpenError::NotImplemented(what) => {
            refused(&format!("the mechanism is not offered ({}); see `sasl`", what.unwrap_or_default()))
        }
        OpenError::ScramError(cause) => refused(&format!("SCRAM: {cause}; see `username` and `password`")),
        OpenError::RemoteClosedWithError(error) => told(&error, place, None),
        OpenError::ProtocolHeaderMismatch(_) => {
            refused("this is no AMQP 1.0 server, or it wants TLS (amqps)")
        }
        other => BrokerError::Unavailable(format!("{place}: {other}")),
    }
}

/// What the server said of a link, a session or a connection; `queue` is what was asked for.
pub(super) fn told(error: &Error, place: &str, queue: Option<&str>) -> BrokerError {
    let text = error.description.as_deref().unwrap_or("no description");
    let condition = &error.condition;
    match (condition, queue) {
        (ErrorCondition::AmqpError(AmqpError::NotFound), Some(queue)) => {
            BrokerError::Missing(queue.to_owned())
        }
        (
            ErrorCondition::AmqpError(
                AmqpError::UnauthorizedAccess
                | AmqpError::NotAllowed
                | AmqpError::NotImplemented
                | AmqpError::InvalidField
                | AmqpError::PreconditionFailed,
            ),
            _,
        ) => BrokerError::Refused(format!("{place}: {text} ({condition:?})")),
        _ => BrokerError::Unavailable(format!("{place}: {text} ({condition:?})")),
    }
}

pub(super) fn receiving(cause: &ReceiverAttachError, place: &str, queue: &str) -> BrokerError {
    match cause {
        ReceiverAttachError::RemoteClosedWithError(error) => told(error, place, Some(queue)),
        other => BrokerError::Unavailable(format!("{place}: `{queue}`: {other}")),
    }
}

pub(super) fn sending(cause: &SenderAttachError, place: &str, queue: &str) -> BrokerError {
    match cause {
        SenderAttachError::RemoteClosedWithError(error) => told(error, place, Some(queue)),
        other => BrokerError::Unavailable(format!("{place}: `{queue}`: {other}")),
    }
}

//! What the service said, as something to do: wait, create the queue, or mend rights and settings.

use std::error::Error;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use dlo_core::broker::{BrokerError, PublishError};

/// The meaning of a failed call that was about `queue`.
pub(super) fn meaning<E>(error: &SdkError<E>, queue: &str) -> BrokerError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(service) => {
            let (said, status) = (service.err(), service.raw().status().as_u16());
            of_code(said.code().unwrap_or_default(), said.message().unwrap_or_default(), status, queue)
        }
        SdkError::ConstructionFailure(_) => BrokerError::Refused(format!(
            "the request could not be made: {}; set `region`, and credentials if the environment has none",
            chain(error)
        )),
        SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) | SdkError::ResponseError(_) => {
            let why = chain(error);
            match why.contains("no providers in chain") {
                true => BrokerError::Refused(format!(
                    "no credentials were found: set `access_key_id` and `secret_access_key`, `profile`, or the \
                     environment ({why})"
                )),
                false => BrokerError::Unavailable(why),
            }
        }
        // The SDK may learn of new ways to fail; none of them means that trying again is wrong.
        _ => BrokerError::Unavailable(chain(error)),
    }
}

fn of_code(code: &str, message: &str, status: u16, queue: &str) -> BrokerError {
    let said = if message.is_empty() { code.to_owned() } else { format!("{code}: {message}") };
    match code.rsplit('.').next().unwrap_or(code) {
        "QueueDoesNotExist" | "NonExistentQueue" => BrokerError::Missing(queue.to_owned()),
        "RequestThrottled"
        | "ThrottlingException"
        | "Throttling"
        | "OverLimit"
        | "KmsThrottled"
        | "ServiceUnavailable"
        | "InternalError"
        | "InternalFailure"
        | "QueueDeletedRecently" => BrokerError::Unavailable(said),
        "AccessDenied" | "AccessDeniedException" => BrokerError::Refused(format!(
            "{said}; allow this identity the SQS actions that the documentation lists for `{queue}`"
        )),
        "InvalidClientTokenId"
        | "UnrecognizedClientException"
        | "SignatureDoesNotMatch"
        | "InvalidAccessKeyId"
        | "InvalidSecurity"
        | "AuthFailure"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "MissingAuthenticationToken"
        | "IncompleteSignature" => BrokerError::Refused(format!(
            "{said}; check `access_key_id`, `secret_access_key`, `session_token`, `region` and the machine's clock"
        )),
        _ if status >= 500 || status == 429 => BrokerError::Unavailable(format!("{status} {said}")),
        _ => BrokerError::Refused(format!("{said} (`{queue}`)")),
    }
}

/// The causes of an error in one line: the SDK's own words for the outermost say nothing.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !words.contains(&said) {
            words.push_str(": ");
            words.push_str(&said);
        }
        cause = next.source();
    }
    words
}

/// What a failed call means for every message that was in it.
pub(super) fn unsent(error: &BrokerError) -> PublishError {
    match error {
        BrokerError::Unavailable(why) => PublishError::Unconfirmed(why.clone()),
        other => PublishError::Refused(other.to_string()),
    }
}

/// Why one entry of a batch failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The receipt is no longer good: the message is gone, or was taken back and is delivered again.
    TakenBack,
    /// Trying again will not help.
    Ours,
    /// The service's own trouble.
    Theirs,
}

impl Fault {
    pub(super) fn of(code: &str, sender_fault: bool) -> Self {
        match code.rsplit('.').next().unwrap_or(code) {
            "ReceiptHandleIsInvalid"
            | "MessageNotInflight"
            | "InvalidParameterValue"
            | "InvalidParameterValueException" => Self::TakenBack,
            other if sender_fault || other.starts_with("Invalid") => Self::Ours,
            _ => Self::Theirs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_a_different_thing_to_do() {
        let read = |code: &str, status| of_code(code, "words", status, "orders");
        assert!(matches!(read("QueueDoesNotExist", 400), BrokerError::Missing(queue) if queue == "orders"));
        assert!(matches!(
            read("AWS.SimpleQueueService.NonExistentQueue", 400),
            BrokerError::Missing(queue) if queue == "orders"
        ));
        assert!(read("RequestThrottled", 400).is_transient());
        assert!(read("Anything", 503).is_transient());
        let refused = read("InvalidClientTokenId", 403).to_string();
        assert!(refused.contains("access_key_id") && refused.contains("words"), "{refused}");
        let denied = read("AccessDenied", 403).to_string();
        assert!(denied.contains("orders") && denied.contains("allow"), "{denied}");
    }
}

//! Requests to the service: one client, pooled connections, and what its answers mean.
//!
//! Nothing is asked before it is needed. A request that takes longer than [`ANSWER`] has lost its connection.

use std::time::Duration;

use dlo_core::broker::{BrokerError, PublishError};
use reqwest::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config::PubsubConfig;
use super::credentials::Identity;
use super::names::Queue;

const PUBLIC: &str = "https://pubsub.googleapis.com";
const EMULATOR: &str = "PUBSUB_EMULATOR_HOST";
const ANSWER: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(5);
/// Characters of the service's words that are passed on.
const LONGEST_WORDS: usize = 500;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) config: PubsubConfig,
    base: String,
    client: reqwest::Client,
    identity: Identity,
}

/// What went wrong with one request.
#[derive(Debug)]
pub(super) enum Failure {
    /// The service answered so.
    Said(StatusCode, String),
    /// No answer, or none that can be understood.
    Silent(String),
    /// There was nothing to ask with.
    Unable(BrokerError),
}

impl Connection {
    pub(super) fn new(config: &PubsubConfig) -> Result<Self, BrokerError> {
        config.check()?;
        let emulator = std::env::var(EMULATOR).ok().filter(|host| !host.is_empty());
        let base = match (&config.endpoint, emulator) {
            (Some(endpoint), _) => endpoint.trim_end_matches('/').to_owned(),
            (None, Some(host)) => {
                format!("http://{}", host.trim_start_matches("http://").trim_end_matches('/'))
            }
            (None, None) => PUBLIC.to_owned(),
        };
        let identity = Identity::new(config, base.starts_with("http://"))?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(config.tls.client()?.as_ref().clone())
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .build()
            .map_err(|cause| BrokerError::Refused(format!("the client cannot be set up: {cause}")))?;
        Ok(Self { config: config.clone(), base, client, identity })
    }

    pub(super) fn queue(&self, name: &str) -> Result<Queue, BrokerError> {
        Queue::read(&self.config.project, name)
    }

    pub(super) fn topic(&self, name: &str) -> Result<String, BrokerError> {
        Queue::topic(&self.config.project, name)
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(Method::GET, path, None).await
    }

    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(super) async fn put<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    pub(super) async fn patch<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        self.ask(Method::PATCH, path, Some(body)).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        how: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let mut request = self.client.request(how, format!("{}/v1/{path}", self.base));
        if let Some(token) = self.identity.token().await.map_err(Failure::Unable)? {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| Failure::Silent(causes(&error)))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| Failure::Silent(causes(&error)))?;
        if !status.is_success() {
            return Err(Failure::Said(status, words(&bytes)));
        }
        // What the parser says may quote the answer, which holds payloads.
        serde_json::from_slice(&bytes).map_err(|_| {
            Failure::Silent("the service answered with something that is not its JSON".to_owned())
        })
    }
}

/// The service's own sentence, without what it may have been written around.
fn words(answer: &[u8]) -> String {
    let json: Value = serde_json::from_slice(answer).unwrap_or_default();
    let message = json.pointer("/error/message").and_then(Value::as_str).unwrap_or("no reason was given");
    message.chars().take(LONGEST_WORDS).collect()
}

/// The chain of causes: the outermost of them says only that a request failed.
fn causes(error: &reqwest::Error) -> String {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        said = format!("{said}: {inner}");
        cause = inner.source();
    }
    said
}

impl Failure {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Said(StatusCode::NOT_FOUND, _))
    }

    pub(super) fn is_there_already(&self) -> bool {
        matches!(self, Self::Said(StatusCode::CONFLICT, _))
    }

    /// What it means for `queue`.
    pub(super) fn of(self, queue: &str) -> BrokerError {
        match self {
            Self::Said(StatusCode::NOT_FOUND, _) => BrokerError::Missing(queue.to_owned()),
            Self::Said(status, why) if is_passing(status) => {
                BrokerError::Unavailable(format!("{status}: {why}"))
            }
            Self::Said(status, why) => BrokerError::Refused(format!("`{queue}`: {status}: {why}")),
            Self::Silent(why) => BrokerError::Unavailable(why),
            Self::Unable(error) => error,
        }
    }

    /// What it means for a message that was sent to `topic`.
    pub(super) fn of_publish(&self, topic: &str) -> PublishError {
        match self {
            Self::Said(StatusCode::NOT_FOUND, _) => PublishError::Refused(format!(
                "there is no topic `{topic}`: create it (`dlo topology apply`, or `gcloud pubsub topics create {topic}`)"
            )),
            Self::Said(status, why) if is_passing(*status) => {
                PublishError::Unconfirmed(format!("{status}: {why}"))
            }
            Self::Said(status, why) => PublishError::Refused(format!("`{topic}`: {status}: {why}")),
            Self::Silent(why) => PublishError::Unconfirmed(why.clone()),
            Self::Unable(error) => refusal(error),
        }
    }
}

pub(super) fn refusal(error: &BrokerError) -> PublishError {
    match error.is_transient() {
        true => PublishError::Unconfirmed(error.to_string()),
        false => PublishError::Refused(error.to_string()),
    }
}

fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_can_be_done_about_them() {
        let said = |code| Failure::Said(StatusCode::from_u16(code).unwrap(), "why".to_owned());
        assert!(matches!(said(404).of("q"), BrokerError::Missing(name) if name == "q"));
        for code in [408, 429, 500, 503] {
            assert!(said(code).of("q").is_transient(), "{code}");
            assert!(matches!(said(code).of_publish("q"), PublishError::Unconfirmed(_)), "{code}");
        }
        for code in [400, 401, 403, 409] {
            assert!(matches!(said(code).of("q"), BrokerError::Refused(_)), "{code}");
            assert!(matches!(said(code).of_publish("q"), PublishError::Refused(_)), "{code}");
        }
        assert_eq!(words(br#"{"error":{"message":"no right"}}"#), "no right");
        assert_eq!(words(b"<html>"), "no reason was given");
    }
}

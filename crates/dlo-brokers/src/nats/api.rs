//! JetStream's own interface: JSON requests on subjects, as far as the office needs them.
//!
//! Configurations are kept as the JSON the server gave, so that an update changes what it means to change and nothing
//! that a newer server knows and we do not.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, StatusCode};
use bytes::Bytes;
use dlo_core::broker::BrokerError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connection::Connection;
use super::names;
use super::volley::{self, Request};

/// How long a call waits for a connection.
pub(super) const REACH: Duration = Duration::from_secs(5);

/// Errors by which the server says that something is not there.
pub(super) const NO_MESSAGE: u32 = 10_037;
pub(super) const NO_CONSUMER: u32 = 10_014;
pub(super) const NO_STREAM: u32 = 10_059;

/// What the server answered instead of what was asked for.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) code: u32,
    #[serde(default)]
    pub(super) err_code: u32,
    #[serde(default)]
    pub(super) description: String,
}

impl ApiError {
    /// Whether the same request may succeed later: no leader yet, no resources now.
    pub(super) fn is_passing(&self) -> bool {
        self.code >= 500
    }

    pub(super) fn into_broker_error(self) -> BrokerError {
        let text = format!("{} (code {}, error {})", self.description, self.code, self.err_code);
        if self.is_passing() { BrokerError::Unavailable(text) } else { BrokerError::Refused(text) }
    }
}

/// An answer: what was asked for, or the server's error.
pub(super) type Answer<T> = Result<T, ApiError>;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct StreamInfo {
    pub(super) config: Value,
    /// When it was created: the name of its life.
    pub(super) created: String,
    pub(super) state: StreamState,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct StreamState {
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    /// Messages by subject, where they were asked for.
    #[serde(default)]
    pub(super) subjects: std::collections::HashMap<String, u64>,
}

impl StreamInfo {
    pub(super) fn subjects(&self) -> Vec<&str> {
        self.config["subjects"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub(super) fn text(&self, field: &str) -> &str {
        self.config[field].as_str().unwrap_or_default()
    }

    pub(super) fn flag(&self, field: &str) -> bool {
        self.config[field].as_bool().unwrap_or_default()
    }

    /// A number that means a limit; zero and less mean none.
    pub(super) fn limit(&self, field: &str) -> Option<u64> {
        self.config[field].as_u64().filter(|limit| *limit > 0)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ConsumerInfo {
    pub(super) config: Value,
    pub(super) ack_floor: Floor,
    pub(super) num_ack_pending: u64,
    pub(super) num_pending: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Floor {
    #[serde(default)]
    pub(super) stream_seq: u64,
}

/// The interface over one connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Api {
    pub(super) connection: Arc<Connection>,
    prefix: Arc<str>,
}

impl Api {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let prefix = match &connection.config.domain {
            Some(domain) => format!("$JS.{domain}.API").into(),
            None => "$JS.API".into(),
        };
        Self { connection, prefix }
    }

    pub(super) fn subject(&self, call: &str) -> String {
        format!("{}.{call}", self.prefix)
    }

    pub(super) async fn client(&self) -> Result<Client, BrokerError> {
        self.connection.client(REACH).await
    }

    /// One call.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        call: &str,
        body: &Value,
    ) -> Result<Answer<T>, BrokerError> {
        let mut answers = self.call_all(vec![(call.to_owned(), body.clone())]).await?;
        answers.pop().unwrap_or_else(|| Err(self.connection.away("no answer")))
    }

    /// Many calls in one round trip; one answer each.
    pub(super) async fn call_all<T: DeserializeOwned>(
        &self,
        calls: Vec<(String, Value)>,
    ) -> Result<Vec<Result<Answer<T>, BrokerError>>, BrokerError> {
        let client = self.client().await?;
        let request = |(call, body): (String, Value)| Request {
            to: self.subject(&call).into(),
            headers: None,
            body: if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) },
        };
        let answers = volley::ask(&client, calls.into_iter().map(request).collect()).await;
        Ok(answers.into_iter().map(|answer| self.read(answer)).collect())
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: Option<async_nats::Message>,
    ) -> Result<Answer<T>, BrokerError> {
        let Some(message) = answer else {
            return Err(self.connection.away("no answer to a JetStream request"));
        };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Err(self.connection.away(
                "nobody answers for JetStream: is it enabled on the server and for this account, and is `domain` right?",
            ));
        }
        let strange = |cause: serde_json::Error| {
            BrokerError::Unavailable(format!("the answer of JetStream is not understood: {cause}"))
        };
        #[derive(Deserialize)]
        struct Failed {
            error: Option<ApiError>,
        }
        let failed: Failed = serde_json::from_slice(&message.payload).map_err(strange)?;
        match failed.error {
            Some(error) => Ok(Err(error)),
            None => serde_json::from_slice(&message.payload).map(Ok).map_err(strange),
        }
    }

    /// The names of the streams that hold a subject.
    pub(super) async fn streams_of(&self, subject: &str) -> Result<Vec<String>, BrokerError> {
        #[derive(Deserialize)]
        struct Names {
            #[serde(default)]
            streams: Option<Vec<String>>,
        }
        let names: Answer<Names> = self.call("STREAM.NAMES", &json!({ "subject": subject })).await?;
        Ok(names.map_err(ApiError::into_broker_error)?.streams.unwrap_or_default())
    }

    /// A stream by its name, with the number of messages of `subject` where one is given.
    pub(super) async fn stream(
        &self,
        name: &str,
        subject: Option<&str>,
    ) -> Result<Option<StreamInfo>, BrokerError> {
        let body = subject.map_or(Value::Null, |subject| json!({ "subjects_filter": subject }));
        match self.call(&format!("STREAM.INFO.{name}"), &body).await? {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.err_code == NO_STREAM => Ok(None),
            Err(error) => Err(error.into_broker_error()),
        }
    }

    /// The one stream that holds a queue.
    pub(super) async fn stream_of(&self, queue: &str) -> Result<(String, StreamInfo), BrokerError> {
        names::check_subject(queue)?;
        let mut found = self.streams_of(queue).await?;
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(BrokerError::Missing(queue.to_owned())),
            (Some(one), false) => Err(BrokerError::Refused(format!(
                "several streams hold `{queue}`: {} and {one}; name the subjects of one of them",
                found.join(", ")
            ))),
            (Some(name), true) => match self.stream(&name, None).await? {
                Some(info) => Ok((name, info)),
                None => Err(BrokerError::Missing(queue.to_owned())),
            },
        }
    }

    pub(super) async fn consumer(
        &self,
        stream: &str,
        name: &str,
    ) -> Result<Option<ConsumerInfo>, BrokerError> {
        match self.call(&format!("CONSUMER.INFO.{stream}.{name}"), &Value::Null).await? {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.err_code == NO_CONSUMER || error.err_code == NO_STREAM => Ok(None),
            Err(error) => Err(error.into_broker_error()),
        }
    }
}

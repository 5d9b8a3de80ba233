//! Publishing with confirms: a whole batch goes out, then the stream's acknowledgements come.
//!
//! A send that the office repeats has the id of its replay or its death as `Nats-Msg-Id`, by which a stream knows
//! it again inside its duplicate window. A producer's own id is not sent again: the stream would take a replay for
//! the original and drop it.

use std::sync::Arc;

use async_nats::{HeaderMap, Message as Reply, StatusCode};
use async_trait::async_trait;
use dlo_core::broker::{Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use dlo_core::message::Message;
use dlo_core::origin::BrokerKind;
use serde::Deserialize;

use super::api::{Api, ApiError};
use super::volley::{self, Request};
use super::{headers, names};

#[derive(Debug)]
pub(super) struct NatsPublisher {
    pub(super) api: Api,
    pub(super) capabilities: Arc<Capabilities>,
}

/// Where the answer of a message is: refused here, or among what was sent.
type Fate = Result<usize, PublishError>;

#[async_trait]
impl Publisher for NatsPublisher {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        let client = match self.api.client().await {
            Ok(client) => client,
            Err(error) => {
                return messages.iter().map(|_| Err(PublishError::Unconfirmed(error.to_string()))).collect();
            }
        };
        // The server says on connecting how much it takes; the settings may promise less, not more.
        let limit = client.server_info().max_payload;
        let mut requests = Vec::with_capacity(messages.len());
        let mut subjects = Vec::with_capacity(messages.len());
        let fates: Vec<Fate> = messages
            .into_iter()
            .map(|outgoing| {
                let (subject, headers) = self.prepare(&outgoing, limit)?;
                subjects.push(subject.clone());
                let body = outgoing.message.payload.0;
                requests.push(Request {
                    to: subject.into(),
                    headers: (!headers.is_empty()).then_some(headers),
                    body,
                });
                Ok(requests.len() - 1)
            })
            .collect();
        let mut answers = Vec::with_capacity(subjects.len());
        for (answer, subject) in volley::ask(&client, requests).await.into_iter().zip(&subjects) {
            answers.push(Some(self.read(answer, subject).await));
        }
        let fate = |fate: Fate| match fate {
            Ok(at) => answers[at].take().unwrap_or_else(|| Err(unconfirmed("no answer"))),
            Err(refused) => Err(refused),
        };
        fates.into_iter().map(fate).collect()
    }
}

fn unconfirmed(why: impl Into<String>) -> PublishError {
    PublishError::Unconfirmed(why.into())
}

impl NatsPublisher {
    /// The subject and headers of a message, or why it cannot be sent.
    fn prepare(&self, outgoing: &Outgoing, server: usize) -> Result<(String, HeaderMap), PublishError> {
        if outgoing.delay.is_some_and(|delay| !delay.is_zero()) {
            return Err(PublishError::Refused(
                "JetStream delays redeliveries, not publishes: send it when it is due".to_owned(),
            ));
        }
        let (message, limit) = (&outgoing.message, self.capabilities.max_message);
        let size = message.payload.0.len()
            + message.headers.size()
            + message.key.as_ref().map_or(0, |key| key.0.len());
        if size > limit {
            return Err(PublishError::TooLarge { size, limit });
        }
        let headers = headers::to_wire(message, send_id(message));
        let size = message.payload.0.len() + headers::wire_size(&headers);
        if server > 0 && size > server {
            return Err(PublishError::TooLarge { size, limit: server });
        }
        Ok((subject(outgoing)?, headers))
    }

    async fn read(&self, answer: Option<Reply>, subject: &str) -> Result<Confirmed, PublishError> {
        #[derive(Deserialize)]
        struct Acknowledged {
            error: Option<ApiError>,
            seq: Option<u64>,
        }
        let Some(reply) = answer else { return Err(unconfirmed("no acknowledgement came in time")) };
        if reply.status == Some(StatusCode::NO_RESPONDERS) {
            return Err(self.nobody(subject).await);
        }
        let Ok(told) = serde_json::from_slice::<Acknowledged>(&reply.payload) else {
            return Err(unconfirmed(format!(
                "what answered on `{subject}` is no stream: is a service listening on this subject?"
            )));
        };
        match (told.error, told.seq) {
            (Some(error), _) if error.is_passing() => Err(unconfirmed(error.description)),
            (Some(error), _) => Err(PublishError::Refused(error.description)),
            (None, Some(sequence)) => Ok(Confirmed { partition: None, offset: i64::try_from(sequence).ok() }),
            (None, None) => Err(unconfirmed("the acknowledgement has no sequence")),
        }
    }

    /// Nobody took it. A stream that is there and has no leader now is another thing than no stream.
    async fn nobody(&self, subject: &str) -> PublishError {
        match self.api.streams_of(subject).await {
            Ok(streams) if streams.is_empty() => PublishError::Refused(format!(
                "no stream holds the subject `{subject}`: create one with `dlo topology apply`, or \
                 `nats stream add {} --subjects '{subject}'`",
                names::stream_name(subject)
            )),
            Ok(_) => unconfirmed(format!("the stream of `{subject}` does not answer now")),
            Err(error) => unconfirmed(error.to_string()),
        }
    }
}

/// The subject to publish to. A queue with wildcards takes back what came from it, each on its own subject.
fn subject(outgoing: &Outgoing) -> Result<String, PublishError> {
    let queue = &outgoing.to.queue;
    names::check_subject(queue).map_err(|error| PublishError::Refused(error.to_string()))?;
    if outgoing.to.partition.is_some_and(|partition| partition != 0) {
        return Err(PublishError::Refused(format!("`{queue}` has no partitions but 0")));
    }
    if !names::has_wildcard(queue) {
        return Ok(queue.clone());
    }
    match outgoing.message.headers.transport(BrokerKind::Nats, "subject") {
        Some(own)
            if !names::has_wildcard(own)
                && names::covers(queue, own)
                && names::check_subject(own).is_ok() =>
        {
            Ok(own.to_owned())
        }
        Some(_) | None => Err(PublishError::Refused(format!(
            "`{queue}` stands for many subjects, and the message does not say to which of them it belongs: \
             send it to one"
        ))),
    }
}

/// What makes two sends one. A message that dies in our hands carries the id of its death, and may carry that of the
/// replay before, which its stream has seen: the death goes first.
fn send_id(message: &Message) -> Option<&str> {
    let headers = &message.headers;
    let id = headers.text("dlo-death-id").or_else(|| headers.text("dlo-replay-id"))?;
    (!id.is_empty() && id.trim() == id && !id.contains(char::is_control)).then_some(id)
}

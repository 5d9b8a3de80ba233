//! Artemis' management address: questions and orders as messages, answers in JSON.
//!
//! One connection, opened when first needed and dropped after any error; one question at a time.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Body, Message, MessageId, Properties, Source,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use fe2o3_amqp::{Receiver, Sender};
use serde_json::Value as Json;
use tokio::sync::Mutex;

use super::connection::{Connector, Line};
use super::errors;

const ADDRESS: &str = "activemq.management";
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Management {
    connector: Arc<Connector>,
    open: Mutex<Option<Desk>>,
}

/// Where questions go out and answers come in.
#[derive(Debug)]
struct Desk {
    sender: Sender,
    receiver: Receiver,
    /// Address of our own temporary queue.
    reply_to: String,
    asked: u64,
    line: Line,
}

impl Management {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        Self { connector: Arc::clone(connector), open: Mutex::new(None) }
    }

    /// Calls `operation` of `resource` and returns its result; what the broker answers with an error is refused.
    pub(super) async fn call(
        &self,
        resource: &str,
        operation: &str,
        arguments: &Json,
    ) -> Result<Json, BrokerError> {
        let mut guard = self.open.lock().await;
        let asking = self.ask(&mut guard, resource, operation, arguments);
        let answer = match tokio::time::timeout(PATIENCE, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(self.connector.unavailable("no answer from its management address")),
        };
        if answer.as_ref().is_err_and(BrokerError::is_transient) {
            *guard = None;
        }
        answer
    }

    async fn ask(
        &self,
        open: &mut Option<Desk>,
        resource: &str,
        operation: &str,
        arguments: &Json,
    ) -> Result<Json, BrokerError> {
        // A connection that died while nobody asked is noticed only by asking: a second try has a fresh one.
        if open.as_ref().is_none_or(|desk| !desk.line.is_up()) {
            *open = Some(Desk::open(&self.connector).await?);
        }
        let Some(desk) = open else { return Err(self.connector.unavailable("not connected")) };
        desk.ask(&self.connector, resource, operation, arguments).await
    }
}

impl Desk {
    async fn open(connector: &Arc<Connector>) -> Result<Self, BrokerError> {
        let mut line = connector.open().await?;
        let place = connector.to_string();
        let sender = Sender::attach(&mut line.session, "dlo-management", ADDRESS)
            .await
            .map_err(|cause| errors::sending(&cause, &place, ADDRESS))?;
        let receiver = Receiver::builder()
            .name("dlo-management-replies")
            .source(Source::builder().dynamic(true).build())
            .auto_accept(true)
            .attach(&mut line.session)
            .await
            .map_err(|cause| errors::receiving(&cause, &place, "a temporary queue"))?;
        let reply_to = receiver.source().as_ref().and_then(|source| source.address.clone());
        let reply_to = reply_to.ok_or_else(|| connector.unavailable("no temporary queue for answers"))?;
        Ok(Self { sender, receiver, reply_to, asked: 0, line })
    }

    async fn ask(
        &mut self,
        connector: &Connector,
        resource: &str,
        operation: &str,
        arguments: &Json,
    ) -> Result<Json, BrokerError> {
        self.asked += 1;
        let id = MessageId::Ulong(self.asked);
        let mut question = Message::builder()
            .properties(
                Properties::builder().reply_to(self.reply_to.clone()).correlation_id(id.clone()).build(),
            )
            .application_properties(
                ApplicationProperties::builder()
                    .insert("_AMQ_ResourceName", resource)
                    .insert("_AMQ_OperationName", operation)
                    .build(),
            )
            .body(Body::Value(AmqpValue(Value::String(arguments.to_string()))))
            .build();
        question.header = None;
        self.sender
            .send(question)
            .await
            .map_err(|cause| connector.unavailable(&format!("management: {cause}")))?;
        loop {
            let answer = self.receiver.recv::<Body<Value>>().await;
            let answer = answer.map_err(|cause| connector.unavailable(&format!("management: {cause}")))?;
            let message = answer.into_message();
            let answered =
                message.properties.as_ref().and_then(|properties| properties.correlation_id.as_ref());
            // The answer to a question that was given up.
            if answered.is_some_and(|answered| *answered != id) {
                continue;
            }
            return understand(operation, &message);
        }
    }
}

fn understand(operation: &str, message: &Message<Body<Value>>) -> Result<Json, BrokerError> {
    let succeeded =
        message.application_properties.as_ref().and_then(|all| all.0.get("_AMQ_OperationSucceeded"));
    let text = match &message.body {
        Body::Value(AmqpValue(Value::String(text))) => text.as_str(),
        Body::Value(_) | Body::Data(_) | Body::Sequence(_) | Body::Empty => "",
    };
    match succeeded {
        Some(SimpleValue::Bool(true)) => {
            let Ok(Json::Array(mut results)) = serde_json::from_str(text) else { return Ok(Json::Null) };
            Ok(if results.is_empty() { Json::Null } else { results.swap_remove(0) })
        }
        _ => Err(BrokerError::Refused(format!("management operation {operation}: {text}"))),
    }
}

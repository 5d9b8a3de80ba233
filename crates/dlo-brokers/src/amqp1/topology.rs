//! What should be there for one queue: the queue, its dead-letter queue, and the broker's rules between them.
//!
//! Artemis is asked and told by its management address; rules are address settings of exactly this address, written over
//! what is in force there so that nothing else of them changes. Other brokers are only looked at, and the plan
//! holds the command of their own tool.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Gravity, Topology, TopologyChange, TopologySpec};
use serde_json::{Map, Value as Json, json};

use super::config::Flavour;
use super::connection::Connector;
use super::inspect::{find, probe};
use super::management::Management;

#[derive(Debug)]
pub(super) struct Amqp1Topology {
    pub(super) connector: Arc<Connector>,
    pub(super) management: Arc<Management>,
}

/// One thing to mend, and how.
#[derive(Debug)]
struct Step {
    change: TopologyChange,
    mend: Mend,
}

#[derive(Debug)]
enum Mend {
    Queue(String),
    Setting(&'static str, Json),
}

#[async_trait]
impl Topology for Amqp1Topology {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        match self.connector.config.flavour {
            Flavour::Artemis => Ok(self.steps(spec).await?.into_iter().map(|step| step.change).collect()),
            flavour @ (Flavour::Generic | Flavour::Activemq | Flavour::ServiceBus) => {
                self.look(spec, flavour).await
            }
        }
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        match self.connector.config.flavour {
            Flavour::Artemis => self.mend(spec).await,
            // Nothing can be created by the standard: what is missing stays in the plan.
            Flavour::Generic | Flavour::Activemq | Flavour::ServiceBus => Ok(Vec::new()),
        }
    }
}

impl Amqp1Topology {
    async fn steps(&self, spec: &TopologySpec) -> Result<Vec<Step>, BrokerError> {
        let mut steps = Vec::new();
        for queue in [&spec.dlq, &spec.queue] {
            if find(&self.management, queue).await?.is_none() {
                let command = format!(
                    "artemis queue create --name {queue} --address {queue} --anycast --durable \
                     --preserve-on-no-consumers --auto-create-address"
                );
                let change = TopologyChange::create(format!("queue `{queue}`")).by(command);
                steps.push(Step { change, mend: Mend::Queue(queue.clone()) });
            }
        }
        let settings = self.settings(&spec.queue).await?;
        let text = |name: &str| settings.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        let in_xml =
            |inner: String| format!("<address-setting match=\"{}\">{inner}</address-setting>", spec.queue);
        if text("deadLetterAddress") != spec.dlq {
            let what = format!("dead letters of `{}` go to `{}`", spec.queue, spec.dlq);
            let command = in_xml(format!("<dead-letter-address>{}</dead-letter-address>", spec.dlq));
            let change =
                TopologyChange { gravity: Gravity::Missing, ..TopologyChange::mend(what).by(command) };
            steps.push(Step { change, mend: Mend::Setting("deadLetterAddress", json!(spec.dlq)) });
        }
        if text("expiryAddress").is_empty() {
            let what =
                format!("what expires in `{}` goes to `{}` instead of vanishing", spec.queue, spec.dlq);
            let command = in_xml(format!("<expiry-address>{}</expiry-address>", spec.dlq));
            let change = TopologyChange::mend(what).by(command);
            steps.push(Step { change, mend: Mend::Setting("expiryAddress", json!(spec.dlq)) });
        }
        let limit = settings.get("maxDeliveryAttempts").and_then(Json::as_i64).unwrap_or(10);
        // -1 is no limit at all.
        if limit >= 0 && limit <= i64::from(spec.attempts) {
            let wanted = i64::from(spec.attempts) + 5;
            let what = format!(
                "delivery limit of `{}`: {limit}, and {} attempts need {wanted}",
                spec.queue, spec.attempts
            );
            let command = in_xml(format!("<max-delivery-attempts>{wanted}</max-delivery-attempts>"));
            let change = TopologyChange::mend(what).by(command);
            steps.push(Step { change, mend: Mend::Setting("maxDeliveryAttempts", json!(wanted)) });
        }
        Ok(steps)
    }

    /// The settings in force at an address.
    async fn settings(&self, address: &str) -> Result<Map<String, Json>, BrokerError> {
        let told = self.management.call("broker", "getAddressSettingsAsJSON", &json!([address])).await?;
        let parsed = told.as_str().and_then(|text| serde_json::from_str::<Map<String, Json>>(text).ok());
        let mut settings = parsed.unwrap_or_default();
        // One name of theirs is another when read than when written.
        if let Some(address) = settings.remove("DLA") {
            settings.insert("deadLetterAddress".to_owned(), address);
        }
        Ok(settings)
    }

    async fn mend(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut done = Vec::new();
        let mut changed = Map::new();
        for step in self.steps(spec).await? {
            match step.mend {
                Mend::Queue(queue) => self.create(&queue).await?,
                Mend::Setting(name, value) => {
                    changed.insert(name.to_owned(), value);
                }
            }
            done.push(step.change);
        }
        if !changed.is_empty() {
            let mut settings = self.settings(&spec.queue).await?;
            settings.extend(changed);
            let written = Json::Object(settings).to_string();
            self.management.call("broker", "addAddressSettings", &json!([spec.queue, written])).await?;
        }
        Ok(done)
    }

    async fn create(&self, queue: &str) -> Result<(), BrokerError> {
        let wanted = json!({
            "name": queue, "address": queue, "routing-type": "ANYCAST", "durable": true,
            "auto-create-address": true, "auto-delete": false,
        });
        self.management.call("broker", "createQueue", &json!([wanted.to_string(), true])).await.map(drop)
    }

    /// What is missing at a broker that we cannot administer, with the command of its own tool.
    async fn look(&self, spec: &TopologySpec, flavour: Flavour) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut plan = Vec::new();
        for queue in [&spec.queue, &spec.dlq] {
            match probe(&self.connector, queue).await {
                Ok(()) => {}
                Err(BrokerError::Missing(_)) => {
                    let what = format!("queue `{queue}`; create it with the broker's own tools");
                    let change = TopologyChange { gravity: Gravity::Missing, ..TopologyChange::warn(what) };
                    plan.push(TopologyChange { command: command(flavour, queue, spec.attempts), ..change });
                }
                Err(other) => return Err(other),
            }
        }
        Ok(plan)
    }
}

fn command(flavour: Flavour, queue: &str, attempts: u32) -> Option<String> {
    match flavour {
        Flavour::ServiceBus => {
            // The dead-letter sub-queue is part of its queue.
            let entity = queue.split("/$").next().unwrap_or(queue);
            Some(format!(
                "az servicebus queue create --resource-group GROUP --namespace-name NAMESPACE --name {entity} \
                 --max-delivery-count {}",
                attempts.saturating_add(5)
            ))
        }
        Flavour::Generic | Flavour::Artemis | Flavour::Activemq => None,
    }
}

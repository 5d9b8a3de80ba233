//! The queues that should be there, and what is weaker in those that are.
//!
//! Dead-lettering from a classic queue is at most once: the server forgets the message before the dead-letter queue
//! has it. So what is created here are quorum queues that keep a dead letter until it has arrived (at-least-once, with
//! reject-publish), that give up only after the consumers did, and a dead-letter queue without a delivery limit, because
//! looking would spend it. The dead-letter exchange is the default one: it cannot be missing. Arguments of a
//! queue cannot be changed; for what a policy can mend, the command is given.

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Gravity, Topology, TopologyChange, TopologySpec};
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use serde_json::json;

use super::connection::answered;
use super::hops::Tier;
use super::probe::Found;
use super::seat::short;
use super::table::long_string;
use super::{RabbitmqBroker, Shared};

/// How far the server's delivery limit lies above the runtime's attempts: pauses, restarts and kills count as deliveries
/// too. The runtime finds pills by itself, so the limit is only for what brings it down before that.
const SLACK: u32 = 100;

/// A queue that should be there.
struct Wanted {
    name: String,
    arguments: FieldTable,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    DeadLetters,
    Work,
    Retry,
}

#[async_trait]
impl Topology for RabbitmqBroker {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut changes = Vec::new();
        for wanted in wanted(spec) {
            changes.extend(self.shared.differences(&wanted, spec).await?);
        }
        Ok(changes)
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut changes = Vec::new();
        for wanted in wanted(spec) {
            let differences = self.shared.differences(&wanted, spec).await?;
            if differences.iter().any(|change| change.appliable) {
                let channel = self.shared.consuming.channel().await?;
                let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
                answered(channel.queue_declare(short(&wanted.name)?, durable, wanted.arguments)).await?;
            }
            changes.extend(differences);
        }
        Ok(changes)
    }
}

/// In the order in which they are created: no queue sends its dead to one that is not there.
fn wanted(spec: &TopologySpec) -> Vec<Wanted> {
    let mut all = vec![
        Wanted { name: spec.dlq.clone(), arguments: dead_letters(spec), role: Role::DeadLetters },
        Wanted { name: spec.queue.clone(), arguments: work(spec), role: Role::Work },
    ];
    for delay in &spec.retry_delays {
        let tier = Tier::for_delay(*delay);
        let name = tier.queue(&spec.queue);
        if !all.iter().any(|wanted| wanted.name == name) {
            all.push(Wanted { name, arguments: tier.arguments(&spec.queue), role: Role::Retry });
        }
    }
    all
}

fn quorum(spec: &TopologySpec) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), long_string(b"quorum"));
    if let Some(copies) = spec.replication {
        arguments.insert("x-quorum-initial-group-size".into(), AMQPValue::LongLongInt(i64::from(copies)));
    }
    arguments
}

fn dead_letters(spec: &TopologySpec) -> FieldTable {
    let mut arguments = quorum(spec);
    if let Some(retention) = spec.retention {
        let millis = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
    }
    arguments
}

fn work(spec: &TopologySpec) -> FieldTable {
    let mut arguments = quorum(spec);
    for (name, value) in [
        ("x-dead-letter-exchange", long_string(b"")),
        ("x-dead-letter-routing-key", long_string(spec.dlq.as_bytes())),
        ("x-dead-letter-strategy", long_string(b"at-least-once")),
        ("x-overflow", long_string(b"reject-publish")),
        ("x-delivery-limit", AMQPValue::LongLongInt(i64::from(limit(spec)))),
    ] {
        arguments.insert(ShortString::from(name), value);
    }
    arguments
}

fn limit(spec: &TopologySpec) -> u32 {
    spec.attempts.saturating_add(SLACK)
}

impl Shared {
    async fn differences(
        &self,
        wanted: &Wanted,
        spec: &TopologySpec,
    ) -> Result<Vec<TopologyChange>, BrokerError> {
        match self.look(&wanted.name).await {
            Err(BrokerError::Missing(_)) => return Ok(vec![creation(wanted, &self.vhost)]),
            Err(other) => return Err(other),
            Ok(_) => {}
        }
        let found = self.probe(&wanted.name, &wanted.arguments).await?;
        let mut changes = match wanted.role {
            Role::DeadLetters => weak_dead_letters(&found, spec),
            Role::Work => {
                let mut changes = weak_work(&found, spec, &self.vhost);
                changes.extend(self.weak_exchange(&found, spec).await?);
                changes
            }
            Role::Retry => weak_retry(&found, wanted),
        };
        if !found.durable {
            changes.push(TopologyChange::warn(format!(
                "`{}` is not durable: it is gone when the server restarts",
                wanted.name
            )));
        }
        Ok(changes)
    }

    /// A dead-letter exchange by name must be there and lead to the dead-letter queue.
    async fn weak_exchange(
        &self,
        found: &Found,
        spec: &TopologySpec,
    ) -> Result<Option<TopologyChange>, BrokerError> {
        let Some(exchange) = found.setting("x-dead-letter-exchange").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let (queue, dlq) = (&spec.queue, &spec.dlq);
        if !self.has_exchange(exchange).await? {
            return Ok(Some(missing(format!(
                "the dead-letter exchange `{exchange}` of `{queue}` does not exist: what is rejected is gone"
            ))
            .by(format!("rabbitmqadmin -V {} declare exchange name={} type=fanout durable=true", quoted(&self.vhost), quoted(exchange)))));
        }
        match &self.management {
            Some(management) if !management.is_bound(exchange, dlq).await? => Ok(Some(
                missing(format!(
                    "the dead-letter exchange `{exchange}` of `{queue}` is not bound to `{dlq}`"
                ))
                .by(format!(
                    "rabbitmqadmin -V {} declare binding source={} destination={} routing_key='#'",
                    quoted(&self.vhost),
                    quoted(exchange),
                    quoted(dlq)
                )),
            )),
            Some(_) | None => Ok(None),
        }
    }
}

fn creation(wanted: &Wanted, vhost: &str) -> TopologyChange {
    let name = &wanted.name;
    let what = match wanted.role {
        Role::DeadLetters => format!("create the dead-letter queue `{name}` (quorum)"),
        Role::Work => format!("create the queue `{name}` (quorum, at-least-once dead-lettering)"),
        Role::Retry => format!("create the retry queue `{name}` (quorum, gives back when its time is over)"),
    };
    let arguments: serde_json::Map<String, serde_json::Value> = wanted
        .arguments
        .into_iter()
        .map(|(name, value)| {
            let value = match value {
                AMQPValue::LongString(text) => json!(text.to_string()),
                other => json!(super::hops::whole(other)),
            };
            (name.to_string(), value)
        })
        .collect();
    TopologyChange::create(what).by(format!(
        "rabbitmqadmin -V {} declare queue name={} durable=true arguments={}",
        quoted(vhost),
        quoted(name),
        quoted(&json!(arguments).to_string())
    ))
}

/// Something is not there, and only a person can bring it.
fn missing(what: String) -> TopologyChange {
    TopologyChange { gravity: Gravity::Missing, ..TopologyChange::warn(what) }
}

fn weak_work(found: &Found, spec: &TopologySpec, vhost: &str) -> Vec<TopologyChange> {
    let (queue, dlq) = (&spec.queue, &spec.dlq);
    let mut changes = Vec::new();
    let unseen = if found.policies {
        ""
    } else {
        ", as far as its arguments say (configure `management` to see policies)"
    };
    let policy = policy(spec, found.is_quorum(), vhost);
    match (found.setting("x-dead-letter-exchange"), found.setting("x-dead-letter-routing-key")) {
        (None, _) => changes.push(
            missing(format!("`{queue}` has no dead-letter exchange: what is rejected is gone{unseen}"))
                .by(&policy),
        ),
        (Some(""), key) if key != Some(dlq) => changes.push(
            missing(format!("dead letters of `{queue}` go to `{}`, not to `{dlq}`", key.unwrap_or(queue)))
                .by(&policy),
        ),
        (Some(_), _) => {}
    }
    if !found.is_quorum() {
        changes.push(TopologyChange::warn(format!(
            "`{queue}` is a classic queue: its dead-lettering is at most once and deliveries are not counted; \
             move it to a quorum queue"
        )));
        return changes;
    }
    let safe = found.setting("x-dead-letter-strategy") == Some("at-least-once")
        && found.setting("x-overflow") == Some("reject-publish");
    if !safe {
        changes.push(
            TopologyChange::warn(format!(
                "`{queue}` dead-letters at most once: it needs the strategy at-least-once and the overflow reject-publish{unseen}"
            ))
            .by(&policy),
        );
    }
    if found.number("x-delivery-limit").is_some_and(|limit| limit <= u64::from(spec.attempts)) {
        changes.push(
            TopologyChange::warn(format!(
                "the delivery limit of `{queue}` is not above the {} attempts of its consumers",
                spec.attempts
            ))
            .by(&policy),
        );
    }
    changes
}

fn weak_dead_letters(found: &Found, spec: &TopologySpec) -> Vec<TopologyChange> {
    let dlq = &spec.dlq;
    let mut weak = Vec::new();
    if !found.is_quorum() {
        weak.push(format!("`{dlq}` is a classic queue: it is on one node only"));
    }
    if let Some(limit) = found.number("x-delivery-limit") {
        weak.push(format!(
            "`{dlq}` has a delivery limit of {limit}: looking and crashing spend it, then letters are gone"
        ));
    }
    if let Some(kept) = found.number("x-message-ttl") {
        let asked = spec.retention.map(|retention| retention.as_millis());
        if asked.is_none_or(|asked| u128::from(kept) < asked) {
            weak.push(format!("`{dlq}` drops letters after {} seconds", kept / 1_000));
        }
    }
    let bounded = found.setting("x-max-length").or(found.setting("x-max-length-bytes")).is_some();
    if bounded && !found.setting("x-overflow").is_some_and(|overflow| overflow.starts_with("reject-publish"))
    {
        weak.push(format!("`{dlq}` drops its oldest letters when it is full"));
    }
    weak.into_iter().map(TopologyChange::warn).collect()
}

fn weak_retry(found: &Found, wanted: &Wanted) -> Vec<TopologyChange> {
    let differs = wanted.arguments.into_iter().any(|(name, value)| {
        let wanted = match value {
            AMQPValue::LongString(text) => Some(text.to_string()),
            other => super::hops::whole(other).map(|number| number.to_string()),
        };
        found.setting(name.as_str()) != wanted.as_deref()
    });
    let name = &wanted.name;
    let warning = || {
        TopologyChange::warn(format!(
            "the retry queue `{name}` was made otherwise: delete it when it is empty, then apply"
        ))
        .by(format!("rabbitmqctl delete_queue --if-empty {}", quoted(name)))
    };
    differs.then(warning).into_iter().collect()
}

/// The policy that mends what a policy can.
fn policy(spec: &TopologySpec, is_quorum: bool, vhost: &str) -> String {
    let mut definition = json!({"dead-letter-exchange": "", "dead-letter-routing-key": spec.dlq});
    if is_quorum {
        definition["dead-letter-strategy"] = json!("at-least-once");
        definition["overflow"] = json!("reject-publish");
        definition["delivery-limit"] = json!(limit(spec));
    }
    let pattern = format!("^{}$", spec.queue.replace('\\', "\\\\").replace('.', "\\."));
    format!(
        "rabbitmqctl set_policy -p {} --apply-to queues {} {} {}",
        quoted(vhost),
        quoted(&format!("dlo-{}", spec.queue)),
        quoted(&pattern),
        quoted(&definition.to_string())
    )
}

/// A word of a shell's command line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

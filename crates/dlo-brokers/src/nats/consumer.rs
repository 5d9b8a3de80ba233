//! The durable consumer behind a group, and what it takes to empty a stream through one.
//!
//! A consumer that is there is joined as it is, whoever made it; only the time that deliveries may take and their
//! number follow the settings. One that cannot serve as a group is refused.

use dlo_core::broker::BrokerError;
use serde_json::{Value, json};

use super::api::{Answer, Api, ConsumerInfo, StreamInfo};
use super::names;
use super::records::Home;

/// How what is done leaves the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// It stays for others, or the stream is a work queue, which forgets what is acknowledged.
    ByAcknowledgement,
    ByPurge,
}

/// How to drain a stream; refused where it does not let anybody remove messages.
pub(super) fn removal(stream: &str, info: &StreamInfo, drains: bool) -> Result<Removal, BrokerError> {
    if !drains || info.text("retention") == "workqueue" {
        return Ok(Removal::ByAcknowledgement);
    }
    if info.flag("deny_delete")
        || info.flag("deny_purge")
        || info.flag("sealed")
        || !info.config["mirror"].is_null()
    {
        return Err(BrokerError::Refused(format!(
            "stream `{stream}` lets nobody remove messages, so it cannot be drained: read it with `mode = \"mirror\"`, \
             or create it without deny-delete and deny-purge"
        )));
    }
    Ok(Removal::ByPurge)
}

/// What a consumer listens to. A queue that covers the whole stream needs no filter, and older servers take none that
/// is wider than one of the stream's subjects.
fn filter(queue: &str, info: &StreamInfo) -> Option<String> {
    let subjects = info.subjects();
    let whole = subjects.len() > 1 || subjects.first().is_some_and(|subject| *subject != queue);
    let covered = whole && subjects.iter().all(|subject| names::covers(queue, subject));
    (!covered).then(|| queue.to_owned())
}

/// The configuration of a new consumer.
pub(super) fn wanted(
    api: &Api,
    queue: &str,
    info: &StreamInfo,
    group: &str,
    max_deliver: Option<u32>,
) -> Value {
    let config = &api.connection.config;
    let mut wanted = json!({
        "durable_name": names::consumer_name(group, queue),
        "description": format!("group {group} of Dead Letter Office on {queue}"),
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "replay_policy": "instant",
        "ack_wait": nanos(config.ack_wait.0),
        "max_deliver": max_deliver.map_or(-1, i64::from),
        "max_ack_pending": config.max_ack_pending,
    });
    if let Some(filter) = filter(queue, info) {
        wanted["filter_subject"] = filter.into();
    }
    wanted
}

pub(super) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The group's consumer, created if it is not there; returns its name.
pub(super) async fn ensure(
    api: &Api,
    home: &Home,
    info: &StreamInfo,
    group: &str,
) -> Result<String, BrokerError> {
    let name = names::consumer_name(group, &home.queue);
    let wanted = wanted(api, &home.queue, info, group, None);
    match api.consumer(&home.stream, &name).await? {
        None => put(api, home, &name, wanted).await?,
        Some(there) => {
            check(&home.stream, &name, &there)?;
            let same = |field: &str| there.config[field] == wanted[field];
            if !same("ack_wait") || !same("max_ack_pending") {
                let mut config = there.config.clone();
                config["ack_wait"] = wanted["ack_wait"].clone();
                config["max_ack_pending"] = wanted["max_ack_pending"].clone();
                put(api, home, &name, config).await?;
            }
        }
    }
    Ok(name)
}

/// Creates a consumer, or changes the one that is there.
pub(super) async fn put(api: &Api, home: &Home, name: &str, config: Value) -> Result<(), BrokerError> {
    let body = json!({ "stream_name": home.stream, "config": config });
    let put: Answer<Value> =
        api.call(&format!("CONSUMER.DURABLE.CREATE.{}.{name}", home.stream), &body).await?;
    put.map(|_| ()).map_err(|error| match error.err_code {
        // A work queue has one consumer for each subject.
        10_099 | 10_100 => BrokerError::Refused(format!(
            "stream `{}` is a work queue and `{}` has its consumer already: use that group, or a stream with another \
             retention; list them with `nats consumer ls {}`",
            home.stream, home.queue, home.stream
        )),
        _ => error.into_broker_error(),
    })
}

fn check(stream: &str, name: &str, there: &ConsumerInfo) -> Result<(), BrokerError> {
    let pulls = there.config["deliver_subject"].as_str().unwrap_or_default().is_empty();
    if pulls && there.config["ack_policy"] == "explicit" {
        return Ok(());
    }
    Err(BrokerError::Refused(format!(
        "consumer `{name}` of stream `{stream}` is no pull consumer with explicit acknowledgements: remove it \
         (`nats consumer rm {stream} {name}`) or use another group"
    )))
}

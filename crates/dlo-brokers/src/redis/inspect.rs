//! A stream from outside, in one call that changes nothing.

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use redis::Value;

use super::id::EntryId;
use super::reply::{self, strange};
use super::script::LOOK;
use super::{DELAYED, Names, RETURNED, RedisBroker, Shared};

/// What one look at a stream showed.
#[derive(Debug)]
pub(super) struct Facts {
    length: i64,
    /// The last id that was ever given in it.
    pub(super) last: EntryId,
    /// The oldest entry that the group has not been given; the oldest at all without a group.
    oldest: Option<EntryId>,
    publishes: i64,
    consumers: i64,
    group: Option<GroupFacts>,
}

#[derive(Debug)]
struct GroupFacts {
    /// `None` where the server does not know it and there are too many to count.
    undelivered: Option<i64>,
    pending: i64,
    /// Of the pending ones, those that nobody has in hand.
    waiting: i64,
    deliveries: i64,
}

/// Looks at a stream. One that is not there is [`BrokerError::Missing`].
pub(super) async fn look(shared: &Shared, stream: &str, group: Option<&str>) -> Result<Facts, BrokerError> {
    let names = Names::new(&shared.config, stream, group.unwrap_or_default());
    let keys = [names.stream.as_str(), &names.publishes, &names.retries];
    let answer = LOOK.call(&shared.link, &keys, |call| {
        call.arg(&names.group).arg(RETURNED).arg(DELAYED);
    });
    match answer.await? {
        Value::Nil => Err(BrokerError::Missing(stream.to_owned())),
        found => understand(found),
    }
}

/// Reads the answer of `look.lua`.
fn understand(answer: Value) -> Result<Facts, BrokerError> {
    let mut parts = reply::list(answer)?.into_iter();
    let mut part = || parts.next().ok_or_else(|| strange("a part is missing"));
    let mut facts = Facts {
        length: reply::number(part()?)?,
        last: reply::id(part()?)?,
        oldest: EntryId::parse(&reply::bytes(part()?)?),
        publishes: reply::number(part()?)?,
        consumers: reply::number(part()?)?,
        group: None,
    };
    if let Some(undelivered) = parts.next() {
        let undelivered = Some(reply::number(undelivered)?).filter(|count| *count >= 0);
        let mut part = || parts.next().ok_or_else(|| strange("a part is missing"));
        facts.group = Some(GroupFacts {
            undelivered,
            pending: reply::number(part()?)?,
            waiting: reply::number(part()?)?,
            deliveries: reply::number(part()?)?,
        });
    }
    Ok(facts)
}

#[async_trait]
impl Inspect for RedisBroker {
    async fn inspect(&self, queue: &str, group: Option<&str>) -> Result<QueueState, BrokerError> {
        let facts = look(&self.shared, queue, group).await?;
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        let small = |number: i64| u32::try_from(number).ok();
        let mut state = QueueState {
            depth: Some(unsigned(facts.length + facts.publishes)),
            oldest: facts.oldest.and_then(EntryId::time),
            partitions: Some(1),
            consumers: small(facts.consumers),
            ..QueueState::default()
        };
        if let Some(group) = facts.group {
            let depth = group.undelivered.map(|count| count + group.waiting + facts.publishes);
            state.depth = depth.map(unsigned);
            state.in_flight = Some(unsigned(group.pending - group.waiting));
            state.deliveries = small(group.deliveries).filter(|count| *count > 0);
        } else if group.is_some() {
            state.in_flight = Some(0);
        }
        Ok(state)
    }
}

/// What the server calls itself.
pub(super) async fn ping(shared: &Shared) -> Result<Option<String>, BrokerError> {
    let mut command = redis::cmd("INFO");
    command.arg("server");
    let info: String = match shared.link.command::<Value>(&command).await {
        Ok(answer) => reply::text(answer)?,
        // Who may not ask for that may still be told that somebody is there.
        Err(failure) if failure.code() == Some("NOPERM") => {
            let answer: Value = shared.link.command(&redis::cmd("PING")).await?;
            return reply::value(answer).map(|_| None);
        }
        Err(failure) => return Err(failure.into()),
    };
    let product = |name: &str, key: &str| setting(&info, key).map(|version| format!("{name} {version}"));
    Ok(product("Valkey", "valkey_version").or_else(|| product("Redis", "redis_version")))
}

/// One line of INFO.
pub(super) fn setting<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

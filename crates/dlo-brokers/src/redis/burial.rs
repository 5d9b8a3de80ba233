//! Dead-lettering, which Redis does not have: an entry is moved to `<stream>:dlq` with its story, in one step.
//!
//! The story is told in the office's headers, as far as an adapter can know it, and in fields that name the stream, the
//! id, the group, the consumer and its count. Where there is no such stream, a refused entry is acknowledged and
//! stays in its stream, and an entry that was delivered too often is delivered on.

use dlo_core::broker::BrokerError;
use dlo_core::envelope::{Envelope, OriginHeaders, encode, replay_mark};
use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use redis::Cmd;

use super::entry::Field;
use super::id::EntryId;
use super::reading::doomed;
use super::reply::{self, strange};
use super::script::{BURY, SPENT, is_unknown};
use super::{Names, Shared, entry};

/// Entries moved in one round trip.
const AT_ONCE: usize = 100;
/// The count by which a server says that a consumer gave an entry up for good.
const FATAL: i64 = i64::MAX;

/// An entry that is not delivered again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doomed {
    pub(super) id: EntryId,
    pub(super) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its consumer settled it so. Without a stream of dead letters it is acknowledged, as that was asked for.
    Refused,
    /// Delivered as often as it may be. Without a stream of dead letters it stays.
    Spent,
    /// Its consumer called it fatal in the server's own way. Stays as well.
    Fatal,
}

impl Why {
    const fn reason(self) -> Reason {
        match self {
            Self::Refused | Self::Fatal => Reason::Rejected,
            Self::Spent => Reason::DeliveryLimit,
        }
    }
}

/// A pending entry with everything that its story needs.
#[derive(Debug)]
struct Found {
    doomed: Doomed,
    consumer: String,
    deliveries: Option<u32>,
    /// `None`: it was deleted from the stream while it was pending.
    fields: Option<Vec<Field>>,
}

/// Moves entries to the stream of dead letters, each if it is still pending; with `holder`, if that one still has it.
pub(super) async fn bury(
    shared: &Shared,
    names: &Names,
    doomed: &[Doomed],
    holder: Option<&str>,
    delete: bool,
) -> Result<(), BrokerError> {
    for some in doomed.chunks(AT_ONCE) {
        let (found, at, has_grave) = find(shared, names, some).await?;
        let mut calls: Vec<(Option<Grave>, Cmd)> = Vec::new();
        for one in found.into_iter().filter(|one| holder.is_none_or(|holder| *holder == one.consumer)) {
            if one.fields.is_none() || (!has_grave && one.doomed.why == Why::Refused) {
                calls.extend(forget(names, one.doomed.id, delete).map(|call| (None, call)));
            } else if has_grave {
                let grave = dig(shared, names, one, at, delete);
                let call = grave.call(BURY.by_hash(&grave.keys()));
                calls.push((Some(grave), call));
            }
        }
        let mut pipeline = redis::pipe();
        for (_, call) in &calls {
            pipeline.add_command(call.clone());
        }
        let answers = shared.link.pipeline(&mut pipeline).await?;
        for (mut answer, (grave, _)) in answers.into_iter().zip(calls) {
            if let Some(grave) = grave.filter(|_| is_unknown(&answer)) {
                answer = shared.link.command(&grave.call(BURY.by_text(&grave.keys()))).await?;
            }
            // It was deleted between the look and the move: nothing was moved.
            if reply::number(answer)? < 0 {
                return Err(BrokerError::Missing(names.dead.clone()));
            }
        }
    }
    Ok(())
}

/// Moves what a group of others left pending beyond its deliveries.
pub(super) async fn sweep(shared: &Shared, names: &Names) -> Result<(), BrokerError> {
    let Some(limit) = shared.config.max_deliveries else { return Ok(()) };
    let idle = shared.config.claim_after.0.as_millis() as u64;
    let mut from = "-".to_owned();
    while !from.is_empty() {
        let found = SPENT
            .call(&shared.link, &[&names.stream], |call| {
                call.arg(&names.group).arg(idle).arg(limit.get()).arg(&from);
            })
            .await?;
        let mut parts = reply::list(found)?.into_iter();
        let (Some(spent), Some(next)) = (parts.next(), parts.next()) else {
            return Err(strange("two parts"));
        };
        let spent: Vec<Doomed> = reply::list(spent)?.into_iter().map(doomed).collect::<Result<_, _>>()?;
        bury(shared, names, &spent, None, false).await?;
        from = reply::text(next)?;
    }
    Ok(())
}

/// Looks at the entries: who holds them, how often they were delivered, what they are. And at the server's clock.
async fn find(
    shared: &Shared,
    names: &Names,
    doomed: &[Doomed],
) -> Result<(Vec<Found>, Timestamp, bool), BrokerError> {
    let mut pipeline = redis::pipe();
    pipeline.cmd("TIME").cmd("EXISTS").arg(&names.dead);
    for one in doomed {
        let id = one.id.to_string();
        pipeline.cmd("XPENDING").arg(&names.stream).arg(&names.group).arg(&id).arg(&id).arg(1);
        pipeline.cmd("XRANGE").arg(&names.stream).arg(&id).arg(&id);
    }
    let mut answers = shared.link.pipeline(&mut pipeline).await?.into_iter();
    let mut next = || answers.next().ok_or_else(|| strange("an answer is missing"));
    let mut time = reply::list(next()?)?.into_iter();
    let seconds = time.next().map_or(Ok(0), reply::number)?;
    let micros = time.next().map_or(Ok(0), reply::number)?;
    let at = Timestamp::from_millis(seconds.saturating_mul(1_000).saturating_add(micros / 1_000));
    let has_grave = reply::number(next()?)? == 1;
    let mut found = Vec::new();
    for one in doomed {
        let (pending, content) = (reply::list(next()?)?, reply::entries(next()?)?);
        // Somebody else has acknowledged it.
        let Some(pending) = pending.into_iter().next() else { continue };
        let mut parts = reply::list(pending)?.into_iter();
        let (Some(_), Some(consumer), Some(_), Some(count)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(strange("not a pending entry"));
        };
        let count = reply::number(count)?;
        found.push(Found {
            doomed: *one,
            consumer: reply::text(consumer)?,
            deliveries: (0..FATAL).contains(&count).then(|| u32::try_from(count).unwrap_or(u32::MAX)),
            fields: content.into_iter().next().map(|entry| entry.fields),
        });
    }
    Ok((found, at, has_grave))
}

/// A dead letter on its way.
#[derive(Debug)]
struct Grave {
    names: Names,
    id: EntryId,
    holder: String,
    delete: bool,
    fields: Vec<Field>,
}

impl Grave {
    fn keys(&self) -> [&str; 3] {
        [&self.names.stream, &self.names.dead, &self.names.retries]
    }

    fn call(&self, mut call: Cmd) -> Cmd {
        call.arg(&self.names.group).arg(self.id.to_string()).arg(&self.holder).arg(u8::from(self.delete));
        for (name, value) in &self.fields {
            call.arg(&name[..]).arg(&value[..]);
        }
        call
    }
}

fn dig(shared: &Shared, names: &Names, found: Found, at: Timestamp, delete: bool) -> Grave {
    let configured = shared.config.payload_field.as_deref();
    let (id, holder) = (found.doomed.id, found.consumer.clone());
    let facts = [
        ("redis:stream", names.stream.clone()),
        ("redis:id", id.to_string()),
        ("redis:group", names.group.clone()),
        ("redis:consumer", holder.clone()),
        ("redis:deliveries", found.deliveries.map_or(FATAL.to_string(), |count| count.to_string())),
    ];
    let message = with_story(shared, names, found, at);
    let mut fields = entry::write(&message, configured);
    fields.extend(facts.map(|(name, value)| (name.into(), value.into())));
    Grave { names: names.clone(), id, holder, delete, fields }
}

/// The message with the story of its death behind its own headers.
fn with_story(shared: &Shared, names: &Names, found: Found, at: Timestamp) -> Message {
    let Found { doomed, consumer, deliveries, fields } = found;
    let message = entry::read(fields.unwrap_or_default(), shared.config.payload_field.as_deref());
    let place = Origin::message(BrokerKind::Redis, &names.stream, doomed.id.to_string());
    let replays = replay_mark(&message.headers).map_or(0, |mark| mark.count);
    let reason = doomed.why.reason();
    let sentence = match (doomed.why, deliveries) {
        (Why::Spent, Some(count)) => format!("delivered {count} times and never acknowledged"),
        (Why::Refused | Why::Spent | Why::Fatal, _) => format!("the consumer gave it up: {reason}"),
    };
    let story = Envelope {
        death_id: Some(place.death_id(Some(&names.group), replays)),
        reason: Some(reason),
        error_message: Some(sentence),
        attempts: deliveries,
        dead_at: Some(at),
        origin: OriginHeaders::new(&place, doomed.id.time()),
        consumer_group: Some(names.group.clone()),
        consumer_id: Some(consumer),
        ..Envelope::default()
    };
    // A message without a story is better than none.
    encode(&message, &story, shared.capabilities.max_message).unwrap_or(message)
}

/// Ends an entry without a trace elsewhere.
fn forget(names: &Names, id: EntryId, delete: bool) -> impl Iterator<Item = Cmd> {
    let remove = delete.then(|| {
        let mut remove = redis::cmd("XDEL");
        remove.arg(&names.stream).arg(id.to_string());
        remove
    });
    let mut acknowledge = redis::cmd("XACK");
    acknowledge.arg(&names.stream).arg(&names.group).arg(id.to_string());
    remove.into_iter().chain([acknowledge])
}

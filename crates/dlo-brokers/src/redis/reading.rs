//! One read: first what is to be delivered again, then what is new, in one round trip; then a wait for what comes.
//!
//! What is delivered again: my own pending entries after a connection was lost, retries that are due, what others
//! handed back, and what idles under a consumer that does not renew it. Blocking is cut into slices, as only new
//! entries end it.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::burial::{Doomed, Why, bury};
use super::reply::{self, Entry, strange};
use super::script::{AGAIN, TAKE, is_unknown};
use super::seat::{Progress, Seat};
use super::{DELAYED, RETURNED};

/// The longest wait without a look at what is to be delivered again.
const SLICE: Duration = Duration::from_millis(250);

/// An entry that is ours until it is settled.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) entry: Entry,
    pub(super) deliveries: u32,
}

/// What the first step brought.
#[derive(Debug, Default)]
struct Again {
    taken: Vec<Taken>,
    doomed: Vec<Doomed>,
    /// Until the next one is due.
    next: Option<Duration>,
}

/// Up to `max` entries that are new and as many that are delivered again; waits up to `block` for the first.
pub(super) async fn read(seat: Arc<Seat>, max: usize, block: Duration) -> Result<Vec<Taken>, BrokerError> {
    let until = Instant::now() + block;
    let mut progress = seat.progress.lock().await;
    let opened = seat.link.opened().await?;
    if opened != progress.opened {
        // Whatever an answer that never came had given us, and what was in hand: all of it is delivered again.
        if progress.opened != 0 {
            progress.own = "-".to_owned();
        }
        progress.opened = opened;
    }
    put_back_doubtful(&seat).await?;
    let (mut again, new) = match look(&seat, &mut progress, max).await {
        Err(BrokerError::Refused(why)) if why.starts_with("NOGROUP") => {
            seat.take_place().await?;
            look(&seat, &mut progress, max).await?
        }
        looked => looked?,
    };
    if !again.doomed.is_empty() {
        // A grave that cannot be dug now is dug later: it keeps nobody else waiting.
        if let Err(error) = bury(&seat.shared, &seat.names, &again.doomed, None, seat.drain).await {
            tracing::warn!(stream = seat.names.stream, %error, "spent entries were not moved to {}", seat.names.dead);
        }
    }
    again.taken.extend(new.into_iter().map(first_time));
    let left = until.saturating_duration_since(Instant::now());
    if !again.taken.is_empty() || left.is_zero() || !progress.own.is_empty() {
        return Ok(again.taken);
    }
    let slice = left.min(SLICE).min(again.next.unwrap_or(SLICE)).max(Duration::from_millis(1));
    let answer = seat.link.command(&read_new(&seat, max, Some(slice))).await?;
    Ok(reply::entries_of_one_stream(answer)?.into_iter().map(first_time).collect())
}

fn first_time(entry: Entry) -> Taken {
    Taken { entry, deliveries: 1 }
}

/// Entries whose settlement was not answered are put where they are delivered again, unless it had arrived.
async fn put_back_doubtful(seat: &Seat) -> Result<(), BrokerError> {
    let ids = seat.doubtful();
    if ids.is_empty() {
        return Ok(());
    }
    let keys = [seat.names.stream.as_str(), &seat.names.retries];
    let put_back = AGAIN.call(&seat.link, &keys, |call| {
        call.arg(&seat.names.group).arg(&seat.me).arg(RETURNED).arg(DELAYED);
        for id in &ids {
            call.arg(id.to_string()).arg(0);
        }
    });
    match put_back.await {
        Ok(_) => Ok(()),
        Err(failure) => {
            seat.doubt(ids.into_iter());
            Err(failure.into())
        }
    }
}

/// What is to be delivered again, and what is new unless there is more of the former.
async fn look(seat: &Seat, progress: &mut Progress, max: usize) -> Result<(Again, Vec<Entry>), BrokerError> {
    let keys = [seat.names.stream.as_str(), &seat.names.publishes, &seat.names.retries, &seat.names.dead];
    let idling = if Instant::now() >= progress.idle_look { progress.idling.as_str() } else { "" };
    let arguments = |mut call: Cmd| {
        call.arg(&seat.names.group).arg(&seat.me).arg(max).arg(&progress.own).arg(RETURNED).arg(DELAYED);
        let config = &seat.shared.config;
        call.arg(idling).arg(config.claim_after.0.as_millis() as u64);
        call.arg(config.max_deliveries.map_or(0, |limit| limit.get()));
        call
    };
    let mut pipeline = redis::pipe();
    pipeline.add_command(arguments(TAKE.by_hash(&keys)));
    // While my own pending entries are gone through, a new one would be taken for one of them.
    if progress.own.is_empty() {
        pipeline.add_command(read_new(seat, max, None));
    }
    let mut answers = seat.link.pipeline(&mut pipeline).await?.into_iter();
    let mut again = answers.next().ok_or_else(|| strange("no answer"))?;
    // What is new was given to us: it is looked at before anything else may fail.
    let new = answers.next().map_or(Ok(Vec::new()), reply::entries_of_one_stream);
    if is_unknown(&again) {
        again = match seat.link.command(&arguments(TAKE.by_text(&keys))).await {
            Ok(answer) => answer,
            Err(failure) => return nothing_but(new, failure.into()),
        };
    }
    let looked_for_idle = !idling.is_empty();
    match understand(again, seat, progress, looked_for_idle) {
        Ok(again) if !again.taken.is_empty() => Ok((again, new.unwrap_or_default())),
        Ok(again) => Ok((again, new?)),
        Err(error) => nothing_but(new, error),
    }
}

/// What is new, if there is any; else why the rest failed.
fn nothing_but(
    new: Result<Vec<Entry>, BrokerError>,
    error: BrokerError,
) -> Result<(Again, Vec<Entry>), BrokerError> {
    match new {
        Ok(new) if !new.is_empty() => Ok((Again::default(), new)),
        Ok(_) | Err(_) => Err(error),
    }
}

fn read_new(seat: &Seat, max: usize, block: Option<Duration>) -> Cmd {
    let mut command = redis::cmd("XREADGROUP");
    command.arg("GROUP").arg(&seat.names.group).arg(&seat.me).arg("COUNT").arg(max);
    if let Some(block) = block {
        command.arg("BLOCK").arg(block.as_millis() as u64);
    }
    command.arg("STREAMS").arg(&seat.names.stream).arg(">");
    command
}

/// Reads the answer of `take.lua`.
fn understand(
    answer: Value,
    seat: &Seat,
    progress: &mut Progress,
    looked_for_idle: bool,
) -> Result<Again, BrokerError> {
    let mut parts = reply::list(answer)?.into_iter();
    let mut part = || parts.next().ok_or_else(|| strange("a part is missing"));
    let (taken, spent, wait, own, idling, gone) = (part()?, part()?, part()?, part()?, part()?, part()?);
    progress.own = reply::text(own)?;
    if looked_for_idle {
        let next = reply::text(idling)?;
        if next.is_empty() {
            progress.idle_look = Instant::now() + seat.shared.config.claim_after.0 / 4;
        }
        progress.idling = if next.is_empty() { "-".to_owned() } else { next };
    }
    let gone = reply::number(gone)?;
    if gone > 0 {
        let (stream, group) = (&seat.names.stream, &seat.names.group);
        tracing::warn!(
            stream,
            group,
            gone,
            "pending entries had been deleted from the stream: they are lost"
        );
    }
    let mut again = Again {
        next: u64::try_from(reply::number(wait)?).ok().map(Duration::from_millis),
        ..Again::default()
    };
    for item in reply::list(taken)? {
        let [id, fields, deliveries] = three(item)?;
        let entry = Entry { id: reply::id(id)?, fields: reply::fields(fields)? };
        again.taken.push(Taken { entry, deliveries: count(deliveries)?.unwrap_or(1) });
    }
    for item in reply::list(spent)? {
        again.doomed.push(doomed(item)?);
    }
    Ok(again)
}

/// Reads `{id, consumer, deliveries}` of an entry that was delivered too often, or that its consumer called fatal.
pub(super) fn doomed(item: Value) -> Result<Doomed, BrokerError> {
    let [id, _, deliveries] = three(item)?;
    let why = match count(deliveries)? {
        Some(_) => Why::Spent,
        None => Why::Fatal,
    };
    Ok(Doomed { id: reply::id(id)?, why })
}

fn three(item: Value) -> Result<[Value; 3], BrokerError> {
    reply::list(item)?.try_into().map_err(|_| strange("not three parts"))
}

/// A count of deliveries; `None` where the server says that the consumer gave it up for good.
fn count(value: Value) -> Result<Option<u32>, BrokerError> {
    let number = reply::number(value)?;
    Ok((number >= 0).then(|| u32::try_from(number).unwrap_or(u32::MAX)))
}

//! Publishing: a batch in as few round trips as its bytes allow, one answer each.
//!
//! A stream is never created by a publish. A message with a delay waits in `<stream>:due` and is moved into the stream,
//! when its time has come, by any source of that stream; where nobody of ours consumes, it waits until somebody does.
//! What must be added only once has a mark ([`super::fenced`]).

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use dlo_core::message::Message;
use redis::{Cmd, Value};

use super::connection::answered;
use super::script::{LATER, ONCE, Script, is_unknown};
use super::{LONGEST_DELAY, RedisBroker, Shared, entry, fenced, publishes_of};

/// Messages and bytes of one round trip. A single message may be larger.
const AT_ONCE: usize = 1_000;
const AT_ONCE_BYTES: usize = 8 * 1024 * 1024;
/// Names and values that a script can pass on; more than the headers of any letter.
const MOST_FIELDS: usize = 2_000;

/// A message that is fit to be sent.
#[derive(Debug)]
struct Parcel {
    /// Its place in the batch.
    place: usize,
    outgoing: Prepared,
}

#[derive(Debug)]
struct Prepared {
    queue: String,
    /// The key that says that it was sent, where it must not be sent twice.
    mark: Option<String>,
    delay: Option<u64>,
    token: String,
    fields: Vec<entry::Field>,
}

#[async_trait]
impl Publisher for RedisBroker {
    fn capabilities(&self) -> &Capabilities {
        dlo_core::broker::Broker::capabilities(self)
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        publish(&self.shared, messages, |_, _| None).await
    }
}

/// Sends all; what has a mark, by `mark_of` its stream and message, is added once.
pub(super) async fn publish(
    shared: &Shared,
    messages: Vec<Outgoing>,
    mark_of: fn(&str, &Message) -> Option<String>,
) -> Vec<Result<Confirmed, PublishError>> {
    let mut results: Vec<Option<Result<Confirmed, PublishError>>> = messages.iter().map(|_| None).collect();
    let (mut some, mut bytes) = (Vec::new(), 0);
    for (place, outgoing) in messages.into_iter().enumerate() {
        let mark = mark_of(&outgoing.to.queue, &outgoing.message);
        match prepare(shared, outgoing, mark) {
            Ok(outgoing) => {
                let size = entry::size(&outgoing.fields);
                if some.len() >= AT_ONCE || (bytes + size > AT_ONCE_BYTES && !some.is_empty()) {
                    send(shared, std::mem::take(&mut some), &mut results).await;
                    bytes = 0;
                }
                bytes += size;
                some.push(Parcel { place, outgoing });
            }
            Err(refusal) => results[place] = Some(Err(refusal)),
        }
    }
    send(shared, some, &mut results).await;
    let unanswered = || Err(PublishError::Unconfirmed("the server did not answer".to_owned()));
    results.into_iter().map(|result| result.unwrap_or_else(unanswered)).collect()
}

fn prepare(shared: &Shared, outgoing: Outgoing, mark: Option<String>) -> Result<Prepared, PublishError> {
    let Outgoing { to, message, delay } = outgoing;
    let fields = entry::write(&message, shared.config.payload_field.as_deref());
    let (size, limit) = (entry::size(&fields), shared.capabilities.max_message);
    if size > limit {
        return Err(PublishError::TooLarge { size, limit });
    }
    if to.partition.is_some_and(|partition| partition != 0) {
        return Err(PublishError::Refused(format!("stream `{}` has one partition, 0", to.queue)));
    }
    let delay = delay.filter(|delay| !delay.is_zero());
    if delay.is_some_and(|delay| delay > LONGEST_DELAY) {
        let days = LONGEST_DELAY.as_secs() / 86_400;
        return Err(PublishError::Refused(format!("a delay is at most {days} days")));
    }
    if (delay.is_some() || mark.is_some()) && fields.len() > MOST_FIELDS {
        let count = fields.len();
        return Err(PublishError::Refused(format!(
            "{count} headers cannot be put off or replayed, at most {MOST_FIELDS} can"
        )));
    }
    let delay = delay.map(|delay| delay.as_millis() as u64);
    Ok(Prepared { queue: to.queue, mark, delay, token: token(), fields })
}

/// 32 characters that no other message has, in the order in which this process made them.
fn token() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}{:016x}", COUNT.fetch_add(1, Ordering::Relaxed), rand::random::<u64>())
}

impl Prepared {
    fn command(&self, whole_script: bool) -> Cmd {
        let publishes = publishes_of(&self.queue);
        let call = |script: &Script, keys: &[&str]| match whole_script {
            false => script.by_hash(keys),
            true => script.by_text(keys),
        };
        let mut command = match (&self.mark, self.delay) {
            (Some(mark), delay) => {
                let mut once = call(&ONCE, &[&self.queue, mark, &publishes]);
                once.arg(fenced::KEPT).arg(delay.unwrap_or(0)).arg(&self.token);
                once
            }
            (None, Some(delay)) => {
                let mut later = call(&LATER, &[&self.queue, &publishes]);
                later.arg(delay).arg(&self.token);
                later
            }
            (None, None) => {
                let mut add = redis::cmd("XADD");
                add.arg(&self.queue).arg("NOMKSTREAM").arg("*");
                add
            }
        };
        for (name, value) in &self.fields {
            command.arg(&name[..]).arg(&value[..]);
        }
        command
    }
}

/// Sends one round trip's worth and notes the answers. A second one, where the server did not know the script.
async fn send(
    shared: &Shared,
    parcels: Vec<Parcel>,
    results: &mut [Option<Result<Confirmed, PublishError>>],
) {
    let mut left = parcels;
    for whole_script in [false, true] {
        let mut pipeline = redis::Pipeline::with_capacity(left.len());
        for parcel in &left {
            pipeline.add_command(parcel.outgoing.command(whole_script));
        }
        let answers = match shared.link.pipeline(&mut pipeline).await {
            Ok(answers) => answers,
            Err(error) => {
                let why = error.to_string();
                for parcel in left {
                    results[parcel.place] = Some(Err(PublishError::Unconfirmed(why.clone())));
                }
                return;
            }
        };
        let mut unknown = Vec::new();
        for (parcel, answer) in left.into_iter().zip(answers) {
            if !whole_script && is_unknown(&answer) {
                unknown.push(parcel);
            } else {
                results[parcel.place] = Some(result(&parcel.outgoing.queue, answer));
            }
        }
        left = unknown;
    }
}

fn result(queue: &str, answer: Value) -> Result<Confirmed, PublishError> {
    match answer {
        Value::Nil | Value::Int(0) => Err(PublishError::Refused(format!(
            "there is no stream `{queue}`; create it with `dlo topology apply`"
        ))),
        Value::ServerError(error) => match answered(error.code(), error.details()) {
            // It passes, and a later attempt may be taken.
            BrokerError::Unavailable(why) => Err(PublishError::Unconfirmed(why)),
            other => Err(PublishError::Refused(other.to_string())),
        },
        _ => Ok(Confirmed::default()),
    }
}

//! Records as they stand in a stream: by sequence, without a consumer.
//!
//! Looking creates nothing and counts nothing, and works on every kind of stream, work queues included.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dlo_core::broker::{BrokerError, Seen};
use dlo_core::message::Message;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{Answer, Api, NO_MESSAGE, NO_STREAM};
use super::headers;

/// Where a queue lives: what every message of it has in common.
#[derive(Debug, Clone)]
pub(super) struct Home {
    pub(super) queue: String,
    pub(super) stream: String,
    /// When the stream was created.
    pub(super) created: String,
}

impl Home {
    pub(super) fn origin(&self, sequence: u64) -> Origin {
        Origin::sequence(BrokerKind::Nats, &self.queue, i64::try_from(sequence).unwrap_or(i64::MAX))
            .in_incarnation(&self.created)
    }

    /// Adds what NATS says of a message beside its headers.
    pub(super) fn tell(&self, message: &mut Message, subject: &str) {
        message.headers.push_transport(BrokerKind::Nats, "stream", self.stream.as_str());
        message.headers.push_transport(BrokerKind::Nats, "subject", subject);
    }
}

#[derive(Debug, Deserialize)]
struct Got {
    message: Stored,
}

#[derive(Debug, Deserialize)]
pub(super) struct Stored {
    pub(super) subject: String,
    pub(super) seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    pub(super) time: String,
}

impl Stored {
    pub(super) fn seen(self, home: &Home) -> Result<Seen, BrokerError> {
        let bytes = |text: &str| {
            STANDARD.decode(text).map_err(|_| {
                BrokerError::Unavailable(format!("record {} of `{}` came damaged", self.seq, home.stream))
            })
        };
        let mut message = headers::from_block(&bytes(&self.hdrs)?, Bytes::from(bytes(&self.data)?));
        home.tell(&mut message, &self.subject);
        let published_at = Timestamp::parse(&self.time).ok();
        Ok(Seen { message, origin: home.origin(self.seq), published_at })
    }
}

/// What to look for.
#[derive(Debug, Clone, Copy)]
pub(super) enum At<'a> {
    Exactly(u64),
    /// The first of this subject that is not before.
    From(u64, &'a str),
}

/// Looks at many places in one round trip. `None`: nothing there. A stream that is gone is [`BrokerError::Missing`].
pub(super) async fn look(
    api: &Api,
    home: &Home,
    places: &[At<'_>],
) -> Result<Vec<Option<Stored>>, BrokerError> {
    let call = format!("STREAM.MSG.GET.{}", home.stream);
    let body = |place: &At<'_>| -> Value {
        match place {
            At::Exactly(sequence) => json!({ "seq": sequence }),
            At::From(sequence, subject) => json!({ "seq": sequence, "next_by_subj": subject }),
        }
    };
    let calls = places.iter().map(|place| (call.clone(), body(place))).collect();
    let answers: Vec<Result<Answer<Got>, BrokerError>> = api.call_all(calls).await?;
    let read = |answer: Result<Answer<Got>, BrokerError>| match answer? {
        Ok(got) => Ok(Some(got.message)),
        Err(error) if error.err_code == NO_MESSAGE => Ok(None),
        Err(error) if error.err_code == NO_STREAM => Err(BrokerError::Missing(home.queue.clone())),
        Err(error) => Err(error.into_broker_error()),
    };
    answers.into_iter().map(read).collect()
}

/// The record at these coordinates. The queue of a letter that is only a pointer is the name of a stream, and that of
/// our own letters is a subject: the life of the stream says which, and where it is not told, the name goes first.
pub(super) async fn fetch(api: &Api, wanted: &Origin) -> Result<Option<Seen>, BrokerError> {
    let Some(sequence) = wanted.offset.and_then(|offset| u64::try_from(offset).ok()) else { return Ok(None) };
    let mut found = false;
    for home in homes(api, &wanted.queue).await? {
        found = true;
        if wanted.incarnation.as_deref().is_some_and(|life| life != home.created) {
            continue;
        }
        match look(api, &home, &[At::Exactly(sequence)]).await?.pop().flatten() {
            Some(stored) => return stored.seen(&home).map(Some),
            None => continue,
        }
    }
    if found { Ok(None) } else { Err(BrokerError::Missing(wanted.queue.clone())) }
}

async fn homes(api: &Api, queue: &str) -> Result<Vec<Home>, BrokerError> {
    let home = |stream: String, created| Home { queue: queue.to_owned(), stream, created };
    let mut homes = Vec::new();
    if !queue.is_empty()
        && !queue.contains(|c: char| c.is_whitespace() || ".*>/\\".contains(c))
        && let Some(info) = api.stream(queue, None).await?
    {
        homes.push(home(queue.to_owned(), info.created));
    }
    for name in api.streams_of(queue).await? {
        if homes.iter().all(|known: &Home| known.stream != name)
            && let Some(info) = api.stream(&name, None).await?
        {
            homes.push(home(name, info.created));
        }
    }
    Ok(homes)
}

//! Sends of a replay: transactions of one producer, of which there is only one of a name.
//!
//! The name makes the transactional id. Making the producer fences whoever had the name before and decides what that one
//! had under way: committed or aborted, never both, and nothing is added later. So whoever was interrupted can read
//! the topic from where it ended before, and knows. Each call is one transaction; its records are seen when it is
//! committed, all together, by everybody who reads what is committed.
//!
//! An outcome that nobody knows ends the publisher. It does not make itself a new producer: that would fence a
//! successor, and only the caller knows whether there is one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Calls, Capabilities, Outgoing, PublishError, Publisher};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::Producer;
use tokio::sync::Mutex;

use super::connection::{Ears, broker_error};
use super::publisher::{Batch, KafkaPublisher, Outcome, Parcel, ProducerEars, Sender};

/// Before the name of a replay, so that one ACL covers them.
const PREFIX: &str = "dlo-replay-";
/// What a transaction may take beyond the sending, before the cluster ends it. Readers of what is committed wait as
/// long for what stands behind a transaction whose process died.
const GRACE: Duration = Duration::from_secs(10);
/// Kafka takes a quarter of an hour by default (`transaction.max.timeout.ms`).
const LONGEST: Duration = Duration::from_secs(840);
const PAUSE: Duration = Duration::from_millis(50);
/// How long the last report of a transaction may take to be put away, and how often that is looked at.
const PUT_AWAY: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_micros(100);

/// The publisher of one replay.
#[derive(Debug)]
pub(super) struct Fenced {
    desk: Arc<Desk>,
    capabilities: Capabilities,
}

struct Desk {
    office: Arc<KafkaPublisher>,
    sender: Sender,
    patience: Duration,
    /// Locked for the length of a call: there is one transaction at a time.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Why no more can be sent.
    over: Option<String>,
    /// After a batch that the cluster refused, librdkafka goes on counting where the cluster does not: the next
    /// transaction fails for that, and the one behind it begins to count anew.
    miscounts: bool,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("office", &self.office).finish_non_exhaustive()
    }
}

/// How a transaction ended.
enum End {
    Committed(Vec<Outcome>),
    /// None of it is there.
    Aborted {
        why: String,
        /// Why trying it again would not help, if it would not.
        refused: Option<PublishError>,
    },
    /// Nobody knows, or somebody else does.
    Over(PublishError),
}

impl Fenced {
    pub(super) async fn open(
        office: &Arc<KafkaPublisher>,
        capabilities: &Capabilities,
        name: &str,
    ) -> Result<Self, BrokerError> {
        let (office, id) = (Arc::clone(office), format!("{PREFIX}{name}"));
        let desk = tokio::task::spawn_blocking(move || Desk::open(office, &id));
        let desk = desk.await.unwrap_or(Err(BrokerError::Closed))?;
        Ok(Self { desk: Arc::new(desk), capabilities: capabilities.clone() })
    }
}

#[async_trait]
impl Publisher for Fenced {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn calls(&self) -> Calls {
        Calls::OneByOne
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Outcome> {
        let (desk, count) = (Arc::clone(&self.desk), messages.len());
        let parcels = messages.into_iter().map(|outgoing| Parcel { outgoing, ticket: None }).collect();
        // A task of its own: a call that is given up leaves no transaction open.
        let publishing = tokio::spawn(async move { desk.publish(parcels).await });
        let lost = || Err(PublishError::Unconfirmed("the runtime ended in the middle".to_owned()));
        publishing.await.unwrap_or_else(|_| (0..count).map(|_| lost()).collect())
    }
}

impl Desk {
    /// Makes the only producer of that id. Blocks.
    fn open(office: Arc<KafkaPublisher>, id: &str) -> Result<Self, BrokerError> {
        let patience = office.cluster.config.publish_timeout.0.min(LONGEST);
        let mut settings = office.settings();
        settings
            .set("transactional.id", id)
            .set("message.timeout.ms", patience.as_millis().max(100).to_string())
            .set("transaction.timeout.ms", (patience + GRACE).as_millis().to_string());
        let ears = Ears::default();
        let complaints = ears.complaints.clone();
        let sender = Sender::from_config_and_context(&settings, ProducerEars(ears))
            .map_err(|error| BrokerError::Refused(error.to_string()))?;
        until(patience, |left| sender.init_transactions(left))
            .map_err(|error| broker_error(&error, id, &complaints))?;
        Ok(Self { office, sender, patience, state: Mutex::default() })
    }

    async fn publish(self: &Arc<Self>, parcels: Vec<Parcel>) -> Vec<Outcome> {
        let mut state = self.state.lock().await;
        if let Some(why) = &state.over {
            return parcels.iter().map(|_| Err(PublishError::Fenced(why.clone()))).collect();
        }
        let absent = self.office.absent(&parcels).await;
        let refusal = |parcel: &Parcel| self.office.refusal(&parcel.outgoing, &absent).map(Err);
        let mut outcomes: Vec<Option<Outcome>> = parcels.iter().map(refusal).collect();
        let mut not_sent = String::new();
        let left: Vec<usize> = (0..parcels.len()).filter(|at| outcomes[*at].is_none()).collect();
        let mut stretches = Vec::from([left]);
        while let Some(mut stretch) = stretches.pop() {
            if stretch.is_empty() {
                continue;
            }
            match self.transact(&parcels, &stretch).await {
                End::Committed(all) => {
                    state.miscounts = false;
                    stretch.into_iter().zip(all).for_each(|(at, outcome)| outcomes[at] = Some(outcome));
                }
                End::Aborted { refused: Some(refusal), .. } if stretch.len() == 1 => {
                    state.miscounts = true;
                    outcomes[stretch[0]] = Some(Err(refusal));
                }
                // The cluster refuses whole batches: which message is to blame is found by halving.
                End::Aborted { refused: Some(_), .. } => {
                    state.miscounts = true;
                    let behind = stretch.split_off(stretch.len() / 2);
                    stretches.extend([behind, stretch]);
                }
                End::Aborted { refused: None, .. } if std::mem::take(&mut state.miscounts) => {
                    stretches.push(stretch);
                }
                End::Aborted { refused: None, why } => {
                    not_sent = why;
                    break;
                }
                End::Over(error) => {
                    state.over = Some(error.to_string());
                    stretch.into_iter().for_each(|at| outcomes[at] = Some(Err(same(&error))));
                    not_sent = error.to_string();
                    break;
                }
            }
        }
        let not_sent = || Err(PublishError::NotSent(not_sent.clone()));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(not_sent)).collect()
    }

    /// One transaction: all of `left`, or nothing.
    async fn transact(self: &Arc<Self>, parcels: &[Parcel], left: &[usize]) -> End {
        if let Err(error) = self.sender.begin_transaction() {
            return End::Over(PublishError::Fenced(error.to_string()));
        }
        let batch = Arc::new(Batch::new(left.len()));
        for (at, parcel) in left.iter().enumerate() {
            self.office.send(&self.sender, &parcels[*parcel], &batch, at).await;
        }
        let outcomes = batch.outcomes().await;
        let desk = Arc::clone(self);
        let failed = outcomes.iter().find_map(|outcome| outcome.as_ref().err().map(ToString::to_string));
        let ended = tokio::task::spawn_blocking(move || match failed {
            Some(why) => desk.abort(why),
            None => desk.commit(),
        });
        match ended.await {
            Ok(Ok(None)) => End::Committed(outcomes),
            Ok(Ok(Some(why))) => {
                End::Aborted { why, refused: outcomes.into_iter().filter_map(Result::err).find(is_refusal) }
            }
            Ok(Err(error)) => End::Over(error),
            Err(_) => End::Over(PublishError::Unconfirmed("the runtime ended in the middle".to_owned())),
        }
    }

    /// `None` when it is committed, and why not when it is aborted.
    fn commit(&self) -> Result<Option<String>, PublishError> {
        self.put_away();
        match until(self.patience, |left| self.sender.commit_transaction(left)) {
            Ok(()) => Ok(None),
            Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => {
                self.abort(error.to_string())
            }
            Err(error) => Err(unknown(&error)),
        }
    }

    /// Waits until no report is in anybody's hands. The last one is put away a moment after we heard of it; the client's
    /// commit, if it comes first, looks for it again only after a tenth of a second.
    fn put_away(&self) {
        let deadline = Instant::now() + PUT_AWAY;
        while self.sender.in_flight_count() > 0 && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }

    fn abort(&self, why: String) -> Result<Option<String>, PublishError> {
        match until(self.patience, |left| self.sender.abort_transaction(left)) {
            Ok(()) => Ok(Some(why)),
            Err(error) => Err(unknown(&error)),
        }
    }
}

/// Calls again what may be called again, for as long as there is patience.
fn until(patience: Duration, call: impl Fn(Duration) -> KafkaResult<()>) -> KafkaResult<()> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match call(left) {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && left > PAUSE => {
                std::thread::sleep(PAUSE);
            }
            called => return called,
        }
    }
}

/// A fatal error is one of a producer that was replaced, or whose transaction took too long.
fn unknown(error: &KafkaError) -> PublishError {
    match error {
        KafkaError::Transaction(fatal) if fatal.is_fatal() => PublishError::Fenced(error.to_string()),
        _ => PublishError::Unconfirmed(error.to_string()),
    }
}

/// Whether the message itself is to blame.
fn is_refusal(error: &PublishError) -> bool {
    matches!(error, PublishError::Refused(_) | PublishError::TooLarge { .. })
}

/// The one error of a call, for each of its messages.
fn same(error: &PublishError) -> PublishError {
    match error {
        PublishError::Fenced(why) => PublishError::Fenced(why.clone()),
        other => PublishError::Unconfirmed(other.to_string()),
    }
}

//! The thread of a source: it belongs to the group, fetches, and obeys when the group divides partitions anew.
//!
//! A member must be heard of whether or not anybody receives, so polling is not `receive`'s business. A partition is
//! given up when what is in hand of it is settled, or when the time for that is over: then it comes again elsewhere.
//! A partition that is assigned begins where the group stands, passing over what is done already (see `offsets`).

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dlo_core::broker::BrokerError;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

use super::connection::{Cluster, Ears, PATIENCE, broker_error};
use super::lanes::{Lane, Lanes, Place, Record};
use super::offsets::Offsets;
use super::publisher::KafkaPublisher;
use super::retry::{self, Ticket};
use super::topology::KafkaTopology;
use super::{Office, native, record};
use crate::backoff::Backoff;

/// How long one poll waits: what closes or resumes is noticed within.
const POLL: Duration = Duration::from_millis(100);
/// How long a full buffer is waited for before fetching is paused, which throws away what librdkafka has fetched.
const GRACE: Duration = Duration::from_millis(500);
/// How often it is asked whether the topic is still the same one.
const LIFE: Duration = Duration::from_secs(5);

/// How often it is asked for retry topics that others have made.
const RETRIES: Duration = Duration::from_secs(30);

pub(super) type Member = BaseConsumer<MemberEars>;

/// What a source reads, and as whom.
pub(super) struct Membership {
    pub(super) cluster: Arc<Cluster>,
    pub(super) queue: Arc<str>,
    pub(super) group: String,
    pub(super) lanes: Lanes,
    /// Retries that wait are sent and their topics made through these.
    pub(super) publisher: Arc<KafkaPublisher>,
    pub(super) topology: Arc<KafkaTopology>,
    /// The retry topics that are there, as far as is known, and whether the member must be told of a new one.
    retries: Mutex<(BTreeSet<String>, bool)>,
    /// The member itself, while there is one; the settler commits through it.
    pub(super) member: Mutex<Option<Arc<Member>>>,
    /// Which life of the topic was there when the source was made.
    pub(super) incarnation: Mutex<Option<String>>,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (&self.queue, &self.group);
        f.debug_struct("Membership").field("queue and group", &shown).finish_non_exhaustive()
    }
}

impl Membership {
    pub(super) fn new(office: &Office, queue: &str, group: &str, incarnation: Option<String>) -> Self {
        Self {
            cluster: Arc::clone(&office.cluster),
            queue: queue.into(),
            group: group.to_owned(),
            lanes: Lanes::new(&office.cluster.config),
            publisher: Arc::clone(&office.publisher),
            topology: Arc::clone(&office.topology),
            retries: Mutex::default(),
            member: Mutex::default(),
            incarnation: Mutex::new(incarnation),
        }
    }

    pub(super) fn knows_retry(&self, topic: &str) -> bool {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner).0.contains(topic)
    }

    /// A retry topic that is there: the member reads it from now on.
    pub(super) fn add_retry(&self, topic: String) {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        retries.1 |= retries.0.insert(topic);
    }

    /// Asks which retry topics are there: they are made when first needed, by any member, or by hand.
    fn find_retries(&self) {
        for topic in retry::topics(&self.queue, &self.group) {
            if !self.knows_retry(&topic) && self.cluster.describe(&topic).is_ok() {
                self.add_retry(topic);
            }
        }
    }

    /// What should be subscribed to; only if that changed, unless `anyway`.
    fn subscription(&self, anyway: bool) -> Option<Vec<String>> {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = std::mem::take(&mut retries.1);
        let all = std::iter::once(self.queue.to_string()).chain(retries.0.iter().cloned());
        (changed || anyway).then(|| all.collect())
    }

    /// Which life of `topic` this is.
    fn life_of(&self, topic: &str) -> Option<String> {
        if *topic == *self.queue {
            return self.renew_incarnation();
        }
        self.cluster.describe(topic).ok().and_then(|found| found.id)
    }

    pub(super) fn member(&self) -> Option<Arc<Member>> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_member(&self, member: Option<Arc<Member>>) {
        *self.member.lock().unwrap_or_else(PoisonError::into_inner) = member;
    }

    fn incarnation(&self) -> Option<String> {
        self.incarnation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks anew which life of the topic this is; what was known stays if nobody answers.
    fn renew_incarnation(&self) -> Option<String> {
        if let Ok(topic) = self.cluster.describe(&self.queue) {
            *self.incarnation.lock().unwrap_or_else(PoisonError::into_inner) = topic.id;
        }
        self.incarnation()
    }
}

/// The ears of a member: it hears of rebalances too.
pub(super) struct MemberEars {
    ears: Ears,
    of: OnceLock<Arc<Membership>>,
}

impl ClientContext for MemberEars {
    fn log(&self, level: RDKafkaLogLevel, topic: &str, line: &str) {
        self.ears.log(level, topic, line);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.ears.error(error, reason);
    }
}

impl ConsumerContext for MemberEars {
    fn rebalance(&self, member: &Member, why: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let cooperative = matches!(member.rebalance_protocol(), RebalanceProtocol::Cooperative);
        let changed = match (why, self.of.get()) {
            (RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, Some(of)) if !of.lanes.is_closing() => {
                begin(of, member, partitions);
                if cooperative { member.incremental_assign(partitions) } else { member.assign(partitions) }
            }
            (_, of) => {
                if let Some(of) = of {
                    give_up(of, member, partitions);
                }
                if cooperative { member.incremental_unassign(partitions) } else { member.unassign() }
            }
        };
        if let Err(error) = changed {
            tracing::warn!(target: "kafka", %error, "a change of partitions failed; the group will try again");
        }
    }
}

/// Sets where each newly assigned partition begins.
fn begin(of: &Membership, member: &Member, partitions: &TopicPartitionList) {
    let mut lives: HashMap<String, Option<String>> = HashMap::new();
    let committed = committed(member, partitions);
    for mut place in partitions.elements() {
        let (topic, partition) = (Arc::<str>::from(place.topic()), place.partition());
        let incarnation = lives.entry(topic.to_string()).or_insert_with(|| of.life_of(&topic)).clone();
        let told = committed.as_ref().and_then(|all| native::place(all, &topic, partition));
        let resumed = told
            .filter(|(offset, _)| *offset >= 0)
            .and_then(|(offset, metadata)| Offsets::resume(offset, &metadata, incarnation.as_deref()));
        let range = member.fetch_watermarks(&topic, partition, PATIENCE).ok();
        let offsets = match (resumed, range) {
            // Ahead of the log: it lost its end. What is there now was not seen.
            (Some(offsets), Some((low, high))) if offsets.watermark() > high => Offsets::from(low),
            (Some(offsets), _) => offsets,
            (None, range) => Offsets::from(range.map_or(0, |(low, _)| low)),
        };
        let start = offsets.watermark().max(range.map_or(0, |(low, _)| low));
        if let Err(error) = place.set_offset(Offset::Offset(start)) {
            tracing::warn!(target: "kafka", %error, partition, "a beginning was not taken");
        }
        of.lanes.open(Lane::new(&topic, partition, incarnation, offsets));
    }
}

/// What the group was told of these partitions. Asked a few times: without it, what is done above the number comes again.
fn committed(member: &Member, partitions: &TopicPartitionList) -> Option<TopicPartitionList> {
    (0..3).find_map(|_| member.committed_offsets(partitions.clone(), PATIENCE).ok())
}

fn give_up(of: &Membership, member: &Member, partitions: &TopicPartitionList) {
    let places: Vec<_> =
        partitions.elements().iter().map(|place| (place.topic().to_owned(), place.partition())).collect();
    // What the group has already given to somebody else cannot be finished any more.
    let patience = if member.assignment_lost() { Duration::ZERO } else { of.cluster.config.handover.0 };
    of.lanes.hand_over(&places, patience);
}

/// Runs until the source closes; joins again whenever it must.
pub(super) fn run(of: &Arc<Membership>) {
    let mut backoff = Backoff::default();
    while !of.lanes.is_closing() {
        match join(of) {
            Ok(member) => {
                of.set_member(Some(Arc::clone(&member)));
                if serve(of, &member) {
                    backoff.reset();
                }
                of.set_member(None);
                of.lanes.forget();
                drop(member);
            }
            Err(error) => of.lanes.trouble(error),
        }
        if !of.lanes.is_closing() {
            of.lanes.pause(backoff.next());
        }
    }
    of.lanes.forget();
}

fn join(of: &Arc<Membership>) -> Result<Arc<Member>, BrokerError> {
    let mut settings = of.cluster.reading(&of.group);
    settings.set("partition.assignment.strategy", "cooperative-sticky");
    // What a consumer that crashed had in hand must come again soon: a message that kills it is found within a minute.
    for (name, value) in [("heartbeat.interval.ms", "1000"), ("session.timeout.ms", "10000")] {
        if settings.get(name).is_none() {
            settings.set(name, value);
        }
    }
    let ears = MemberEars { ears: Ears::default(), of: OnceLock::new() };
    let member = Member::from_config_and_context(&settings, ears)
        .map_err(|error| BrokerError::Refused(error.to_string()))?;
    let _ = member.context().of.set(Arc::clone(of));
    of.find_retries();
    subscribe(of, &member, true)?;
    Ok(Arc::new(member))
}

fn subscribe(of: &Membership, member: &Member, anyway: bool) -> Result<(), BrokerError> {
    let Some(topics) = of.subscription(anyway) else { return Ok(()) };
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let told = member.subscribe(&names);
    told.map_err(|error| broker_error(&error, &of.queue, &member.context().ears.complaints))
}

/// Fetches until the source closes or must join again. `true` if anything was fetched.
fn serve(of: &Membership, member: &Member) -> bool {
    let (mut fetched, mut asked, mut searched) = (false, Instant::now(), Instant::now());
    while !of.lanes.is_closing() {
        if of.lanes.is_full() && !of.lanes.await_room(GRACE) {
            wait_paused(of, member);
            continue;
        }
        if let Err(error) = subscribe(of, member, false) {
            of.lanes.trouble(error);
            return fetched;
        }
        hold_and_release(of, member);
        match member.poll(POLL) {
            Some(Ok(record)) => {
                fetched = true;
                put(of, &record);
            }
            Some(Err(error)) => {
                if must_join_again(of, member, &error) {
                    return fetched;
                }
            }
            None => {
                if asked.elapsed() > LIFE {
                    let known = of.incarnation();
                    if of.renew_incarnation() != known {
                        tracing::info!(target: "kafka", topic = &*of.queue, "the topic was created anew");
                        return fetched;
                    }
                    if searched.elapsed() > RETRIES {
                        of.find_retries();
                        searched = Instant::now();
                    }
                    asked = Instant::now();
                }
            }
        }
    }
    fetched
}

fn put(of: &Membership, fetched: &BorrowedMessage<'_>) {
    of.lanes.put(fetched.topic(), fetched.partition(), |lane| {
        let message = record::message(fetched);
        let mut record = Record {
            offset: fetched.offset(),
            size: record::size(&message),
            origin: record::origin(
                &lane.topic,
                lane.incarnation.as_deref(),
                lane.partition,
                fetched.offset(),
            ),
            message,
            published_at: record::published_at(fetched),
            redelivered: false,
            due: None,
        };
        if *lane.topic != *of.queue {
            Ticket::redeem(&mut record);
        }
        record
    });
}

/// Stops fetching retries that are far from due, and goes on when they are.
fn hold_and_release(of: &Membership, member: &Member) {
    let (hold, release) = of.lanes.hold_and_release(Instant::now());
    let list = |places: &[Place]| {
        let mut list = TopicPartitionList::with_capacity(places.len());
        for (topic, partition) in places {
            list.add_partition(topic, *partition);
        }
        list
    };
    let held = if hold.is_empty() { Ok(()) } else { member.pause(&list(&hold)) };
    let released = if release.is_empty() { Ok(()) } else { member.resume(&list(&release)) };
    if let Err(error) = held.and(released) {
        tracing::warn!(target: "kafka", %error, "a partition of retries was not paused or resumed");
    }
}

/// Nobody takes what was fetched: stays a member without fetching until there is room.
fn wait_paused(of: &Membership, member: &Member) {
    let Ok(assigned) = member.assignment() else { return };
    if member.pause(&assigned).is_err() {
        return;
    }
    while !of.lanes.is_closing() && !of.lanes.await_room(POLL) {
        if let Some(Ok(record)) = member.poll(Duration::ZERO) {
            put(of, &record);
        }
    }
    if let Err(error) = member.resume(&assigned) {
        tracing::warn!(target: "kafka", %error, "fetching did not resume");
    }
}

/// Says what a caller should know of an error. `true` if only joining again helps.
fn must_join_again(of: &Membership, member: &Member, error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    let complaints = &member.context().ears.complaints;
    match error.rdkafka_error_code() {
        // An offset that is not there: removed by retention, or the topic is another one now. `begin` finds out.
        Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::Fatal) => true,
        Some(Code::BrokerTransportFailure | Code::OperationTimedOut | Code::Resolve) => false,
        _ if matches!(error, KafkaError::PartitionEOF(_)) => false,
        _ => {
            of.lanes.trouble(broker_error(error, &of.queue, complaints));
            matches!(error, KafkaError::MessageConsumptionFatal(_))
        }
    }
}

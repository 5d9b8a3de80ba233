//! What one consumer has done so far, counted as it tells it. Cheap where messages are many: a handled one costs
//! a few additions and no lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::breaker::State;
use dlo_core::message::Message;
use dlo_core::verdict::{Stage, VerdictKind};

use super::MOST_SERIES;
use super::histogram::Histogram;
use crate::controls::Controls;
use crate::events::{Event, Watch};
use crate::handler::{Context, Handler, Unhandled};

/// Under which everything is counted that there is no room for.
pub(super) const OTHER: &str = "other";
/// The rule of a retry, where the event does not name one.
const UNNAMED: &str = "";

/// The counters of one consumer.
#[derive(Debug)]
pub struct Tally {
    pub(super) queue: String,
    pub(super) group: String,
    pub(super) attempts: AtomicU64,
    pub(super) handled: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) not_written: AtomicU64,
    pub(super) broker_away: AtomicU64,
    pub(super) in_flight: AtomicUsize,
    pub(super) handling: Histogram,
    /// From arrival to handler.
    pub(super) waiting: Histogram,
    /// Retries that waited because the budget was spent.
    pub(super) over_budget: AtomicU64,
    pub(super) lost: AtomicU64,
    /// A hand on the consumer, while there is one.
    controls: Mutex<Option<Controls>>,
    /// The broker did not answer when last heard of.
    away: AtomicBool,
    seldom: Mutex<Seldom>,
}

/// What changes with failures only, so a lock does no harm.
#[derive(Debug, Clone, Default)]
pub(super) struct Seldom {
    pub(super) verdicts: BTreeMap<(VerdictKind, String, String), u64>,
    pub(super) quick: u64,
    pub(super) delayed: u64,
    /// By reason.
    pub(super) parked: BTreeMap<&'static str, u64>,
    /// Causes of a pause, and since when and how long at first; `None`: it is over.
    pub(super) paused: BTreeMap<String, Option<Pause>>,
    last_error_class: Option<String>,
    problem: Option<String>,
    absent: Option<String>,
}

/// Messages wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
    since: Instant,
    wait: Duration,
}

/// How a consumer stands at one moment, for a status page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    pub in_flight: usize,
    pub attempts: u64,
    pub handled: u64,
    pub retried: u64,
    pub parked: u64,
    pub last_error_class: Option<String>,
    /// What messages wait for, and how long until the next probe, as far as that was said.
    pub paused: Vec<(String, Duration)>,
    /// Why the handler takes no messages, if it does not.
    pub handler_away: Option<String>,
    /// Letters that wait on disk, because their queue cannot be written.
    pub spooled: usize,
    /// Messages that wait for the one before them in their lane.
    pub in_lanes: usize,
    /// Where each breaker stands, by the name of its dependency.
    pub breakers: Vec<(String, State)>,
    /// Why the broker does not answer, if it does not.
    pub broker_away: Option<String>,
}

impl Tally {
    pub(super) fn new(queue: &str, group: &str) -> Self {
        Self {
            queue: queue.to_owned(),
            group: group.to_owned(),
            attempts: AtomicU64::default(),
            handled: AtomicU64::default(),
            skipped: AtomicU64::default(),
            not_written: AtomicU64::default(),
            broker_away: AtomicU64::default(),
            in_flight: AtomicUsize::default(),
            handling: Histogram::default(),
            waiting: Histogram::default(),
            over_budget: AtomicU64::default(),
            lost: AtomicU64::default(),
            controls: Mutex::default(),
            away: AtomicBool::default(),
            seldom: Mutex::default(),
        }
    }

    pub(super) fn is_of(&self, queue: &str, group: &str) -> bool {
        self.queue == queue && self.group == group
    }

    /// The handler, with its attempts and times counted here.
    pub fn timed<H: Handler>(self: &Arc<Self>, handler: H) -> Timed<H> {
        Timed { handler, tally: Arc::clone(self) }
    }

    /// Follows this consumer: how much waits in it is asked when somebody looks. What the one before it waited for ended with
    /// that one.
    pub fn follow(&self, consumer: Controls) {
        self.forget_pauses();
        *self.controls.lock().unwrap_or_else(PoisonError::into_inner) = Some(consumer);
    }

    /// The consumer has ended, so nothing waits in it any more.
    pub fn unfollow(&self) {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.forget_pauses();
    }

    fn forget_pauses(&self) {
        let mut seldom = self.seldom();
        seldom.paused.values_mut().for_each(|pause| *pause = None);
        (seldom.absent, seldom.problem) = (None, None);
        self.away.store(false, Ordering::Relaxed);
    }

    pub(super) fn controls(&self) -> Option<Controls> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the consumer stands.
    pub fn snapshot(&self) -> Snapshot {
        // Asked before the lock is taken: the consumer may tell us something while it holds its own.
        let asked = self.controls().map(|controls| (controls.under_way(), controls.breakers()));
        let (under_way, breakers) = asked.unzip();
        let seldom = self.seldom();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let paused = seldom.paused.iter().filter_map(|(cause, pause)| {
            let pause = (*pause)?;
            Some((cause.clone(), pause.wait.saturating_sub(pause.since.elapsed())))
        });
        Snapshot {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            attempts: count(&self.attempts),
            handled: count(&self.handled),
            retried: seldom.quick + seldom.delayed,
            parked: seldom.parked.values().sum(),
            last_error_class: seldom.last_error_class.clone(),
            paused: paused.collect(),
            handler_away: seldom.absent.clone(),
            spooled: under_way.map_or(0, |now| now.spooled),
            in_lanes: under_way.map_or(0, |now| now.in_lanes),
            breakers: breakers.unwrap_or_default(),
            broker_away: seldom.problem.clone().filter(|_| self.away.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn seldom(&self) -> MutexGuard<'_, Seldom> {
        self.seldom.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Tally {
    fn saw(&self, event: &Event<'_>) {
        match event {
            Event::Handled { waited, .. } => {
                self.handled.fetch_add(1, Ordering::Relaxed);
                self.waiting.add(*waited);
                // Read before it is written: the line is shared, and nearly always clean.
                if self.away.load(Ordering::Relaxed) {
                    self.away.store(false, Ordering::Relaxed);
                }
            }
            Event::Retried { error_class, stage, .. } => {
                let mut seldom = self.seldom();
                match stage {
                    Stage::Quick => seldom.quick += 1,
                    Stage::Delayed => seldom.delayed += 1,
                }
                seldom.failed(VerdictKind::Retry, UNNAMED, error_class);
            }
            Event::DeadLettered(death) => {
                let mut seldom = self.seldom();
                *seldom.parked.entry(death.reason.as_str()).or_default() += 1;
                seldom.failed(death.verdict, death.rule, death.error_class);
            }
            Event::Skipped { .. } => {
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
            Event::Paused { dependency, wait } => {
                self.seldom().pause(dependency, Some(Pause { since: Instant::now(), wait: *wait }));
            }
            Event::Resumed { dependency } => self.seldom().pause(dependency, None),
            Event::Braked { cause, wait } => {
                self.seldom().pause(&braked(cause), Some(Pause { since: Instant::now(), wait: *wait }));
            }
            Event::Released { cause } => self.seldom().pause(&braked(cause), None),
            Event::HandlerAway { problem } => self.seldom().absent = Some((*problem).to_owned()),
            Event::HandlerBack => self.seldom().absent = None,
            Event::HandlerLost { .. } => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            Event::OverBudget => {
                self.over_budget.fetch_add(1, Ordering::Relaxed);
            }
            Event::NotWritten { .. } => {
                self.not_written.fetch_add(1, Ordering::Relaxed);
            }
            Event::BrokerAway { problem } => {
                self.broker_away.fetch_add(1, Ordering::Relaxed);
                self.seldom().problem = Some((*problem).to_owned());
                self.away.store(true, Ordering::Relaxed);
            }
            // What is on disk is asked of the consumer itself; the others are for the log.
            Event::Spooled { .. } | Event::SpoolEmpty | Event::MassDeath { .. } | Event::Drained { .. } => {}
        }
    }
}

/// The brake's pauses stand beside those of dependencies, under a name that tells them apart.
fn braked(cause: &str) -> String {
    format!("brake: {cause}")
}

impl Seldom {
    fn failed(&mut self, verdict: VerdictKind, rule: &str, class: &str) {
        self.last_error_class = Some(class.to_owned());
        let key = (verdict, rule.to_owned(), class.to_owned());
        let known = self.verdicts.len() < MOST_SERIES || self.verdicts.contains_key(&key);
        let key = if known { key } else { (verdict, OTHER.to_owned(), OTHER.to_owned()) };
        *self.verdicts.entry(key).or_default() += 1;
    }

    fn pause(&mut self, cause: &str, pause: Option<Pause>) {
        let known = self.paused.len() < MOST_SERIES || self.paused.contains_key(cause);
        self.paused.insert(if known { cause } else { OTHER }.to_owned(), pause);
    }
}

/// A handler whose attempts are counted and timed.
#[derive(Debug)]
pub struct Timed<H> {
    handler: H,
    tally: Arc<Tally>,
}

#[async_trait]
impl<H: Handler> Handler for Timed<H> {
    async fn handle(&self, message: Message, context: &Context) -> Result<(), Unhandled> {
        let mut under_way = InHand::new(&self.tally);
        let result = self.handler.handle(message, context).await;
        under_way.was_there = !matches!(result, Err(Unhandled::Absent(_)));
        result
    }

    fn is_remote(&self) -> bool {
        self.handler.is_remote()
    }
}

/// One message in the handler. Ends by being dropped, so that one that runs over its time is counted too.
struct InHand<'a> {
    tally: &'a Tally,
    since: Instant,
    /// A handler that is not there has not had an attempt.
    was_there: bool,
}

impl<'a> InHand<'a> {
    fn new(tally: &'a Tally) -> Self {
        tally.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { tally, since: Instant::now(), was_there: true }
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.tally.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.was_there {
            self.tally.attempts.fetch_add(1, Ordering::Relaxed);
            self.tally.handling.add(self.since.elapsed());
        }
    }
}

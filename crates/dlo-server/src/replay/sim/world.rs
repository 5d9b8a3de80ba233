//! Everything that is true in a run: the record, the queue, the consumer, and what was found wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::broker::LostConfirm;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::message::{Message, Payload};
use dlo_core::replay::{ItemState, Replay, ReplayState, parse_send_id};
use dlo_core::time::Timestamp;
use dlo_store::Lease;
use dlo_store::replays::Return;
use dlo_testkit::clock::START;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::scenario::{Fate, Scenario};
use crate::replay::desk::ReplayDesk;

/// A mistake planted in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreFlaw {
    /// Writes of a former holder are taken.
    IgnoreFence,
    /// Letters are claimed whoever has them.
    ClaimUnchecked,
    /// Items are handed out without a record of it.
    SkipIntent,
    /// A halted replay is in nobody's hands, whatever was left of it.
    ForgetHalted,
}

impl StoreFlaw {
    pub(super) const ALL: [Self; 4] =
        [Self::IgnoreFence, Self::ClaimUnchecked, Self::SkipIntent, Self::ForgetHalted];
}

/// Where a letter stands, beside the items that speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    Open,
    Claimed,
    Sent,
    InDoubt,
    Recovered,
    /// Somebody else has it.
    Taken,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) state: ItemState,
    pub(super) letter: Stands,
    pub(super) key: Payload,
    pub(super) at: Option<Timestamp>,
    pub(super) sent_at: Option<Timestamp>,
    pub(super) partition: Option<i32>,
    pub(super) offset: Option<i64>,
    /// It was in doubt at some time.
    pub(super) doubted: bool,
    /// A person settled it.
    pub(super) by_person: bool,
    /// Somebody else had it while it was open.
    pub(super) taken: bool,
}

/// One record of the queue.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) message: Message,
    pub(super) number: u64,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) passed: bool,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) dice: StdRng,
    pub(super) began: Instant,
    pub(super) replay: Replay,
    pub(super) rows: Vec<Row>,
    pub(super) returns: Vec<Return>,
    pub(super) leases: BTreeMap<String, Lease>,
    pub(super) mark: Option<String>,
    pub(super) store_flaw: Option<StoreFlaw>,
    pub(super) queue: Vec<Record>,
    pub(super) epochs: BTreeMap<String, u64>,
    /// Items that were handed to a broker's client since they were intended.
    pub(super) handed: BTreeSet<u64>,
    /// When each send id was first accepted.
    pub(super) accepted: BTreeMap<u64, Instant>,
    /// Publishes that began: when, how many, and whether their server was awake.
    pub(super) begun: Vec<(Instant, u64, bool)>,
    /// Fastest rate that was allowed at any time; `None`: no limit.
    pub(super) fastest: Option<f64>,
    /// Since when the replay is not to send; and when a person last let it go on.
    pub(super) halted: Option<Instant>,
    pub(super) let_go: Instant,
    /// A guard had halted it before, and nothing kept its server from noting so.
    pub(super) judged: bool,
    pub(super) desks: Vec<Arc<ReplayDesk>>,
    pub(super) wrong: BTreeSet<String>,
    pub(super) log: Option<Vec<String>>,
    /// Servers that crashed where the others can see it: on the same machine.
    pub(super) ended: BTreeSet<String>,
    /// Everybody does what they should from now on.
    pub(super) fixed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn new(seed: u64, scenario: Scenario, store_flaw: Option<StoreFlaw>, log: bool) -> Self {
        let began = Instant::now();
        let mut rows: Vec<Row> =
            (0..scenario.fates.len()).map(|at| Row::frozen(at % scenario.keys)).collect();
        scenario.taken.iter().for_each(|at| rows[*at].take());
        let world = World {
            replay: replay(&scenario),
            dice: StdRng::seed_from_u64(seed ^ 0x5eed),
            began,
            rows,
            returns: Vec::new(),
            leases: BTreeMap::new(),
            mark: None,
            store_flaw,
            queue: Vec::new(),
            epochs: BTreeMap::new(),
            handed: BTreeSet::new(),
            accepted: BTreeMap::new(),
            begun: Vec::new(),
            fastest: scenario.settings.pace.rate(None),
            halted: None,
            let_go: began,
            judged: false,
            desks: Vec::new(),
            wrong: BTreeSet::new(),
            log: log.then(Vec::new),
            fixed: false,
            ended: BTreeSet::new(),
            scenario,
        };
        Self(Arc::new(Mutex::new(world)))
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn frozen(key: usize) -> Self {
        Self {
            state: ItemState::Frozen,
            letter: Stands::Open,
            key: Payload::from(format!("key-{key}")),
            at: None,
            sent_at: None,
            partition: None,
            offset: None,
            doubted: false,
            by_person: false,
            taken: false,
        }
    }

    /// Somebody else has the letter.
    pub(super) fn take(&mut self) {
        (self.letter, self.taken) = (Stands::Taken, true);
    }
}

fn replay(scenario: &Scenario) -> Replay {
    let state = if scenario.settings.canary == 0 { ReplayState::Running } else { ReplayState::Canary };
    Replay {
        id: ReplayId(uuid::Uuid::from_u128(7)),
        parent: None,
        ordinal: 1,
        state,
        query: None,
        source: Some("orders".to_owned()),
        event_type: None,
        error_class: None,
        cause: None,
        settings: scenario.settings.clone(),
        author: "ada".to_owned(),
        reason: "fixed".to_owned(),
        created_at: START,
        expires_at: START.plus(Duration::from_secs(86_400)),
        started_at: Some(START),
        ended_at: None,
        stop_reason: None,
        stop_letters: Vec::new(),
        approvals: Vec::new(),
        approvals_needed: 0,
        by_class: Vec::new(),
        excluded: Vec::new(),
        doubts: Vec::new(),
        counts: dlo_core::replay::ItemCounts::default(),
    }
}

pub(super) fn letter(number: u64) -> LetterId {
    LetterId(uuid::Uuid::from_u128(u128::from(number) + 1_000))
}

impl World {
    pub(super) fn now(&self) -> Timestamp {
        START.plus(self.began.elapsed())
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let at = self.began.elapsed();
        if let Some(log) = &mut self.log {
            log.push(format!("{:>9.3}s  {}", at.as_secs_f64(), what()));
        }
    }

    /// Whether this holder is a run of a server that crashed.
    pub(super) fn has_ended(&self, holder: &str) -> bool {
        self.scenario.one_machine
            && holder.split('/').next().is_some_and(|server| self.ended.contains(server))
    }

    /// Something that must never be.
    pub(super) fn fault(&mut self, what: String) {
        self.note(|| format!("WRONG: {what}"));
        self.wrong.insert(what);
    }

    pub(super) fn calm(&self) -> bool {
        self.began.elapsed() >= self.scenario.calm
    }

    pub(super) fn latency(&mut self) -> Duration {
        let most = self.scenario.latency.as_millis() as u64;
        if most == 0 { Duration::ZERO } else { Duration::from_millis(self.dice.random_range(0..=most)) }
    }

    pub(super) fn is_out(&self) -> bool {
        let at = self.began.elapsed();
        self.scenario.outages.iter().any(|(from, to)| *from <= at && at < *to)
    }

    /// Whether the broker has been away for this long.
    pub(super) fn is_out_since(&self, long: Duration) -> bool {
        let at = self.began.elapsed();
        self.scenario.outages.iter().any(|(from, to)| *from + long <= at && at < *to)
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        !self.calm() && share > 0.0 && self.dice.random_bool(share)
    }

    pub(super) fn fate(&self, number: u64) -> Fate {
        let fate = usize::try_from(number).ok().and_then(|at| self.scenario.fates.get(at).copied());
        match fate.unwrap_or(Fate::Handled) {
            Fate::SameAgain | Fate::Otherwise if self.fixed => Fate::Handled,
            fate => fate,
        }
    }

    /// A message is in the queue now, unless the broker knows it already.
    pub(super) fn accept(&mut self, message: &Message, partition: Option<i32>) -> Result<(i32, i64), String> {
        let mark = dlo_core::envelope::replay_mark(&message.headers);
        let Some((_, number)) = mark.and_then(|mark| parse_send_id(&mark.replay_id)) else {
            self.fault("a message without a send id was published".to_owned());
            return Err("no id".to_owned());
        };
        if self.fate(number) == Fate::Refused {
            return Err("scripted".to_owned());
        }
        let now = Instant::now();
        let known =
            self.queue.iter().find(|record| record.number == number).map(|one| (one.partition, one.offset));
        let first = self.accepted.get(&number).copied();
        let forgets = match self.scenario.lost_confirm {
            LostConfirm::SendAgain => false,
            LostConfirm::SendAgainInWindow => {
                first.is_none_or(|first| now.duration_since(first) >= self.scenario.window)
            }
            LostConfirm::ReadBack | LostConfirm::Unknown => true,
        };
        if let Some(known) = known.filter(|_| !forgets) {
            return Ok(known);
        }
        if known.is_some() {
            self.twice(number);
        }
        // A send that was in doubt may come late, after a person decided that it was not there.
        if self.rows[number as usize].taken && known.is_none() && !self.rows[number as usize].doubted {
            self.fault("a letter was sent that somebody else had".to_owned());
        }
        self.accepted.entry(number).or_insert(now);
        let hash = i32::try_from(number).unwrap_or(0) % self.scenario.partitions;
        let partition = partition.unwrap_or(hash);
        let offset = self.queue.iter().filter(|record| record.partition == partition).count() as i64;
        self.note(|| format!("#{number} accepted"));
        self.check_order(number);
        let record = Record { message: message.clone(), number, partition, offset, passed: false };
        self.queue.push(record);
        Ok((partition, offset))
    }
}

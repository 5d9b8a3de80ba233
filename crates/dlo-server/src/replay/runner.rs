//! One replay in hand: asks the core what to do, begins the calls that do it, and hears what they came to.
//!
//! A single task owns everything; calls run beside it and report back. So there is one place that knows what is in hand,
//! and a crash between any two of its lines is a crash between two calls.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{LostConfirm, Publisher};
use dlo_core::message::Payload;
use dlo_core::replay::guard::{CameBack, LATELY, Ruling, Sight};
use dlo_core::replay::pace::Pacer;
use dlo_core::replay::run::{Doubts, Orders, RECORD_WAIT, Tally, View};
use dlo_core::replay::{DoubtPolicy, Replay, ReplayState};
use dlo_core::time::Timestamp;
use dlo_store::StoreError;
use dlo_store::replays::SendEnd;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{Did, End, Kind};
use super::desk::Standing;
use super::engine::Ended;
use super::flaw::Flaw;
use super::hand::{Hand, TTL};
use super::note::{Note, Place, outcomes};
use super::send::Ready;
use super::traffic::Traffic;
use super::unwritten::Unwritten;

/// How often the stored replay and the outcomes are looked at without being rung.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Not sending for longer is a break, after which sends and returns cannot be compared for a while.
pub(super) const BREAK: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) hand: Arc<Hand>,
    pub(super) replay: Replay,
    pub(super) note: Note,
    pub(super) usual: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) publisher: Option<Arc<dyn Publisher>>,
    /// Intended, in order, and not with the broker yet.
    pub(super) ready: VecDeque<Ready>,
    /// Bytes of what is in hand, by number, and their sum: no more is intended while they are many.
    pub(super) sizes: HashMap<u64, u64>,
    pub(super) bytes: u64,
    /// Keys of what is with the broker: a later message of the same key waits, so that their order is kept.
    pub(super) keys: HashMap<Payload, u32>,
    /// Ends that are not recorded yet.
    pub(super) ends: Vec<End>,
    /// Since when the first of them waits.
    pub(super) first_end: Option<Instant>,
    /// A record is not known to stand, after which items may be intended again: until then, none is.
    pub(super) settling: bool,
    /// In hand by generation of intents, two at a time; see [`Runner::advance_mark`].
    pub(super) generation: u64,
    pub(super) by_generation: [u64; 2],
    pub(super) next_mark: Option<BTreeMap<String, Vec<Place>>>,
    pub(super) under_way: FuturesUnordered<BoxFuture<'static, Did>>,
    pub(super) busy: [bool; Kind::COUNT],
    pub(super) publishing: usize,
    /// In calls to the broker, and not written to its connection.
    pub(super) unwritten: Arc<Unwritten>,
    /// Writes of ours that were begun or done: a count that was read in between is not exact.
    pub(super) writes: u64,
    /// After how many writes the tally was read from the store.
    pub(super) exact: Option<u64>,
    pub(super) pacer: Pacer,
    /// Since when it runs at its pace, by the steady clock.
    pub(super) since: Timestamp,
    pub(super) returns: Vec<CameBack>,
    pub(super) returned: HashSet<u64>,
    /// Came back by now, and were sent before a person last let it go on.
    pub(super) earlier: HashSet<u64>,
    pub(super) returned_lately: VecDeque<Timestamp>,
    /// Failures that were counted when the returns were last looked for; and when they are being looked for now.
    pub(super) failed_seen: u64,
    pub(super) failed_asked: u64,
    pub(super) sent_lately: VecDeque<(Timestamp, u64)>,
    /// Since when it has been sending without a break, by the steady clock.
    pub(super) sending: Timestamp,
    pub(super) backlog: Option<u64>,
    pub(super) normal: Traffic,
    pub(super) canary_ripe: Option<Timestamp>,
    pub(super) held: u64,
    pub(super) dry: bool,
    /// Everything that is ready waits for a message of its key that is with the broker.
    pub(super) blocked: bool,
    /// The broker does not answer: what it said, and when it is asked again.
    pub(super) gone: Option<(String, Instant)>,
    /// The last pause; the next one is longer, until something is confirmed.
    pub(super) pause: Option<Duration>,
    /// It took something since we have the replay in hand.
    pub(super) proven: bool,
    /// What it refused since it last took something, and what it said.
    pub(super) refused: Option<(u64, String)>,
    /// Letters cannot be made ready, whichever they are.
    pub(super) unready: Option<String>,
    /// The store does not answer: nothing is begun before.
    pub(super) store_back: Option<Instant>,
    /// A guard has spoken, and the note does not say so yet.
    pub(super) to_judge: bool,
    /// It ends here, and what is in hand is put away first.
    pub(super) leaving: bool,
    /// Somebody rang: nothing goes out before the replay was read anew.
    pub(super) rung: bool,
    pub(super) stale: bool,
    pub(super) refreshed: Option<Instant>,
    pub(super) looked: Option<(Timestamp, Instant)>,
    pub(super) renewed: Instant,
    pub(super) marked: Instant,
}

impl Runner {
    /// Takes stock: what a predecessor had intended is in doubt, and everything else is as it is stored.
    pub(super) async fn enter(hand: Arc<Hand>) -> Result<Self, StoreError> {
        let lease = hand.lease();
        if !hand.engine.flaw.has(Flaw::ForgetDoubts) {
            let doubtful = hand.replays().doubt(&hand.run(&lease), hand.now()).await?;
            if doubtful > 0 {
                tracing::warn!(replay = %hand.id, doubtful, "a former holder left sends without a record; they are looked for");
            }
        }
        let note = Note::read(hand.replays().marked(hand.id).await?.as_deref());
        let usual = hand.replays().usual_death(hand.id).await?;
        let replay = hand.replays().replay(hand.id).await?;
        let (steady, now) = (hand.steady(), Instant::now());
        Ok(Self {
            tally: Tally::stored(&replay.counts),
            pacer: Pacer::after_another(steady),
            since: steady,
            sending: steady,
            renewed: now,
            marked: now,
            hand,
            replay,
            note,
            usual,
            publisher: None,
            ready: VecDeque::new(),
            sizes: HashMap::new(),
            bytes: 0,
            keys: HashMap::new(),
            ends: Vec::new(),
            first_end: None,
            settling: false,
            generation: 0,
            by_generation: [0; 2],
            next_mark: None,
            under_way: FuturesUnordered::new(),
            busy: [false; Kind::COUNT],
            publishing: 0,
            unwritten: Arc::default(),
            writes: 0,
            exact: None,
            blocked: false,
            returns: Vec::new(),
            returned: HashSet::new(),
            earlier: HashSet::new(),
            returned_lately: VecDeque::new(),
            failed_seen: 0,
            failed_asked: 0,
            sent_lately: VecDeque::new(),
            backlog: None,
            normal: Traffic::default(),
            canary_ripe: None,
            held: 0,
            dry: false,
            gone: None,
            pause: None,
            proven: false,
            refused: None,
            unready: None,
            store_back: None,
            to_judge: false,
            leaving: false,
            rung: false,
            stale: false,
            refreshed: None,
            looked: None,
        })
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> Result<Ended, StoreError> {
        let mut bell = self.hand.engine.desk.listen();
        loop {
            if self.hand.is_expired() {
                return Err(StoreError::LeaseLost(self.hand.lease().name));
            }
            let orders = self.orders();
            if orders.let_go && self.is_put_away() {
                return Ok(if self.leaving { Ended::Elsewhere } else { Ended::Done });
            }
            self.begin(&orders);
            let wake = self.wake(&orders);
            tokio::select! {
                biased;
                () = stop.cancelled(), if !self.leaving => self.leaving = true,
                rings = bell.changed(), if !self.rung => self.hear(rings),
                Some(did) = self.under_way.next() => self.took(did)?,
                () = self.unwritten.changed() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    fn hear(&mut self, rings: Result<(), watch::error::RecvError>) {
        self.rung = rings.is_ok();
        self.refreshed = None;
        // What is being read may be older than what the ring was about.
        self.stale = self.is_busy(Kind::Refresh);
    }

    /// Nothing is in hand, nothing waits to be written.
    fn is_put_away(&self) -> bool {
        self.tally.in_hand == 0
            && self.ends.is_empty()
            && !self.to_judge
            && self.publishing == 0
            && !self.is_busy(Kind::Intend)
            && !self.is_busy(Kind::Clear)
            && !self.is_busy(Kind::Mark)
    }

    fn orders(&mut self) -> Orders {
        let ruling = self.ruling();
        let unseen = self.has_unseen();
        let rate_now = self.hand.steady();
        let view = View {
            now: rate_now,
            state: self.replay.state,
            settings: &self.replay.settings,
            tally: self.tally,
            sent_before: self.note.judged.sent,
            ruling: &ruling,
            doubts: self.doubts(),
            canary_ripe: self.canary_ripe.filter(|ripe| *ripe <= self.hand.now()).map(|_| rate_now),
            since: self.since,
            normal: self.normal.rate,
            dry: self.dry,
            unseen,
            proven: self.proven,
            lost_confirm: self.lost_confirm(),
            unwritten: self.unwritten.count() + self.unrecorded(),
        };
        let mut orders = view.orders();
        if unseen {
            // Nothing more goes out before the guards have seen them.
            self.looked = None;
            orders = Orders { rate: orders.rate, ..Orders::default() };
        }
        if self.leaving {
            orders = Orders { recall: true, let_go: true, ..Orders::default() };
        }
        let (waits, stalled) = match ruling {
            Ruling::Wait(why) => (Some(why), Some(self.hand.now())),
            Ruling::Slow(_, why) => (Some(why), None),
            Ruling::Go | Ruling::Pause(..) | Ruling::Stop(..) => (None, None),
        };
        let source = stalled.and_then(|_| self.replay.source.clone());
        let standing = Standing { runs: true, waits, stalled, source, rate: orders.rate, usual: self.usual };
        self.hand.engine.desk.stands(self.hand.id, standing);
        orders
    }

    /// Whether the counts tell of letters that came back since the guards last looked. The next look finds them.
    fn has_unseen(&self) -> bool {
        self.replay.state.is_active() && outcomes(&self.replay.counts).1 > self.failed_seen
    }

    fn ruling(&mut self) -> Ruling {
        if !self.replay.state.is_active() || self.hand.engine.flaw.has(Flaw::IgnoreGuards) {
            return Ruling::Go;
        }
        let now = self.hand.now();
        let steady = self.hand.steady();
        while self.sent_lately.front().is_some_and(|(at, _)| steady.since(*at) > LATELY) {
            self.sent_lately.pop_front();
        }
        while self.returned_lately.front().is_some_and(|at| now.since(*at) > LATELY) {
            self.returned_lately.pop_front();
        }
        let halted = self.halted(now);
        let (good, failed) = outcomes(&self.replay.counts);
        let judged = &self.note.judged;
        let sight = Sight {
            canary: (self.replay.state == ReplayState::Canary)
                .then(|| self.tally.sent.saturating_sub(judged.sent)),
            returns: &self.returns,
            sent_lately: self.sent_lately(steady),
            returned_lately: self.returned_lately.len() as u64,
            good: good.saturating_sub(judged.good),
            failed: failed.saturating_sub(judged.failed + self.earlier.len() as u64),
            backlog: self.backlog,
            halted: halted.as_deref(),
            gone: self.gone.as_ref().map(|(why, ..)| why.as_str()),
            refused: self.refused.as_ref().map(|(count, why)| (*count, why.as_str())),
            unready: self.unready.as_deref(),
            more: self.tally.has_more(),
        };
        self.replay.settings.guards.judge(&sight)
    }

    /// Sends of the last moments, once there were such all the time: after a break, or in other hands before, what comes
    /// back is of sends that are not counted here.
    fn sent_lately(&self, steady: Timestamp) -> u64 {
        let fresh = self.sent_lately.back().is_some_and(|(at, _)| steady.since(*at) <= BREAK);
        if !fresh || steady.since(self.sending) < LATELY {
            return 0;
        }
        self.sent_lately.iter().map(|(_, count)| count).sum()
    }

    /// Called back, and not recorded as unsent yet.
    fn unrecorded(&self) -> u64 {
        self.ends.iter().filter(|end| end.end == SendEnd::Unsent).count() as u64
    }

    /// What the consumer of the queues that are sent to says, if it is paused.
    fn halted(&self, now: Timestamp) -> Option<String> {
        let target = std::iter::once(self.hand.queue(&self.replay.settings.target));
        let queues = target.chain(self.note.queues.keys().map(String::as_str));
        self.hand.engine.desk.halted(queues, self.group().as_deref(), now)
    }

    /// What can be known of lost confirmations, of whichever queue of this replay.
    pub(super) fn lost_confirm(&self) -> LostConfirm {
        self.hand.lost_confirm(self.note.queues.keys())
    }

    /// Doubts that something can be done about.
    fn doubts(&self) -> Doubts {
        if self.tally.in_doubt <= self.held {
            return Doubts::None;
        }
        match self.lost_confirm() {
            LostConfirm::ReadBack => Doubts::ReadBack,
            LostConfirm::SendAgain | LostConfirm::SendAgainInWindow => Doubts::SendAgain,
            LostConfirm::Unknown => match self.replay.settings.doubts {
                DoubtPolicy::SendAgain => Doubts::SendAgain,
                DoubtPolicy::Hold if self.hand.engine.flaw.has(Flaw::IgnorePolicy) => Doubts::SendAgain,
                DoubtPolicy::Hold => Doubts::None,
            },
        }
    }

    pub(super) fn is_busy(&self, kind: Kind) -> bool {
        self.busy[kind as usize]
    }

    /// When time alone will change something.
    fn wake(&self, orders: &Orders) -> Instant {
        let now = Instant::now();
        let every = now + EVERY;
        // What is under way wakes it by itself.
        let mut wake = if self.is_busy(Kind::Renew) { every } else { self.renewed + TTL / 3 };
        if !self.is_busy(Kind::Refresh) {
            wake = wake.min(self.refreshed.map_or(now, |at| at + EVERY));
        }
        if !self.is_busy(Kind::Look) {
            wake = wake.min(self.looked.map_or(now, |(_, at)| at + EVERY));
        }
        if let Some((_, until)) = self.gone.as_ref().filter(|_| !self.is_busy(Kind::Fence)) {
            wake = wake.min(*until);
        }
        if orders.publish && self.can_publish() && !self.blocked {
            let next = self.pacer.next(self.calls());
            wake = wake.min(next.map_or(every, |next| self.hand.instant(next)));
        }
        if let Some(first) = self.first_end.filter(|_| !self.is_busy(Kind::Record)) {
            wake = wake.min(first + RECORD_WAIT);
        }
        if let Some(until) = self.store_back {
            wake = wake.max(until);
        }
        // Time alone wakes it no more than a thousand times a second.
        wake.max(now + Duration::from_millis(1))
    }
}

//! What happens in a run, drawn from its seed before it begins.

use std::num::NonZeroU32;
use std::time::Duration;

use dlo_core::brake::{BrakeConfig, BrakeMode};
use dlo_core::policy::{Backoff, RetryPolicy};
use dlo_runtime::{Behind, OrderBy, Policy};
use dlo_testkit::sim::{Shape, Trouble, Window};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// One run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) wide: bool,
    pub(super) mood: Mood,
    pub(super) shape: Shape,
    pub(super) partitions: i32,
    /// Instances that run at once.
    pub(super) places: usize,
    pub(super) concurrency: usize,
    pub(super) prefetch: usize,
    pub(super) order: OrderBy,
    pub(super) behind: Behind,
    /// Journal and spool are kept.
    pub(super) keeps_state: bool,
    pub(super) policy: Policy,
    pub(super) drain: Duration,
    pub(super) trouble: Trouble,
    /// An instance crashes within this many steps.
    pub(super) crashes_within: Option<u64>,
    /// An instance is replaced within this time.
    pub(super) deployed_within: Option<Duration>,
    pub(super) database_down: Option<Window>,
    /// Everything fails with an error that nobody knows.
    pub(super) broken: Option<Window>,
    pub(super) messages: Vec<Script>,
}

/// What kind of day it is. On quiet ones the model is strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// One instance; only handlers fail.
    Calm,
    Deployments,
    Crashes,
    BrokerTrouble,
    Everything,
}

/// One message: how often it goes wrong, how, and what becomes of it then.
#[derive(Debug, Clone)]
pub(super) struct Script {
    pub(super) sent: Duration,
    pub(super) key: Option<String>,
    /// How long the handler works on it.
    pub(super) work: Duration,
    pub(super) stumble: Stumble,
    pub(super) times: u32,
    pub(super) then: Then,
    /// Its handler fails for good when the process is told to stop: that must cost nothing.
    pub(super) sulks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stumble {
    /// A failure that may pass.
    Busy,
    /// The handler does not return.
    Hangs,
    /// The process does not survive it.
    Kills,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Handled,
    /// Handled, if the database is there.
    HandledByDatabase,
    Invalid,
    Useless,
    Panics,
}

impl Plan {
    /// No process ends before the run does, so none forgets anything.
    pub(super) fn is_quiet(&self) -> bool {
        self.crashes_within.is_none() && self.deployed_within.is_none()
    }

    /// `wide`: with journal, spool and pills, and with order on days that are not calm.
    pub(super) fn draw(seed: u64, wide: bool) -> Self {
        let random = &mut StdRng::seed_from_u64(seed);
        let mood = one_of(
            random,
            &[Mood::Calm, Mood::Deployments, Mood::Crashes, Mood::BrokerTrouble, Mood::Everything],
        );
        let all = mood == Mood::Everything;
        let crashes = mood == Mood::Crashes || all;
        let outstanding = random.random_range(4..40);
        let shape = one_of(
            random,
            &[
                Shape::Kafka,
                Shape::Sqs,
                Shape::SqsFifo,
                Shape::RabbitClassic,
                Shape::RabbitQuorum,
                Shape::Redis,
                Shape::JetStream { outstanding },
            ],
        );
        let places = if mood == Mood::Calm { 1 } else { random.random_range(1..4) };
        let calm = mood == Mood::Calm;
        let ordered = (shape == Shape::Redis && calm)
            || (shape.keeps_order() && wide)
            || (shape == Shape::Kafka && calm);
        let order = one_of(random, &[OrderBy::None, OrderBy::Key, OrderBy::Partition]);
        let keeps_state = random.random_bool(0.5) && wide;
        let concurrency = random.random_range(1..9);
        let span = Duration::from_secs(random.random_range(5..60));
        let count = random.random_range(1..30);
        let keys = random.random_range(1..6);
        Self {
            seed,
            wide,
            mood,
            shape,
            partitions: random.random_range(1..5),
            places,
            concurrency,
            prefetch: concurrency + random.random_range(0..8),
            order: if ordered { order } else { OrderBy::None },
            behind: one_of(random, &[Behind::Wait, Behind::Park]),
            keeps_state,
            policy: policy(random, wide),
            drain: millis(random, 3_000),
            trouble: trouble(random, span, mood == Mood::BrokerTrouble || all),
            crashes_within: crashes.then(|| random.random_range(20..600)),
            deployed_within: (mood == Mood::Deployments || all).then(|| millis(random, 20_000)),
            database_down: random.random_bool(0.3).then(|| window(random, span)),
            broken: random.random_bool(0.2).then(|| window(random, span)),
            messages: (0..count).map(|_| script(random, span / 2, keys, crashes, keeps_state)).collect(),
        }
    }
}

fn one_of<T: Copy>(random: &mut StdRng, choices: &[T]) -> T {
    choices[random.random_range(0..choices.len())]
}

fn millis(random: &mut StdRng, below: u64) -> Duration {
    Duration::from_millis(random.random_range(0..below))
}

fn window(random: &mut StdRng, span: Duration) -> Window {
    let from = span.mul_f64(random.random_range(0.0..0.8));
    Window { from, to: from + span.mul_f64(random.random_range(0.05..0.5)) }
}

fn policy(random: &mut StdRng, wide: bool) -> Policy {
    let attempts = random.random_range(1..6);
    let retry = RetryPolicy {
        attempts: NonZeroU32::new(attempts).unwrap(),
        backoff: one_of(random, &[Backoff::Fixed, Backoff::FullJitter, Backoff::Decorrelated]),
        base: Duration::from_millis(random.random_range(50..3_000)),
        cap: Duration::from_secs(10),
        quick: random.random_range(0..attempts),
        ..RetryPolicy::default()
    };
    // A brake that pauses stays on as long as all that is left fails alike: somebody has to release it.
    let last = if wide { BrakeMode::Pause } else { BrakeMode::Off };
    let mode = one_of(random, &[BrakeMode::Off, BrakeMode::Warn, last]);
    let brake = BrakeConfig { mode, least: random.random_range(2..20), ..BrakeConfig::default() };
    let timeout = Duration::from_millis(random.random_range(1_000..5_000));
    Policy { retry, timeout, brake, ..Policy::default() }
}

fn trouble(random: &mut StdRng, until: Duration, wild: bool) -> Trouble {
    let latency = millis(random, 60);
    if !wild {
        return Trouble { until, latency, ..Trouble::default() };
    }
    let share =
        |random: &mut StdRng| if random.random_bool(0.5) { random.random_range(0.0..0.3) } else { 0.0 };
    let windows = |random: &mut StdRng| -> Vec<Window> {
        let count = random.random_range(0..3);
        (0..count).map(|_| window(random, until)).collect()
    };
    Trouble {
        until,
        latency,
        receive_fails: share(random),
        settle_fails: share(random),
        publish_in_doubt: share(random),
        publish_refused: share(random),
        outages: windows(random),
        dlq_outages: windows(random),
    }
}

fn script(random: &mut StdRng, span: Duration, keys: u32, crashes: bool, keeps_state: bool) -> Script {
    let stumble = match random.random_range(0..8) {
        0 => Stumble::Hangs,
        1 if crashes => Stumble::Kills,
        _ => Stumble::Busy,
    };
    let most = if stumble == Stumble::Kills { 3 } else { 8 };
    let mut times = if random.random_bool(0.6) { 0 } else { random.random_range(1..most) };
    if stumble == Stumble::Kills && keeps_state && random.random_bool(0.5) {
        times = u32::MAX; // a pill
    }
    let then = match random.random_range(0..12) {
        0 | 1 => Then::Invalid,
        2 => Then::Useless,
        3 => Then::Panics,
        4 | 5 => Then::HandledByDatabase,
        _ => Then::Handled,
    };
    Script {
        sent: span.mul_f64(random.random_range(0.0..1.0)),
        key: random.random_bool(0.9).then(|| format!("key-{}", random.random_range(0..keys))),
        work: if random.random_bool(0.3) { Duration::ZERO } else { millis(random, 900) },
        stumble,
        times,
        then,
        sulks: random.random_bool(0.3),
    }
}

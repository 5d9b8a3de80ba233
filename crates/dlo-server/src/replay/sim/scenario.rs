//! What a seed says: which replay, on which broker, and everything that goes wrong.

use std::time::Duration;

use dlo_core::broker::LostConfirm;
use dlo_core::replay::{DoubtPolicy, Guards, Pace, Settings};
use dlo_core::units::HumanDuration;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What becomes of a letter when the consumer has it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Handled,
    /// It dies with the class that it had.
    SameAgain,
    /// It dies of something else.
    Otherwise,
    /// The broker does not take it.
    Refused,
}

/// What a person does, at some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    Pause,
    Resume,
    Cancel,
    Speed(f64),
    /// Somebody else takes an open letter of the plan.
    Take(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) lost_confirm: LostConfirm,
    pub(super) window: Duration,
    pub(super) settings: Settings,
    pub(super) fates: Vec<Fate>,
    pub(super) keys: usize,
    pub(super) partitions: i32,
    pub(super) receipts: bool,
    /// One leg of a call takes up to this long.
    pub(super) latency: Duration,
    /// Shares of calls, 0 to 1.
    pub(super) confirm_lost: f64,
    pub(super) store_fails: f64,
    /// After this nothing goes wrong any more, and persons do what they should.
    pub(super) calm: Duration,
    pub(super) outages: Vec<(Duration, Duration)>,
    /// Servers at once.
    pub(super) servers: usize,
    /// Steps after which a server crashes or freezes, at most; none: it does not.
    pub(super) life: Option<u64>,
    pub(super) freezes: bool,
    /// How long a server is away, at most.
    pub(super) away: Duration,
    pub(super) acts: Vec<(Duration, Act)>,
    /// Letters that somebody else took between the plan and its start.
    pub(super) taken: Vec<usize>,
    /// Whether a person's acts ring in every server, or have to be seen.
    pub(super) rings: bool,
    /// How long the consumer takes for a message, and a death to be captured, at most.
    pub(super) handling: Duration,
    pub(super) usual: Option<Duration>,
    /// A letter that cannot be read any more once it was in doubt.
    pub(super) damaged: Option<usize>,
    /// Servers can prove of each other that they have ended.
    pub(super) one_machine: bool,
    /// The person who tends it looks rarely.
    pub(super) lazy: bool,
}

impl Scenario {
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let kinds = [
            LostConfirm::SendAgain,
            LostConfirm::SendAgainInWindow,
            LostConfirm::ReadBack,
            LostConfirm::Unknown,
        ];
        let letters = dice.random_range(1..40_usize);
        // Dice of their own: what was added later leaves the other seeds as they were.
        let mut added = StdRng::seed_from_u64(seed ^ 0xd0b7);
        // Few letters are soon over; only many show how far intents go ahead of sends.
        let letters = if added.random_bool(0.05) { added.random_range(100..300) } else { letters };
        let rough = dice.random_bool(0.7);
        let bad = if dice.random_bool(0.3) { dice.random_range(0.0..0.5) } else { 0.0 };
        let fates = (0..letters).map(|_| fate(&mut dice, bad)).collect();
        let calm = Duration::from_secs(dice.random_range(5..60));
        let acts = acts(&mut dice, calm, letters);
        Self {
            lost_confirm: kinds[dice.random_range(0..kinds.len())],
            window: Duration::from_secs(30),
            settings: settings(&mut dice),
            fates,
            keys: dice.random_range(1..12),
            partitions: dice.random_range(1..4),
            receipts: dice.random_bool(0.5),
            latency: Duration::from_millis([0, 2, 20][dice.random_range(0..3_usize)]),
            confirm_lost: if rough { dice.random_range(0.0..0.2) } else { 0.0 },
            store_fails: if rough && dice.random_bool(0.3) { 0.03 } else { 0.0 },
            calm,
            outages: outages(&mut dice, calm),
            servers: dice.random_range(1..3),
            life: dice.random_bool(0.7).then(|| dice.random_range(20..400)),
            freezes: dice.random_bool(0.5),
            away: Duration::from_secs([1, 5, 50][dice.random_range(0..3_usize)]),
            acts,
            taken: if dice.random_bool(0.2) { vec![dice.random_range(0..letters)] } else { Vec::new() },
            rings: dice.random_bool(0.5),
            handling: Duration::from_millis(dice.random_range(1..800)),
            usual: dice.random_bool(0.5).then(|| Duration::from_millis(dice.random_range(100..8_000))),
            one_machine: added.random_bool(0.5),
            lazy: dice.random_bool(0.2),
            damaged: dice.random_bool(0.2).then(|| dice.random_range(0..letters)),
        }
    }
}

fn fate(dice: &mut StdRng, bad: f64) -> Fate {
    if dice.random_bool(0.02) {
        return Fate::Refused;
    }
    if !dice.random_bool(bad) {
        return Fate::Handled;
    }
    if dice.random_bool(0.3) { Fate::SameAgain } else { Fate::Otherwise }
}

fn settings(dice: &mut StdRng) -> Settings {
    let pace = match dice.random_range(0..4_u32) {
        0 => Pace::Max,
        1 => Pace::Share(0.5),
        _ => Pace::Rate(dice.random_range(2.0..200.0_f64).round()),
    };
    let guards = if dice.random_bool(0.8) {
        Guards::default()
    } else {
        Guards { recurrence: None, refill: false, failures: None, ..Guards::default() }
    };
    Settings {
        pace,
        canary: [0, 2, 5][dice.random_range(0..3_usize)],
        window: HumanDuration(Duration::from_secs(dice.random_range(3..8))),
        ramp: dice.random_range(1..3),
        guards,
        doubts: if dice.random_bool(0.5) { DoubtPolicy::Hold } else { DoubtPolicy::SendAgain },
        order: dice.random_bool(0.2),
        ..Settings::default()
    }
}

fn outages(dice: &mut StdRng, calm: Duration) -> Vec<(Duration, Duration)> {
    let count = if dice.random_bool(0.3) { dice.random_range(1..3) } else { 0 };
    let calm = calm.as_millis() as u64;
    let mut one = || {
        let from = dice.random_range(0..calm);
        (Duration::from_millis(from), Duration::from_millis(from + dice.random_range(100..8_000)))
    };
    (0..count).map(|_| one()).collect()
}

fn acts(dice: &mut StdRng, calm: Duration, letters: usize) -> Vec<(Duration, Act)> {
    let count = if dice.random_bool(0.5) { dice.random_range(0..5) } else { 0 };
    let calm = calm.as_millis() as u64;
    let mut acts: Vec<(Duration, Act)> = (0..count)
        .map(|_| {
            let act = match dice.random_range(0..10_u32) {
                0..3 => Act::Pause,
                3..6 => Act::Resume,
                6 => Act::Cancel,
                7 => Act::Speed(dice.random_range(2.0..200.0_f64).round()),
                _ => Act::Take(dice.random_range(0..letters)),
            };
            (Duration::from_millis(dice.random_range(0..calm)), act)
        })
        .collect();
    acts.sort_by_key(|(at, _)| *at);
    acts
}

//! The whole engine on a clock that a seed moves: the driver as it is, a record and a broker in memory, and trouble.
//!
//! Confirmations are lost, servers crash between any two calls or freeze and come back after another took over, the broker
//! and the store are away, letters die again, persons pause, resume and cancel. Whatever happens, no letter is lost, none
//! is sent twice where the broker can tell, and everything else that [`judge`] asks holds. And the other way round: each
//! mistake that is planted in driver or store is found.
//!
//! `DLO_SIM_SEEDS=10000` asks for more; `DLO_SIM_SEED=7` runs one and prints what happened.

mod broker;
mod judge;
mod life;
mod people;
mod record;
mod scenario;
mod store;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dlo_core::replay::ItemState;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::ReplayTarget;
use super::desk::ReplayDesk;
use super::engine::Engine;
use super::flaw::{Flaw, Planted};
use broker::Ends;
use life::Life;
use scenario::Scenario;
use store::Book;
use world::{Shared, StoreFlaw};

/// Past this a replay that is not over hangs.
const LONG: Duration = Duration::from_secs(3_600);
/// Seeds within which each planted mistake must be found.
const FOUND_WITHIN: u64 = 3_000;

#[derive(Debug, Clone, Copy, Default)]
struct Mistakes {
    driver: Option<Flaw>,
    store: Option<StoreFlaw>,
}

/// Runs one seed; what was wrong, and the story if it was asked for.
fn run(seed: u64, mistakes: Mistakes, log: bool) -> (BTreeSet<String>, Vec<String>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let shared = Shared::new(seed, Scenario::from_seed(seed), mistakes.store, log);
        let servers = shared.world().scenario.servers;
        let mut tasks = tokio::task::JoinSet::new();
        for place in 0..servers {
            tasks.spawn(serve(shared.clone(), place as u32, seed, mistakes.driver));
        }
        tasks.spawn(people::consume(shared.clone()));
        tasks.spawn(people::people(shared.clone()));
        let ended = tokio::time::timeout(LONG, at_rest(shared.clone())).await;
        tasks.abort_all();
        let mut world = shared.world();
        match ended {
            Ok(()) => world.check_all(),
            Err(_) => {
                let (state, counts) = (world.replay.state, world.counts());
                world.fault(format!("the replay hangs: {state}, {counts:?}"));
            }
        }
        (std::mem::take(&mut world.wrong), world.log.take().unwrap_or_default())
    })
}

/// The replay is over, and nothing of it is open.
async fn at_rest(shared: Shared) {
    loop {
        sleep(Duration::from_secs(1)).await;
        let mut world = shared.world();
        world.check_halted();
        let open = [ItemState::Sent, ItemState::Claimed, ItemState::Intended];
        let counts = world.counts();
        if world.replay.state.is_over() && open.iter().all(|state| counts.get(*state) == 0) {
            return;
        }
    }
}

/// One place for a server: it lives, dies or freezes, and is started again.
async fn serve(shared: Shared, place: u32, seed: u64, flaw: Option<Flaw>) {
    let mut dice = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(u64::from(place)));
    for round in 0.. {
        let (steps, freezes, away, calm) = {
            let world = shared.world();
            (world.scenario.life, world.scenario.freezes, world.scenario.away, world.calm())
        };
        let steps = steps.filter(|_| !calm).map(|most| dice.random_range(0..most));
        let freeze =
            (freezes && dice.random_bool(0.7)).then(|| Duration::from_millis(dice.random_range(100..25_000)));
        let late = Duration::from_millis(dice.random_range(100..25_000));
        let trap = steps.and_then(|_| dice.random_bool(0.3).then(|| (dice.random_range(0..8), late)));
        let life = Arc::new(Life::new(place * 100 + round, steps, freeze, trap));
        live(&shared, &life, flaw).await;
        {
            let mut world = shared.world();
            world.note(|| format!("p{} is gone", life.id));
            world.ended.insert(format!("p{}", life.id));
        }
        sleep(Duration::from_millis(dice.random_range(10..=away.as_millis() as u64))).await;
    }
}

async fn live(shared: &Shared, life: &Arc<Life>, flaw: Option<Flaw>) {
    let book = Arc::new(Book { shared: shared.clone(), life: Arc::clone(life) });
    let desk = Arc::new(ReplayDesk::default());
    let target = ReplayTarget {
        source: "orders".to_owned(),
        broker: Arc::new(Ends::new(shared.clone(), Arc::clone(life))),
        queue: "orders".to_owned(),
        dlq: "orders.dlq".to_owned(),
        mapper: Default::default(),
        group: Some("shop".to_owned()),
    };
    shared.world().desks.push(Arc::clone(&desk));
    let began = shared.world().began;
    let engine = Engine {
        replays: Arc::<Book>::clone(&book),
        leases: book,
        clock: Arc::new(since(began)),
        holder: format!("p{}", life.id),
        desk,
        repairs: Arc::default(),
        targets: BTreeMap::from([("orders".to_owned(), Arc::new(target))]),
        leaves: std::sync::Mutex::default(),
        flaw: Planted { flaw },
    };
    tokio::select! {
        biased;
        () = life.over.cancelled() => {}
        () = Arc::new(engine).run(CancellationToken::new()) => {}
    }
}

/// All servers have the same clock.
fn since(began: Instant) -> impl dlo_core::time::Clock + 'static {
    debug_assert!(began <= Instant::now());
    Wall(began)
}

#[derive(Debug)]
struct Wall(Instant);

impl dlo_core::time::Clock for Wall {
    fn now(&self) -> dlo_core::time::Timestamp {
        dlo_testkit::clock::START.plus(self.0.elapsed())
    }
}

fn seeds(usual: u64) -> u64 {
    std::env::var("DLO_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn whatever_happens_no_letter_is_lost_and_none_is_sent_twice_silently() {
    if let Some(seed) = std::env::var("DLO_SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        let (wrong, story) = run(seed, Mistakes::default(), true);
        let scenario = Scenario::from_seed(seed);
        panic!("seed {seed}: {scenario:#?}\n{}\n{wrong:#?}", story.join("\n"));
    }
    let count = seeds(2_000);
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..count).step_by(threads as usize) {
                    let (wrong, _) = run(seed, Mistakes::default(), false);
                    assert!(wrong.is_empty(), "DLO_SIM_SEED={seed} shows it: {wrong:#?}");
                }
            });
        }
    });
}

/// The first seed that finds a mistake.
fn found(mistakes: Mistakes) -> Option<u64> {
    (0..FOUND_WITHIN).find(|seed| {
        let is_fine = |mistakes| run(*seed, mistakes, false).0.is_empty();
        // What is wrong without it as well says nothing about it.
        !is_fine(mistakes) && is_fine(Mistakes::default())
    })
}

/// Each on a thread of its own.
fn all_are_found(mistakes: impl IntoIterator<Item = Mistakes>) {
    std::thread::scope(|scope| {
        for mistake in mistakes {
            scope.spawn(move || {
                assert!(found(mistake).is_some(), "{mistake:?} was not found within {FOUND_WITHIN} seeds");
            });
        }
    });
}

#[test]
fn every_mistake_that_is_planted_in_the_driver_is_found() {
    all_are_found(Flaw::ALL.map(|flaw| Mistakes { driver: Some(flaw), store: None }));
}

#[test]
fn every_mistake_that_is_planted_in_the_store_is_found() {
    all_are_found(StoreFlaw::ALL.map(|flaw| Mistakes { driver: None, store: Some(flaw) }));
}

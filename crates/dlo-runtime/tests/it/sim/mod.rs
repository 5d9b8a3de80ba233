//! Simulation: the whole runtime on a scripted broker, under a clock that only the run moves, seed by seed.
//!
//! A seed is a plan (`plan.rs`): the broker's shape, the messages and what their handler does with them, what goes wrong
//! and when. A run (`run.rs`) follows it and leaves a log of facts; the model (`model.rs`) reads the log and says what
//! must not have happened. A seed that fails is printed with the facts that matter:
//!
//! ```text
//! DLO_SIM_SEED=123 cargo test -p dlo-runtime --test it sim::wide    exactly that one, with its whole log
//! DLO_SIM_SEEDS=100000 cargo test -p dlo-runtime --test it sim      more than by default
//! ```
//!
//! The narrow form has the loop alone; the wide one has journal, spool and pills as well, a brake that pauses, and order
//! in all weathers.

mod handler;
mod model;
mod plan;
mod run;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use plan::Plan;
use run::run;

/// Seeds of a run of the tests, for each form: some seconds on two slow cores.
const SEEDS: u64 = 1_000;
/// Facts shown of a seed that fails.
const SHOWN: usize = 120;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs one seed and judges it. The text says what is wrong and what led to it.
fn judge(seed: u64, wide: bool, shown: usize) -> Result<(), String> {
    let plan = Plan::draw(seed, wide);
    let facts = run(&plan);
    let Err(fault) = facts.ended.and_then(|()| model::check(&plan, &facts.log)) else { return Ok(()) };
    let of_it = facts.log.iter().filter(|noted| match (noted.fact.message(), fault.message) {
        (Some(of), Some(message)) => of == message,
        (None, _) | (_, None) => true,
    });
    let lines: Vec<String> = of_it.map(ToString::to_string).collect();
    let story = lines[lines.len().saturating_sub(shown)..].join("\n");
    Err(format!(
        "seed {seed}: {}\n{plan:#?}\n{story}\n\nagain: DLO_SIM_SEED={seed}\n{}",
        fault.what, fault.what
    ))
}

#[test]
fn narrow_whatever_goes_wrong_nothing_is_lost_and_nobody_is_charged_for_it() {
    judge_all(false);
}

#[test]
fn wide_whatever_goes_wrong_nothing_is_lost_and_nobody_is_charged_for_it() {
    judge_all(true);
}

fn judge_all(wide: bool) {
    if let Some(seed) = asked("DLO_SIM_SEED") {
        judge(seed, wide, usize::MAX).unwrap_or_else(|story| panic!("{story}"));
        return;
    }
    let seeds = asked("DLO_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let work = || -> Result<(), String> {
        // A log line per event would cost more than the event.
        let silent = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        let _guard = tracing::dispatcher::set_default(&silent);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok(());
            }
            judge(seed, wide, SHOWN)?;
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    if let Some(story) = results.into_iter().find_map(Result::err) {
        panic!("{story}");
    }
}

//! Decides what runs beside what: a tier that waits for servers does not hold up one that computes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::time::Instant;

use crate::args::Request;
use crate::build::{self, Built};
use crate::needs::Installing;
use crate::report::{self, Row, Summary};
use crate::run::{self, Report, Run};
use crate::scratch;
use crate::servers::Servers;
use crate::tiers::{Load, Tier, Work};

/// Tiers at once, and how many of them may be of the kind that computes. Measured on two cores.
const MOST_AT_ONCE: usize = 4;
const MOST_COMPUTING: usize = 1;

/// Runs everything that was asked for.
pub(crate) fn run(request: &Request, installing: Installing) -> Result<Summary, String> {
    let start = Instant::now();
    let mut summary = Summary::default();
    let temporary = scratch::TemporaryFiles::now();
    let (before, tiers): (Vec<&'static Tier>, Vec<&'static Tier>) =
        request.tiers.iter().partition(|tier| tier.packages().is_empty() && tier.name == "format");
    let retries = AtomicUsize::new(0);
    let nothing = Built::default();
    let mut context =
        Run { request, binaries: Vec::new(), built: &nothing, servers: Vec::new(), retries: &retries };
    for tier in before {
        summary.add(tier, run::tier(&context, tier));
    }
    let mut built = Built { succeeded: true, ..Built::default() };
    if tiers.iter().any(|tier| !tier.packages().is_empty()) {
        println!("test: build");
        let began = Instant::now();
        built = build::build(&tiers, |binary| context.binaries.push(binary))?;
        summary.rows.push(Row::build(&built, began.elapsed().as_secs()));
    }
    installing.finish()?;
    if built.succeeded {
        context.built = &built;
        let servers = Servers::start(&context.binaries, &tiers)?;
        context.servers = servers.variables().to_vec();
        beside_each_other(&context, tiers, &mut summary);
        servers.stop();
    }
    summary.left = scratch::left_processes();
    summary.left.extend(temporary.added());
    summary.seconds = start.elapsed().as_secs();
    Ok(summary)
}

/// Runs tiers on threads of their own until none is left.
fn beside_each_other(context: &Run<'_>, tiers: Vec<&'static Tier>, summary: &mut Summary) {
    let mut waiting = in_order(tiers);
    let mut running: Vec<&'static Tier> = Vec::new();
    let (send, done) = mpsc::channel::<(&'static Tier, Report)>();
    std::thread::scope(|threads| {
        while !waiting.is_empty() || !running.is_empty() {
            while let Some(position) = waiting.iter().position(|tier| may_start(tier, &running)) {
                let tier = waiting.remove(position);
                running.push(tier);
                let send = send.clone();
                threads.spawn(move || send.send((tier, run::tier(context, tier))));
            }
            let Ok((tier, report)) = done.recv() else { return };
            running.retain(|other| other.name != tier.name);
            summary.add(tier, report);
        }
    });
}

/// The longest first, so that none is left over at the end; those that measure last, when nothing else runs.
fn in_order(mut tiers: Vec<&'static Tier>) -> Vec<&'static Tier> {
    let times: BTreeMap<String, u64> = report::last_times();
    let seconds = |tier: &Tier| times.get(tier.name).copied().unwrap_or(tier.budget);
    tiers.sort_by_key(|tier| (tier.load == Load::Measures, std::cmp::Reverse(seconds(tier))));
    tiers
}

fn may_start(tier: &Tier, running: &[&Tier]) -> bool {
    let computing = running.iter().filter(|other| other.load == Load::Computes).count();
    // Cargo holds the lock of its target folder, so two tiers that call it would wait for each other anyway.
    let calls_cargo = |tier: &Tier| tier.work.iter().any(|work| !matches!(work, Work::Tests(_) | Work::Page));
    if running.iter().any(|other| other.load == Load::Measures) || running.len() >= MOST_AT_ONCE {
        return false;
    }
    match tier.load {
        Load::Measures => running.is_empty(),
        Load::Computes => {
            computing < MOST_COMPUTING
                && !(calls_cargo(tier) && running.iter().any(|other| calls_cargo(other)))
        }
        Load::Waits => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(name: &str) -> &'static Tier {
        crate::tiers::ALL.iter().find(|tier| tier.name == name).unwrap()
    }

    #[test]
    fn tiers_that_wait_run_beside_one_that_computes() {
        let running = [tier("store"), tier("kafka")];
        assert!(may_start(tier("sqs"), &running));
        assert!(!may_start(tier("core"), &running));
    }

    #[test]
    fn a_tier_that_measures_runs_alone_and_last() {
        assert!(!may_start(tier("measured"), &[tier("kafka")]));
        assert!(!may_start(tier("kafka"), &[tier("measured")]));
        assert!(may_start(tier("measured"), &[]));
        assert_eq!(in_order(vec![tier("measured"), tier("tidy"), tier("kafka")])[2].name, "measured");
    }

    #[test]
    fn no_more_run_at_once_than_the_machine_can_serve() {
        let running = [tier("kafka"), tier("sqs"), tier("nats"), tier("redis")];
        assert!(!may_start(tier("sql"), &running));
    }
}

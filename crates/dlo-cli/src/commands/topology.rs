//! `dlo topology`: what should be there for each source, what is, and the way from one to the other (D11).

use std::path::Path;

use dlo_core::broker::{BrokerError, Gravity, TopologyChange, TopologySpec};
use serde_json::{Value, json};

use super::brokers::{Placed, placed};
use crate::args::{ApplyArgs, SpecArgs};
use crate::block_on::block_on;
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, clean, say};

/// What one source lacks.
struct Plan {
    source: String,
    changes: Vec<TopologyChange>,
}

pub(super) fn plan(args: &SpecArgs, config: Option<&Path>) -> Outcome {
    let config = Config::load(config)?;
    let out = Out::new(args.json);
    let plans = block_on(async {
        let mut plans = Vec::new();
        for one in placed(&config, &args.sources).await? {
            let changes = one.broker.topology().plan(&spec(&one, args)).await;
            plans.push(Plan {
                source: one.source.name.clone(),
                changes: changes.map_err(|e| told(&one, &e))?,
            });
        }
        Ok(plans)
    })?;
    show(out, &plans)?;
    if plans.iter().any(|plan| plan.changes.iter().any(|change| change.appliable)) {
        say("nothing was changed; `dlo topology apply --yes` does what is marked +");
    }
    Ok(())
}

pub(super) fn apply(args: &ApplyArgs, config: Option<&Path>) -> Outcome {
    if !args.yes {
        say("a dry run; add --yes to do it");
        return plan(&args.spec, config);
    }
    let config = Config::load(config)?;
    let out = Out::new(args.spec.json);
    let plans = block_on(async {
        let mut plans = Vec::new();
        for one in placed(&config, &args.spec.sources).await? {
            let done = one.broker.topology().apply(&spec(&one, &args.spec)).await;
            plans.push(Plan { source: one.source.name.clone(), changes: done.map_err(|e| told(&one, &e))? });
        }
        Ok(plans)
    })?;
    show(out, &plans)
}

/// What the config and the flags ask for.
fn spec(one: &Placed<'_>, args: &SpecArgs) -> TopologySpec {
    TopologySpec {
        partitions: args.partitions,
        retention: args.retention,
        replication: args.replication,
        min_in_sync: args.min_in_sync,
        retry_delays: args.retry.clone(),
        group: args.group.clone(),
        ..TopologySpec::new(&one.source.queue, one.dlq, args.attempts)
    }
}

/// A broker's refusal, with the source it stood in the way of.
fn told(one: &Placed<'_>, error: &BrokerError) -> Failure {
    let exit = if error.is_transient() { Exit::Unreachable } else { Exit::Failed };
    Failure::new(exit, format!("source `{}`: {error}", one.source.name))
}

fn show(out: Out, plans: &[Plan]) -> Outcome {
    if out.json {
        let all: Vec<Value> = plans
            .iter()
            .map(|plan| {
                let changes: Vec<Value> = plan.changes.iter().map(as_json).collect();
                json!({ "source": plan.source, "changes": changes })
            })
            .collect();
        return out.value(&json!({ "sources": all }));
    }
    for plan in plans {
        if plan.changes.is_empty() {
            out.line(format!("{} {}: nothing to do", out.paint("✓", Tone::Good), plan.source))?;
            continue;
        }
        out.line(out.paint(&plan.source, Tone::Strong))?;
        for change in &plan.changes {
            let (mark, tone) = mark(change);
            out.line(format!("  {} {}", out.paint(mark, tone), clean(&change.what)))?;
            if let Some(command) = &change.command {
                out.line(format!("      {}", out.paint(&clean(command), Tone::Quiet)))?;
            }
        }
    }
    Ok(())
}

/// `+` is what `apply` does, `!` what only a person can.
const fn mark(change: &TopologyChange) -> (&'static str, Tone) {
    match (change.appliable, change.gravity) {
        (true, _) => ("+", Tone::Good),
        (false, Gravity::Missing) => ("✗", Tone::Bad),
        (false, Gravity::Weak) => ("!", Tone::Warn),
    }
}

fn as_json(change: &TopologyChange) -> Value {
    let gravity = match change.gravity {
        Gravity::Missing => "missing",
        Gravity::Weak => "weak",
    };
    json!({
        "what": change.what, "gravity": gravity, "appliable": change.appliable, "command": change.command,
    })
}

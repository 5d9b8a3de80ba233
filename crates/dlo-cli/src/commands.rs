//! One file per command. A command takes its typed arguments and returns an [`Outcome`]; only `main` ends the process.

mod audit;
mod backup;
mod brokers;
mod capacity;
mod check;
mod consume;
pub(crate) mod demo;
mod deploy;
mod drill;
mod groups;
mod letters;
mod owners;
mod prometheus;
mod repair;
mod replay;
mod rules;
mod serve;
mod shell;
mod status;
mod topology;

use std::time::{SystemTime, UNIX_EPOCH};

use dlo_core::query::Query;
use dlo_core::time::Timestamp;

use crate::args::{Args, CapacityCommand, Command, ExportCommand, RulesCommand, TopologyCommand};
use crate::exit::{Failure, Outcome};

pub(crate) fn run(args: Args) -> Outcome {
    let config = args.config.as_deref();
    match args.command {
        Command::Serve(args) => serve::run(args, config),
        Command::Consume(args) => consume::run(args, config),
        Command::Demo(args) => demo::run(args),
        Command::Status(args) => status::run(&args, config),
        Command::Check(args) => check::run(&args, config),
        Command::Letters(args) => letters::run(args),
        Command::Groups(args) => groups::run(args),
        Command::Owners(args) => owners::run(args),
        Command::Deploy(args) => deploy::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Rules(args) => match args.command {
            RulesCommand::Test(test) => rules::test(&args.client, test, config),
        },
        Command::Topology(args) => match args.command {
            TopologyCommand::Plan(args) => topology::plan(&args, config),
            TopologyCommand::Apply(args) => topology::apply(&args, config),
        },
        Command::Drill(args) => drill::run(&args, config),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Capacity(args) => match args.command {
            CapacityCommand::Estimate(args) => capacity::estimate(&args),
        },
        Command::Export(args) => match args.command {
            ExportCommand::PrometheusRules(args) => prometheus::export(&args, config),
        },
        Command::RepairWorker => Ok(dlo_server::run_worker()?),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { to } => shell::man(to.as_deref()),
    }
}

/// The present moment by this machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// The words of a query as one text, checked before anything is asked, so that a typo is shown at its place.
fn query_text(words: &[String]) -> Outcome<String> {
    let text = words.join(" ");
    match Query::parse(&text, now()) {
        Ok(_) => Ok(text),
        Err(bad) => {
            let shown = bad.pointing(&text).replace('\n', "\n  ");
            Err(Failure::usage(format!("the query is not understood\n\n  {shown}\n")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_in_a_query_is_shown_at_its_place() {
        let failure = query_text(&["status:open".into(), "stauts:open".into()]).unwrap_err();
        assert_eq!(failure.exit, crate::exit::Exit::Usage);
        assert!(failure.words.contains("\n  status:open stauts:open\n              ^"), "{failure}");
    }
}

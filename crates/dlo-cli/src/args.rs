//! Every command and flag of `dlo`, as types. The help that people read is written here and nowhere else.
//!
//! clap refuses what it does not know with the near name and exit code 2; below this door nobody sees a raw argument.

mod brokers;
mod client;
mod groups;
mod local;
mod repair;
mod replay;

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use brokers::{ApplyArgs, DrillArgs, SpecArgs, TopologyArgs, TopologyCommand, Via};
pub(crate) use client::{
    AuditArgs, AuditCommand, BackupArgs, ClientArgs, DecideArgs, ExportArgs, ImportArgs, LettersArgs,
    LettersCommand, ListArgs, PayloadArgs, RestoreArgs,
};
pub(crate) use groups::{
    ChangeGroupArgs, DeployArgs, DeployCommand, GroupListArgs, GroupsArgs, GroupsCommand, MarkArgs, Order,
    OwnersArgs, OwnersCommand,
};
pub(crate) use local::{
    CapacityArgs, CapacityCommand, CheckArgs, ConsumeArgs, DemoArgs, EstimateArgs, ExportCommand, ExportRoot,
    LogArgs, LogFormat, PrometheusArgs, RulesArgs, RulesCommand, RulesTestArgs, ServeArgs, StatusArgs,
};
pub(crate) use repair::{ApplyRepairArgs, ChangeArgs, PreviewArgs, RepairArgs, RepairCommand};

pub(crate) use replay::{Doubts, PaceArgs, PlanArgs, ReplayArgs, ReplayCommand, SettleArgs, StartArgs};

/// Dead Letter Office: where messages that could not be processed are kept safe, understood, fixed and sent on.
#[derive(Debug, Parser)]
#[command(
    name = "dlo",
    version,
    long_version = crate::features::long_version(),
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "\
Start here:
  dlo demo                              a five-minute tour, nothing to install
  dlo serve                             run the office on this machine
  dlo letters list status:open          what is waiting for a decision

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused by a guard, 5 server unreachable, 6 letters of a replay died again, 7 something does not work"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// The config file; without it ./dlo.toml is read if it is there
    #[arg(long, global = true, value_name = "FILE", env = "DLO_CONFIG", help_heading = "Config")]
    pub(crate) config: Option<PathBuf>,
}

impl Args {
    /// The command line of this process. One that is wrong ends it, with clap's own words.
    pub(crate) fn read() -> Self {
        let matches = Self::command().get_matches();
        let mut args = Self::from_arg_matches(&matches).unwrap_or_else(|wrong| wrong.exit());
        let client = match &mut args.command {
            Command::Check(CheckArgs { client }) | Command::Status(StatusArgs { client }) => client,
            _ => return args,
        };
        let source = matches.subcommand().and_then(|(_, given)| given.value_source("server"));
        client.is_named = source != Some(ValueSource::DefaultValue);
        args
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the office
    Serve(ServeArgs),
    /// Run the sidecar: read queues, push each message to its handler over HTTP, decide what becomes of failures
    Consume(ConsumeArgs),
    /// Take the five-minute tour: a small shop, a bad tax rule, and what becomes of its orders
    Demo(DemoArgs),
    /// Say what does not work in a running office: sources, consumers, replays, store, disk
    Status(StatusArgs),
    /// Say what works and what is missing: config, store, port, server, brokers
    Check(CheckArgs),
    /// List, read, decide on, export and import letters
    Letters(LettersArgs),
    /// List causes, and say where you stand with them: letters with the same failure form one group
    Groups(GroupsArgs),
    /// See which team owns what, and try an owners file
    Owners(OwnersArgs),
    /// Mark deployments, so that what begins after one is shown with it
    Deploy(DeployArgs),
    /// Plan, start, watch and steer the sending of letters back to where they came from
    Replay(ReplayArgs),
    /// Change letters before they are replayed: preview as a diff, apply, list
    Repair(RepairArgs),
    /// Read the audit log, and prove that no letter is missing
    Audit(AuditArgs),
    /// Try rules on history before they are used
    Rules(RulesArgs),
    /// Create and check what should be there at the brokers: queues, dead-letter queues, retry queues
    Topology(TopologyArgs),
    /// Send marked poison through a real pipeline and prove that its letter arrives
    Drill(DrillArgs),
    /// Copy the whole office to a file while it runs
    Backup(BackupArgs),
    /// Replace the whole office by a backup
    Restore(RestoreArgs),
    /// Work out the storage and partitions that dead letters need
    Capacity(CapacityArgs),
    /// Write files for other systems
    Export(ExportRoot),
    /// Run repair expressions for an office, over its pipes
    #[command(hide = true)]
    RepairWorker,
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  dlo completions bash > /etc/bash_completion.d/dlo
  dlo completions zsh > \"${fpath[1]}/_dlo\"")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    #[command(after_help = "\
Examples:
  dlo man | man -l -                    read the first page
  dlo man --to /usr/local/share/man/man1    write all pages")]
    Man {
        /// A directory for one page per command; without it the first page goes to stdout
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}

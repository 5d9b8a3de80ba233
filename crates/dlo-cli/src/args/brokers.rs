//! Commands that talk to the brokers of the config: what should be there, and a drill that proves the road.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::client::ClientArgs;
use super::local::duration;

#[derive(Debug, Args)]
pub(crate) struct TopologyArgs {
    #[command(subcommand)]
    pub(crate) command: TopologyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopologyCommand {
    /// Say what is missing or weaker than it should be; changes nothing
    #[command(after_help = "\
Examples:
  dlo topology plan                     every source of the config that has a broker
  dlo topology plan orders --attempts 8 --retention 14d
  dlo topology plan --json")]
    Plan(SpecArgs),
    /// Create what is missing: a dry run until --yes; never deletes
    #[command(after_help = "\
Examples:
  dlo topology apply orders             what would be done
  dlo topology apply orders --yes       do it; a second time finds nothing to do

What `apply` cannot mend without losing something, such as too few partitions, is said with the broker's own command
for it.")]
    Apply(ApplyArgs),
}

/// What should be there, beside what the config says of a source.
#[derive(Debug, Args)]
pub(crate) struct SpecArgs {
    /// Sources by name; without any, all that have a broker
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<String>,

    /// Attempts of the consumers: the broker's own delivery limit must lie above
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) attempts: u32,

    /// Partitions, where the broker has them [default: as the queue]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) partitions: Option<u32>,

    /// How long dead letters wait in the broker, such as 14d [default: the broker's]
    #[arg(long, value_parser = duration)]
    pub(crate) retention: Option<Duration>,

    /// Copies of each message, where the broker replicates [default: as the queue]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=15))]
    pub(crate) replication: Option<u32>,

    /// Copies that must have a message before it is confirmed
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=15))]
    pub(crate) min_in_sync: Option<u32>,

    /// Delays for which retry queues should stand, such as 1s,5s,30s,2m,10m
    #[arg(long, value_name = "DELAYS", value_delimiter = ',', value_parser = duration)]
    pub(crate) retry: Vec<Duration>,

    /// The consumer group whose retries these are, where groups share a queue
    #[arg(long)]
    pub(crate) group: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) spec: SpecArgs,

    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Where the poison goes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    // Into the dead-letter queue, as a consumer would park it: proves capture.
    Dlq,
    // Into the work queue: proves that its consumer parks what it cannot handle, too.
    Queue,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dlo drill orders                      what would be sent, and where
  dlo drill orders --yes                send it, wait for the letter, check it, clean up
  dlo drill orders --via queue --yes    through the real consumer, which must fail on it

The poison carries the header `dlo-drill` and says in its payload what it is. The letter is discarded in the end, with
the drill as its reason. Ends with exit code 1 if the letter did not come, or came without its story.")]
pub(crate) struct DrillArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// The source to drill
    #[arg(value_name = "SOURCE")]
    pub(crate) source: String,

    /// Where the poison goes in: parked in the dlq by the drill itself, or in the queue of the real consumer
    #[arg(long, value_enum, default_value = "dlq")]
    pub(crate) via: Via,

    /// How long the letter may take
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) wait: Duration,

    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
}

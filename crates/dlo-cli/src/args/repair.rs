//! `dlo repair`: change letters before they are replayed.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use dlo_core::id::LetterId;

use super::ClientArgs;

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: RepairCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RepairCommand {
    /// Show what a change would make of a few letters, as a diff; nothing is stored
    #[command(after_help = EXPRESSIONS)]
    Preview(PreviewArgs),
    /// Store a repair beside each letter that changes; a dry run until --yes
    #[command(after_help = "\
Examples:
  dlo repair apply class:SchemaError --jq '.amount = (.amount * 100 | round)' --reason \"cents since 2.4\"
  dlo repair apply 019a2b6e-… --payload order.json --reason \"typed in again\" --yes

Without --yes every letter is tried and counted, and nothing is stored. A replay sends the latest repair of a letter;
the original stays as it was, and expressions are always laid over the original.")]
    Apply(ApplyRepairArgs),
    /// List the repairs of a letter, each as its difference to the original (the reading is audited)
    List {
        /// The letter's id
        #[arg(value_parser = super::client::letter_id)]
        id: LetterId,
    },
}

const EXPRESSIONS: &str = "\
Examples:
  dlo repair preview source:orders class:SchemaError --jq '.amount = (.amount * 100 | round)'
  dlo repair preview type:order.placed --jq '.customer.id |= tostring | set_header(\"x-schema\"; \"2\")'
  dlo repair preview 019a2b6e-… --payload order.json

An expression is jq over the payload (.), with $key, $headers and $letter (.id .source .type .error_class .consumer).
Its one result is the new payload; set_key(f), set_header(name; f) and drop_header(name) at its end change the rest.";

/// What is changed, and how.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).args(["jq", "payload"]))]
pub(crate) struct ChangeArgs {
    /// Ids of letters, or a query
    #[arg(value_name = "ID|QUERY", required = true)]
    pub(crate) what: Vec<String>,

    /// A jq expression over the payload
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) jq: Option<String>,

    /// The whole new payload of one letter: a file, or `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) payload: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PreviewArgs {
    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    /// How many letters to show
    #[arg(long, short = 'n', default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=50))]
    pub(crate) sample: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyRepairArgs {
    #[command(flatten)]
    pub(crate) change: ChangeArgs,

    /// Why; it is kept with the repair and in the audit log
    #[arg(long)]
    pub(crate) reason: String,

    /// Do it; without this nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
}
